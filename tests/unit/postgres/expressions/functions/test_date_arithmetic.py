"""Sums and differences of dates, times and intervals: the manual's examples (9.9)."""

from __future__ import annotations

import pytest

from tests.filter_expressions import failure, value


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # The table of date/time operators.
        ("date '2001-09-28' + 7", "2001-10-05"),
        ("7 + date '2001-09-28'", "2001-10-05"),
        ("date '2001-09-28' + interval '1 hour'", "2001-09-28 01:00:00"),
        ("date '2001-09-28' + time '03:00'", "2001-09-28 03:00:00"),
        ("time '03:00' + date '2001-09-28'", "2001-09-28 03:00:00"),
        ("timestamp '2001-09-28 01:00' + interval '23 hours'", "2001-09-29 00:00:00"),
        ("time '01:00' + interval '3 hours'", "04:00:00"),
        ("date '2001-10-01' - date '2001-09-28'", "3"),
        ("date '2001-10-01' - 7", "2001-09-24"),
        ("date '2001-09-28' - interval '1 hour'", "2001-09-27 23:00:00"),
        ("time '05:00' - time '03:00'", "02:00:00"),
        ("time '05:00' - interval '2 hours'", "03:00:00"),
        ("timestamp '2001-09-28 23:00' - interval '23 hours'", "2001-09-28 00:00:00"),
        ("timestamp '2001-09-29 03:00' - timestamp '2001-07-27 12:00'", "63 days 15:00:00"),
        # The table of date/time functions.
        ("age(timestamp '2001-04-10', timestamp '1957-06-13')", "43 years 9 mons 27 days"),
        ("age(timestamp '1957-06-13', timestamp '2001-04-10')", "-43 years -9 mons -27 days"),
        ("make_date(2013, 7, 15)", "2013-07-15"),
        ("make_date(-44, 3, 15)", "0044-03-15 BC"),
        ("make_time(8, 15, 23.5)", "08:15:23.5"),
        ("make_timestamp(2013, 7, 15, 8, 15, 23.5)", "2013-07-15 08:15:23.5"),
        ("to_timestamp(1284352323)", "2010-09-13 04:32:03+00"),
        ("to_timestamp('Infinity'::float8)", "infinity"),
        (
            "date_bin('15 minutes', timestamp '2020-02-11 15:44:17', timestamp '2001-01-01')",
            "2020-02-11 15:30:00",
        ),
        (
            "date_bin('15 minutes', timestamp '2020-02-11 15:44:17', timestamp '2001-01-01 00:02:30')",
            "2020-02-11 15:32:30",
        ),
        ("date_bin('1 day', timestamp '2000-12-31 12:00', timestamp '2001-01-01')", "2000-12-31 00:00:00"),
        # A month that is too short ends the sum at its last day.
        ("timestamp '2001-01-31' + interval '1 month'", "2001-02-28 00:00:00"),
        ("timestamp '2004-02-29' - interval '1 year'", "2003-02-28 00:00:00"),
        ("interval '1 month' + date '2004-01-31'", "2004-02-29 00:00:00"),
        # Months are added first, then days, then the time.
        ("timestamp '2024-01-31' + interval '1 month -1 day 01:00'", "2024-02-28 01:00:00"),
        # Time is taken around the clock.
        ("time '23:00' + interval '2 hours'", "01:00:00"),
        ("time '01:00' - interval '1 day 02:00'", "23:00:00"),
        ("timetz '23:00+02' + interval '2 hours'", "01:00:00+02"),
        ("interval '2 hours' + timetz '23:00+02'", "01:00:00+02"),
        ("timetz '01:00-03' - interval '2 hours'", "23:00:00-03"),
        ("interval '25 hours'::time", "01:00:00"),
        ("interval '-1 hour'::time", "23:00:00"),
        # Casts.
        ("timestamp '2024-02-29 23:59:59.999999'::date", "2024-02-29"),
        ("timestamp '0001-01-01 12:00 BC'::date", "0001-01-01 BC"),
        ("date '2024-02-29'::timestamp", "2024-02-29 00:00:00"),
        ("timestamp '1999-12-31 23:00'::time", "23:00:00"),
        ("timetz '12:00+02'::time", "12:00:00"),
        ("time '12:30'::interval", "12:30:00"),
        ("date '2024-02-29' + timetz '01:00+02'", "2024-02-28 23:00:00+00"),
        ("timetz '01:00+02' + date '2024-02-29'", "2024-02-28 23:00:00+00"),
        # Infinite values.
        ("date 'infinity' + 1", "infinity"),
        ("date '-infinity' + time '01:00'", "-infinity"),
        ("timestamp '-infinity' + interval '1 day'", "-infinity"),
        ("timestamp '2024-01-01' - interval 'infinity'", "-infinity"),
        ("timestamp 'infinity' - timestamp '2024-01-01'", "infinity"),
        ("age(timestamp '2024-01-01', timestamp 'infinity')", "-infinity"),
        ("date 'infinity'::timestamp", "infinity"),
        ("timestamp 'infinity'::time", None),
        ("NULL::date + 1", None),
        ("age(NULL::timestamp, timestamp '2024-01-01')", None),
    ],
)
def test_date_arithmetic(expression, expected):
    assert value(expression) == expected


@pytest.mark.parametrize(
    ("expression", "sqlstate", "message"),
    [
        ("date '5874897-12-31' + 1", "22008", "date out of range"),
        ("date '4713-01-01 BC' - 2147483647", "22008", "date out of range"),
        ("date 'infinity' - date '2024-01-01'", "22008", "cannot subtract infinite dates"),
        ("date '5874897-12-31'::timestamp", "22008", "date out of range for timestamp"),
        ("date '294276-12-31' + time '24:00'", "22008", "timestamp out of range"),
        ("timestamp '294276-12-31' + interval '1 day'", "22008", "timestamp out of range"),
        ("timestamp '4713-01-01 BC' - interval '3 months'", "22008", "timestamp out of range"),
        ("timestamp 'infinity' + interval '-infinity'", "22008", "timestamp out of range"),
        ("timestamp 'infinity' - timestamp 'infinity'", "22008", "interval out of range"),
        ("age(timestamp 'infinity', timestamp 'infinity')", "22008", "interval out of range"),
        ("time '01:00' + interval 'infinity'", "22008", "cannot add infinite interval to time"),
        ("time '01:00' - interval 'infinity'", "22008", "cannot subtract infinite interval from time"),
        ("interval 'infinity'::time", "22008", "cannot convert infinite interval to time"),
        ("make_date(2013, 2, 29)", "22008", "date field value out of range"),
        ("make_date(0, 1, 1)", "22008", "date field value out of range"),
        ("make_time(25, 0, 0)", "22008", "time field value out of range"),
        ("make_time(24, 0, 1)", "22008", "time field value out of range"),
        ("make_timestamp(2013, 13, 1, 0, 0, 0)", "22008", "date field value out of range"),
        ("make_timestamp(2013, 1, 1, 0, 60, 0)", "22008", "time field value out of range"),
        ("to_timestamp('NaN'::float8)", "22008", "timestamp cannot be NaN"),
        ("to_timestamp(1e20)", "22008", "timestamp out of range"),
        (
            "date_bin('1 month', timestamp '2020-02-11', timestamp '2001-01-01')",
            "0A000",
            "timestamps cannot be binned into intervals containing months or years",
        ),
        (
            "date_bin('0 days', timestamp '2020-02-11', timestamp '2001-01-01')",
            "22008",
            "stride must be greater than zero",
        ),
        (
            "date_bin('infinity', timestamp '2020-02-11', timestamp '2001-01-01')",
            "22008",
            "timestamps cannot be binned into infinite intervals",
        ),
    ],
)
def test_the_error_of_date_arithmetic(expression, sqlstate, message):
    assert failure(expression) == (sqlstate, message)


def test_a_difference_of_infinite_timestamps_was_an_error_before_17():
    """17 gave intervals their infinities."""
    expression = "timestamp 'infinity' - timestamp '2024-01-01'"
    assert failure(expression, version=160000) == ("22008", "cannot subtract infinite timestamps")
