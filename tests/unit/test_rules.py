"""The rule book: what code, tests and documents cite is in ``docs/semantics.md``, and nothing
outside the repository is cited.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.source_files import syntax_of

ROOT: Final = Path(__file__).resolve().parents[2]
RULE_BOOK: Final = ROOT / "docs" / "semantics.md"
GLOSSARY: Final = ROOT / "docs" / "glossary.md"
CITING: Final = ("subscriber", "tests", "docs", "scenarios", "benchmarks", "tools", "README.md", "CHANGELOG.md")
RULE: Final = re.compile(r"(?<![\w/+.])[A-E][1-9][0-9]?[a-z]?\b(?![/+])")
"""Not the ``C0`` of an LSN, nor a part of a longer name."""

HEADING: Final = re.compile(r"^#### (\S+)$", re.MULTILINE)
SOURCES: Final = ("https://www.postgresql.org/docs/18/", "https://github.com/postgres/postgres/blob/")


# --- reading --------------------------------------------------------------------------------------


def cited_files() -> Iterator[Path]:
    for name in CITING:
        place = ROOT / name
        yield from [place] if place.is_file() else sorted(place.rglob("*"))


def prose(path: Path) -> str:
    """What people are told in a file: docstrings and comments of Python, comments of scenarios, all
    of a document.
    """
    if path.suffix == ".py":
        return "\n".join([*comments(path), *docstrings(path)])
    if path.suffix == ".psql":
        return "\n".join(line for line in path.read_text().splitlines() if line.startswith("--"))
    return path.read_text() if path.suffix in {".md", ".toml", ".sh"} else ""


def comments(path: Path) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def docstrings(path: Path) -> Iterator[str]:
    """Strings that stand alone: docstrings of modules, classes, functions and of what is assigned
    before them.
    """
    for node in ast.walk(syntax_of(path)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


@cache
def all_prose() -> dict[str, str]:
    return {str(path.relative_to(ROOT)): text for path in cited_files() if path.is_file() and (text := prose(path))}


@cache
def rules() -> dict[str, str]:
    """Every rule's text, by its number."""
    _, *parts = re.split(r"^(?=####? |## )", RULE_BOOK.read_text(), flags=re.MULTILINE)
    return {match[1]: part for part in parts if (match := HEADING.match(part))}


# --- the rule book --------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_rule_that_is_cited_is_in_the_rule_book():
    cited = {rule: name for name, text in all_prose().items() for rule in RULE.findall(text)}
    assert len(cited) > 150
    missing = {rule: name for rule, name in cited.items() if rule not in rules()}
    assert not missing


def test_every_section_that_is_cited_is_in_the_rule_book():
    cited = {section for text in all_prose().values() for section in re.findall(r"\b[A-E]\.[1-9][0-9]?\b", text)}
    assert "C.4" in cited
    assert cited <= set(re.findall(r"^### ([A-E]\.\d+) ", RULE_BOOK.read_text(), re.MULTILINE))


def test_every_number_belongs_to_one_rule():
    assert [rule for rule, count in Counter(HEADING.findall(RULE_BOOK.read_text())).items() if count > 1] == []


def test_the_rules_are_in_the_order_of_their_numbers():
    def place(rule: str) -> tuple[str, int, str]:
        match = re.fullmatch(r"([A-E])(\d+)([a-z]?)", rule)
        assert match is not None, rule
        return match[1], int(match[2]), match[3]

    assert list(rules()) == sorted(rules(), key=place)


@pytest.mark.parametrize("rule", sorted(rules()))
def test_every_rule_names_its_source(rule):
    """A page of the manual or a source file, by a reference that is defined at the end of
    the page.
    """
    references = dict(re.findall(r"^\[([^\]]+)\]: (\S+)$", RULE_BOOK.read_text(), re.MULTILINE))
    _, source = rules()[rule].split("*Source:*")
    named = re.findall(r"\[([^\]]+)\]", source.split("\n\n")[0])
    assert named
    for name in named:
        assert references[name].startswith(SOURCES), name


def test_every_case_of_postgresqls_tests_that_a_scenario_cites_has_its_file_in_the_table():
    table = RULE_BOOK.read_text().split("\n## Numbers of PostgreSQL's own tests\n")[1]
    files = set(re.findall(r"\bH?\d{3}\b", "".join(line for line in table.splitlines(keepends=True) if line[0] == "|")))
    cited = {
        number: path.name
        for path in sorted((ROOT / "scenarios").glob("*.psql"))
        for number in re.findall(r"\b(H?\d{3})\.\d+\b", path.read_text().splitlines()[0])
    }
    assert len(cited) > 30
    assert set(cited) <= files


# --- nothing else ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "citation",
    [
        r"\b(the|our|this) design\b",
        r"\bdesign(\.md)? section\b",
        r"\b(the|our|project's) notes\b",
        r"\.\./shared\b",
        r"/work/",
        r"\b(design|style|seeds|tap-catalogue|filter-differences)\.md\b",
        r"\bsection [0-9]",
    ],
)
def test_nothing_cites_what_is_not_in_the_repository(citation):
    here = str(Path(__file__).relative_to(ROOT))
    found = [name for name, text in all_prose().items() if name != here and re.search(citation, text, re.IGNORECASE)]
    assert not found


@pytest.mark.parametrize(
    "document", [RULE_BOOK, GLOSSARY, ROOT / "docs" / "side-effects.md"], ids=lambda path: path.name
)
def test_every_link_of_these_pages_leads_to_a_heading(document):
    links = re.findall(r"\]\(([^)\s:]+)\)", document.read_text())
    assert links
    for link in links:
        name, _, anchor = link.partition("#")
        page = document.parent / name if name else document
        assert page.exists(), link
        headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
        assert not anchor or anchor in {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}, (
            link
        )


def test_the_glossary_has_every_term_once_and_in_order():
    """A term may be there twice only where PostgreSQL and Spark both have it: then each says which
    one it is.
    """
    tables = re.findall(r"^\| Term \|.*?\n\n", GLOSSARY.read_text(), re.MULTILINE | re.DOTALL)
    terms = [[row.split(" | ")[0].strip("| `").lower() for row in table.splitlines()[2:] if row] for table in tables]
    assert len(terms) == 3
    assert all(table == sorted(table) for table in terms)
    flat = [term for table in terms for term in table]
    assert len(flat) == len(set(flat))
    assert {"lsn", "journal", "batch", "target"} <= set(flat)
