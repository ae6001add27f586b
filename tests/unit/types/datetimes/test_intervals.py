"""The values of interval: their parts, order, type modifier and equality."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.errors import DataException
from subscriber.types.datetimes.calendar import DAY, HOUR, MINUTE, SECOND
from subscriber.types.datetimes.intervals import (
    FIELDS,
    INFINITY,
    MINUS_INFINITY,
    Interval,
    canonical,
    compare,
    finite,
    least_field,
    scaled,
)
from subscriber.types.datetimes.output import interval_out

INT32 = st.integers(-(2**31), 2**31 - 1)
INTERVALS = st.builds(
    Interval,
    INT32 | st.integers(-2, 2),
    INT32 | st.integers(-60, 60),
    st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3).map(DAY.__mul__),
)
ALL_DIGITS = 0xFFFF


def modifier(*fields: str, precision: int = ALL_DIGITS) -> int:
    """The type modifier of an interval with these fields."""
    return sum(FIELDS[field] for field in fields) << 16 | precision


def test_a_month_has_30_days_and_a_day_24_hours_in_comparisons():
    assert compare(Interval(1, 0, 0), Interval(0, 30, 0)) == 0
    assert compare(Interval(0, 1, 0), Interval(0, 0, DAY)) == 0
    assert compare(Interval(1, -30, 1), Interval(0, 0, 0)) > 0 > compare(Interval(-1, 29, 0), Interval(0, 0, 0))


@given(INTERVALS)
def test_the_infinities_are_beyond_every_interval(value):
    assert compare(value, INFINITY) <= 0 <= compare(value, MINUS_INFINITY)
    assert value.is_finite == (value not in (INFINITY, MINUS_INFINITY))


@pytest.mark.parametrize(
    ("months", "days", "microseconds"),
    [
        (2**31, 0, 0),
        (-(2**31) - 1, 0, 0),
        (0, 2**31, 0),
        (0, -(2**31) - 1, 0),
        (0, 0, 2**63),
        (0, 0, -(2**63) - 1),
        INFINITY,
        MINUS_INFINITY,
    ],
)
def test_a_part_that_does_not_fit_is_out_of_range(months, days, microseconds):
    with pytest.raises(DataException) as caught:
        finite(months, days, microseconds)
    assert (caught.value.sqlstate, caught.value.message) == ("22008", "interval out of range")


def test_the_greatest_parts_fit_if_the_whole_is_not_infinity():
    value = finite(2**31 - 1, 2**31 - 1, 2**63 - 2)
    assert value.is_finite


@pytest.mark.parametrize(
    ("given_modifier", "field"),
    [
        (-1, "second"),
        (0x7FFF << 16 | 3, "second"),
        (modifier("year"), "year"),
        (modifier("year", "month"), "month"),
        (modifier("day", "hour"), "hour"),
        (modifier("hour", "minute"), "minute"),
        (modifier("day", "hour", "minute", "second"), "second"),
    ],
)
def test_the_smallest_field_of_a_type_is_found(given_modifier, field):
    assert least_field(given_modifier) == field


VALUE = Interval(14, 3, 4 * HOUR + 5 * MINUTE + 6 * SECOND + 789_500)


@pytest.mark.parametrize(
    ("fields", "precision", "expected"),
    [
        (("year",), ALL_DIGITS, Interval(12, 0, 0)),
        (("year", "month"), ALL_DIGITS, Interval(14, 0, 0)),
        (("day",), ALL_DIGITS, Interval(14, 3, 0)),
        (("day", "hour"), ALL_DIGITS, Interval(14, 3, 4 * HOUR)),
        (("hour", "minute"), ALL_DIGITS, Interval(14, 3, 4 * HOUR + 5 * MINUTE)),
        (("minute", "second"), ALL_DIGITS, VALUE),
        (("second",), 0, Interval(14, 3, 4 * HOUR + 5 * MINUTE + 7 * SECOND)),
        (("second",), 3, Interval(14, 3, 4 * HOUR + 5 * MINUTE + 6 * SECOND + 790_000)),
    ],
)
def test_fields_that_a_type_does_not_have_are_removed(fields, precision, expected):
    """AdjustIntervalForTypmod: larger fields stay, and decimals are rounded away from zero."""
    assert scaled(VALUE, modifier(*fields, precision=precision)) == expected
    negative = scaled(Interval(*(-part for part in VALUE)), modifier(*fields, precision=precision))
    assert negative == Interval(*(-part for part in expected))


def test_infinities_and_values_without_modifier_are_unchanged():
    assert scaled(INFINITY, modifier("year")) == INFINITY
    assert scaled(VALUE, -1) == VALUE


def test_rounding_beyond_the_greatest_interval_is_out_of_range():
    with pytest.raises(DataException) as caught:
        scaled(Interval(0, 0, 2**63 - 1), modifier("second", precision=0))
    assert caught.value.sqlstate == "22008"


@given(INTERVALS, INTERVALS)
def test_intervals_are_equal_if_their_canonical_forms_are(left, right):
    if left.is_finite and right.is_finite:
        assert (canonical(interval_out(left)) == canonical(interval_out(right))) == (compare(left, right) == 0)
        assert canonical(interval_out(left)) == str(left.span)


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("00:00:00", "0"),
        ("1 day", str(DAY)),
        ("1 year -12 mons", "0"),
        ("-00:00:00.000001", "-1"),
        ("-1 days +24:00:00", "0"),
        ("1 mon", str(30 * DAY)),
    ],
)
def test_the_canonical_form_is_the_length_in_microseconds(text, length):
    assert canonical(text) == length


@pytest.mark.parametrize("text", ["infinity", "-infinity", ""])
def test_a_text_that_is_not_a_finite_interval_is_its_own_canonical_form(text):
    assert canonical(text) == text
