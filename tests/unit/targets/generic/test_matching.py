"""The conditions that find a row, as SQL of a dialect of which nothing else is known."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from subscriber.targets import TargetColumn, TargetTable
from subscriber.targets.generic.matching import GenericMatching
from subscriber.types import equality_of
from subscriber.types.equality import EXACT, NONE

MATCHING = GenericMatching()
COLUMN = TargetColumn("a", "TEXT", "TEXT")
TABLE = TargetTable(None, "t", (COLUMN,), ("a",))
CLAUSE, VALUE = TABLE.clause().c.a, sa.literal("x")


def sql(clause: sa.ClauseElement) -> str:
    return str(clause.compile(compile_kwargs={"literal_binds": True}))


@pytest.mark.parametrize("condition", [MATCHING.equals, MATCHING.finds])
def test_a_key_is_compared_by_the_operator_of_the_columns_type(condition):
    assert sql(condition(COLUMN, CLAUSE, VALUE)) == "t.a = 'x'"


def test_in_a_whole_row_null_equals_null():
    """C14"""
    assert sql(MATCHING.is_same(COLUMN, CLAUSE, VALUE)) == "t.a IS NOT DISTINCT FROM 'x'"


def test_a_stored_text_is_compared_as_it_is():
    assert MATCHING.comparable(COLUMN, CLAUSE) is CLAUSE


@pytest.mark.parametrize(("type_oid", "equality"), [(25, EXACT), (114, NONE), (1700, equality_of(1700))])
def test_the_equality_is_that_of_the_publishers_type(type_oid, equality):
    """C14, C17: json has none, and numerics with other zeros at the end are equal."""
    assert MATCHING.equality(type_oid, COLUMN) == equality


def test_no_key_column_is_left_out_of_an_update():
    assert not MATCHING.found_as_written(25, TABLE, COLUMN)


def test_a_statement_is_not_limited():
    delete = sa.delete(TABLE.clause())
    assert MATCHING.own_rows(TABLE, delete, TABLE.clause()) is delete
    assert MATCHING.change_first(delete) is None
    assert MATCHING.routing(TABLE) is None
