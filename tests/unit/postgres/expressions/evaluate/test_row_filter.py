"""Filters over columns: what Arrow, Python and the frames' two ways to hold values must not change
(rules B11, B26).

That values and errors are the server's is what ``tests/conformance/test_row_filter_evaluation.py``
is for.
"""

from __future__ import annotations

import dataclasses
import pickle
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest

from subscriber.base.errors import DataException, NotSupportedError, RowFilterError
from subscriber.postgres.expressions.analyze import tree
from subscriber.postgres.expressions.evaluate import row_filter
from subscriber.postgres.expressions.evaluate.row_filter import compile_filter
from subscriber.postgres.expressions.functions import FUNCTIONS
from subscriber.postgres.expressions.functions.function_table import Implementation

BOOL, INT4, INT8, TEXT, OID, NUMERIC, RECORD = tree.BOOL, 23, 20, 25, 26, 1700, 2249
A, B = tree.Var(INT4, 0, "a"), tree.Var(INT4, 0, "b")
P, Q = tree.Var(BOOL, 0, "p"), tree.Var(BOOL, 0, "q")
S = tree.Var(TEXT, 100, "s")
TRUTHS = (True, False, None)


def number(value: int | None) -> tree.Const:
    return tree.Const(INT4, 0, None if value is None else str(value))


def call(signature: str, *arguments: tree.Expression, type_oid: int = BOOL) -> tree.Call:
    return tree.Call(type_oid, 0, signature, arguments)


def equal(left: tree.Expression, right: tree.Expression) -> tree.Call:
    return call("int4eq(int4,int4)", left, right)


def divided(left: tree.Expression, right: tree.Expression) -> tree.Call:
    return call("int4div(int4,int4)", left, right, type_oid=INT4)


def evaluated(node: tree.Expression, **columns: Any) -> list[bool | None]:
    arrays = {name: values if isinstance(values, pa.Array) else pa.array(values) for name, values in columns.items()}
    found: list[bool | None] = compile_filter(node).evaluate(arrays, len(next(iter(arrays.values())))).to_pylist()
    return found


def int4(*values: int | None) -> pa.Array:
    return pa.array(values, pa.int32())


@pytest.fixture
def register(monkeypatch) -> Iterator[Callable[..., None]]:
    """Register a function of the test's own."""

    def add(signature: str, function: Callable[..., Any], **facts: Any) -> None:
        plain = Implementation(signature, function, False, True, True, False, False)
        monkeypatch.setitem(FUNCTIONS, signature, dataclasses.replace(plain, **facts))

    yield add
    row_filter._compiled.cache_clear()


@pytest.mark.parametrize("raises", [False, True], ids=["at once", "undecided rows alone"])
@pytest.mark.parametrize("kind", ["and", "or"])
def test_and_and_or_have_three_values_however_the_second_operand_is_computed(register, kind, raises):
    """B11: the truth table of SQL, all nine pairs."""
    register("same(bool)", lambda value: value, raises=raises)
    pairs = [(left, right) for left in TRUTHS for right in TRUTHS]
    node = tree.BoolExpr(BOOL, 0, kind, (P, call("same(bool)", Q)))
    deciding = kind == "or"

    def expected(left: bool | None, right: bool | None) -> bool | None:
        return deciding if deciding in {left, right} else None if None in {left, right} else not deciding

    got = evaluated(node, p=[left for left, _ in pairs], q=[right for _, right in pairs])
    assert got == [expected(*pair) for pair in pairs]


def test_an_operand_that_may_raise_is_asked_for_the_rows_that_are_still_undecided(register):
    """B11: left to right, and no further than the result is certain."""
    asked: list[int] = []

    def ask(value: int) -> bool:
        asked.append(value)
        return value > 2

    register("ask(int4)", ask)
    node = tree.BoolExpr(BOOL, 0, "and", (P, call("ask(int4)", A)))
    assert evaluated(node, p=[True, False, None, True], a=int4(1, 2, 3, 4)) == [False, False, None, True]
    assert asked == [1, 3, 4]


def test_the_operand_of_a_case_is_computed_once_and_belongs_to_the_nearest_one(register):
    """B26."""
    asked: list[int] = []

    def ask(value: int) -> int:
        asked.append(value)
        return value

    register("ask(int4)", ask)
    operand = tree.CaseTestExpr(INT4, 0)
    inner = tree.CaseExpr(BOOL, 0, B, ((equal(operand, number(7)), equal(A, number(2))),), equal(A, number(1)))
    outer = tree.CaseExpr(
        BOOL,
        0,
        call("ask(int4)", A, type_oid=INT4),
        ((equal(operand, number(1)), inner), (equal(operand, number(2)), inner)),
        tree.Const(BOOL, 0, None),
    )
    assert evaluated(outer, a=int4(1, 1, 2, 2, 3), b=int4(7, 0, 7, 0, 0)) == [False, True, True, False, None]
    assert asked == [1, 1, 2, 2, 3]


@pytest.mark.parametrize(
    ("type_oid", "typed", "texts", "equals"),
    [
        (BOOL, pa.array([True, False, None]), ["t", "f", None], "booleq(bool,bool)"),
        (INT4, int4(1, -2, None), ["1", "-2", None], "int4eq(int4,int4)"),
        (701, pa.array([1.5, float("nan"), None]), ["1.5", "NaN", None], "float8eq(float8,float8)"),
        (TEXT, pa.array(["", "ü", None]), ["", "ü", None], "texteq(text,text)"),
        (17, pa.array([b"", b"\0\xff", None]), ["\\x", "\\x00ff", None], "byteaeq(bytea,bytea)"),
        (NUMERIC, pa.array(["1.50", "NaN", None]), ["1.50", "NaN", None], "numeric_eq(numeric,numeric)"),
    ],
)
def test_decoded_columns_and_postgresql_text_are_the_same_values(type_oid, typed, texts, equals):
    """B11: frames hold a column as one or the other, after the target."""
    for constant, expected in zip(texts, ([True, False, None], [False, True, None], [None] * 3), strict=True):
        node = call(equals, tree.Var(type_oid, 0, "v"), tree.Const(type_oid, 0, constant))
        assert evaluated(node, v=typed) == evaluated(node, v=pa.array(texts, pa.string())) == expected
        assert evaluated(node, v=pa.array([None], pa.string())) == [None]


@pytest.mark.parametrize("use_or", [True, False], ids=["IN", "NOT IN"])
@pytest.mark.parametrize("with_null", [False, True])
def test_many_constants_are_looked_up_as_few_are_compared(use_or, with_null):
    """B26: a NULL among them makes unknown what is not found."""
    constants: list[int | None] = [3, 5, 7, 9, 11, 13]
    if with_null:
        constants[2] = None
    name = "int4eq(int4,int4)" if use_or else "int4ne(int4,int4)"
    array = tree.ArrayExpr(1007, 0, tuple(map(number, constants)))
    node = tree.ScalarArrayOpExpr(BOOL, 0, name, (A, array), use_or=use_or)
    by_hand = tree.BoolExpr(BOOL, 0, "or" if use_or else "and", tuple(call(name, A, number(one)) for one in constants))
    values = int4(3, 4, 13, None, 7)
    assert evaluated(node, a=values) == evaluated(by_hand, a=values)


def test_a_value_that_is_null_is_in_no_list_and_in_none_that_is_empty():
    """B26: the empty list decides before the value does."""

    def empty(use_or: bool) -> tree.ScalarArrayOpExpr:
        return tree.ScalarArrayOpExpr(BOOL, 0, "int4eq(int4,int4)", (A, tree.ArrayExpr(1007, 0, ())), use_or=use_or)

    assert evaluated(empty(True), a=int4(1, None)) == [False, False]
    assert evaluated(empty(False), a=int4(1, None)) == [True, True]


def test_the_elements_of_an_array_column_are_asked_one_by_one_where_the_function_may_raise(register):
    """B26: ANY stops at the first that is true, so what is behind it raises nothing."""

    def smaller(left: int, right: int) -> bool:
        if right == 0:
            raise RowFilterError("zero", sqlstate="22000")
        return left < right

    register("smaller(int4,int4)", smaller)
    node = tree.ScalarArrayOpExpr(BOOL, 0, "smaller(int4,int4)", (A, tree.Var(1007, 0, "k")))
    assert evaluated(node, a=int4(1, 1, None, 5), k=["{2,0}", "{}", "{0}", "{NULL,3}"]) == [True, False, None, None]
    with pytest.raises(RowFilterError, match="zero"):
        evaluated(node, a=int4(5), k=["{2,0}"])


def test_what_a_type_says_of_a_value_is_the_filters_error(register):
    """B26: whoever runs a filter knows one class, in which the first row that fails is
    found, too.
    """

    def moment(value: int) -> int:
        if value == 2:
            raise DataException("timestamp out of range", sqlstate="22008", quoting="secret", detail="d", hint="h")
        return value

    register("moment(int4)", moment)
    node = equal(call("moment(int4)", A, type_oid=INT4), number(3))
    with pytest.raises(RowFilterError) as caught:
        evaluated(node, a=int4(3, 2))
    assert (caught.value.message, caught.value.sqlstate) == ("timestamp out of range", "22008")
    assert (caught.value.detail, caught.value.hint, caught.value.quoting) == ("d", "h", None)
    found = compile_filter(node).first_failure({"a": int4(3, 3, 2)}, 3)
    assert found is not None
    assert found[0] == 2
    with pytest.raises(RowFilterError, match="timestamp out of range"):
        compile_filter(equal(call("moment(int4)", number(2), type_oid=INT4), A)).evaluate({"a": int4(1)}, 1)


def test_a_row_within_a_row_is_not_null_whatever_is_in_it():
    """B26: IS NULL looks at the fields, and not at theirs."""
    inner = tree.RowExpr(RECORD, 0, (A,))
    for is_null in (True, False):
        node = tree.NullTest(BOOL, 0, tree.RowExpr(RECORD, 0, (B, inner)), is_null)
        assert evaluated(node, a=int4(None, None), b=int4(None, 1)) == [False, not is_null]


def test_an_integer_taken_for_an_oid_is_its_four_bytes_without_a_sign():
    """B26: RelabelType; nothing is computed, but ours are of different widths."""
    as_oid = tree.RelabelType(OID, 0, A)
    node = call("oideq(oid,oid)", as_oid, tree.Const(OID, 0, "4294967295"))
    assert evaluated(node, a=int4(-1, 1, None)) == [True, False, None]
    back = equal(tree.RelabelType(INT4, 0, tree.Var(OID, 0, "o")), number(-1))
    assert evaluated(back, o=pa.array([4294967295, 1, None], pa.int64())) == [True, False, None]


def test_the_first_row_that_raises_is_found():
    """B11: the server stops at that row, so the error must carry that row's position."""
    compiled = compile_filter(equal(divided(number(10), A), number(1)))
    for count, zeros in ((1, [0]), (50, [0, 3]), (50, [49]), (50, [17, 18, 44])):
        columns = {"a": int4(*(0 if row in zeros else 1 for row in range(count)))}
        failure = compiled.first_failure(columns, count)
        assert failure is not None
        assert (failure[0], failure[1].sqlstate) == (zeros[0], "22012")
    assert compiled.first_failure({"a": int4(1, 2)}, 2) is None
    assert compiled.first_failure({"a": int4()}, 0) is None


def test_a_filter_says_which_columns_it_needs():
    """B33: those that constants made irrelevant are not among them."""
    both = tree.BoolExpr(
        BOOL, 0, "and", (equal(A, number(1)), tree.BoolExpr(BOOL, 0, "or", (P, tree.Const(BOOL, 0, "t"))))
    )
    assert compile_filter(both).columns == {"a"}
    assert compile_filter(tree.Const(BOOL, 0, "t")).columns == frozenset()
    assert compile_filter(tree.Const(BOOL, 0, "f")).evaluate({}, 3).to_pylist() == [False, False, False]


def test_a_filter_is_compiled_once_in_a_process_and_travels_as_its_expression():
    """It runs on the executors, where the functions are that process's own."""
    node = equal(A, number(1))
    compiled = compile_filter(node)
    assert pickle.loads(pickle.dumps(compiled)) is compiled
    assert len(pickle.dumps(compiled)) < 1000


@pytest.mark.parametrize(
    ("type_oid", "equals", "text", "message"),
    [
        (NUMERIC, "numeric_eq(numeric,numeric)", "12,secret", "invalid input syntax for type numeric"),
        (1007, "array_eq(anyarray,anyarray)", "{secret", "invalid input syntax for type integer[]"),
    ],
)
def test_a_value_that_cannot_be_read_is_not_shown(type_oid, equals, text, message):
    """names_are_data: errors are logged and stored."""
    column = tree.Var(type_oid, 0, "v")
    with pytest.raises(RowFilterError) as caught:
        evaluated(call(equals, column, column), v=[text])
    assert caught.value.message == message
    assert caught.value.sqlstate == "22P02"
    assert "secret" not in "".join(traceback.format_exception(caught.value))


def test_what_python_or_arrow_say_of_a_value_is_not_shown(register):
    """names_are_data: an error that nobody foresaw quotes the value, too."""
    register("breaks(int4)", lambda value: {}[value])
    secret = 4700 + 11
    with pytest.raises(RowFilterError) as caught:
        evaluated(call("breaks(int4)", A), a=int4(secret))
    assert str(secret) not in "".join(traceback.format_exception(caught.value))


def test_a_constant_that_is_wrong_raises_for_the_rows_that_ask(register):
    """B11: the server reads a regular expression when it needs it, so a row that is decided without
    it is let through.
    """

    def specialise(_: Implementation, constants: Mapping[int, Any]) -> Implementation:
        assert constants == {1: "("}
        raise RowFilterError("invalid regular expression", sqlstate="2201B")

    register("matches(text,text)", lambda *_: True, specialise=specialise)
    wrong = call("matches(text,text)", S, tree.Const(TEXT, 100, "("))
    node = tree.BoolExpr(BOOL, 0, "or", (P, wrong))
    assert evaluated(node, p=[True, True], s=["x", "y"]) == [True, True]
    assert evaluated(node, p=[False], s=pa.array([None], pa.string())) == [None]
    with pytest.raises(RowFilterError) as caught:
        evaluated(node, p=[True, False], s=["x", "y"])
    assert caught.value.sqlstate == "2201B"


@pytest.mark.parametrize(
    "node",
    [
        call("pg_size_pretty(int8)", A),
        equal(tree.Var(600, 0, "point"), number(1)),
        tree.Const(600, 0, "(1,2)"),
        tree.Refused(BOOL, 0, "SubLink"),
    ],
)
def test_what_is_not_computed_is_refused_when_it_is_compiled(node):
    """refuse_not_guess."""
    with pytest.raises(NotSupportedError):
        compile_filter(node)


def test_nulls_among_arguments_of_any_type_are_counted():
    """The function sees NULL, so it is not strict."""
    counted = call("num_nulls(any)", A, S, number(None), type_oid=INT4)
    others = call("num_nonnulls(any)", A, S, number(None), type_oid=INT4)
    columns = {"a": int4(1, None, None), "s": pa.array(["x", "y", None])}
    for node, expected in ((counted, [1, 2, 3]), (others, [2, 1, 0])):
        for count, tested in zip(expected, range(3), strict=True):
            assert evaluated(equal(node, number(count)), **columns)[tested]
