"""Calls of functions over values: NULL, constants, and errors that show no value."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from subscriber.base.errors import NotSupportedError, RowFilterError
from subscriber.postgres.expressions.analyze import tree
from subscriber.postgres.expressions.evaluate.calls import Apply, function_for, of_type
from subscriber.postgres.expressions.evaluate.row_values import NULL, ScalarValue, Value, listed
from subscriber.postgres.expressions.functions import FUNCTIONS
from subscriber.postgres.expressions.functions.function_table import Implementation

BOOL, INT4, TEXT = 16, 23, 25
OIDS = {"int4": INT4, "text": TEXT, "bytea": 17, "numeric": 1700, "any": INT4}


def function(signature: str, result: int, *known: tree.Expression | None) -> tuple[Apply, bool]:
    """The function with these constants; None stands for an argument that varies."""
    types = signature.partition("(")[2].rstrip(")").split(",")
    arguments = [of_type(OIDS[name]) for name in types]
    for place, one in enumerate(known):
        arguments[place] = arguments[place] if one is None else one
    return function_for(signature, arguments, result, 180000)


def called(signature: str, result: int, values: Sequence[Value], count: int) -> list[Any]:
    apply, _ = function(signature, result)
    return listed(apply(values, count), count)


def int4(*values: int | None) -> pa.Array:
    return pa.array(values, pa.int32())


def test_an_expression_of_a_type_has_an_unknown_value():
    assert of_type(INT4) == tree.CaseTestExpr(INT4, 0)


def test_a_function_over_columns_takes_arrays_and_values_that_are_the_same():
    assert called("int4pl(int4,int4)", INT4, [int4(1, None, 3), int4(10, 20, None)], 3) == [11, None, None]
    assert called("int4pl(int4,int4)", INT4, [int4(1, None), ScalarValue(5)], 2) == [6, None]


@pytest.mark.parametrize(
    ("signature", "result", "values", "expected"),
    [
        ("reverse(text)", TEXT, [pa.array(["ab", None])], ["ba", None]),
        ("left(text,int4)", TEXT, [pa.array(["abc", None]), ScalarValue(2)], ["ab", None]),
        ("left(text,int4)", TEXT, [ScalarValue("abc"), int4(1, None)], ["a", None]),
        (
            "replace(text,text,text)",
            TEXT,
            [pa.array(["aa", None]), ScalarValue("a"), pa.array(["b", "c"])],
            ["bb", None],
        ),
        ("num_nulls(any)", INT4, [int4(1, None)], [0, 1]),
        ("numeric_uminus(numeric)", 1700, [[None, None]], [None, None]),
    ],
)
def test_a_function_over_single_values_is_called_row_by_row(signature, result, values, expected):
    """A strict one is not called for NULL."""
    assert called(signature, result, values, 2) == expected


def test_a_constant_null_decides_for_a_strict_function():
    apply, _ = function("int4div(int4,int4)", INT4)
    assert apply([int4(1, 2), NULL], 2) == NULL


def test_a_call_with_constants_only_is_one_value():
    apply, _ = function("int4pl(int4,int4)", INT4)
    assert apply([ScalarValue(1), ScalarValue(2)], 1000) == ScalarValue(3)
    apply, _ = function("reverse(text)", TEXT)
    assert apply([ScalarValue("ab")], 1000) == ScalarValue("ba")


def test_a_function_without_arguments_has_the_same_value_everywhere():
    apply, raises = function_for("pi()", [], 701, 180000)
    assert not raises
    assert apply([], 3) == ScalarValue(3.141592653589793)


def test_whether_a_function_may_raise_depends_on_its_constants():
    assert function("int4div(int4,int4)", INT4)[1]
    assert not function("int4eq(int4,int4)", BOOL)[1]
    assert function("textlike(text,text)", BOOL)[1]
    assert not function("textlike(text,text)", BOOL, None, tree.ComputedConst(TEXT, 100, "a%"))[1]


def test_a_function_that_is_not_implemented_is_refused():
    with pytest.raises(NotSupportedError, match=r"to_ascii\(text\)"):
        function("to_ascii(text)", INT4)


def test_a_constant_that_is_wrong_raises_at_the_first_row_without_null():
    """As on the server, which reads a regular expression when it is called."""
    apply, raises = function("textregexeq(text,text)", BOOL, None, tree.ComputedConst(TEXT, 100, "("))
    assert raises
    assert apply([pa.array([None, None], pa.string()), ScalarValue("(")], 2) == NULL
    with pytest.raises(RowFilterError, match="parentheses"):
        apply([pa.array([None, "a"]), ScalarValue("(")], 2)


def test_what_python_says_of_a_value_is_not_shown(monkeypatch):
    """names_are_data."""

    def fails(value: int) -> int:
        raise ValueError(f"bad value {value}")

    plain = Implementation("fails(int4)", fails, False, True, True, False, False)
    for implementation in (plain, dataclasses.replace(plain, vectorised=True)):
        monkeypatch.setitem(FUNCTIONS, "fails(int4)", implementation)
        apply, _ = function("fails(int4)", INT4)
        with pytest.raises(RowFilterError) as caught:
            apply([int4(4711)], 1)
        assert (caught.value.sqlstate, caught.value.message) == (
            "XX000",
            "fails(int4) failed for a value of a row",
        )
        assert caught.value.__cause__ is None
