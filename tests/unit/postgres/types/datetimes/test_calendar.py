"""The calendar and the clock; tests/property/test_calendar.py compares the calendar with
Python's.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.base.errors import DataException
from subscriber.postgres.types.datetimes.date_values import (
    DATE_LIMITS,
    DAY,
    DAYS_OF_TIMESTAMPS,
    JULIAN_DAY,
    TIMESTAMP_LIMITS,
    UNIX_EPOCH,
    civil,
    day_number,
    is_valid_date,
    is_valid_timestamp,
    iso_week,
    month_length,
    out_of_range,
    quotient,
    remainder,
    rint,
    rounded,
    valid_timestamp,
    weekday,
    wrapped,
)


@pytest.mark.parametrize(
    ("date", "day"),
    [
        ((2000, 1, 1), 0),
        ((1970, 1, 1), UNIX_EPOCH),
        ((-4712, 1, 1), -JULIAN_DAY + 38),
        ((-4713, 11, 24), DATE_LIMITS[0]),
        ((5_874_897, 12, 31), DATE_LIMITS[1]),
        ((294_277, 1, 1), DAYS_OF_TIMESTAMPS),
        ((0, 2, 29), -730_426),
        ((2000, 2, 29), 59),
        ((1999, 12, 31), -1),
    ],
)
def test_a_date_has_its_day_number(date, day):
    """The Julian day 0 is 4714-11-24 BC in the Gregorian calendar."""
    assert (day_number(*date), civil(day)) == (day, date)


def test_a_day_after_the_end_of_its_month_counts_into_the_next():
    assert civil(day_number(2024, 2, 30)) == (2024, 3, 1)
    assert civil(day_number(2023, 12, 32)) == (2024, 1, 1)


@pytest.mark.parametrize(
    ("year", "days"), [(2024, 29), (2023, 28), (2000, 29), (1900, 28), (0, 29), (-4, 29), (-100, 28)]
)
def test_february_has_29_days_in_leap_years(year, days):
    assert month_length(year, 2) == days
    assert [month_length(year, month) for month in (1, 4, 12)] == [31, 30, 31]


def test_the_days_of_the_week_begin_on_monday():
    assert [weekday(day) for day in (0, 1, 2)] == [5, 6, 0]  # 2000-01-01 was a Saturday


@pytest.mark.parametrize(
    ("date", "week"),
    [((2006, 1, 1), (2005, 52)), ((2012, 12, 31), (2013, 1)), ((2005, 1, 1), (2004, 53)), ((2000, 1, 3), (2000, 1))],
)
def test_an_iso_week_belongs_to_the_year_of_its_thursday(date, week):
    """The examples of the documentation (extract, isoyear and week)."""
    assert iso_week(day_number(*date)) == week


@given(st.integers(-(10**12), 10**12), st.integers(1, 10**6))
def test_division_truncates_as_in_c(dividend, divisor):
    assert quotient(dividend, divisor) == math.trunc(dividend / divisor) or abs(dividend) > 2**52
    assert quotient(dividend, divisor) * divisor + remainder(dividend, divisor) == dividend
    assert abs(remainder(dividend, divisor)) < divisor
    assert remainder(dividend, divisor) * dividend >= 0


@pytest.mark.parametrize(
    ("value", "bits", "result"),
    [(2**31, 32, -(2**31)), (2**31 - 1, 32, 2**31 - 1), (-(2**31) - 1, 32, 2**31 - 1), (2**64 + 5, 64, 5)],
)
def test_an_overflow_wraps_around(value, bits, result):
    assert wrapped(value, bits) == result


def test_rint_rounds_a_half_to_the_even_number():
    assert [rint(value) for value in (0.5, 1.5, -0.5, -2.5, 2.4)] == [0, 2, 0, -2, 2]
    assert rint(math.inf) == math.inf
    assert math.isnan(rint(math.nan))


@pytest.mark.parametrize(
    ("microseconds", "precision", "result"),
    [(1_500_000, 0, 2_000_000), (-1_500_000, 0, -2_000_000), (1_499_999, 0, 1_000_000), (123_456, 3, 123_000), (123_500, 3, 124_000),
     (-123_500, 3, -124_000), (7, 6, 7), (-7, 6, -7)],
)  # fmt: skip
def test_decimals_of_a_second_are_rounded_half_away_from_zero(microseconds, precision, result):
    assert rounded(microseconds, precision) == result


def test_the_limits_are_those_of_the_types():
    assert [is_valid_date(day) for day in (DATE_LIMITS[0] - 1, *DATE_LIMITS, DATE_LIMITS[1] + 1)] == [
        False,
        True,
        True,
        False,
    ]
    moments = (TIMESTAMP_LIMITS[0] - 1, *TIMESTAMP_LIMITS, TIMESTAMP_LIMITS[1] + 1)
    assert [is_valid_timestamp(moment) for moment in moments] == [False, True, True, False]
    assert (DATE_LIMITS[0] * DAY, DAYS_OF_TIMESTAMPS * DAY - 1) == TIMESTAMP_LIMITS


def test_a_moment_that_timestamp_does_not_contain_is_out_of_range():
    assert valid_timestamp(TIMESTAMP_LIMITS[1]) == TIMESTAMP_LIMITS[1]
    with pytest.raises(DataException) as caught:
        valid_timestamp(TIMESTAMP_LIMITS[1] + 1)
    assert (caught.value.sqlstate, caught.value.message) == ("22008", "timestamp out of range")
    assert out_of_range("date").message == "date out of range"
