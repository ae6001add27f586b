from __future__ import annotations

import subprocess
import sys

import pytest

import subscriber
from subscriber.catalog import ensure_catalog
from subscriber.targets import open_target

NAMED = {
    "click", "duckdb", "numpy", "pandas", "prompt_toolkit", "psycopg", "pyarrow", "pymysql", "pyspark", "rich",
    "sqlalchemy", "sqlglot",
}  # fmt: skip
"""The libraries that pyproject.toml names, and the drivers of targets."""


@pytest.mark.parametrize("name", subscriber.__all__)
def test_every_public_name_is_there(name):
    assert getattr(subscriber, name) is not None


def test_public_names_are_sorted():
    assert sorted(subscriber.__all__) == subscriber.__all__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'emulte'"):
        subscriber.emulte  # type: ignore[attr-defined]  # noqa: B018


def _imported_by(code: str) -> set[str]:
    """The modules that a new Python has after it."""
    code = f"import sys\n{code}\nprint()\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(run.stdout.splitlines()[-1].split())


def _imported_by_command(*arguments: str) -> tuple[set[str], set[str]]:
    """The libraries that a command line has imported, and the modules of the project."""
    code = f"from subscriber.cli import main\nsys.argv[1:] = {arguments!r}\ntry: main()\nexcept SystemExit: pass"
    found = _imported_by(code)
    libraries = {name.partition(".")[0] for name in found} & NAMED
    return libraries, {name for name in found if name.partition(".")[0] == "subscriber"}


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), (), ("rnu",)], ids=" ".join)
def test_help_and_a_wrong_verb_import_almost_nothing(arguments):
    libraries, modules = _imported_by_command(*arguments)
    assert libraries == {"click"}
    assert len(modules) <= 10


def test_a_walreceiver_starts_without_what_only_commands_and_the_pipeline_need():
    """It is a process of its own for every subscription, and started again whenever something
    changes
    """
    found = _imported_by("import subscriber.runtime.receiver_process")
    assert "psycopg" in found
    assert not found & {"duckdb", "pandas", "pyspark", "sqlalchemy", "sqlglot", "subscriber.filters"}


@pytest.fixture
def file(tmp_path):
    """A target with the tables of the catalog, and no subscription."""
    url = f"sqlite:///{tmp_path / 'target.db'}"
    with open_target(url) as target:
        ensure_catalog(target.engine)
    return url


def test_status_imports_neither_arrow_nor_spark_nor_a_driver(file):
    libraries, modules = _imported_by_command("status", "--target", file)
    assert libraries == {"click", "rich", "sqlalchemy"}
    assert len(modules) <= 115


def test_a_query_imports_neither_arrow_nor_spark_nor_a_driver(file):
    libraries, modules = _imported_by_command("sql", "--target", file, "-c", "SELECT 1, 'a', NULL, 1.5")
    assert libraries == {"click", "sqlalchemy"}
    assert "subscriber.commands.dispatch" not in modules
    assert len(modules) <= 125


def test_a_command_of_postgresql_imports_what_it_needs(file):
    libraries, _ = _imported_by_command("sql", "--target", file, "-c", "DROP SUBSCRIPTION IF EXISTS s")
    assert "psycopg" in libraries
    assert "pyspark" not in libraries


def test_status_of_a_subscription_does_not_import_spark(file):
    """It asks the publisher and the journal."""
    create = "CREATE SUBSCRIPTION s CONNECTION 'host=/nowhere' PUBLICATION p WITH (connect = false)"
    _imported_by_command("sql", "--target", file, "-c", create)
    libraries, _ = _imported_by_command("status", "--target", file)
    assert libraries == {"click", "psycopg", "rich", "sqlalchemy"}
