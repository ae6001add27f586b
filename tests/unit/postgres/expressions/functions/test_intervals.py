"""interval: the examples of the manual (9.9), arithmetic, infinities and errors."""

from __future__ import annotations

import pytest

from tests.filter_expressions import failure, value


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("interval '1 day' + interval '1 hour'", "1 day 01:00:00"),
        ("- interval '23 hours'", "-23:00:00"),
        ("interval '1 day' - interval '1 hour'", "1 day -01:00:00"),
        ("interval '1 second' * 900", "00:15:00"),
        ("interval '1 day' * 21", "21 days"),
        ("interval '1 hour' * 3.5", "03:30:00"),
        ("3.5 * interval '1 hour'", "03:30:00"),
        ("interval '1 hour' / 1.5", "00:40:00"),
        ("justify_days(interval '1 year 65 days')", "1 year 2 mons 5 days"),
        ("justify_hours(interval '50 hours 10 minutes')", "2 days 02:10:00"),
        ("justify_interval(interval '1 mon -1 hour')", "29 days 23:00:00"),
        ("make_interval(1, 2, 3, 4, 5, 6, 7.5)", "1 year 2 mons 25 days 05:06:07.5"),
        ("isfinite(interval '4 hours')", "t"),
        ("isfinite(interval 'infinity')", "f"),
        # A fraction of a month becomes days, and a fraction of a day becomes time.
        ("interval '1 month' * 0.5", "15 days"),
        ("interval '1 month' / 7", "4 days 06:51:25.6896"),
        ("interval '1 year' * 1.05", "1 year 18 days"),
        # A month is compared as 30 days, and a day as 24 hours.
        ("interval '1 month' = interval '30 days'", "t"),
        ("interval '1 day' = interval '24 hours'", "t"),
        ("interval '1 year' < interval '366 days'", "t"),
        ("interval 'infinity' > interval '178000000 years'", "t"),
        ("interval '-infinity' < interval '-178000000 years'", "t"),
        # Infinities, which PostgreSQL 17 introduced.
        ("interval 'infinity' + interval '1 day'", "infinity"),
        ("- interval 'infinity'", "-infinity"),
        ("interval 'infinity' * -2", "-infinity"),
        ("interval '1 day' * 'Infinity'::float8", "infinity"),
        ("interval '1 day' / 'Infinity'::float8", "00:00:00"),
        ("justify_days(interval '-infinity')", "-infinity"),
        # Precision and fields.
        ("interval '1.23456 seconds'::interval(2)", "00:00:01.23"),
        ("interval '1.235 seconds'::interval(2)", "00:00:01.24"),
        ("interval '1 day 02:03:04'::interval hour to minute", "1 day 02:03:00"),
        ("NULL::interval * 2", None),
        ("interval '1 day' / NULL", None),
    ],
)
def test_intervals(expression, expected):
    assert value(expression) == expected


@pytest.mark.parametrize(
    ("expression", "sqlstate", "message"),
    [
        ("interval '1 day' / 0", "22012", "division by zero"),
        ("interval '1 day' * 'NaN'::float8", "22008", "interval out of range"),
        ("interval '1 day' * 1e300", "22008", "interval out of range"),
        ("interval '2147483647 months' + interval '1 month'", "22008", "interval out of range"),
        ("interval '-2147483648 days' - interval '1 day'", "22008", "interval out of range"),
        ("interval 'infinity' - interval 'infinity'", "22008", "interval out of range"),
        ("interval 'infinity' + interval '-infinity'", "22008", "interval out of range"),
        ("interval 'infinity' * 0", "22008", "interval out of range"),
        ("interval 'infinity' / 'Infinity'::float8", "22008", "interval out of range"),
        ("justify_hours(interval '2147483647 days 24 hours')", "22008", "interval out of range"),
        ("justify_days(interval '2147483647 months 30 days')", "22008", "interval out of range"),
        ("- interval '-2147483648 months'", "22008", "interval out of range"),
        ("make_interval(178956971, 0, 0, 0, 0, 0, 0)", "22008", "interval out of range"),
        ("make_interval(0, 0, 0, 0, 0, 0, 'NaN')", "22008", "interval out of range"),
        ("make_interval(0, 0, 0, 0, 0, 0, 1e308)", "22003", "value out of range: overflow"),
    ],
)
def test_the_error_of_an_interval(expression, sqlstate, message):
    assert failure(expression) == (sqlstate, message)
