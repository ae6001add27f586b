"""Counters of SQLite."""

from __future__ import annotations

import pytest

from subscriber.schema.shape import SequencePosition
from subscriber.targets.target_table import TargetSequence
from tests.target_databases import set_sequence
from tests.unit.targets.tables import execute, reflected, rows


def test_an_autoincrement_goes_on_as_the_publishers_sequence(target):
    """D14: other integer keys go on from their largest value, so there is nothing to set"""
    execute(
        target,
        "CREATE TABLE a (i INTEGER PRIMARY KEY /* */ autoincrement, b)",
        "CREATE TABLE p (i INTEGER PRIMARY KEY, \"AUTOINCREMENT\" TEXT DEFAULT 'AUTOINCREMENT')",
        "INSERT INTO a (b) VALUES (1)",
    )
    position = SequencePosition(last_value=41, is_called=True, increment=2)
    with target.begin() as connection:
        assert set_sequence(target, connection, target.shapes.reflect(connection, "public", "a"), "i", position)
        assert not set_sequence(target, connection, target.shapes.reflect(connection, "public", "a"), "b", position)
        assert not set_sequence(target, connection, target.shapes.reflect(connection, "public", "p"), "i", position)
        connection.exec_driver_sql("INSERT INTO a (b) VALUES (2)")
        assert connection.exec_driver_sql("SELECT i FROM a ORDER BY i").scalars().all() == [1, 43]


LAST_ROWID = 9_223_372_036_854_775_807  # https://www.sqlite.org/autoinc.html


@pytest.mark.parametrize(
    ("used", "position"),
    [
        (False, SequencePosition(last_value=1, is_called=False)),
        (True, SequencePosition(last_value=7, is_called=True)),
    ],
)
def test_a_counter_has_the_largest_value_that_was_ever_used(target, used, position):
    execute(target, "CREATE TABLE t (a INTEGER PRIMARY KEY AUTOINCREMENT)")
    if used:
        execute(target, "INSERT INTO t VALUES (7)", "DELETE FROM t")
    table = reflected(target, "t")
    with target.engine.connect() as connection:
        found = target.sequences.of_column(connection, table, "a")
    assert found == TargetSequence("main.t", position, 1, LAST_ROWID, table)


def test_a_counter_that_was_not_used_yet_goes_on_with_the_publishers_first_value(target):
    """D14"""
    execute(target, "CREATE TABLE t (a INTEGER PRIMARY KEY AUTOINCREMENT, b)")
    position = SequencePosition(last_value=41, is_called=False)
    with target.begin() as connection:
        assert set_sequence(target, connection, reflected(target, "t"), "a", position)
    execute(target, "INSERT INTO t (b) VALUES ('x')")
    assert rows(target, "SELECT a FROM t") == [{"a": 41}]
