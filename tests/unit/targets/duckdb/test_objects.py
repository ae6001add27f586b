"""What DuckDB's tables have, and how it is added. With a publisher:
tests/conformance/test_schema_step.py.
"""

from __future__ import annotations

import threading

import pytest

from subscriber.base.errors import ConflictError, SubscriberError, TargetUnavailable
from subscriber.postgres.schema.shape import ForeignKey, IndexKey, IndexShape
from subscriber.targets.duckdb import objects
from subscriber.targets.table_changes import (
    CannotBuild,
    FoundIndex,
    NewCheck,
    NewComment,
    NewDefault,
    NewForeignKey,
    NewGenerated,
    NewIdentity,
    NewIndex,
)
from tests.unit.targets.tables import execute, reflected, rows


@pytest.fixture
def table(target):
    execute(target, 'CREATE TABLE t (id BIGINT PRIMARY KEY, "a b" VARCHAR, n INTEGER DEFAULT 3, CHECK (n > 0))')
    return reflected(target, "t")


def built(target, table, change) -> None:
    with target.objects.building() as connection:
        for statement in target.objects.statements(connection, table, change).sql:
            connection.exec_driver_sql(statement)


def test_what_is_added_is_found(target, table):
    index = IndexShape(name="i", keys=(IndexKey("n"), IndexKey("a b")), unique=True)
    expression = IndexShape(name="e", keys=(IndexKey(None, "(n + 1)"),))
    built(target, table, NewDefault("a b", "'x'"))
    built(target, table, NewIdentity("id"))
    built(target, table, NewIndex(index, "i", ('"n"', '"a b"')))
    built(target, table, NewIndex(expression, "e", ("(n + 1)",)))
    built(target, table, NewComment("it's"))
    built(target, table, NewComment("of a column", "a b"))
    with target.engine.connect() as connection:
        found = target.objects.find(connection, [reflected(target, "t")])[0]
    assert set(found.indexes) == {
        FoundIndex("t_id_pkey", ("id",), unique=True),
        FoundIndex("i", ("n", "a b"), unique=True, definition='(n, "a b")'),
        FoundIndex("e", (None,), definition="(((n + 1)))"),
    }
    assert found.defaults == {"id": "nextval('\"subscriber.public.t.id\"')", "a b": "'x'", "n": "3"}
    assert found.counted == {"id"}
    assert [text for _, text in found.checks] == ["(n > 0)"]
    assert (found.comment, found.column_comments) == ("it's", {"a b": "of a column"})
    execute(target, "INSERT INTO t (n) VALUES (1)", "INSERT INTO t (n) VALUES (2)")
    assert [row["a b"] for row in rows(target, "SELECT * FROM t ORDER BY id")] == ["x", "x"]


@pytest.mark.parametrize(
    "change",
    [
        NewForeignKey(ForeignKey(("n",), "public", "t", ("id",)), "f", None),  # type: ignore[arg-type]  # it is not looked at
        NewIndex(IndexShape(name="i", keys=(IndexKey("n"),), predicate="(n > 1)"), "i", ("n",), "n > 1"),
    ],
)
def test_what_duckdb_cannot_add_is_refused(target, table, change):
    with target.engine.connect() as connection, pytest.raises(CannotBuild, match="DuckDB"):
        target.objects.statements(connection, table, change)


def test_a_table_without_rows_is_made_again_with_a_check_or_a_generated_column(target, table):
    index = IndexShape(name="i (", keys=(IndexKey("a b"),))
    built(target, table, NewIndex(index, "i (", ('"a b"',)))
    built(target, table, NewIdentity("id"))
    built(target, table, NewComment("it's (", "a b"))
    for change in (NewCheck("c", "\"a b\" <> ')'"), NewGenerated("g", "INTEGER", "n * 2")):
        with target.engine.connect() as connection:
            assert target.objects.statements(connection, table, change).needs_empty
        built(target, table, change)
    made = reflected(target, "t")
    with target.engine.connect() as connection:
        found = target.objects.find(connection, [made])[0]
    assert {text for _, text in found.checks} == {"(n > 0)", "(\"a b\" != ')')"}
    assert list(found.generated) == ["g"]
    assert ("i (", ("a b",)) in {(one.name, one.keys) for one in found.indexes}
    assert (found.counted, found.column_comments) == ({"id"}, {"a b": "it's ("})
    execute(target, "INSERT INTO t (n) VALUES (4)")
    assert [(row["n"], row["g"]) for row in rows(target, "SELECT n, g FROM t")] == [(4, 8)]


def test_a_script_makes_a_table_again_with_what_it_has_built_before(target, table):
    earlier = [NewDefault("a b", "'x'"), NewCheck("c", "n < 9")]
    with target.engine.connect() as connection:
        sql = target.objects.statements(connection, table, NewCheck("d", "n < 8"), earlier).sql
    assert "n < 9" in sql[2]
    assert "n < 8" in sql[2]
    assert sql[-1].endswith("SET DEFAULT 'x'")


def test_a_table_with_rows_is_not_made_again(target, table):
    execute(target, "INSERT INTO t VALUES (1, 'kept', 3)")
    with pytest.raises(SubscriberError):
        built(target, table, NewCheck("c", "n > 1"))
    assert [row["a b"] for row in rows(target, "SELECT * FROM t")] == ["kept"]


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        (NewCheck("c", "n>1 AND \"a b\" IN ('x')"), "((n > 1) AND (\"a b\" IN ('x')))"),
        (NewDefault("a b", "('x')"), "'x'"),
        (NewGenerated("g", "BIGINT", "n*2"), "CAST((n * 2) AS BIGINT)"),
        (NewIndex(IndexShape(name="i", keys=(IndexKey(None, "(n + 1)"),)), "i", ("(n + 1)",)), "(((n + 1)))"),
    ],
)
def test_a_definition_is_shown_as_duckdb_writes_it_and_nothing_is_changed(target, table, change, shown):
    with target.engine.connect() as connection:
        assert target.objects.shown(connection, table, change) == shown
        assert target.objects.shown(connection, table, change) == shown
        names = connection.exec_driver_sql("SELECT table_name FROM duckdb_tables()").scalars().all()
    assert names == ["t"]


def test_an_expression_that_duckdb_refuses_is_shown_as_it_is_written(target, table):
    with target.engine.connect() as connection:
        assert target.objects.shown(connection, table, NewCheck("c", "no_such(n)")) == "no_such(n)"
        assert target.objects.shown(connection, table, NewCheck("c", "n>1")) == "(n > 1)"


def test_constants_are_the_same_by_their_value_in_the_column(target, table):
    with target.engine.connect() as connection:
        assert target.objects.same_constant(connection, table.columns[2], "'3'", "3")
        assert not target.objects.same_constant(connection, table.columns[1], "'3'", "'3.0'")
        assert not target.objects.same_constant(connection, table.columns[2], "'x'", "3")


def test_an_index_can_be_removed_but_no_check(target, table):
    index = NewIndex(IndexShape(name="i", keys=(IndexKey("n"),)), "i", ('"n"',))
    built(target, table, index)
    execute(target, *target.objects.removal(table, index, "i"))
    assert target.objects.removal(table, NewDefault("n", "4"), "n") == ()
    with pytest.raises(CannotBuild, match="created again"):
        target.objects.removal(table, NewCheck("c", "n > 1"), "c")


def test_a_default_of_the_current_time_needs_a_column_of_a_time(target, table):
    assert target.objects.default("now()", 1184, table.columns[1]) is None
    execute(target, 'CREATE TABLE times ("at" TIMESTAMP WITH TIME ZONE)')
    assert target.objects.default("now()", 1184, reflected(target, "times").columns[0]) == "now()"


# Indexes and other transactions -------------------------------------------------------------------

INDEX = "CREATE UNIQUE INDEX i ON t (n)"


@pytest.fixture
def reader(target, table):
    """Another connection of this process, in a transaction that sees the row with ``n`` = 1. The
    row is deleted meanwhile.
    """
    execute(target, "INSERT INTO t (id, n) VALUES (1, 1), (2, 2)")
    with target.engine.connect() as reader:
        assert reader.exec_driver_sql("SELECT count(*) FROM t").scalar_one() == 2
        execute(target, "DELETE FROM t WHERE id = 1")
        yield reader


def test_duckdb_keeps_the_key_of_a_deleted_row_in_an_index_that_is_created_beside_a_transaction(target, reader):
    """The reason for waiting. Nothing but DROP INDEX removes the key."""
    execute(target, INDEX)
    reader.close()
    with pytest.raises(ConflictError, match="duplicate key"):
        execute(target, "INSERT INTO t (id, n) VALUES (3, 1)")
    execute(target, "CHECKPOINT")
    with pytest.raises(ConflictError, match="duplicate key"):
        execute(target, "INSERT INTO t (id, n) VALUES (3, 1)")
    assert rows(target, "SELECT id FROM t WHERE n = 1") == []
    execute(target, "DROP INDEX i", INDEX)
    execute(target, "INSERT INTO t (id, n) VALUES (3, 1)")


def test_an_index_is_not_created_beside_another_transaction(target, reader, monkeypatch):
    monkeypatch.setattr(objects, "_ALONE_SECONDS", 0.1)
    with pytest.raises(TargetUnavailable, match="another connection") as raised, target.objects.building():
        pytest.fail("it has begun")
    assert (raised.value.sqlstate, raised.value.transient) == ("55006", True)


def test_an_index_is_created_when_the_other_transaction_has_ended(target, reader):
    ending = threading.Timer(0.2, reader.close)
    ending.start()
    with target.objects.building() as connection:
        connection.exec_driver_sql(INDEX)
    ending.join()
    execute(target, "INSERT INTO t (id, n) VALUES (3, 1)")
    assert rows(target, "SELECT id FROM t ORDER BY id") == [{"id": 2}, {"id": 3}]


def test_what_another_transaction_commits_while_an_index_waits_is_seen(target, table):
    """Its own snapshot is not an older one."""
    execute(target, "INSERT INTO t (id, n) VALUES (1, 1)")
    with target.engine.connect() as other:
        other.exec_driver_sql("DELETE FROM t")
        ending = threading.Timer(0.2, lambda: (other.commit(), other.close()))
        ending.start()
        with target.objects.building() as connection:
            connection.exec_driver_sql(INDEX)
        ending.join()
    execute(target, "INSERT INTO t (id, n) VALUES (3, 1)")
