from __future__ import annotations

import pyarrow as pa
import pytest
import sqlalchemy as sa

from subscriber.postgres.types.equality import EXACT, NONE
from subscriber.postgres.types.registry import equality_of
from subscriber.targets import TargetColumn, TargetTable
from subscriber.targets.base.ddl import DDL
from subscriber.targets.base.values import Values
from subscriber.targets.base.writing import Matching

VALUES = Values()
COLUMN = TargetColumn("a", "", "")


@pytest.mark.parametrize(
    ("values", "bound"),
    [
        (pa.array([1, None]), [1, None]),
        (pa.array([True, None]), [True, None]),
        (pa.array([b"\0", None]), [b"\0", None]),
        (pa.array(["1.50", None]), ["1.50", None]),
        (pa.array([], pa.string()), []),
    ],
)
def test_a_value_is_bound_as_pythons(values, bound):
    """absence_is_typed: NULL is None."""
    assert VALUES.bind_values(23, COLUMN, values) == bound


def test_every_column_is_accepted():
    VALUES.check_column(1700, TargetColumn("a", "TINYINT", "TINYINT"))


def test_values_in_binary_form_are_accepted():
    """C5: the column does not have a PostgreSQL type."""
    assert VALUES.refused_binary(20, COLUMN, 1) is None


def test_a_column_is_read_as_it_is():
    assert str(VALUES.readable(COLUMN)) == "a"


# Column types for a database of which only SQLAlchemy's dialect is known; here MySQL's dialect.


def compiled(type_oid: int, type_name: str, *, key: bool = False) -> str:
    return DDL(sa.create_engine("mysql+pymysql://")).column_type(type_oid, type_name, key=key)


@pytest.mark.parametrize(
    ("oid", "name", "declared"),
    [
        (17, "bytea", "BLOB"), (23, "integer", "INTEGER"), (1700, "numeric(10,2)", "NUMERIC(10, 2)"), (1700, "numeric(38,38)", "NUMERIC(38, 38)"),
        (1700, "numeric(39,2)", "TEXT"), (1700, "numeric(2,3)", "TEXT"), (1043, "character varying(20)", "VARCHAR(20)"), (25, "text", "TEXT"),
        (16, "boolean", "BOOL"), (21, "smallint", "SMALLINT"), (20, "bigint", "BIGINT"), (26, "oid", "BIGINT"),
        (700, "real", "DOUBLE"), (701, "double precision", "DOUBLE"), (1082, "date", "DATE"),
        (1700, "numeric", "TEXT"), (1700, "numeric(50,2)", "TEXT"), (1700, "numeric(2,-3)", "TEXT"),
        (1114, "timestamp without time zone", "TEXT"), (1043, "character varying", "TEXT"),
        (1042, "character(5)", "TEXT"), (3802, "jsonb", "TEXT"), (1007, "integer[]", "TEXT"), (99_999, "x", "TEXT"),
    ],
)  # fmt: skip
def test_a_type_holds_every_value_exactly_or_refuses_it(oid, name, declared):
    assert compiled(oid, name) == declared


@pytest.mark.parametrize(
    ("oid", "name", "declared"),
    [
        (25, "text", "VARCHAR(255)"),
        (1114, "timestamp without time zone", "VARCHAR(255)"),
        (1043, "character varying(20)", "VARCHAR(20)"),
        (23, "integer", "INTEGER"),
        (17, "bytea", "BLOB"),
    ],
)
def test_a_text_of_a_key_has_a_length(oid, name, declared):
    assert compiled(oid, name, key=True) == declared


# The conditions that find a row, as SQL of a dialect of which nothing else is known.


MATCHING = Matching()
MATCHED_COLUMN = TargetColumn("a", "TEXT", "TEXT")
TABLE = TargetTable(None, "t", (MATCHED_COLUMN,), ("a",))
CLAUSE, VALUE = TABLE.clause().c.a, sa.literal("x")


def sql(clause: sa.ClauseElement) -> str:
    return str(clause.compile(compile_kwargs={"literal_binds": True}))


@pytest.mark.parametrize("condition", [MATCHING.equals, MATCHING.finds])
def test_a_key_is_compared_by_the_operator_of_the_columns_type(condition):
    assert sql(condition(MATCHED_COLUMN, CLAUSE, VALUE)) == "t.a = 'x'"


def test_in_a_whole_row_null_equals_null():
    """C14"""
    assert sql(MATCHING.is_same(MATCHED_COLUMN, CLAUSE, VALUE)) == "t.a IS NOT DISTINCT FROM 'x'"


def test_a_stored_text_is_compared_as_it_is():
    assert MATCHING.comparable(MATCHED_COLUMN, CLAUSE) is CLAUSE


@pytest.mark.parametrize(("type_oid", "equality"), [(25, EXACT), (114, NONE), (1700, equality_of(1700))])
def test_the_equality_is_that_of_the_publishers_type(type_oid, equality):
    """C14, C17: json has none, and numerics with other zeros at the end are equal."""
    assert MATCHING.equality(type_oid, MATCHED_COLUMN) == equality


def test_no_key_column_is_left_out_of_an_update():
    assert not MATCHING.found_as_written(25, TABLE, MATCHED_COLUMN)


def test_a_statement_is_not_limited():
    delete = sa.delete(TABLE.clause())
    assert MATCHING.own_rows(TABLE, delete, TABLE.clause()) is delete
    assert MATCHING.change_first(delete) is None
    assert MATCHING.routing(TABLE) is None
