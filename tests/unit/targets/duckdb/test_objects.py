"""What DuckDB's tables have, and how it is added. With a publisher:
tests/conformance/test_schema_step.py.
"""

from __future__ import annotations

import pytest

from subscriber.schema.shape import ForeignKey
from subscriber.schema.table_objects import IndexKey, IndexShape
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
