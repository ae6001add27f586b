"""The documents say what is there: commands, options, settings, files, invariants and failpoints are those of the code."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import MISSING, fields
from itertools import dropwhile, takewhile
from pathlib import Path

import click
import pytest

from subscriber import __version__
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.cli import cli
from subscriber.cli.backslash import SQL_HELP
from subscriber.commands.subscription_grammar import parse
from subscriber.commands.subscription_statements import Query
from subscriber.failpoints import ENVIRONMENT, FAILPOINTS
from subscriber.publication.definition import OPERATIONS, Publication
from subscriber.publication.publication_options import PUBLICATION_OPTIONS
from subscriber.publication.publication_statements import PublicationCommand
from subscriber.settings import PREFIX, Settings
from tests.source_files import syntax_of

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = ("README.md", "docs/architecture.md", "CHANGELOG.md")
README = (ROOT / "README.md").read_text()
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()

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
}
"""Each has a row in the architecture's table and in the README's. fast_equals_exact comes with the bulk path."""

FROM_OPTIONS = {"SUBSCRIBER_TARGET", "SUBSCRIBER_PUBLISHER"}
"""Variables that stand for an option of a command."""


# --- reading markdown -----------------------------------------------------------------------------


def fenced(text: str, language: str) -> Iterator[str]:
    """The lines of every code block in ``language``."""
    for block in re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        yield from block.splitlines()


def inline(text: str) -> list[str]:
    """Code spans outside of code blocks."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))


def table(text: str, heading: str) -> list[list[str]]:
    """The cells of the first table under ``heading``, without its head."""
    section = re.split(r"^## ", text.split(f"\n## {heading}\n", 1)[1], flags=re.MULTILINE)[0]
    lines = dropwhile(lambda line: not line.startswith("|"), section.splitlines())
    rows = list(takewhile(lambda line: line.startswith("|"), lines))
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows[2:]]


def anchors(text: str) -> set[str]:
    """The anchors that GitHub makes of the headings."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


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
    """Everything after ``subscriber`` in shell blocks and code spans."""
    candidates = [*fenced(text, "sh"), *inline(text)]
    # "docker compose exec subscriber subscriber sql": the program is the last word of that name.
    found = (re.match(r"(?:docker compose exec subscriber |\$ )?subscriber ((?![|:]).+)", line) for line in candidates)
    return [match[1] for match in found if match]


@pytest.mark.parametrize("text", [README, ARCHITECTURE], ids=DOCUMENTS[:2])
def test_every_command_and_option_in_the_documents_exists(text):
    for line in commands_in(text):
        verb = max((verb for verb in verbs() if f"{line} ".startswith(f"{verb} ")), key=len, default=None)
        assert verb is not None, line
        unquoted = re.sub(r"\"[^\"]*\"?|'[^']*'?", "", line.removeprefix(verb))
        rest = shlex.split(unquoted, comments=True)
        given = {word for word in rest if word.startswith("-")}
        assert given <= options_of(verbs()[verb]), line


def test_the_readme_shows_commands_at_all():
    """A pattern that finds nothing would make the test before this one pass for ever."""
    assert len(commands_in(README)) > 10


def test_the_readmes_command_table_has_every_verb_with_exactly_its_options():
    documented = {
        row[0].strip("`").removeprefix("subscriber "): set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", row[1]))
        for row in table(README, "Commands")
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
    for text in (README, ARCHITECTURE):
        for line in [*fenced(text, "sh"), *inline(text)]:
            named = re.match(r"make (\w+)", line)
            assert named is None or named[1] in targets, line
    assert {"demo", "test", "check", "bench"} <= set(re.findall(r"make (\w+)", README))


# --- subscriptions --------------------------------------------------------------------------------


def test_the_readme_has_every_option_of_a_subscription_with_its_default():
    """C53"""
    written = {"True": "true", "False": "false", "None": "the name"}
    documented = {row[0].strip("`"): row[1] for row in table(README, "Subscriptions")}
    defaults = {option.name: str(option.default) for option in fields(SubscriptionOptions)} | {
        "carrier": "none",
        "map": "none",
    }
    assert documented == {name: written.get(default, default) for name, default in defaults.items()}


def test_every_form_of_a_command_in_the_readme_is_understood_and_in_the_prompts_help():
    """C54: each line of the grammar, with every word in brackets, is one that parses."""
    filled = {
        "{ SET | ADD | DROP }": "SET",
        "{ ENABLE | DISABLE }": "DISABLE",
        "option [= value] [, ...]": "streaming = on",
        "refresh, copy_data": "refresh = false, copy_data = false",
        "( copy_data )": "(copy_data = false)",
        "lsn = value": "lsn = '0/1'",
        **FILLED,
    }
    forms = [line for line in fenced(README, "sql") if re.match(r"(CREATE|ALTER|DROP) SUBSCRIPTION (name|\[)", line)]
    assert SQL_HELP.startswith("\n".join(forms))
    for form in forms:
        assert not isinstance(parse(filled_in(form, filled)), Query), form


FILLED = {" [, ...]": "", "CASCADE | RESTRICT": "CASCADE", "[": "", "]": ""}


def filled_in(form: str, filled: dict[str, str]) -> str:
    for placeholder, text in filled.items():
        form = form.replace(placeholder, text)
    return form


# --- publications ---------------------------------------------------------------------------------


def test_every_form_of_a_publications_command_in_the_readme_is_understood_and_in_the_prompts_help():
    """B6, B42"""
    block = README.split("## Emulated publications")[1].split("```sql\n")[1].split("```")[0].splitlines()
    assert SQL_HELP.endswith("\n".join([*block, "SELECT ... (in the target's own SQL)"]))
    where = block.index("where publication_object is one of:")
    filled = {
        "{ schema | CURRENT_SCHEMA }": "CURRENT_SCHEMA",
        "{ ADD | SET | DROP }": "ADD",
        "option [= value] [, ...]": "publish = insert",
        "TABLE table": "TABLE t",
        "( column": "( a",
        "TABLE [ ONLY ] table [ * ]": "TABLE ONLY (t)",
        **FILLED,
    }
    objects = [filled_in(one, filled) for one in block[where + 1 :]]
    assert len(objects) == 2
    for form in block[:where]:
        for one in objects:
            command = filled_in(form, {"publication_object": one, **filled})
            assert isinstance(parse(command), PublicationCommand), command


def test_the_readme_has_every_option_of_a_publication_with_its_default():
    """B41, B42"""
    documented = {row[0].strip("`"): row[1] for row in table(README, "Emulated publications")}
    default = Publication("p")
    assert documented == {
        "publish": ", ".join(one for one in OPERATIONS if one in default.publish),
        "publish_via_partition_root": str(default.via_root).lower(),
        "publish_generated_columns": default.generated_columns,
    }
    assert tuple(documented) == PUBLICATION_OPTIONS


# --- settings -------------------------------------------------------------------------------------


def test_the_readme_names_every_setting_and_no_other_variable():
    """A variable is a field of Settings, the target, the publisher, the failpoints, or one of the tests' own servers."""
    variables = set(re.findall(rf"\b{PREFIX}[A-Z0-9_]+", README + ARCHITECTURE))
    settings = {PREFIX + field.name.upper() for field in fields(Settings)}
    others = {*FROM_OPTIONS, ENVIRONMENT}
    assert {name for name in variables if not name.startswith("SUBSCRIBER_TEST_")} == settings | others
    servers = (ROOT / "subscriber" / "scenario" / "servers" / "open_servers.py").read_text()
    for name in variables - settings - others:
        assert name in servers, name


def test_the_readmes_defaults_are_those_of_the_code():
    rows = {row[0].strip("`"): row[1].strip("`") for row in table(README, "Settings")}
    assert set(rows) == {PREFIX + field.name.upper() for field in fields(Settings)} | FROM_OPTIONS
    home = {"HOME": "/home/ann"}
    for field in fields(Settings):
        if field.default is not MISSING:
            variable = PREFIX + field.name.upper()
            read = Settings.from_environment({**home, variable: rows[variable]})
            assert getattr(read, field.name) == field.default, variable


# --- files, invariants, failpoints ----------------------------------------------------------------


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_relative_link_leads_somewhere(document):
    here = (ROOT / document).parent
    for link in re.findall(r"\]\(([^)\s]+)\)", (ROOT / document).read_text()):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        file = here / path if path else ROOT / document
        assert file.exists(), link
        if anchor:
            assert anchor in anchors(file.read_text()), link


def test_every_file_that_the_architecture_names_exists():
    named = [span for span in inline(ARCHITECTURE) if re.fullmatch(r"[\w/.-]+\.(?:py|toml|yml)", span)]
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


def test_the_failpoints_of_the_architecture_are_the_closed_list():
    """any_crash: each has its row in the table of what a restart finds."""
    rows = [row[0].strip("`") for row in table(ARCHITECTURE, "Failpoints")]
    assert sorted(rows) == sorted(FAILPOINTS)
    assert set(re.findall(r"\b[a-z]+(?:\.[a-z]+)*\.(?:before|after)\b", README + ARCHITECTURE)) == FAILPOINTS


def test_every_error_class_in_the_architectures_failure_table_exists():
    from subscriber import errors

    for row in table(ARCHITECTURE, "What fails, and what then"):
        for name in re.findall(r"\w+", row[1]):
            assert name == "none" or issubclass(getattr(errors, name), errors.SubscriberError), name


# --- the release ----------------------------------------------------------------------------------


def test_no_placeholder_is_left_in_the_documents():
    """The README's numbers are those that ``make bench`` printed; until then this test fails, and shall."""
    for document in DOCUMENTS:
        assert not re.findall(r"@@\w*@@", (ROOT / document).read_text()), document


def test_the_changelog_has_a_section_for_this_version():
    assert re.search(rf"^## \[{re.escape(__version__)}\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def public_modules() -> list[Path]:
    return [
        path
        for path in sorted((ROOT / "subscriber").rglob("*.py"))
        if path.name == "__init__.py" or not path.name.startswith("_")
    ]


@pytest.mark.parametrize("path", public_modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_public_module_says_what_it_is(path):
    assert ast.get_docstring(syntax_of(path))
