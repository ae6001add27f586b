"""How publications and errors of a server and of a target are compared. Whole sessions:
tests/conformance/test_emulated_sessions.py.
"""

from __future__ import annotations

import pytest

from subscriber.base.errors import UsageError
from subscriber.postgres.publication.definition import Publication, TableEntry
from subscriber.testing.nodes.emulated_publications import _as_shown, _in_words, _parts, _unordered
from subscriber.testing.session.psql import ServerError
from tests.publications import entry, table, tables

T = table("public.t", {"a": "int4", "b": "text"}, key=["a"], oid=1)
P = Publication(
    "p", tables=(TableEntry("public", "t", ("b", "a")), TableEntry("a", "t", None, "(a > 1)")), schemas=("y", "x")
)


def test_the_order_of_members_and_columns_has_no_meaning():
    other = Publication(
        "p", tables=(TableEntry("a", "t", None, "(a > 1)"), TableEntry("public", "t", ("a", "b"))), schemas=("x", "y")
    )
    assert _unordered(P) == _unordered(other)
    tables = (("public", "b"), ("a", "t"))
    one, two = (Publication("p", all_tables=True, excepted=order) for order in (tables, tables[::-1]))
    assert _unordered(one) == _unordered(two)
    assert _unordered(None) is None


@pytest.mark.parametrize(
    "other",
    [
        Publication("p", tables=P.tables[:1], schemas=P.schemas),
        Publication("p", tables=P.tables, schemas=("x",)),
        Publication("p", tables=(TableEntry("public", "t"), P.tables[1]), schemas=P.schemas),
        Publication("p", tables=P.tables, schemas=P.schemas, via_root=True),
    ],
)
def test_every_other_difference_has_a_meaning(other):
    assert _unordered(P) != _unordered(other)


@pytest.mark.parametrize(
    ("where", "shown"),
    [("a>1", "(a > 1)"), ("(a > 1)", "(a > 1)"), ("gone > 1", "gone > 1"), (None, None)],
)
def test_a_filter_is_compared_as_the_server_shows_it(where, shown):
    """pg_get_expr; a filter whose column was dropped since stays as it was written."""
    publication = _as_shown(Publication("p", tables=(entry(T, where),)), tables(T))
    assert publication is not None
    assert publication.tables[0].where == shown


def test_a_filter_of_a_table_that_is_gone_stays_as_it_was_written():
    publication = Publication("p", tables=(entry(T, "a>1"),))
    assert _as_shown(publication, tables()) == publication
    assert _as_shown(None, tables()) is None


def test_errors_are_equal_if_message_detail_and_sqlstate_are():
    ours = UsageError("no such table", sqlstate="42P01", hint="Create it.")
    assert _parts(ours) == _parts(ServerError("no such table", "", "42P01"))
    assert _parts(ours) != _parts(ServerError("no such table", "It was dropped.", "42P01"))
    assert _parts(ours) != _parts(None)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (None, "accepted it"),
        (ServerError("no such table", "", "42P01"), "refused it: ERROR:  42P01: no such table"),
        (UsageError("no", sqlstate="42P01", detail="why"), "refused it: ERROR:  42P01: no\nDETAIL:  why"),
    ],
    ids=["accepted", "server", "target"],
)
def test_what_happened_is_said_in_words(error, words):
    assert _in_words(error) == words
