"""The numbers in the fields of a date or time, as C reads them."""

from __future__ import annotations

import pytest

from subscriber.base.errors import DataException
from subscriber.postgres.types.datetimes.date_parts import (
    BadFormat,
    fraction,
    integer,
    julian_of_new_year,
    microseconds,
    unchecked_integer,
    wrapped,
    zone_offset,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("12:30", (12, ":30")), (" +7", (7, "")), ("-7x", (-7, "x")), ("x", (0, "x")), ("2147483647", (2147483647, ""))],
)
def test_a_number_is_read_up_to_the_first_other_character(text, expected):
    assert integer(text) == expected


@pytest.mark.parametrize("text", ["2147483648", "-2147483649", "9" * 5000])
def test_a_number_that_does_not_fit_an_int_is_an_error(text):
    with pytest.raises(OverflowError):
        integer(text)


@pytest.mark.parametrize(("digits", "expected"), [("007", 7), ("4294967297", 1), ("9" * 30, -1)])
def test_an_unchecked_number_is_reduced_to_an_int(digits, expected):
    assert unchecked_integer(digits) == expected


@pytest.mark.parametrize(("value", "expected"), [(2**31 - 1, 2**31 - 1), (2**31, -(2**31)), (-(2**31) - 1, 2**31 - 1)])
def test_a_sum_wraps_at_32_bits(value, expected):
    assert wrapped(value) == expected


def test_a_fraction_begins_with_a_point():
    assert (fraction("."), fraction(".25"), microseconds(".0000005")) == (0.0, 0.25, 0)
    with pytest.raises(BadFormat):
        fraction(".2x")


@pytest.mark.parametrize(
    ("text", "west"), [("+02", -7200), ("-0530", 19_800), ("+05:30:01", -19_801), ("-15:59", 57_540)]
)
def test_an_offset_is_west_of_greenwich(text, west):
    assert zone_offset(text) == west


@pytest.mark.parametrize("text", ["+16", "+01:60", "+01:00:60", "+99999999999"])
def test_an_offset_that_is_too_large_has_its_sqlstate(text):
    with pytest.raises(DataException) as raised:
        zone_offset(text)
    assert raised.value.sqlstate == "22009"


@pytest.mark.parametrize("text", ["02", "+02x"])
def test_a_text_that_is_no_offset_has_a_bad_format(text):
    with pytest.raises(BadFormat):
        zone_offset(text)


def test_the_julian_day_of_a_year_that_is_too_large_overflows():
    assert julian_of_new_year(2000) == 2_451_545
    assert -(2**31) <= julian_of_new_year(2**31 - 1) < 2**31
