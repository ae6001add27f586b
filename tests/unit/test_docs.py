"""The documents say what is there: commands, options, settings, files, invariants and failpoints
are those of the code.
"""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import tomllib
from dataclasses import MISSING, fields
from itertools import product
from pathlib import Path

import click
import pytest

from subscriber import __version__
from subscriber.base.failpoints import ENVIRONMENT, FAILPOINTS
from subscriber.base.settings import PREFIX, Settings
from subscriber.catalog.own_tables import CATALOG
from subscriber.catalog.subscription_options import OPTIONS
from subscriber.cli import cli
from subscriber.cli.backslash import COMMANDS_HELP, SQL_HELP
from subscriber.commands.subscription_grammar import Query, parse
from subscriber.postgres.publication.definition import OPERATIONS, Publication
from subscriber.postgres.publication.publication_statements import PUBLICATION_OPTIONS, PublicationCommand
from tests.markdown import fenced, inline, section, table
from tests.source_files import syntax_of

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in [ROOT / "README.md", ROOT / "scenarios" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
}
README = PAGES["README.md"]
ARCHITECTURE = PAGES["docs/architecture.md"]
COMMAND_LINE = PAGES["docs/command-line.md"]
SUBSCRIPTIONS = PAGES["docs/subscriptions.md"]
PUBLICATIONS = PAGES["docs/publications.md"]
OPERATING = PAGES["docs/operating.md"]
SETTINGS = PAGES["docs/settings.md"]
SPARK = PAGES["docs/spark.md"]
PERFORMANCE = PAGES["docs/performance.md"]
DEVELOPMENT = PAGES["docs/development.md"]

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

INVARIANTS = {
    "commit_order",
    "progress_with_data",
    "slot_after_disk",
    "absence_is_typed",
    "refuse_not_guess",
    "bounded_memory",
    "names_are_data",
    "any_crash",
    "one_does_not_end_another",
    "fast_equals_exact",
}
"""Each has a row in the architecture's table and in the README's."""

FROM_OPTIONS = {"SUBSCRIBER_TARGET", "SUBSCRIBER_PUBLISHER", "SUBSCRIBER_LOG_FORMAT"}
"""Variables that stand for an option of a command."""


# --- the command line -----------------------------------------------------------------------------


def verbs() -> dict[str, click.Command]:
    """Every command that does something, by the words after ``subscriber``."""
    found: dict[str, click.Command] = {}

    def visit(words: str, command: click.Command) -> None:
        if not isinstance(command, click.Group):
            found[words] = command
            return
        context = click.Context(command)
        for name in command.list_commands(context):
            member = command.get_command(context, name)
            assert member is not None
            visit(f"{words} {name}".strip(), member)

    visit("", cli)
    return found


def options_of(command: click.Command) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts if name.startswith("-")}


def commands_in(text: str) -> list[str]:
    """Everything after ``subscriber`` in shell blocks, after a shell's prompt, and in code
    spans.
    """
    typed = [line for line in fenced(text) if line.startswith("$ ")]
    candidates = [*fenced(text, "sh"), *typed, *inline(text)]
    # "docker compose exec subscriber subscriber sql": the program is the last word of that name.
    lines = (part for line in candidates for part in line.split(" && "))
    found = (re.match(r"(?:docker compose exec subscriber |\$ )?subscriber ((?![|:]).+)", line) for line in lines)
    return [match[1] for match in found if match and match[1] != "--help"]


@pytest.mark.parametrize("page", PAGES)
def test_every_command_and_option_in_the_documents_exists(page):
    text = PAGES[page]
    for line in commands_in(text):
        verb = max((verb for verb in verbs() if f"{line} ".startswith(f"{verb} ")), key=len, default=None)
        assert verb is not None, line
        unquoted = re.sub(r"\"[^\"]*\"?|'[^']*'?", "", line.removeprefix(verb))
        rest = shlex.split(unquoted, comments=True)
        given = {word for word in rest if word.startswith("-")}
        assert given <= options_of(verbs()[verb]), line


def test_commands_are_found_in_the_documents():
    """A pattern that finds nothing would make the test before this one pass for ever."""
    assert len(commands_in(README)) > 3
    assert len(commands_in(PAGES["docs/tutorial.md"])) > 8
    assert sum(len(commands_in(text)) for text in PAGES.values()) > 60


def test_the_command_table_has_every_verb_with_exactly_its_options():
    documented = {
        row[0].strip("`").removeprefix("subscriber "): set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", row[1]))
        for row in table(COMMAND_LINE, "Commands")
    }
    assert documented == {verb: options_of(command) for verb, command in verbs().items()}


@pytest.mark.parametrize("verb", sorted(verbs()))
def test_every_command_and_option_has_help(verb):
    command = verbs()[verb]
    assert command.help
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            assert parameter.metavar or parameter.name in command.help.lower(), parameter.name
        else:
            assert isinstance(parameter, click.Option)
            assert parameter.help, parameter.name


def test_every_make_target_in_the_documents_exists():
    listing = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    targets = set(re.findall(r"^make (\w+)", listing.stdout, re.MULTILINE))
    for text in PAGES.values():
        for line in [*fenced(text, "sh"), *inline(text)]:
            named = re.match(r"make (\w+)", line)
            assert named is None or named[1] in targets, line
    assert {"demo", "test", "bench"} <= set(re.findall(r"make (\w+)", README))
    assert {"check", "test", "chaos", "long", "bench", "scenarios", "docs"} <= set(
        re.findall(r"^make (\w+)", DEVELOPMENT, re.MULTILINE)
    )


def test_the_backslash_commands_of_the_prompt_are_listed():
    documented = {name for row in table(COMMAND_LINE, "The prompt") for name in re.findall(r"`(\\.)", row[0])}
    listed = set(re.findall(r"^(\\.)", COMMANDS_HELP, re.MULTILINE))
    assert documented | {r"\q"} == listed


def statements_in(text: str) -> list[str]:
    """The SQL of every ``subscriber sql -c``; the subscription commands in SQL blocks (with a
    ``;``).
    """
    given = re.findall(r"subscriber sql -c \"([^\"]+)\"", text)
    blocks = re.split(r"\n(?=[A-Z])", "\n".join(fenced(text, "sql")))
    typed = [
        re.split(r";\s*(?:--.*)?$", one)[0]
        for one in blocks
        if re.match(r"(CREATE|ALTER|DROP) SUBSCRIPTION .+;", one, re.DOTALL)
    ]
    return [statement for statement in [*given, *typed] if not statement.endswith("…")]


@pytest.mark.parametrize("page", [page for page, text in PAGES.items() if statements_in(text)])
def test_every_statement_for_the_subscriber_is_parsed(page):
    for statement in statements_in(PAGES[page]):
        understood = parse(statement)
        assert isinstance(understood, Query) == statement.startswith("SELECT"), statement


def test_statements_are_found_in_the_documents():
    assert sum(len(statements_in(text)) for text in PAGES.values()) > 20


# --- installing -----------------------------------------------------------------------------------


def test_the_documents_name_the_wheel_and_its_extras():
    """README and quick start install the same wheel, and explain every extra for users."""
    extras = set(PROJECT["project"]["optional-dependencies"]) - {"test", "dev", "docs"}
    assert {row[0].strip("`") for row in table(PAGES["docs/quick-start.md"], "Install")} == extras
    for page in ("README.md", "docs/quick-start.md"):
        wheels = re.findall(r"'\./([^'\[]+)\[([a-z,]+)\]'", PAGES[page])
        assert wheels, page
        for wheel, named in wheels:
            assert wheel == f"subscriber-{__version__}-py3-none-any.whl"
            assert set(named.split(",")) <= extras
        for extra in extras:
            assert f"`{extra}`" in PAGES[page]


def test_a_released_user_needs_the_python_that_the_documents_name():
    version = PROJECT["project"]["requires-python"].removeprefix(">=")
    for page in ("README.md", "docs/quick-start.md"):
        assert set(re.findall(r"Python (\d\.\d+)", PAGES[page])) == {version}


# --- subscriptions --------------------------------------------------------------------------------


def test_every_option_of_a_subscription_is_documented_with_its_default():
    """C53"""
    written = {"True": "true", "False": "false", "None": "the name"}
    documented = {row[0].strip("`"): row[1] for row in table(SUBSCRIPTIONS, "Options")}
    defaults = {name: str(option.default) for name, option in OPTIONS.items() if option.forms} | {
        "carrier": "none",
        "map": "none",
        "history_tables": "none",
        "transform": "none",
    }
    assert documented == {name: written.get(default, default) for name, default in defaults.items()}


def test_every_form_of_a_command_is_parsed_and_in_the_prompts_help():
    """C54: each line of the grammar, with every word in brackets, is one that parses."""
    filled = {
        "{ SET | ADD | DROP }": "SET",
        "{ ENABLE | DISABLE }": "DISABLE",
        "option [= value] [, ...]": "streaming = on",
        "refresh, copy_data": "refresh = false, copy_data = false",
        "( copy_data )": "(copy_data = false)",
        "lsn = value": "lsn = '0/1'",
        "conflict_type = resolver": "insert_exists = error",
        "{ ALL | FOR 'conflict_type' }": "FOR 'insert_exists'",
        **FILLED,
    }
    forms = [
        line
        for line in fenced(section(SUBSCRIPTIONS, "Commands"), "sql")
        if re.match(r"(CREATE|ALTER|DROP) SUBSCRIPTION (name|\[)", line)
    ]
    assert SQL_HELP.startswith("\n".join(forms))
    for form in forms:
        assert not isinstance(parse(filled_in(form, filled)), Query), form


FILLED = {" [, ...]": "", "CASCADE | RESTRICT": "CASCADE", "[": "", "]": ""}


def filled_in(form: str, filled: dict[str, str]) -> str:
    for placeholder, text in filled.items():
        form = form.replace(placeholder, text)
    return form


# --- publications ---------------------------------------------------------------------------------


def test_every_form_of_a_publications_command_is_parsed_and_in_the_prompts_help():
    """B6, B42"""
    block = list(fenced(section(PUBLICATIONS, "Commands"), "sql"))
    assert SQL_HELP.endswith("\n".join([*block, "SELECT ... (in the target's own SQL)"]))
    every, where = block.index("where all_objects is one of:"), block.index("and publication_object is one of:")
    filled = {
        "{ schema | CURRENT_SCHEMA }": "CURRENT_SCHEMA",
        "{ ADD | SET | DROP }": "ADD",
        "option [= value] [, ...]": "publish = insert",
        "TABLE table": "TABLE t",
        "( column": "( a",
        "TABLE [ ONLY ] table [ * ]": "TABLE ONLY (t)",
        **FILLED,
    }
    all_objects = [filled_in(one, filled) for one in block[every + 1 : where]]
    objects = [filled_in(one, filled) for one in block[where + 1 :]]
    assert (len(all_objects), len(objects)) == (2, 2)
    for form in block[:every]:
        for everything, one in product(all_objects, objects):
            command = filled_in(form, {"all_objects": everything, "publication_object": one, **filled})
            assert isinstance(parse(command), PublicationCommand), command


def test_every_option_of_a_publication_is_documented_with_its_default():
    """B41, B42"""
    documented = {row[0].strip("`"): row[1] for row in table(PUBLICATIONS, "Options")}
    default = Publication("p")
    assert documented == {
        "publish": ", ".join(one for one in OPERATIONS if one in default.publish),
        "publish_via_partition_root": str(default.via_root).lower(),
        "publish_generated_columns": default.generated_columns,
    }
    assert tuple(documented) == PUBLICATION_OPTIONS


# --- settings -------------------------------------------------------------------------------------


def test_the_documents_name_every_setting_and_no_other_variable():
    """A variable is a field of Settings, the target, the publisher, the failpoints, or one of the
    tests' own servers.
    """
    variables = set(re.findall(rf"\b{PREFIX}[A-Z0-9_]+", "".join(PAGES.values())))
    settings = {PREFIX + field.name.upper() for field in fields(Settings)}
    others = {*FROM_OPTIONS, ENVIRONMENT}
    assert {name for name in variables if not name.startswith("SUBSCRIBER_TEST_")} == settings | others
    servers = (ROOT / "subscriber" / "testing" / "servers" / "open_servers.py").read_text()
    for name in variables - settings - others:
        assert name in servers, name


def test_the_documented_defaults_are_those_of_the_code():
    rows = {row[0].strip("`"): row[1].strip("`") for row in table("\n" + SETTINGS.replace("# ", "## ", 1), "Settings")}
    assert set(rows) == {PREFIX + field.name.upper() for field in fields(Settings)} | FROM_OPTIONS
    home = {"HOME": "/home/ann"}
    for field in fields(Settings):
        if field.default is not MISSING:
            variable = PREFIX + field.name.upper()
            read = Settings.from_environment({**home, variable: rows[variable]})
            assert getattr(read, field.name) == field.default, variable


# --- tables of the target, and the source ---------------------------------------------------------


def test_every_table_of_the_catalog_is_documented():
    documented = {name for row in table(OPERATING, "The catalog") for name in re.findall(r"`(\w+)`", row[0])}
    assert documented == {*CATALOG.tables}


def test_every_option_and_column_of_the_source_is_documented():
    from subscriber.spark.feed.feed_options import FEED_OPTIONS, RAW_OPTIONS
    from subscriber.spark.feed.feed_schema import METADATA
    from subscriber.spark.source import SPARK_SCHEMA

    columns_of_changes = [row[0].strip("`") for row in table(SPARK, "The change feed of a table")]
    assert columns_of_changes == [name for name, _ in METADATA]
    first_cells = [re.findall(r"`(\w+)`", row[0]) for row in table(SPARK, "Options of the change feed")]
    assert [name for names in first_cells for name in names] == [*FEED_OPTIONS]
    assert [row[0].strip("`") for row in table(SPARK, "The raw feed")] == [*RAW_OPTIONS]
    columns = {column.split()[0] for column in SPARK_SCHEMA.split(", ")}
    assert columns <= set(inline(section(SPARK, "The raw feed")))


# --- figures --------------------------------------------------------------------------------------


def test_the_readme_quotes_figures_of_the_page_on_performance():
    quoted = re.findall(r"\d[\d.,]*\d", " ".join(cell for row in table(README, "How fast") for cell in row[1:]))
    assert len(quoted) > 10
    for figure in quoted:
        assert re.search(rf"(?<![\d,.]){re.escape(figure)}(?![\d,.])", PERFORMANCE), figure


# --- files, invariants, failpoints ----------------------------------------------------------------


def test_every_file_that_architecture_and_decisions_name_exists():
    pages = ARCHITECTURE, PAGES["docs/decisions.md"]
    named = [span for page in pages for span in inline(page) if re.fullmatch(r"[\w/.-]+\.(?:py|toml|yml)", span)]
    assert len(named) > 30
    for span in named:
        assert (ROOT / span).exists() or (ROOT / "subscriber" / span).exists(), span


@pytest.mark.parametrize(
    ("text", "heading", "column"), [(README, "Guarantees", 2), (ARCHITECTURE, "What must never break", 2)]
)
def test_every_invariant_is_listed_with_test_files_that_cite_it(text, heading, column):
    rows = {row[0]: row[column] for row in table(text, heading)}
    assert set(rows) == INVARIANTS
    for invariant, proofs in rows.items():
        files = re.findall(r"tests/[\w/]+\.py", proofs)
        assert files, invariant
        for file in files:
            assert invariant in (ROOT / file).read_text(), f"{file} does not cite {invariant}"


def test_the_architecture_names_exactly_the_failpoints_of_the_code():
    """any_crash: each has its row in the table of what a restart finds."""
    rows = [row[0].strip("`") for row in table(ARCHITECTURE, "Failpoints")]
    assert sorted(rows) == sorted(FAILPOINTS)
    assert set(re.findall(r"\b[a-z]+(?:\.[a-z]+)*\.(?:before|after)\b", "".join(PAGES.values()))) == FAILPOINTS


def test_every_error_class_in_the_architectures_failure_table_exists():
    from subscriber.base import errors

    for row in table(ARCHITECTURE, "What fails, and what then"):
        for name in re.findall(r"\w+", row[1]):
            assert name == "none" or issubclass(getattr(errors, name), errors.SubscriberError), name


def test_the_documents_name_the_layers_that_import_linter_checks():
    (contract,) = (one for one in PROJECT["tool"]["importlinter"]["contracts"] if one["id"] == "layers")
    packages = {path.parent.name for path in (ROOT / "subscriber").glob("*/__init__.py")}
    layers = [set(re.findall(r"\w+", layer)) for layer in contract["layers"]]
    assert set.union(*layers) == packages
    chains = [
        " ".join(chain.split())
        for text in PAGES.values()
        for chain in re.findall(r"^cli → .*?→ base$", text, re.MULTILINE | re.DOTALL)
    ]
    assert chains
    for chain in chains:
        assert [set(re.findall(r"\w+", layer)) for layer in chain.split(" → ")] == layers


# --- the release ----------------------------------------------------------------------------------


def test_no_placeholder_is_left_in_the_documents():
    """The figures are those that ``make bench`` printed; a page may not be released before."""
    for page, text in PAGES.items():
        assert not re.findall(r"@@\w*@@", text), page


def test_the_changelog_has_a_section_for_this_version():
    assert re.search(rf"^## \[{re.escape(__version__)}\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def public_modules() -> list[Path]:
    return [
        path
        for path in sorted((ROOT / "subscriber").rglob("*.py"))
        if path.name == "__init__.py" or not path.name.startswith("_")
    ]


@pytest.mark.parametrize("path", public_modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_public_module_has_a_docstring(path):
    assert ast.get_docstring(syntax_of(path))
