"""The house itself: containers, Makefile, layers and packaging agree with the code."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from subscriber.base.errors import PublisherUnavailable
from subscriber.base.password_command import command_password
from subscriber.testing.servers.open_servers import MARIADB_IMAGE, REQUIRED_SETTINGS
from tests.source_files import syntax_of

ROOT = Path(__file__).resolve().parents[2]
JOURNAL = "/var/lib/subscriber/journal"


@pytest.fixture(scope="module")
def compose():
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text())


@pytest.fixture(scope="module")
def services(compose):
    return compose["services"]


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def settings_of(command: list[str]) -> dict[str, str]:
    return dict(word.removeprefix("-c").split("=", 1) for word in command if word.startswith("-c"))


# --- docker-compose.yml ---------------------------------------------------------------------------


def test_the_composed_publisher_has_every_setting_that_the_code_needs(services):
    given = settings_of(services["publisher"]["command"])
    assert given == dict(REQUIRED_SETTINGS)


def test_the_composed_databases_are_the_versions_that_the_tests_use(services):
    assert services["publisher"]["image"] == "postgres:18"
    assert services["target"]["image"] == MARIADB_IMAGE


def test_the_composition_has_exactly_its_six_services(services):
    assert set(services) == {"publisher", "target", "spark-master", "spark-worker", "subscriber", "prometheus"}


def test_spark_and_the_subscriber_run_from_one_image_so_that_versions_match(services):
    images = {services[name]["image"] for name in ("spark-master", "spark-worker", "subscriber")}
    assert len(images) == 1


def test_the_image_is_tagged_with_the_packages_version(services, project):
    assert services["subscriber"]["image"] == f"subscriber:{project['project']['version']}"


def test_the_journal_is_one_durable_volume_of_worker_and_subscriber(services, compose):
    """Executors read the segments that the subscriber wrote (invariant slot_after_disk)."""
    assert "journal" in compose["volumes"]
    for name in ("spark-worker", "subscriber"):
        assert f"journal:{JOURNAL}" in services[name]["volumes"], name
        assert services[name]["environment"]["SUBSCRIBER_JOURNAL"] == JOURNAL, name


def test_the_target_url_is_one_that_sqlalchemy_reads_and_holds_no_password(services):
    from sqlalchemy import make_url

    url = make_url(services["subscriber"]["environment"]["SUBSCRIBER_TARGET"])
    assert (url.host, url.password, url.username) == ("target", None, None)
    assert url.database == services["target"]["environment"]["MARIADB_DATABASE"]


def test_pymysql_takes_user_and_password_from_the_mounted_file(services, tmp_path):
    """The composition's URL names the file; this asks SQLAlchemy what it makes of it, and the
    driver that reads it.
    """
    from pymysql.connections import Connection
    from sqlalchemy import make_url

    url = make_url(services["subscriber"]["environment"]["SUBSCRIBER_TARGET"])
    _, arguments = url.get_dialect()().create_connect_args(url)
    assert arguments["read_default_file"] == "/run/secrets/target.cnf"
    file = tmp_path / "target.cnf"
    file.write_text("[client]\nuser=subscriber\npassword=p%w#d\n")
    connection = Connection(**{**arguments, "read_default_file": str(file), "defer_connect": True})
    assert (connection.host, connection.user, connection.password) == ("target", "subscriber", b"p%w#d")


def test_subscriber_and_executors_read_the_publisher_s_password_at_each_connection(services, tmp_path, monkeypatch):
    """Also after it was changed, and only for the publisher itself: a CONNECTION may name any
    host.
    """
    file = tmp_path / "publisher_password"
    for name in ("spark-worker", "subscriber"):
        assert "publisher_password" in services[name]["secrets"], name
        command = services[name]["environment"]["SUBSCRIBER_PASSWORD_COMMAND"].replace("$$", "$")
        monkeypatch.setenv("SUBSCRIBER_PASSWORD_COMMAND", command.replace("/run/secrets/", f"{tmp_path}/"))
        for password in ("first", "second"):
            file.write_text(password)
            assert command_password({"host": "publisher"}, PublisherUnavailable) == password
            assert command_password({"host": "elsewhere"}, PublisherUnavailable) is None


def test_every_database_waits_for_health_before_the_subscriber_starts(services):
    waits = services["subscriber"]["depends_on"]
    for name in ("publisher", "target", "spark-master"):
        assert "healthcheck" in services[name], name
        assert waits[name] == {"condition": "service_healthy"}, name


def test_no_password_is_in_the_composition_itself(services):
    """Invariant names_are_data: secrets come as files only."""
    for name, service in services.items():
        for variable in service.get("environment", {}):
            harmless = ("_FILE", "RANDOM_ROOT_PASSWORD", "_COMMAND")
            assert "PASSWORD" not in variable or variable.endswith(harmless), (name, variable)
        words = " ".join(service.get("command", []))
        assert "password" not in words.lower(), name


def test_every_secret_that_a_service_mounts_is_one_that_make_secrets_writes(compose, services, tmp_path):
    script = tmp_path / "tools" / "make_secrets.py"
    script.parent.mkdir()
    script.write_text((ROOT / "tools" / "make_secrets.py").read_text())
    for _ in range(2):
        subprocess.run([sys.executable, str(script)], check=True, capture_output=True)
    made = tmp_path / ".secrets"
    assert oct(made.stat().st_mode)[-3:] == "700"
    for name, secret in compose["secrets"].items():
        assert (tmp_path / secret["file"]).is_file(), name
    mounted = {secret for service in services.values() for secret in service.get("secrets", [])}
    assert mounted == set(compose["secrets"])
    assert (made / "target_password").read_text() in (made / "target.cnf").read_text()
    assert (made / "spark_secret").read_text() in (made / "spark-defaults.conf").read_text()


def test_spark_and_the_subscriber_know_each_other_by_one_secret(services):
    """Whoever could talk to the cluster would run programs in it."""
    for name in ("spark-master", "spark-worker", "subscriber"):
        assert "spark-defaults.conf" in services[name]["secrets"], name
        assert services[name]["environment"]["SPARK_CONF_DIR"] == "/run/secrets", name


def test_the_image_gets_what_the_dockerfile_copies():
    copied = re.findall(r"^COPY (?:--\S+ )*(.+) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for source in " ".join(copied).split():
        assert source in allowed, source
        assert (ROOT / source).exists(), source


# --- Makefile, CI ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target",
    [
        "help",
        "venv",
        "check",
        "test",
        "chaos",
        "long",
        "scenarios",
        "demo",
        "bench",
        "bench-smoke",
        "bench-peers",
        "secrets",
        "clean",
    ],
)
def test_the_makefile_has_a_documented_target(target):
    listing = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert re.search(rf"^make {target} +\S", listing.stdout, re.MULTILINE)


def test_what_make_test_leaves_out_is_run_by_make_long_and_every_night():
    recipe = (ROOT / "Makefile").read_text().split("\nlong:")[1].split("\n\n")[0]
    assert recipe.splitlines()[-1].endswith("-m long tests $(ARGS)")
    nightly = yaml.safe_load((ROOT / ".github" / "workflows" / "nightly.yml").read_text())
    runs = [step["run"] for step in nightly["jobs"]["nightly"]["steps"] if "run" in step]
    assert runs == ["make --no-print-directory ${{ matrix.target }}"]
    assert nightly["jobs"]["nightly"]["strategy"]["matrix"]["target"] == ["chaos", "long"]


def test_ci_checks_then_tests_and_ends_with_pytests_line():
    """``make test``'s last command is pytest, and ``.ci/run`` prints nothing after it."""
    lines = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line.startswith("make")]
    assert lines == ["make --no-print-directory check", "make --no-print-directory test"]
    recipe = (ROOT / "Makefile").read_text().split("\ntest:")[1].split("\n\n")[0]
    everything, scenarios = recipe.splitlines()[-2:]
    dealt = "$(PYTEST) -n 3 --dist loadfile --no-loadscope-reorder"
    assert everything.endswith(f'{dealt} -m "not fast and not long" tests --ignore=$(SCENARIOS)')
    assert scenarios.endswith('$(PYTEST) -n 3 -m "not long" $(SCENARIOS)')
    checked = (ROOT / "Makefile").read_text().split("\ncheck:")[1].split("\n\n")[0]
    assert checked.splitlines()[-1].endswith("tests/unit tests/property -m fast")
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


@pytest.mark.parametrize("script", ["tools/bootstrap.sh", ".ci/run"])
def test_shell_scripts_parse(script):
    subprocess.run(["bash", "-n", str(ROOT / script)], check=True)


def test_bootstrap_refuses_an_old_java_with_a_clear_sentence(tmp_path):
    """No Java 17, no apt, no brew: one sentence and exit 1."""
    tools, programs = tmp_path / "clone" / "tools", tmp_path / "programs"
    tools.mkdir(parents=True)
    programs.mkdir()
    script = (ROOT / "tools" / "bootstrap.sh").read_text()
    (tools / "bootstrap.sh").write_text(
        script.replace("/usr/lib/jvm", str(tmp_path)).replace("/opt/homebrew", str(tmp_path))
    )
    old = programs / "java"
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    old.chmod(0o755)
    for name in ("bash", "sed", "head", "dirname", "mkdir", "rm", "id"):
        found = next(Path(place, name) for place in ("/bin", "/usr/bin") if Path(place, name).exists())
        (programs / name).symlink_to(found)
    answer = subprocess.run(
        [str(programs / "bash"), str(tools / "bootstrap.sh"), "java"],
        env={"PATH": str(programs)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 1
    assert answer.stderr.startswith("bootstrap: Java 17 or newer is needed")
    assert answer.stderr.count("\n") == 1


def imported(path: Path) -> set[str]:
    """The top-level packages that a module imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(syntax_of(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
    return names


# --- packaging and layers -------------------------------------------------------------------------


def test_every_import_of_the_package_is_a_declared_dependency(project):
    declared = {re.split(r"[\[<>=]", line)[0].lower() for line in project["project"]["dependencies"]}
    for extra in project["project"]["optional-dependencies"].values():
        declared |= {re.split(r"[\[<>=]", line)[0].lower() for line in extra}
    known_as = {
        "firebird": "firebird-embedded",
        "prometheus_client": "prometheus-client",
        "yaml": "pyyaml",
        "py4j": "pyspark",
        "typing_extensions": "typing-extensions",
    }
    for path in (ROOT / "subscriber").rglob("*.py"):
        for name in imported(path):
            if name in sys.stdlib_module_names or name in {"subscriber", "docker"}:
                continue
            assert known_as.get(name, name).lower() in declared, f"{path}: {name}"


def test_every_ignored_rule_has_its_reason_on_the_line():
    text = (ROOT / "pyproject.toml").read_text()
    block = text.split("[tool.ruff.lint]")[1].split("[tool.ruff.lint.pylint]")[0]
    for line in block.splitlines():
        if re.match(r'\s+"[A-Z]+[0-9]*",', line):
            assert "#" in line, line


def test_the_layers_name_every_package_of_the_house(project):
    """A new package must find its place before anything can import it."""
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    named = set(re.findall(r"\w+", " ".join(layers)))
    packages = {path.parent.name for path in (ROOT / "subscriber").glob("*/__init__.py")}
    assert packages <= named


def _modules() -> list[Path]:
    return [path for path in sorted((ROOT / "subscriber").rglob("*.py")) if path.name != "__init__.py"]


def test_no_module_is_longer_than_six_hundred_lines():
    assert [path.name for path in _modules() if len(path.read_text().splitlines()) > 600] == []


def test_a_reader_finds_a_module_by_its_name_alone():
    """Folders of ``targets`` have modules of the same names: one for each part of a target."""
    names = [path.stem for path in _modules() if "targets" not in path.parts]
    assert {name for name in names if names.count(name) > 1} == set()


def test_a_public_type_is_defined_once():
    names = [
        node.name
        for path in (ROOT / "subscriber").rglob("*.py")
        for node in syntax_of(path).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    assert {name for name in names if names.count(name) > 1} == set()


def test_a_folder_of_a_target_has_at_most_ten_files():
    folders = [path.parent for path in (ROOT / "subscriber" / "targets").glob("*/__init__.py")]
    assert {folder.name for folder in folders if len(list(folder.glob("*.py"))) > 10} == set()


# --- prose in the code ----------------------------------------------------------------------------

PROSE_COLUMNS = 100
DRAWN = re.compile(r"[\u2500-\u257f▲▶▼◀]|\S {2,}\S|^\s{20}|^\s*(>>>|=====)")
"""Diagrams, tables, examples and addresses are not wrapped."""


def prose_of(path: Path) -> dict[int, str]:
    """The lines of a module's docstrings and of its comments that stand alone, by number."""
    lines = path.read_text().splitlines()
    numbers = {number for number, line in enumerate(lines, 1) if re.match(r"\s*#", line)}
    for node in ast.walk(syntax_of(path)):
        for statement in getattr(node, "body", ()) if not isinstance(node, ast.Lambda | ast.IfExp) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str())):
                    numbers.update(range(statement.lineno, (statement.end_lineno or 0) + 1))
    return {number: lines[number - 1] for number in numbers}


@pytest.mark.parametrize("folder", ["subscriber", "tests", "benchmarks", "tools"])
def test_docstrings_and_comments_stay_within_a_hundred_columns(folder):
    long = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for number, line in sorted(prose_of(path).items())
        if len(line) > PROSE_COLUMNS and not DRAWN.search(line)
    ]
    assert not long


# --- where tests are ------------------------------------------------------------------------------


def test_every_package_has_its_unit_tests_where_a_reader_looks_for_them():
    """``subscriber/a`` has its tests in ``tests/unit/a``. Within a package the tests follow the
    ideas, not the files.
    """
    packages = {path.parent.name for path in (ROOT / "subscriber").glob("*/__init__.py")}
    tested = {path.parent.name for path in (ROOT / "tests" / "unit").glob("*/test_*.py")}
    tested |= {path.parents[1].name for path in (ROOT / "tests" / "unit").glob("*/*/test_*.py")}
    assert packages <= tested
