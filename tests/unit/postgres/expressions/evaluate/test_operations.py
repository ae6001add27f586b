"""Every kind of node over rows: what ``ExecInterpExpr`` makes of it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from subscriber.base.errors import NotSupportedError
from subscriber.postgres.expressions.analyze import tree
from subscriber.postgres.expressions.evaluate.operations import FieldTest, elements_of, operation
from subscriber.postgres.expressions.evaluate.row_values import FrameRows, listed
from subscriber.postgres.types.arrays import EMPTY, Array

BOOL, INT4, TEXT, INT4S, RECORD, NUMERIC = 16, 23, 25, 1007, 2249, 1700
A, B, P = tree.Var(INT4, 0, "a"), tree.Var(INT4, 0, "b"), tree.Var(BOOL, 0, "p")
N, M = tree.Var(NUMERIC, 0, "n"), tree.Var(NUMERIC, 0, "m")
COLUMNS = {
    "a": pa.array([1, 2, None, None], pa.int32()),
    "b": pa.array([1, 3, 4, None], pa.int32()),
    "p": pa.array([True, False, None, True]),
    "n": pa.array(["1.0", "2", None, None]),
    "m": pa.array(["1", "3", "4", None]),
}


def number(value: int | None) -> tree.ComputedConst:
    return tree.ComputedConst(INT4, 0, value)


def call(signature: str, *arguments: tree.Expression, result: int = BOOL) -> tree.Call:
    return tree.Call(result, 0, signature, arguments)


def equal(left: tree.Expression, right: tree.Expression) -> tree.Call:
    return call("int4eq(int4,int4)", left, right)


NEVER = call("int4div(int4,int4)", number(1), call("int4mi(int4,int4)", A, A, result=INT4), result=INT4)
"""An error for every row in which ``a`` is not NULL."""


def values(node: tree.Expression) -> list[Any]:
    return listed(operation(node, 180000).evaluate(FrameRows(COLUMNS, 4)), 4)


def test_leaves_are_columns_and_constants():
    assert values(A) == [1, 2, None, None]
    assert values(number(7)) == [7] * 4
    assert values(tree.CollateExpr(TEXT, 950, tree.ComputedConst(TEXT, 100, "x"))) == ["x"] * 4


def test_a_call_computes_its_arguments_first():
    assert values(
        call("int4pl(int4,int4)", A, call("int4mul(int4,int4)", B, number(10), result=INT4), result=INT4)
    ) == [
        11,
        32,
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("left", "right", "equals"),
    [(A, B, "int4eq(int4,int4)"), (N, M, "numeric_eq(numeric,numeric)")],
    ids=["columns of arrow", "lists"],
)
def test_null_is_distinct_from_all_but_null(left, right, equals):
    node = tree.DistinctExpr(BOOL, 0, equals, (left, right))
    assert values(node) == [False, True, True, False]


def test_nullif_is_null_where_both_are_equal():
    assert values(tree.NullIfExpr(INT4, 0, "int4eq(int4,int4)", (A, B))) == [None, 2, None, None]
    numeric = values(tree.NullIfExpr(NUMERIC, 0, "numeric_eq(numeric,numeric)", (M, N)))
    assert [None if one is None else str(one) for one in numeric] == [None, "3", "4", None]


@pytest.mark.parametrize(
    ("value", "negated", "expected"),
    [
        (True, False, [True, False, False, True]),
        (True, True, [False, True, True, False]),
        (False, False, [False, True, False, False]),
        (False, True, [True, False, True, True]),
        (None, False, [False, False, True, False]),
        (None, True, [True, True, False, True]),
    ],
)
def test_a_boolean_test_is_never_null(value, negated, expected):
    assert values(tree.BooleanTest(BOOL, 0, P, value, negated)) == expected


def test_not_is_null_for_null():
    assert values(tree.BoolExpr(BOOL, 0, "not", (P,))) == [False, True, None, False]
    assert values(tree.BoolExpr(BOOL, 0, "not", (tree.ComputedConst(BOOL, 0, None),))) == [None] * 4
    assert values(tree.BoolExpr(BOOL, 0, "not", (tree.ComputedConst(BOOL, 0, False),))) == [True] * 4


def test_is_null_of_a_row_looks_at_its_fields():
    row = tree.RowExpr(RECORD, 0, (A, B))
    assert values(tree.NullTest(BOOL, 0, row, is_null=True)) == [False, False, False, True]
    assert values(tree.NullTest(BOOL, 0, row, is_null=False)) == [True, True, False, False]
    empty = tree.RowExpr(RECORD, 0, ())
    assert values(tree.NullTest(BOOL, 0, empty, is_null=True)) == [True] * 4


def test_the_test_of_a_field_does_not_look_into_it():
    row = tree.RowExpr(RECORD, 0, (A, B))
    assert values(FieldTest(BOOL, 0, row, True)) == [False] * 4


def test_case_computes_a_result_for_its_own_rows_only():
    node = tree.CaseExpr(INT4, 0, None, ((tree.NullTest(BOOL, 0, A, True), number(0)), (P, A)), number(9))
    assert values(node) == [1, 9, 0, 0]
    guarded = tree.CaseExpr(INT4, 0, None, ((tree.NullTest(BOOL, 0, A, False), number(5)),), NEVER)
    assert values(guarded) == [5, 5, None, None]


def test_case_with_an_operand_compares_it_with_each_value():
    operand = tree.CaseTestExpr(INT4, 0)
    node = tree.CaseExpr(
        INT4, 0, A, ((equal(operand, number(1)), number(10)), (equal(operand, B), number(20))), number(30)
    )
    assert values(node) == [10, 30, 30, 30]


def test_coalesce_computes_an_argument_only_where_those_before_it_are_null():
    assert values(tree.CoalesceExpr(INT4, 0, (A, B, number(7)))) == [1, 2, 4, 7]
    assert values(tree.CoalesceExpr(INT4, 0, (number(3), NEVER))) == [3] * 4


@pytest.mark.parametrize(
    ("greatest", "expected"), [(True, ["1", "3", "4", "0"]), (False, ["0", "0", "0", "0"])], ids=["greatest", "least"]
)
def test_greatest_and_least_leave_null_out(greatest, expected):
    for one, other, less, zero in (
        (A, B, "int4lt(int4,int4)", number(0)),
        (N, M, "numeric_lt(numeric,numeric)", call("numeric(int4)", number(0), result=NUMERIC)),
    ):
        node = tree.MinMaxExpr(one.type_oid, 0, greatest, (one, other, zero), less)
        assert [str(value).removesuffix(".0") for value in values(node)] == expected
        nothing = tree.MinMaxExpr(one.type_oid, 0, greatest, (one, one), less)
        assert values(nothing)[2:] == [None, None]


@pytest.mark.parametrize(
    ("kind", "names", "expected"),
    [
        ("<", "lt", [False, True, None, None]),
        ("<=", "le", [True, True, None, None]),
        (">", "gt", [False, False, None, None]),
        (">=", "ge", [True, False, None, None]),
    ],
)
def test_the_first_columns_that_differ_decide_a_comparison_of_rows(kind, names, expected):
    node = tree.RowCompareExpr(
        BOOL,
        0,
        kind,
        (f"int4{names}(int4,int4)",) * 2,
        ("int4eq(int4,int4)",) * 2,
        (number(1), A),
        (number(1), B),
        (0, 0),
    )
    assert values(node) == expected


def test_an_array_of_elements_and_of_arrays():
    one = tree.ArrayExpr(INT4S, 0, (A, B))
    assert values(one)[1] == Array((2,), (1,), (2, 3))
    nested = tree.ArrayExpr(INT4S, 0, (one, one), nested=True)
    assert values(nested)[0] == Array((2, 2), (1, 1), (1, 1, 1, 1))
    assert values(tree.ArrayExpr(INT4S, 0, ())) == [EMPTY] * 4


def test_a_comparison_with_an_array_takes_constants_columns_and_null():
    def any_of(array: tree.Expression) -> list[Any]:
        return values(tree.ScalarArrayOpExpr(BOOL, 0, "int4eq(int4,int4)", (A, array)))

    assert any_of(tree.ComputedConst(INT4S, 0, Array((2,), (1,), (1, 5)))) == [True, False, None, None]
    assert any_of(tree.ArrayExpr(INT4S, 0, (B, number(2)))) == [True, True, None, None]
    assert any_of(tree.ComputedConst(INT4S, 0, None)) == [None] * 4


def test_the_elements_of_an_array_are_known_unless_a_row_has_the_array():
    assert elements_of(tree.ArrayExpr(INT4S, 0, (A, B))) == (A, B)
    assert elements_of(tree.ComputedConst(INT4S, 0, Array((2,), (1,), (1, None)))) == [number(1), number(None)]
    assert elements_of(tree.ArrayExpr(INT4S, 0, (A,), nested=True)) is None
    assert elements_of(tree.ComputedConst(INT4S, 0, None)) is None
    assert elements_of(tree.Var(INT4S, 0, "k")) is None


def test_an_operation_may_raise_if_a_part_of_it_may():
    assert not operation(equal(A, B), 180000).raises
    for node in (
        NEVER,
        tree.NullTest(BOOL, 0, NEVER, True),
        equal(NEVER, A),
        tree.CoalesceExpr(INT4, 0, (A, NEVER)),
        tree.CaseExpr(INT4, 0, None, ((P, A),), NEVER),
        tree.BoolExpr(BOOL, 0, "and", (P, equal(A, NEVER))),
        tree.ScalarArrayOpExpr(BOOL, 0, "int4eq(int4,int4)", (A, tree.ArrayExpr(INT4S, 0, (NEVER,)))),
        tree.RowExpr(RECORD, 0, (NEVER,)),
    ):
        assert operation(node, 180000).raises


@pytest.mark.parametrize(
    "node",
    [tree.Refused(BOOL, 0, "SubLink"), tree.Var(600, 0, "point"), tree.RelabelType(701, 0, A)],
    ids=["a node", "a type", "a relabel"],
)
def test_what_is_not_computed_is_refused(node):
    with pytest.raises(NotSupportedError):
        operation(node, 180000)
