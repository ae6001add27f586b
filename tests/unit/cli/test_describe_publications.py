r"""``\dRp`` and ``\dRp+``; tests/conformance/test_publication_commands.py compares them with
psql's.
"""

from __future__ import annotations

import pytest

from subscriber.base.errors import NotSupportedError, UsageError
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.publications import insert_publication
from subscriber.cli.backslash import run_backslash
from subscriber.postgres.publication.definition import Publication, TableEntry
from subscriber.targets import open_target
from subscriber.testing.session.describe_publications import pattern_to_regex


@pytest.fixture
def target(tmp_path):
    with open_target(f"sqlite:///{tmp_path / 'target.db'}") as opened:
        ensure_catalog(opened.engine)
        with opened.begin() as connection:
            for publication in (
                Publication("P3", all_tables=True, excepted=(("public", "t"),)),
                Publication("p2", publish=frozenset({"insert"}), generated_columns="stored"),
                Publication("p1", tables=(TableEntry("s", "t"), TableEntry("public", "t", ("a", "b"), "(a > 5)")), schemas=("s",)),
            ):  # fmt: skip
                insert_publication(connection, publication, "ann")
        yield opened


def test_publications_are_listed_by_name(target):
    assert run_backslash(r"\dRp p*", target) == (
        "                                        List of publications\n"
        " Name | Owner | All tables | Inserts | Updates | Deletes | Truncates | Generated columns | Via root \n"
        "------+-------+------------+---------+---------+---------+-----------+-------------------+----------\n"
        " p1   | ann   | f          | t       | t       | t       | t         | none              | f\n"
        " p2   | ann   | f          | t       | f       | f       | f         | stored            | f\n"
        "(2 rows)\n"
    )


def test_publications_are_described_with_their_members(target):
    """B6: what is excepted is PostgreSQL 19's to show."""
    head = (
        " Owner | All tables | Inserts | Updates | Deletes | Truncates | Generated columns | Via root \n"
        "-------+------------+---------+---------+---------+-----------+-------------------+----------\n"
    )
    title = "                                       Publication "
    assert run_backslash(r"\dRp+", target) == (
        f"{title}P3\n{head}"
        " ann   | t          | t       | t       | t       | t         | none              | f\n"
        'Except tables:\n    "public.t"\n\n'
        f"{title}p1\n{head}"
        " ann   | f          | t       | t       | t       | t         | none              | f\n"
        'Tables:\n    "public.t" (a, b) WHERE (a > 5)\n    "s.t"\nTables from schemas:\n    "s"\n\n'
        f"{title}p2\n{head}"
        " ann   | f          | t       | f       | f       | f         | stored            | f\n"
        "(1 row)\n"
    )
    assert run_backslash(r"\dRp+ nope", target) == 'Did not find any publication named "nope".'


def test_psql_19_shows_sequences_and_comments_too(target):
    shown = [line.split("|") for line in run_backslash(r"\dRp+ p2", target, 19).splitlines() if "|" in line]
    assert [[cell.strip() for cell in line] for line in shown] == [
        [
            *("Owner", "All tables", "All sequences", "Inserts", "Updates", "Deletes", "Truncates"),
            *("Generated columns", "Via root", "Description"),
        ],
        ["ann", "f", "f", "t", "f", "f", "f", "stored", "f", ""],
    ]
    assert "All sequences | Inserts" in run_backslash(r"\dRp", target, 19)
    assert "Description" not in run_backslash(r"\dRp", target, 19)


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("P?", ["p1", "p2"]),
        ('"P"?', ["P3"]),
        ('"P3"', ["P3"]),
        ('"P?"', []),
        ("p1;", ["p1"]),
        ("p$", []),
        ("p", []),
        ("*", ["P3", "p1", "p2"]),
    ],
)
def test_a_pattern_means_the_same_as_in_psql(target, pattern, names):
    shown = run_backslash(rf"\dRp {pattern}", target)
    assert [line.split()[0] for line in shown.splitlines()[3:-1]] == names


@pytest.mark.parametrize("pattern", ["a|b", "a+", "(a)", "[ab]", "a{2}", "^a", r"a\d"])
def test_a_regular_expression_is_refused(pattern):
    with pytest.raises(NotSupportedError, match="regular expressions are not supported"):
        pattern_to_regex(pattern)


def test_a_pattern_with_a_dot_has_too_many_parts():
    with pytest.raises(UsageError, match="improper qualified name"):
        pattern_to_regex("a.b")
    assert pattern_to_regex('"a.b""|"') == r'a\.b"\|'
