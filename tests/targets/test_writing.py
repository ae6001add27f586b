"""The roles ``writing`` and ``sequences``: TRUNCATE, identities, and what makes values."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa

from subscriber.base.errors import TargetRelationError
from subscriber.postgres.schema.shape import SequencePosition
from tests.targets.tables import created, insert, qualified, reflected, run, shape_of, stored

SHAPE = shape_of({"a": "integer", "b": "text"}, ["a"])


def counting():
    """A table whose key makes its own values."""
    columns = SHAPE.columns
    return replace(SHAPE, columns=(replace(columns[0], identity="d"), *columns[1:]))


def test_truncate_empties_all_its_tables(target):
    """C29"""
    other = replace(SHAPE, name="u")
    tables = [created(target, SHAPE), created(target, other)]
    with target.begin() as connection:
        insert(target, connection, SHAPE, ("1", "one"))
        insert(target, connection, other, ("1", "one"))
    with target.begin() as connection:
        target.writing.truncate(connection, tables, restart_identity=False)
    assert (stored(target, SHAPE), stored(target, other)) == ([], [])


def test_a_truncate_belongs_to_its_transaction(target):
    table = created(target, SHAPE)
    with target.begin() as connection:
        insert(target, connection, SHAPE, ("1", "one"))
    with pytest.raises(InterruptedError), target.begin() as connection:
        target.writing.truncate(connection, [table], restart_identity=False)
        raise InterruptedError
    assert stored(target, SHAPE) == [("1", "one")]


def test_a_truncate_restarts_identities_or_is_refused(target):
    """C29, refuse_not_guess"""
    shape = counting()
    table = created(target, shape, identity=True)
    with target.begin() as connection:
        made = target.sequences.of_column(connection, table, "a")
    if made is None:
        with pytest.raises(TargetRelationError, match="cannot restart") as raised, target.begin() as connection:
            target.writing.truncate(connection, [table], restart_identity=True)
        assert raised.value.sqlstate == "0A000"
        return
    grow = f"INSERT INTO {qualified(target, shape)} (b) VALUES ('x')"
    run(target, grow)
    run(target, grow)
    with target.begin() as connection:
        target.writing.truncate(connection, [table], restart_identity=True)
    run(target, grow)
    assert stored(target, shape) == [("1", "x")]


def test_a_sequence_goes_on_where_the_publishers_stands(target):
    """D14"""
    shape = counting()
    table = created(target, shape, identity=True)
    with target.begin() as connection:
        made = target.sequences.of_column(connection, table, "a")
        assert target.sequences.of_column(connection, table, "b") is None
        if made is None:
            pytest.skip("it has none")
        position = SequencePosition(last_value=41, is_called=True)
        assert made.obstacle(position) is None
        target.sequences.set(connection, made, position)
    run(target, f"INSERT INTO {qualified(target, shape)} (b) VALUES ('x')")
    assert stored(target, shape) == [("42", "x")]


def test_a_column_that_makes_values_takes_those_that_are_given(target):
    """C7: INSERT overrides identities"""
    shape = counting()
    created(target, shape, identity=True)
    with target.begin() as connection:
        insert(target, connection, shape, ("17", "given"))
    assert stored(target, shape) == [("17", "given")]


def test_no_trigger_of_a_table_without_triggers_suppresses_anything(target):
    assert not target.writing.may_suppress(created(target, SHAPE))


def test_a_constraint_makes_an_insert_fail_whatever_it_says(target):
    """C22"""
    table = created(target, SHAPE)
    statement = target.writing.or_fail(table, sa.insert(table.clause()).values(a=sa.literal(1), b=sa.literal("x")))
    with target.begin() as connection:
        connection.execute(statement)
    assert stored(target, SHAPE) == [("1", "x")]
    assert reflected(target, SHAPE).key == ("a",)


def test_all_rows_are_deleted_and_come_back_if_the_transaction_is_rolled_back(target):
    table = created(target, SHAPE)
    with target.begin() as connection:
        insert(target, connection, SHAPE, ("1", "one"), ("2", "two"))
    with pytest.raises(InterruptedError), target.begin() as connection:
        target.writing.delete_all(connection, table)
        raise InterruptedError
    assert stored(target, SHAPE) == [("1", "one"), ("2", "two")]


def test_rows_with_the_same_keys_can_be_written_after_all_rows_were_deleted(target):
    table = created(target, SHAPE)
    with target.begin() as connection:
        insert(target, connection, SHAPE, ("1", "one"), ("2", "two"))
    with target.begin() as connection:
        target.writing.delete_all(connection, table)
        insert(target, connection, SHAPE, ("1", "new"), ("3", "three"))
    assert stored(target, SHAPE) == [("1", "new"), ("3", "three")]
