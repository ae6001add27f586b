"""Arithmetic of numeric with a chosen number of decimals."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.base.errors import DataException
from subscriber.postgres.expressions.functions.numeric_powers import (
    Number,
    compared,
    decimal_of,
    difference,
    divided,
    divided_by_integer,
    number_of,
    product,
    rounded,
    square_root,
    sum_of,
)


def number(text: str) -> Number:
    return number_of(Decimal(text))


def test_sums_and_differences_are_exact():
    assert decimal_of(sum_of(number("1.25"), number("100"))) == Decimal("101.25")
    assert decimal_of(difference(number("1.25"), number("0.5"))) == Decimal("0.75")
    assert [compared(number("1.0"), number(other)) for other in ("1.00", "0.99", "1.01")] == [0, 1, -1]


@pytest.mark.parametrize(("text", "expected"), [("2.5", "3"), ("-2.5", "-3"), ("2.4999", "2")])
def test_halves_are_rounded_away_from_zero(text, expected):
    assert decimal_of(rounded(number(text), 0)) == Decimal(expected)


def test_a_quotient_is_rounded_to_its_scale():
    assert decimal_of(divided(number("2"), number("-3"), 4)) == Decimal("-0.6667")
    assert decimal_of(divided_by_integer(number("1"), 8, 2)) == Decimal("0.13")
    with pytest.raises(DataException) as raised:
        divided(number("1"), number("0"), 4)
    assert raised.value.sqlstate == "22012"


def test_a_square_root_is_rounded_to_its_scale():
    assert decimal_of(square_root(number("2"), 5)) == Decimal("1.41421")
    assert decimal_of(square_root(number("0.0016"), 2)) == Decimal("0.04")


@pytest.mark.parametrize(
    ("text", "weight"), [("0", 0), ("1", 0), ("9999", 0), ("10000", 1), ("0.1", -1), ("0.00001", -2)]
)
def test_the_weight_is_that_of_the_first_group_of_four_digits(text, weight):
    assert number(text).weight == weight


def test_groups_leave_out_zeros_at_the_end():
    assert number("120000.0001").groups() == (12_0000_0001, 3, 1)
    assert number("120000").leading_groups(5) == [12]


@given(
    left=st.integers(-(10**80), 10**80),
    right=st.integers(-(10**80), 10**80),
    scales=st.tuples(st.integers(0, 90), st.integers(0, 90), st.integers(0, 60)),
)
def test_a_product_that_is_cut_differs_from_the_exact_one_by_a_unit_at_most(left, right, scales):
    """And has the scale that was asked for."""
    one, other = Number(left, scales[0]), Number(right, scales[1])
    cut = product(one, other, scales[2])
    exact = left * right
    shift = scales[0] + scales[1] - scales[2]
    assert cut.scale == scales[2]
    assert abs(cut.units * 10 ** max(shift, 0) - exact * 10 ** max(-shift, 0)) <= 10 ** max(shift, 0)
