"""AND, OR, ANY and ALL over rows: three values, and how far the evaluation goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.postgres.expressions.evaluate.calls import Apply, Comparison, decided, function_for, of_type
from subscriber.postgres.expressions.evaluate.row_values import FrameRows, ScalarValue, Value, listed
from subscriber.postgres.types.arrays import EMPTY, Array

BOOL, INT4, TEXT = 16, 23, 25
Truths = list[bool | None]


def rows(count: int) -> FrameRows:
    return FrameRows({}, count)


def equal(oid: int = INT4, name: str = "int4eq(int4,int4)") -> tuple[Apply, bool]:
    return function_for(name, [of_type(oid)] * 2, BOOL, 180000)


def int4(*values: int | None) -> pa.Array:
    return pa.array(values, pa.int32())


def array(*elements: int | None) -> Array:
    return Array((len(elements),), (1,), elements) if elements else EMPTY


def combined(values: Sequence[bool | None], *, is_or: bool) -> bool | None:
    """The truth tables of the manual (9.1)."""
    return is_or if is_or in values else None if None in values else not is_or


@given(
    table=st.lists(st.lists(st.sampled_from([True, False, None]), min_size=3, max_size=3), min_size=1, max_size=9),
    raises=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    is_or=st.booleans(),
)
def test_arguments_are_combined_by_the_truth_tables(table, raises, is_or):
    """Whether an argument may raise does not change the result."""

    def argument(place: int) -> Callable[[FrameRows], Value]:
        return lambda part: part.kept(place)

    whole = rows(len(table))
    for place in range(3):
        whole.keep(place, pa.array([row[place] for row in table], pa.bool_()))
    found = decided(whole, [argument(place) for place in range(3)], raises, is_or=is_or)
    assert found.to_pylist() == [combined(row, is_or=is_or) for row in table]


def test_no_arguments_are_true_for_and_and_false_for_or():
    assert decided(rows(2), [], [], is_or=False).to_pylist() == [True, True]
    assert decided(rows(2), [], [], is_or=True).to_pylist() == [False, False]


def test_an_argument_that_may_raise_sees_only_the_rows_that_are_undecided():
    seen: list[int] = []

    def second(part: FrameRows) -> Value:
        seen.append(part.count)
        return ScalarValue(True)

    first = pa.array([True, False, None])
    assert decided(rows(3), [lambda _: first, second], [False, True], is_or=False).to_pylist() == [True, False, None]
    assert decided(rows(3), [lambda _: first, second], [False, True], is_or=True).to_pylist() == [True, True, True]
    assert seen == [2, 2]
    decided(rows(3), [lambda _: ScalarValue(False), second], [False, True], is_or=False)
    assert seen == [2, 2]


def any_of(values: pa.Array, elements: Sequence[int | None], *, use_or: bool = True) -> Truths:
    name = "int4eq(int4,int4)" if use_or else "int4ne(int4,int4)"
    comparison = Comparison(name, pa.int32(), use_or)
    functions = [equal(name=name)] * len(elements)
    found = comparison.with_each(rows(len(values)), values, [ScalarValue(one) for one in elements], functions)
    return listed(found, len(values))


@pytest.mark.parametrize(
    "elements", [[1, 2], [1, 2, 3, 4, 5, 6]], ids=["compared one by one", "looked up in a hash table"]
)
def test_in_finds_a_value_among_few_and_among_many(elements):
    assert any_of(int4(1, 7, None), elements) == [True, False, None]
    assert any_of(int4(1, 7, None), [*elements, None]) == [True, None, None]
    assert any_of(int4(1, 7, None), elements, use_or=False) == [False, True, None]
    assert any_of(int4(1, 7, None), [*elements, None], use_or=False) == [False, None, None]


def test_no_elements_decide_whatever_the_value_is():
    assert any_of(int4(1, None), []) == [False, False]
    assert any_of(int4(1, None), [], use_or=False) == [True, True]


@pytest.mark.parametrize("one_by_one", [False, True], ids=["all elements at once", "one by one"])
@pytest.mark.parametrize(
    ("use_or", "expected"), [(True, [True, False, None, None, False]), (False, [False, False, None, None, True])]
)
def test_each_row_is_compared_with_its_own_array(one_by_one, use_or, expected):
    arrays = [array(1, 2), array(2), None, array(1, None) if not use_or else array(2, None), EMPTY]
    values = int4(1, 1, 1, 1, None)
    comparison = Comparison("int4eq(int4,int4)", pa.int32(), use_or)
    apply, _ = equal()
    if one_by_one:
        found = comparison.with_arrays_one_by_one(rows(5), values, arrays, apply)
    else:
        found = comparison.with_arrays(rows(5), values, arrays, pa.int32(), apply)
    assert listed(found, 5) == expected


def test_elements_behind_the_deciding_one_are_not_compared():
    compared: list[object] = []

    def apply(values: Sequence[Value], _: int) -> Value:
        left, right = (listed(one, 1)[0] for one in values)
        compared.append(right)
        return ScalarValue(left == right)

    comparison = Comparison("int4eq(int4,int4)", pa.int32(), True)
    assert listed(comparison.with_arrays_one_by_one(rows(1), int4(2), [array(1, 2, 3)], apply), 1) == [True]
    assert compared == [1, 2]


def test_values_that_only_python_holds_are_compared_too():
    comparison = Comparison("numeric_eq(numeric,numeric)", None, True)
    apply, _ = equal(1700, "numeric_eq(numeric,numeric)")
    one = Decimal("1.0")
    numbers = [Array((2,), (1,), (Decimal(2), Decimal("1.00"))), Array((1,), (1,), (one,))]
    found = comparison.with_arrays(rows(2), [one, None], numbers, None, apply)
    assert listed(found, 2) == [True, None]
