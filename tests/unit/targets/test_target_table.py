"""Tables and sequences of a target, as data."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from subscriber.schema.shape import SequencePosition
from subscriber.targets import TargetColumn, TargetTable
from subscriber.targets.target_table import TargetSequence
from tests.unit.targets.tables import execute, reflected

A, IDENTITY = TargetColumn("a", "INT", "INT"), TargetColumn("A%", "INT", "INT", identity_always=True)


def test_a_column_is_found_by_exactly_its_name():
    """C2"""
    table = TargetTable("s", "t", (A, IDENTITY), None)
    assert table.column("A%") is IDENTITY
    assert table.column("A") is None


@pytest.mark.parametrize(("columns", "overrides"), [((A, IDENTITY), True), ((A,), False), ((), False)])
def test_an_insert_overrides_an_identity_column_that_is_always_generated(columns, overrides):
    assert TargetTable(None, "t", columns, None).has_identity_always is overrides


def test_a_statement_can_name_the_columns_and_the_locators():
    """names_are_data"""
    table = TargetTable("s", "t", (A, IDENTITY), None, locators=("rowid",)).clause()
    assert [column.name for column in table.columns] == ["a", "A%", "rowid"]
    assert str(sa.select(table.c["A%"])) == 'SELECT s.t."A%" \nFROM s.t'


def test_a_table_without_rows_has_none(target):
    execute(target, "CREATE TABLE t (a)")
    table = reflected(target, "t")
    with target.engine.connect() as connection:
        assert not table.has_rows(connection)
    execute(target, "INSERT INTO t VALUES (NULL)")
    with target.engine.connect() as connection:
        assert table.has_rows(connection)


# Sequences ----------------------------------------------------------------------------------------

TABLE = TargetTable(None, "t", (A,), ("a",))


def position(last: int, *, is_called: bool = True, increment: int = 1) -> SequencePosition:
    return SequencePosition(last_value=last, is_called=is_called, increment=increment)


@pytest.mark.parametrize(
    ("last", "fits"), [(1, True), (10, True), (0, False), (11, False)], ids=["least", "greatest", "below", "above"]
)
def test_a_sequence_stores_its_last_value(last, fits):
    """D14"""
    sequence = TargetSequence("q", position(1), 1, 10)
    found = sequence.obstacle(position(last))
    words = f"{last} is out of its range in the target (1 .. 10)"
    assert found == (None if fits else words)


@pytest.mark.parametrize(
    ("last", "is_called", "fits"), [(9, True, True), (10, True, False), (10, False, True), (0, True, True)]
)
def test_a_counter_stores_its_next_value(last, is_called, fits):
    """D14"""
    counter = TargetSequence("t", position(1), 1, 10, TABLE)
    assert (counter.obstacle(position(last, is_called=is_called)) is None) is fits


@pytest.mark.parametrize(
    ("publisher", "target", "words"),
    [
        (-2, 1, "it counts downwards at the publisher and upwards in the target"),
        (1, -2, "it counts upwards at the publisher and downwards in the target"),
        (-1, -2, None),
        (5, 1, None),
    ],
)
def test_a_sequence_counts_in_the_direction_of_the_publishers(publisher, target, words):
    sequence = TargetSequence("q", position(5, increment=target), 1, 10)
    assert sequence.obstacle(position(5, increment=publisher)) == words
