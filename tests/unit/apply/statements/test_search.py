"""Rows that the statement did not find: they are stored otherwise than the publisher sends them, or
have values that cannot be compared.
"""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from subscriber.apply.exact import ExactApplier
from subscriber.apply.relations.target_relations import RelationMap
from subscriber.apply.statements.change_statements import RowSearch
from subscriber.apply.statements.execute import DriverCursor, bind_rows
from subscriber.apply.statements.identity import row_identity
from subscriber.apply.statements.row_statements import build_statement
from subscriber.base.errors import ConflictError, TargetRelationError
from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import CATALOG
from subscriber.catalog.progress import OriginProgress
from subscriber.postgres.protocol import messages as m
from subscriber.targets import Target
from subscriber.targets.base.target import base_target
from tests.changes import delete, update
from tests.frames import frame, relation, transaction, values

KEYED = relation("public.t", {"n": "numeric", "b": "text"}, ["n"])
FULL = relation("public.t", {"n": "numeric", "b": "text"}, identity="f")
JSON_LAST = relation("public.t", {"a": "int4", "j": "json"}, identity="f")


def changed(target: Target, shape: m.Relation, *changes: Any) -> int:
    """How many rows the changes, of one shape, have found."""
    (group,) = frame([shape], changes).groups
    with target.begin() as connection:
        local = RelationMap(target, connection).open(shape)
        statement = build_statement(target, local, group, row_identity(local))
        assert statement.search is not None
        rows = bind_rows(target, statement, group)
        search = RowSearch(target, connection, DriverCursor(target, connection))
        return search.change_rows(statement, statement.search, rows, group)


def whole_row(*texts: str | None) -> m.Delete:
    """A DELETE by the whole row."""
    return m.Delete(16384, "O", values(*texts))


# Values that are equal in PostgreSQL and stored otherwise -----------------------------------------


@pytest.mark.parametrize("stored", ["1.0", "1.00", "1.000", "1"])
def test_a_row_is_found_by_a_value_that_is_stored_otherwise(target, execute, rows, stored):
    """C14: numeric 1.00 equals 1.0 in PostgreSQL."""
    execute("CREATE TABLE t (n TEXT PRIMARY KEY, b TEXT)")
    execute(f"INSERT INTO t VALUES ('7', 'x'), ('{stored}', 'x')")
    assert changed(target, KEYED, delete("1.00", None)) == 1
    assert rows() == [{"n": "7", "b": "x"}]


def test_an_update_writes_the_value_that_was_sent(target, execute, rows):
    """C9"""
    execute("CREATE TABLE t (n TEXT PRIMARY KEY, b TEXT)")
    execute("INSERT INTO t VALUES ('1.0', 'x')")
    assert changed(target, KEYED, update(("1.00", "new"))) == 1
    assert rows() == [{"n": "1.00", "b": "new"}]


@pytest.mark.parametrize("stored", ["10", "1.01", "-1", "NaN", None])
def test_a_row_with_another_value_is_not_found(target, execute, rows, stored):
    execute("CREATE TABLE t (n TEXT PRIMARY KEY, b TEXT)")
    execute(f"INSERT INTO t VALUES ({'NULL' if stored is None else repr(stored)}, 'x')")
    assert changed(target, KEYED, delete("1.00", None)) == 0
    assert len(rows()) == 1


def test_of_rows_with_equal_values_one_is_changed(target, execute, rows):
    """C16"""
    execute("CREATE TABLE t (n TEXT, b TEXT)")
    execute("INSERT INTO t VALUES ('1.0', 'x'), ('1.000', 'x'), ('1.0', 'y')")
    assert changed(target, FULL, whole_row("1.00", "x")) == 1
    assert [row["b"] for row in rows()] == ["x", "y"]


def test_in_a_whole_row_null_equals_null(target, execute, rows):
    """C14"""
    execute("CREATE TABLE t (n TEXT, b TEXT)")
    execute("INSERT INTO t VALUES ('1.0', NULL), (NULL, 'x')")
    assert changed(target, FULL, whole_row("1.00", None), whole_row(None, "x")) == 2
    assert rows() == []


@pytest.mark.parametrize("number", [2, 5, 65, 200])
def test_among_many_changes_those_that_find_no_row_are_counted(target, execute, rows, number):
    """The other rows are changed, each once, however the changes are divided."""
    execute("CREATE TABLE t (n TEXT PRIMARY KEY, b TEXT)")
    missing = number // 2
    stored = ", ".join(f"('{key}.0', 'x')" for key in range(number) if key != missing)
    execute(f"INSERT INTO t VALUES {stored}")
    changes = [update((f"{key}.00" if key == 0 else f"{key}.0", "new")) for key in range(number)]
    assert changed(target, KEYED, *changes) == number - 1
    assert {row["b"] for row in rows()} == {"new"}


def test_an_error_among_many_changes_changes_nothing(target, execute, rows):
    execute("CREATE TABLE t (n TEXT PRIMARY KEY, b TEXT UNIQUE)")
    execute("INSERT INTO t VALUES ('1', 'x'), ('2', 'y'), ('3', 'z')")
    with pytest.raises(ConflictError):
        changed(target, KEYED, update(("1", "a")), update(("2", "z")))
    assert [row["b"] for row in rows()] == ["x", "y", "z"]


@pytest.mark.parametrize("paramstyle", ["qmark", "named"])
def test_a_row_that_is_stored_otherwise_is_found_with_parameters_by_place_or_by_name(tmp_path, paramstyle):
    """C14: only the values that are searched by are bound as they are stored."""
    url = sa.make_url(f"sqlite:///{tmp_path / 'generic.db'}")
    with base_target(url, sa.create_engine(url, paramstyle=paramstyle)) as target:
        with target.begin() as connection:
            CATALOG.create_all(connection)
            OriginProgress(1).create(connection, LSN(100))
            connection.exec_driver_sql("CREATE TABLE t (a TEXT, b TEXT, PRIMARY KEY (a, b))")
            connection.exec_driver_sql("INSERT INTO t VALUES ('1.0', 'x'), ('1.000', 'y'), ('10', 'y')")
        remote = relation("public.t", {"a": "numeric", "b": "text"}, ["a", "b"])
        move = m.Update(16384, "K", values("1.00", "y"), values("1.00", "z"))
        applier = ExactApplier(target, subscription="sub", subid=1)
        applier.apply([frame([remote], transaction(200, move))], start=LSN(100), end=LSN(1000))
        with target.begin() as connection:
            rows = [dict(row) for row in connection.exec_driver_sql("SELECT a, b FROM t ORDER BY b").mappings()]
        assert rows == [{"a": "1.0", "b": "x"}, {"a": "10", "b": "y"}, {"a": "1.00", "b": "z"}]


# Values that cannot be compared -------------------------------------------------------------------


def test_two_values_of_a_type_without_equality_cannot_be_compared(target, execute, rows):
    """C17: tuples_equal of PostgreSQL raises the same error."""
    execute("CREATE TABLE t (a INTEGER, j TEXT)")
    execute("INSERT INTO t VALUES (1, '{}')")
    with pytest.raises(TargetRelationError) as caught:
        changed(target, JSON_LAST, whole_row("1", "{}"))
    assert caught.value.message == "could not identify an equality operator for type json"
    assert (caught.value.sqlstate, caught.value.column) == ("42883", "j")
    assert len(rows()) == 1


@pytest.mark.parametrize(
    ("stored", "searched", "found"),
    [
        ((2, "'{}'"), ("1", "{}"), 0),
        ((1, "NULL"), ("1", "{}"), 0),
        ((1, "'{}'"), ("1", None), 0),
        ((1, "NULL"), ("1", None), 1),
    ],
    ids=["a column before it differs", "null is stored", "null is searched", "both are null"],
)
def test_values_that_need_not_be_compared_are_no_error(target, execute, stored, searched, found):
    """C17: PostgreSQL compares the columns in order, and a NULL without an operator."""
    execute("CREATE TABLE t (a INTEGER, j TEXT)")
    execute(f"INSERT INTO t VALUES ({stored[0]}, {stored[1]})")
    assert changed(target, JSON_LAST, whole_row(*searched)) == found


def test_a_column_that_comes_first_is_compared_first(target, execute):
    """C17: also where a later column differs."""
    execute("CREATE TABLE t (j TEXT, a INTEGER)")
    execute("INSERT INTO t VALUES ('{}', 2)")
    with pytest.raises(TargetRelationError, match="equality operator for type json"):
        changed(target, JSON_LAST, whole_row("1", "{}"))


def test_an_equal_value_before_it_may_be_stored_otherwise(target, execute):
    """C14, C17"""
    execute("CREATE TABLE t (n TEXT, j TEXT)")
    execute("INSERT INTO t VALUES ('1.0', '{}')")
    shape = relation("public.t", {"n": "numeric", "j": "json"}, identity="f")
    with pytest.raises(TargetRelationError, match="equality operator for type json"):
        changed(target, shape, whole_row("1.00", "{}"))
    assert changed(target, shape, whole_row("1.01", "{}")) == 0
