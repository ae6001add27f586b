"""The order of changes does not matter only where nothing connects their rows (invariant
fast_equals_exact).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sqlalchemy as sa

from subscriber.apply.regrouping.reorderable import has_own_columns, identifies
from subscriber.apply.relations.local_relations import RelationMap
from subscriber.apply.writing.change_writer import ChangeWriter
from subscriber.protocol import messages as m
from tests.changes import delete, insert, update
from tests.frames import frame, relation

S = relation("public.s", {"a": "int4", "b": "text", "c": "text"}, ["a"])
SAME = "CREATE TABLE s (a INTEGER PRIMARY KEY, b TEXT, c TEXT)"


@pytest.fixture
def free_key(target) -> Callable[..., tuple[str, ...] | None]:
    def ask(change: m.Message, remote: m.Relation = S) -> tuple[str, ...] | None:
        made = frame([remote], [change])
        with target.begin() as connection:
            return ChangeWriter(target, connection, {}).free_key(made.groups[0])

    return ask


@pytest.mark.parametrize("change", [insert("1", "x", "y"), update(("1", "x", "y")), delete("1", None, None)])
def test_rows_are_told_apart_by_the_key(execute, free_key, change):
    execute(SAME)
    assert free_key(change) == ("a",)


def test_new_rows_of_a_table_without_a_key_need_none(execute, free_key):
    execute("CREATE TABLE s (a INTEGER, b TEXT, c TEXT)")
    assert free_key(insert("1", "x", "y")) == ()
    assert free_key(delete("1", None, None)) is None


@pytest.mark.parametrize(
    "table",
    [
        "CREATE TABLE s (a INTEGER PRIMARY KEY, b TEXT, c TEXT UNIQUE)",
        "CREATE TABLE s (a INTEGER PRIMARY KEY, b TEXT, c TEXT, own TEXT)",
        "CREATE TABLE s (a INTEGER, b TEXT PRIMARY KEY, c TEXT)",
    ],
    ids=["a second unique key", "a column of the target's own", "another key than the publisher's"],
)
def test_the_order_matters_where_rows_may_meet(execute, free_key, table):
    execute(table)
    assert free_key(insert("1", "x", "y")) is None


def test_the_order_matters_where_the_table_does_not_exist(free_key):
    """The exact path reports it at its place."""
    assert free_key(insert("1", "x", "y")) is None


@pytest.mark.parametrize(
    ("type_name", "expected"), [("int4", True), ("uuid", True), ("numeric", False), ("bpchar", False)]
)
def test_a_key_identifies_a_row_where_equal_values_have_the_same_text(target, execute, type_name, expected):
    """1.0 and 1.00 are equal numerics, and so are texts of type char(n) with more blanks."""
    declared = {"int4": "INTEGER", "numeric": "NUMERIC_TEXT"}.get(type_name, "TEXT")
    execute(f"CREATE TABLE k (a {declared} PRIMARY KEY)")
    remote = relation("public.k", {"a": type_name}, ["a"])
    with target.begin() as connection:
        assert identifies(target, RelationMap(target, connection).open(remote)) is expected


@pytest.mark.parametrize(("own", "expected"), [("", False), (", own TEXT", True), (", own TEXT AS (b) STORED", False)])
def test_a_generated_column_is_none_of_the_targets_own(target, execute, own, expected):
    execute(f"CREATE TABLE s (a INTEGER PRIMARY KEY, b TEXT, c TEXT{own})")
    with target.begin() as connection:
        assert has_own_columns(RelationMap(target, connection).open(S)) is expected


def test_a_table_is_asked_once_in_a_batch(target, execute, monkeypatch):
    execute(SAME)
    asked = []

    def refuses(connection: sa.Connection, table: object) -> bool:
        asked.append(table)
        return False

    monkeypatch.setattr(target.shapes, "refuses_rows", refuses)
    made = frame([S], [insert("1", "x", "y")])
    with target.begin() as connection:
        using = ChangeWriter(target, connection, {})
        assert [using.may_fold(made.groups[0]) for _ in range(3)] == [True] * 3
    assert len(asked) == 1


def test_changes_are_not_folded_where_the_table_may_refuse_rows(target, execute, monkeypatch):
    execute(SAME)
    monkeypatch.setattr(target.shapes, "refuses_rows", lambda *_: True)
    made = frame([S], [insert("1", "x", "y")])
    with target.begin() as connection:
        assert not ChangeWriter(target, connection, {}).may_fold(made.groups[0])
