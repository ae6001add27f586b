"""The values of interval: their parts, order, type modifier and equality."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.base.errors import DataException
from subscriber.postgres.types.datetimes.date_values import (
    DAY,
    FIELDS,
    HOUR,
    INFINITY,
    MINUS_INFINITY,
    MINUTE,
    SECOND,
    Interval,
    canonical_interval,
    compare_intervals,
    finite_interval,
    interval_out,
    least_field,
    scaled_interval,
)

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
    assert compare_intervals(Interval(1, 0, 0), Interval(0, 30, 0)) == 0
    assert compare_intervals(Interval(0, 1, 0), Interval(0, 0, DAY)) == 0
    assert (
        compare_intervals(Interval(1, -30, 1), Interval(0, 0, 0))
        > 0
        > compare_intervals(Interval(-1, 29, 0), Interval(0, 0, 0))
    )


@given(INTERVALS)
def test_the_infinities_are_beyond_every_interval(value):
    assert compare_intervals(value, INFINITY) <= 0 <= compare_intervals(value, MINUS_INFINITY)
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
        finite_interval(months, days, microseconds)
    assert (caught.value.sqlstate, caught.value.message) == ("22008", "interval out of range")


def test_the_greatest_parts_fit_if_the_whole_is_not_infinity():
    value = finite_interval(2**31 - 1, 2**31 - 1, 2**63 - 2)
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
    assert scaled_interval(VALUE, modifier(*fields, precision=precision)) == expected
    negative = scaled_interval(Interval(*(-part for part in VALUE)), modifier(*fields, precision=precision))
    assert negative == Interval(*(-part for part in expected))


def test_infinities_and_values_without_modifier_are_unchanged():
    assert scaled_interval(INFINITY, modifier("year")) == INFINITY
    assert scaled_interval(VALUE, -1) == VALUE


def test_rounding_beyond_the_greatest_interval_is_out_of_range():
    with pytest.raises(DataException) as caught:
        scaled_interval(Interval(0, 0, 2**63 - 1), modifier("second", precision=0))
    assert caught.value.sqlstate == "22008"


@given(INTERVALS, INTERVALS)
def test_intervals_are_equal_if_their_canonical_forms_are(left, right):
    if left.is_finite and right.is_finite:
        assert (canonical_interval(interval_out(left)) == canonical_interval(interval_out(right))) == (
            compare_intervals(left, right) == 0
        )
        assert canonical_interval(interval_out(left)) == str(left.span)


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
    assert canonical_interval(text) == length


@pytest.mark.parametrize("text", ["infinity", "-infinity", ""])
def test_a_text_that_is_not_a_finite_interval_is_its_own_canonical_form(text):
    assert canonical_interval(text) == text


@pytest.mark.parametrize(("fields", "sqlstate"), [(0, "XX000"), (5, "XX000"), (1 << 3, "22023"), (0x7FFF, "22023")])
def test_a_type_modifier_that_no_declaration_has_is_an_error(fields, sqlstate):
    with pytest.raises(DataException) as raised:
        scaled_interval(Interval(1, 2, 3), fields << 16 | 7)
    assert raised.value.sqlstate == sqlstate
    assert scaled_interval(INFINITY, fields << 16 | 7) == INFINITY
