"""What DuckDB's tables have, and how it is added. With a publisher:
tests/conformance/test_schema_step.py.
"""

from __future__ import annotations

import threading

import pytest

from subscriber.errors import ConflictError, TargetUnavailable
from subscriber.schema.shape import ForeignKey
from subscriber.schema.table_objects import IndexKey, IndexShape
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
        found = target.objects.find(connection, reflected(target, "t"))
    assert set(found.indexes) == {
        FoundIndex("t_id_pkey", ("id",), unique=True),
        FoundIndex("i", ("n", "a b"), unique=True),
        FoundIndex("e", (None,)),
    }
    assert found.defaults == {"id", "a b", "n"}
    assert found.counted == {"id"}
    assert [text for _, text in found.checks] == ["(n > 0)"]
    assert (found.comment, found.column_comments) == ("it's", {"a b": "of a column"})
    execute(target, "INSERT INTO t (n) VALUES (1)", "INSERT INTO t (n) VALUES (2)")
    assert [row["a b"] for row in rows(target, "SELECT * FROM t ORDER BY id")] == ["x", "x"]


@pytest.mark.parametrize(
    "change",
    [
        NewCheck("c", "n > 1"),
        NewForeignKey(ForeignKey(("n",), "public", "t", ("id",)), "f", None),  # type: ignore[arg-type]  # it is not looked at
        NewGenerated("g", "INTEGER", "n * 2"),
        NewIndex(IndexShape(name="i", keys=(IndexKey("n"),), predicate="(n > 1)"), "i", ("n",), "n > 1"),
    ],
)
def test_what_duckdb_cannot_add_is_refused(target, table, change):
    with target.engine.connect() as connection, pytest.raises(CannotBuild, match="DuckDB"):
        target.objects.statements(connection, table, change)


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
