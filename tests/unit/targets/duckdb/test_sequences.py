"""DuckDB's sequences."""

from __future__ import annotations

import pytest

from subscriber.schema.shape import SequencePosition
from subscriber.targets.duckdb.sequences import restart_sequences
from subscriber.targets.target_table import TargetSequence
from tests.target_databases import set_sequence
from tests.unit.targets.tables import execute, reflected, rows


@pytest.mark.parametrize(
    ("position", "following"),
    [
        (SequencePosition(last_value=41, is_called=True), 42),
        (SequencePosition(last_value=41, is_called=False), 41),
    ],
)
def test_a_sequence_goes_on_as_the_publishers(target, position, following):
    """D14"""
    execute(target, 'CREATE SEQUENCE "q ""q"', """CREATE TABLE t (a int DEFAULT nextval('"q ""q"'), b int)""")
    table = reflected(target, "t")
    with target.begin() as connection:
        assert set_sequence(target, connection, table, "a", position)
        assert not set_sequence(target, connection, table, "b", position)
        assert not set_sequence(target, connection, table, "absent", position)
    execute(target, "INSERT INTO t (b) VALUES (1)")
    assert rows(target, "SELECT a FROM t") == [{"a": following}]


def sequence_of(target, column: str) -> TargetSequence | None:
    with target.engine.connect() as connection:
        found: TargetSequence | None = target.sequences.of_column(connection, reflected(target, "t"), column)
    return found


@pytest.mark.parametrize("default", ["nextval('s.q')", 'nextval(\'"s"."q"\')'], ids=["plain", "quoted"])
def test_a_columns_sequence_is_found_by_its_default(target, default):
    execute(
        target,
        "CREATE SCHEMA s",
        "CREATE SEQUENCE s.q INCREMENT -2 MINVALUE -9 MAXVALUE -3 START -3",
        f"CREATE TABLE t (a int DEFAULT {default}, b int DEFAULT 7, c int)",
    )
    unused = sequence_of(target, "a")
    assert unused is not None
    assert unused.position == SequencePosition(last_value=-3, is_called=False, increment=-2)
    assert (unused.least, unused.greatest, unused.table) == (-9, -3, None)
    execute(target, "INSERT INTO t (c) VALUES (1), (2)")
    used = sequence_of(target, "a")
    assert used is not None
    assert used.position == SequencePosition(last_value=-5, is_called=True, increment=-2)


@pytest.mark.parametrize("column", ["b", "c", "absent"])
def test_a_column_without_a_sequence_has_none(target, column):
    execute(target, "CREATE TABLE t (a int, b int DEFAULT 7, c int)")
    assert sequence_of(target, column) is None


def test_sequences_of_other_tables_are_not_restarted(target):
    execute(target, "CREATE SEQUENCE q", "CREATE TABLE t (a int)", "CREATE TABLE o (a int DEFAULT nextval('q'), b int)")
    execute(target, "INSERT INTO o (b) VALUES (1)")
    with target.begin() as connection:
        restart_sequences(connection, reflected(target, "t"))
    execute(target, "INSERT INTO o (b) VALUES (2)")
    assert rows(target, "SELECT a FROM o ORDER BY b") == [{"a": 1}, {"a": 2}]
