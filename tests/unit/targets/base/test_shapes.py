"""Tables as SQLAlchemy's inspector describes them."""

from __future__ import annotations

import pytest

from subscriber.base.errors import NotSupportedError
from subscriber.postgres.schema.shape import SequencePosition
from subscriber.targets import UniqueIndex
from subscriber.targets.base import catalog as reading
from subscriber.targets.target_table import TargetSequence
from tests.unit.targets.tables import execute, reflected


def test_the_inspector_gives_columns_and_key(target):
    execute(
        target, "CREATE TABLE t (a INTEGER, b TEXT NOT NULL, g INT GENERATED ALWAYS AS (a) STORED, PRIMARY KEY (a, b))"
    )
    table = reflected(target, "t")
    assert (table.schema, table.name, table.kind, table.key) == (None, "t", "table", ("a", "b"))
    _, b, g = table.columns
    assert (b.declared_type, b.storage, b.nullable, b.generated) == ("TEXT", "TEXT", False, False)
    assert (g.nullable, g.generated) == (True, True)


@pytest.mark.parametrize(
    ("declared", "required"),
    [("a INT NOT NULL", True), ("a INT NOT NULL DEFAULT 1", False), ("a INT", False)],
    ids=["not null", "with a default", "nullable"],
)
def test_an_insert_needs_a_column_that_is_not_null_and_has_no_default(target, declared, required):
    execute(target, f"CREATE TABLE t ({declared})")
    assert reflected(target, "t").columns[0].required is required


def test_a_table_without_a_primary_key_has_no_key(target):
    execute(target, "CREATE TABLE t (a INT UNIQUE)")
    assert reflected(target, "t").key is None


def test_a_view_is_told_from_a_table(target):
    execute(target, "CREATE VIEW v AS SELECT 1 AS a")
    assert reflected(target, "v").kind == "view"


def test_a_table_that_does_not_exist_is_none(target):
    with target.engine.connect() as connection:
        assert target.shapes.reflect(connection, "public", "absent") is None


def test_a_schema_of_the_publisher_is_the_schema_of_its_name(target, tmp_path):
    """C1"""
    with target.engine.connect() as connection:
        connection.exec_driver_sql(f"ATTACH '{tmp_path / 's.db'}' AS s")
        connection.exec_driver_sql("CREATE TABLE s.t (a INT)")
        table = target.shapes.reflect(connection, "s", "t")
        assert (table.schema, table.name) == ("s", "t")
        assert target.shapes.reflect(connection, "public", "t") is None


def test_the_primary_key_comes_before_the_other_unique_indexes(target):
    """C22"""
    execute(
        target,
        "CREATE TABLE t (a INT, b INT, c INT, CONSTRAINT u UNIQUE (b, c), PRIMARY KEY (a))",
        "CREATE UNIQUE INDEX i ON t (c)",
        "CREATE INDEX plain ON t (b)",
    )
    with target.engine.connect() as connection:
        indexes = target.shapes.unique_indexes(connection, reflected(target, "t"))
    assert indexes == [UniqueIndex("t_pkey", ("a",)), UniqueIndex("u", ("b", "c")), UniqueIndex("i", ("c",))]


def test_a_constraint_without_a_name_has_the_name_that_postgresql_would_choose(target):
    execute(target, "CREATE TABLE t (a INT, b INT, UNIQUE (a, b))")
    with target.engine.connect() as connection:
        (index,) = target.shapes.unique_indexes(connection, reflected(target, "t"))
    assert index == UniqueIndex("t_a_b_key", ("a", "b"))


@pytest.mark.parametrize("index", ["(a) WHERE a > 0", "(abs(a))", "(a, abs(b))"])
def test_an_index_that_is_partial_or_of_expressions_is_left_out(target, index):
    execute(target, "CREATE TABLE t (a INT, b INT)", f"CREATE UNIQUE INDEX i ON t {index}")
    with target.engine.connect() as connection:
        assert target.shapes.unique_indexes(connection, reflected(target, "t")) == []


def test_rows_come_in_batches_of_some_fetches(target, monkeypatch):
    monkeypatch.setattr(reading, "_ROWS_OF_A_FETCH", 2)
    monkeypatch.setattr(reading, "_FETCHES", 3)
    with target.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (a INTEGER, b TEXT)")
        connection.exec_driver_sql(
            "INSERT INTO t VALUES (1, 'a'), (2, NULL), (3, 'c'), (4, 'd'), (5, 'e'), (6, 'f'), (7, 'g')"
        )
    with target.engine.connect() as connection:
        table = target.shapes.reflect(connection, "public", "t")
        parts = list(target.reader.rows(connection, table, table.columns))
    assert [part.rows for part in parts] == [6, 1]
    assert [list(column) for column in parts[0].columns] == [[1, 2, 3, 4, 5, 6], ["a", None, "c", "d", "e", "f"]]
    assert [list(column) for column in parts[1].columns] == [[7], ["g"]]


POSITION = SequencePosition(last_value=1, is_called=True)


def test_no_column_has_a_sequence(target):
    execute(target, "CREATE TABLE t (a INTEGER PRIMARY KEY AUTOINCREMENT)")
    table = reflected(target, "t")
    with target.begin() as connection:
        assert target.sequences.of_column(connection, table, "a") is None
        assert target.sequences.named(connection, "public", "t_a_seq") is None


def test_a_sequence_cannot_be_set(target):
    sequence = TargetSequence("t_a_seq", POSITION, 1, 10)
    with target.begin() as connection, pytest.raises(NotSupportedError) as raised:
        target.sequences.set(connection, sequence, POSITION)
    assert (raised.value.message, raised.value.sqlstate) == ('the target has no sequence "t_a_seq"', "0A000")
