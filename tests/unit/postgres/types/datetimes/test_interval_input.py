"""The input function of interval: regress/sql/interval.sql, and chapter 8.5.4 of PostgreSQL's
documentation.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.postgres.types.datetimes.date_values import FIELDS, INFINITY, MINUS_INFINITY, Interval
from subscriber.postgres.types.datetimes.interval_input import UNITS
from tests.type_samples import form, read, refused, shown

INT32 = st.integers(-(2**31), 2**31 - 1)


def modifier(*fields: str, precision: int = 0xFFFF) -> int:
    """The type modifier of an interval with these fields."""
    return sum(FIELDS[field] for field in fields) << 16 | precision


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("01:00", "01:00:00"), ("+02:00", "02:00:00"), ("-08:00", "-08:00:00"), ("-1 +02:03", "-1 days +02:03:00"), ("-1 days +02:03", "-1 days +02:03:00"),
        ("1.5 weeks", "10 days 12:00:00"), ("1.5 months", "1 mon 15 days"), ("10 years -11 month -12 days +13:14", "9 years 1 mon -12 days +13:14:00"),
        ("@ 1 minute", "00:01:00"), ("@ 5 hour", "05:00:00"), ("@ 10 day", "10 days"), ("@ 34 year", "34 years"), ("@ 3 months", "3 mons"),
        ("@ 14 seconds ago", "-00:00:14"), ("1 day 2 hours 3 minutes 4 seconds", "1 day 02:03:04"), ("6 years", "6 years"), ("5 months 12 hours", "5 mons 12:00:00"),
        ("1-2", "1 year 2 mons"), ("1-2 3 4:05:06", "1 year 2 mons 3 days 04:05:06"), ("-1-2", "-1 years -2 mons"), ("3 4:05:06", "3 days 04:05:06"),
        ("1.5 years 2 months", "1 year 8 mons"), ("1 mon -1 days ago", "-1 mons +1 day"), ("0.1 year", "1 mon"), ("0.5 us", "00:00:00"), ("1.6 us", "00:00:00.000002"),
        ("1 century 2 decades", "120 years"), ("1 millennium", "1000 years"), ("1.5 ms", "00:00:00.0015"), ("3 usecs", "00:00:00.000003"), ("2 c 1 mil", "1200 years"),
        ("1:2.5", "00:01:02.5"), ("10:00:60", "10:01:00"), ("100:00", "100:00:00"), ("1 day 24:00", "1 day 24:00:00"), ("4 on 5 day", "5 days 00:00:04"), ("12", "00:00:12"), ("1.5", "00:00:01.5"),
        ("infinity", "infinity"), ("-infinity", "-infinity"), ("+infinity", "infinity"), ("  INFINITY ", "infinity"),
        ("P1Y2M3DT4H5M6.5S", "1 year 2 mons 3 days 04:05:06.5"), ("P0002", "2 years"), ("P1W", "7 days"), ("PT10:20", "10:20:00"), ("PT102030", "10:20:30"),
        ("P00021015T103020", "2 years 10 mons 15 days 10:30:20"), ("P0002-10-15T10:30:20", "2 years 10 mons 15 days 10:30:20"), ("P0002-10", "2 years 10 mons"),
        ("P-1Y-2M-3DT-4H-5M-6S", "-1 years -2 mons -3 days -04:05:06"), ("P1.5W", "10 days 12:00:00"), ("PT", "00:00:00"), ("P20241301", "2025 years 1 mon 1 day"), ("P0001-02-03T", "1 year 2 mons 3 days"), ("P0x10D", "269 years"), ("P1", "1 year"), ("P.5D", "12:00:00"), ("PT-0.1S", "-00:00:00.1"), ("P1e2D", "100 days"),
        ("-00:00:00.000001", "-00:00:00.000001"), ("2147483647 months", "178956970 years 7 mons"), ("-2147483648 days", "-2147483648 days"),
    ],
)  # fmt: skip
def test_the_notations_of_intervals_are_read(text, written):
    assert shown("interval", text) == written


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "badly formatted interval", "@ 30 eons ago", "1 day 1 day", "1 year 1 years", "10:20 10:30", "1 dow", "5 quarter", "day", "1 day ago 2", "ago 1 day",
        "infinity 1 day", "1 day infinity", "infinity ago", "-infinity infinity", "-infinity years", "42 days 2 seconds ago ago", "1 ago 2 day", "1.2.3 days", "1-2x",
        "P", "P1S", "PT1D", "P1Y2", "P0002-10-15-1", "PT10:20:30:40", "P 1D", "p1D", "P1DT1e400H", "1 2 3", "1:2:3:4", "--1 day", "1 day +", "+1:99 hours", "+1:x", "1.x days", "1:2.x", "1:2:3x", "P1eD", "P1e400D", "PnanD", "P1e-400D", "P1-2x", "P1Y-2",
        "PT1H2:3", "PT1:2x",
    ],
)  # fmt: skip
def test_a_text_that_is_not_an_interval_is_refused(text):
    error = refused("interval", text)
    assert (error.sqlstate, error.message) == ("22007", "invalid input syntax for type interval")


@pytest.mark.parametrize(
    "text",
    [
        "1 year 13:60", "1-12", "10:20:61", "2147483648 days", "-2147483649 days", "2147483648 years", "2147483648 months", "306783379 weeks", "214748364.8 decades 1 decade",
        "9223372036854775808 microseconds", "2562047789 hours", "9223372036854775807 us 1 s", "-2147483648 days ago", "P1000000000000000000D", "P-2147483649M", "PT2562047789H",
        "99999999999999999999 days", "1:99999999999", "9223372036854775807:00", "922337203685477580-11", "P1e16D", "P-infD", "P-nanD",
    ],
)  # fmt: skip
def test_a_field_that_is_too_large_is_refused(text):
    error = refused("interval", text)
    assert (error.sqlstate, error.message) == ("22015", "interval field value out of range")


@pytest.mark.parametrize("text", ["178956971 years", "2147483647 months 1 year", "2147483647 years"])
def test_a_sum_of_months_that_is_too_large_is_out_of_range(text):
    error = refused("interval", text)
    assert (error.sqlstate, error.message) == ("22008", "interval out of range")


@pytest.mark.parametrize(
    ("text", "fields", "value"),
    [
        ("1", ("year",), Interval(12, 0, 0)),
        ("2", ("month",), Interval(2, 0, 0)),
        ("3", ("day",), Interval(0, 3, 0)),
        ("1", ("hour",), Interval(0, 0, 3_600_000_000)),
        ("5", ("minute",), Interval(0, 0, 300_000_000)),
        ("6.5", ("second",), Interval(0, 0, 6_500_000)),
        ("1-2", ("year", "month"), Interval(14, 0, 0)),
        ("1 2", ("day", "hour"), Interval(0, 1, 7_200_000_000)),
        ("1 2:03", ("day", "hour"), Interval(0, 1, 7_200_000_000)),
        ("1 2:03", ("minute",), Interval(0, 1, 7_380_000_000)),
        ("1:02", ("minute", "second"), Interval(0, 0, 62_000_000)),
        ("1:02", ("hour", "minute"), Interval(0, 0, 3_720_000_000)),
        ("1:02", (), Interval(0, 0, 3_720_000_000)),
    ],
)
def test_an_interval_is_read_by_the_fields_of_its_type(text, fields, value):
    assert read("interval", text, modifier(*fields) if fields else -1) == value


def test_the_decimals_of_a_second_are_rounded_to_those_of_the_type():
    assert read("interval", "1:2.5", modifier("minute", "second", precision=0)) == Interval(0, 0, 63_000_000)
    assert read("interval", "12:34:56.789", 0x7FFF << 16 | 2) == Interval(0, 0, 45_296_790_000)


@pytest.mark.parametrize(("text", "value"), [("infinity", INFINITY), ("-infinity", MINUS_INFINITY)])
def test_an_infinity_is_independent_of_the_type(text, value):
    assert read("interval", text, modifier("year")) == value


@pytest.mark.parametrize("word", sorted(UNITS))
def test_every_word_for_a_unit_is_read(word):
    lengths = {
        "microsecond": "00:00:00.000001", "millisecond": "00:00:00.001", "second": "00:00:01", "minute": "00:01:00", "hour": "01:00:00", "day": "1 day",
        "week": "7 days", "month": "1 mon", "year": "1 year", "decade": "10 years", "century": "100 years", "millennium": "1000 years",
    }  # fmt: skip
    assert shown("interval", f"1 {word}") == shown("interval", f"1{word.upper()}") == lengths[UNITS[word]]


@given(INT32, INT32, st.integers(-(2**63) + 1, 2**63 - 1))
def test_an_interval_is_read_as_it_was_written(months, days, microseconds):
    """PostgreSQL cannot read the least number of microseconds, -2562047788:00:54.775808, either."""
    value = Interval(months, days, microseconds)
    assert read("interval", form("interval").to_text(value)) == value
