"""Comparisons of rows (``make_row_comparison_op``), and the ``<`` of a type."""

from __future__ import annotations

import pytest

from subscriber.postgres.expressions.analyze import tree
from subscriber.postgres.expressions.analyze.operators import RowOperations
from tests.films import BOOL, INT4, NUMERIC, TEXT, canonical, refusal

A, B = tree.Var(INT4, 0, "a"), tree.Var(TEXT, 100, "b")
N = tree.Var(NUMERIC, 0, "n")


@pytest.fixture
def rows(operators) -> RowOperations:
    return RowOperations(operators)


@pytest.mark.parametrize(("kind", "name"), [("<", "lt"), ("<=", "le"), (">", "gt"), (">=", "ge")])
def test_an_order_has_the_function_and_the_equality_of_each_column(rows, kind, name):
    found = rows.comparison((kind,), [A, A], [A, N])
    assert isinstance(found, tree.RowCompareExpr)
    assert found.kind == kind
    assert found.functions == (f"int4{name}(int4,int4)", f"numeric_{name}(numeric,numeric)")
    assert found.equals == ("int4eq(int4,int4)", "numeric_eq(numeric,numeric)")
    assert [one.type_oid for one in (*found.left, *found.right)] == [INT4, NUMERIC, INT4, NUMERIC]


def test_equality_is_that_of_all_columns_and_inequality_of_one():
    assert canonical("(a, b) = (1, 'x')") == "((a = 1) AND (b = 'x'::text))"
    assert canonical("(a, b) <> (1, 'x')") == "((a <> 1) OR (b <> 'x'::text))"
    assert canonical("ROW(a) < ROW(1)") == "(a < 1)"


def test_rows_are_distinct_if_a_column_is(rows):
    found = rows.distinct([A, A], [A, N])
    assert isinstance(found, tree.BoolExpr)
    assert (found.kind, [one.function for one in found.arguments if isinstance(one, tree.DistinctExpr)]) == (
        "or",
        ["int4eq(int4,int4)", "numeric_eq(numeric,numeric)"],
    )
    assert rows.distinct([], []) == tree.Const(BOOL, 0, "f")


@pytest.mark.parametrize(
    ("oid", "signature"),
    [
        (INT4, "int4lt(int4,int4)"),
        (TEXT, "text_lt(text,text)"),
        (1043, "text_lt(text,text)"),  # character varying is ordered as text
        (1007, "array_lt(anyarray,anyarray)"),
        (3904, "range_lt(anyrange,anyrange)"),
        (16500, "enum_lt(anyenum,anyenum)"),
        (16502, "int4lt(int4,int4)"),  # a domain over integer
        (2249, "record_lt(record,record)"),
        (650, "network_lt(inet,inet)"),
        (603, ""),  # box
        (114, ""),  # json
    ],
)
def test_the_order_of_a_type(rows, oid, signature):
    assert rows.less(oid) == signature


@pytest.mark.parametrize(
    ("text", "sqlstate", "message"),
    [
        ("(a, b) = (1, 'x', 2)", "42601", "unequal number of entries in row expressions"),
        ("(a, b) IS DISTINCT FROM ROW(1)", "42601", "unequal number of entries in row expressions"),
        ("ROW() = ROW()", "0A000", "cannot compare rows of zero length"),
        ("(a, a) + (1, 1)", "42804", "row comparison operator must yield type boolean, not type integer"),
        ("(b, b) ~~ ('x', 'y')", "0A000", "could not determine interpretation of row comparison operator ~~"),
        ("(a, place) < (1, '(1,1),(0,0)')", "0A000", "could not determine interpretation of row comparison operator <"),
    ],
)
def test_the_error_of_a_comparison_of_rows(text, sqlstate, message):
    error = refusal(text)
    assert (error.sqlstate, error.message) == (sqlstate, message)
