"""Calls of operators: which operator is meant, what is converted, and what is refused."""

from __future__ import annotations

import pytest

from subscriber.base.errors import SubscriberError
from subscriber.postgres.expressions.analyze import tree
from tests.films import BOOL, INT4, INT4S, INT8, NUMERIC, TEXT, refusal

A = tree.Var(INT4, 0, "a")
B = tree.Var(TEXT, 100, "b")
N = tree.Var(NUMERIC, 0, "n")
UNKNOWN = tree.Const(705, 0, "7")


@pytest.mark.parametrize(
    ("left", "right", "function"),
    [
        (A, A, "int4eq(int4,int4)"),
        (A, tree.Var(INT8, 0, "x"), "int48eq(int4,int8)"),
        (A, N, "numeric_eq(numeric,numeric)"),
        (A, UNKNOWN, "int4eq(int4,int4)"),
        (UNKNOWN, N, "numeric_eq(numeric,numeric)"),
        (UNKNOWN, UNKNOWN, "texteq(text,text)"),
        (tree.Var(1043, 100, "v"), B, "texteq(text,text)"),
    ],
)
def test_an_operator_is_the_function_of_its_types(operators, left, right, function):
    found = operators.call(("=",), left, right)
    assert (found.function, found.operator, found.type_oid) == (function, "=", BOOL)
    names = function.partition("(")[2].rstrip(")").split(",")
    assert [operators.types.get(one.type_oid).name for one in found.arguments] == names


def test_a_prefix_operator_has_one_operand(operators):
    found = operators.call(("-",), None, A)
    assert (found.function, found.arguments, found.type_oid) == ("int4um(int4)", (A,), INT4)


def test_an_operator_of_users_keeps_its_schema(operators):
    assert operators.call(("===",), B, B).operator == "public.==="
    assert operators.call(("pg_catalog", "="), B, B).operator == "="


def test_any_and_all_compare_with_the_elements_of_an_array(operators):
    array = tree.Var(INT4S, 0, "k")
    found = operators.array_call(("=",), A, array, True)
    assert found == tree.ScalarArrayOpExpr(BOOL, 0, "int4eq(int4,int4)", (A, array), "=", use_or=True)
    constant = operators.array_call(("<>",), A, tree.Const(705, 0, "{1}"), False)
    assert constant.arguments[1] == tree.Const(INT4S, 0, "{1}")
    assert not constant.use_or


def test_is_distinct_from_uses_the_equality_of_the_types(operators):
    assert operators.distinct(A, N).function == "numeric_eq(numeric,numeric)"


@pytest.mark.parametrize(
    ("text", "sqlstate", "message"),
    [
        ("a = b", "42883", "operator does not exist: integer = text"),
        ("a @@@ 1", "42883", "operator does not exist: integer @@@ integer"),
        ("a OPERATOR(public.=) 1", "42883", "operator does not exist: integer public.= integer"),
        ("a OPERATOR(nope.=) 1", "3F000", 'schema "nope" does not exist'),
        ("@ b = 'x'", "42883", "operator does not exist: @ text"),
        ("- 'x' = 1", "42725", "operator is not unique: - unknown"),
        ("a = ANY (b)", "42809", "op ANY/ALL (array) requires array on right side"),
        ("a + ANY (k)", "42809", "op ANY/ALL (array) requires operator to yield boolean"),
        ("b = ANY (k)", "42883", "operator does not exist: text = integer"),
    ],
)
def test_the_error_of_an_operator(text, sqlstate, message):
    error = refusal(text)
    assert (error.sqlstate, error.message) == (sqlstate, message)


def test_a_constant_that_is_no_value_of_the_other_type_is_an_error(operators):
    with pytest.raises(SubscriberError, match='invalid input syntax for type integer: "x"') as caught:
        operators.call(("=",), A, tree.Const(705, 0, "x"))
    assert caught.value.sqlstate == "22P02"
