"""extract and date_part: the examples of the manual (9.9), and errors."""

from __future__ import annotations

import pytest

from tests.filter_expressions import failure, value


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("extract(century from timestamp '2000-12-16 12:21:13')", "20"),
        ("extract(century from timestamp '2001-02-16 20:38:40')", "21"),
        ("extract(century from date '0001-01-01 AD')", "1"),
        ("extract(century from date '0001-12-31 BC')", "-1"),
        ("extract(century from interval '2001 years')", "20"),
        ("extract(day from timestamp '2001-02-16 20:38:40')", "16"),
        ("extract(day from interval '40 days 1 minute')", "40"),
        ("extract(decade from timestamp '2001-02-16 20:38:40')", "200"),
        ("extract(decade from date '0002-01-01 BC')", "-1"),
        ("extract(dow from timestamp '2001-02-16 20:38:40')", "5"),
        ("extract(dow from date '2024-03-03')", "0"),
        ("extract(isodow from date '2024-03-03')", "7"),
        ("extract(doy from timestamp '2001-02-16 20:38:40')", "47"),
        ("extract(epoch from timestamp '2001-02-17 04:38:40.12')", "982384720.120000"),
        ("extract(epoch from timestamp '2001-02-16 20:38:40.12')", "982355920.120000"),
        ("extract(epoch from interval '5 days 3 hours')", "442800.000000"),
        ("extract(epoch from interval '1 year')", "31557600.000000"),
        ("extract(epoch from date '1970-01-02')", "86400"),
        ("extract(hour from timestamp '2001-02-16 20:38:40')", "20"),
        ("extract(isoyear from date '2006-01-01')", "2005"),
        ("extract(isoyear from date '2006-01-02')", "2006"),
        ("extract(julian from date '2006-01-01')", "2453737"),
        ("extract(julian from timestamp '2006-01-01 12:00')", "2453737.50000000000000000000"),
        ("extract(microseconds from time '17:12:28.5')", "28500000"),
        ("extract(millennium from timestamp '2001-02-16 20:38:40')", "3"),
        ("extract(millennium from interval '2001 years')", "2"),
        ("extract(milliseconds from time '17:12:28.5')", "28500.000"),
        ("extract(minute from timestamp '2001-02-16 20:38:40')", "38"),
        ("extract(month from timestamp '2001-02-16 20:38:40')", "2"),
        ("extract(month from interval '2 years 13 months')", "1"),
        ("extract(quarter from timestamp '2001-02-16 20:38:40')", "1"),
        ("extract(quarter from interval '1 year 6 months')", "3"),
        ("extract(second from timestamp '2001-02-16 20:38:40')", "40.000000"),
        ("extract(second from time '17:12:28.5')", "28.500000"),
        ("extract(timezone from timetz '12:00+05:30')", "19800"),
        ("extract(timezone_hour from timetz '12:00-05:30')", "-5"),
        ("extract(timezone_minute from timetz '12:00-05:30')", "-30"),
        ("extract(week from timestamp '2001-02-16 20:38:40')", "7"),
        ("extract(week from date '2006-01-01')", "52"),
        ("extract(week from interval '20 days')", "2"),
        ("extract(year from timestamp '2001-02-16 20:38:40')", "2001"),
        ("extract(year from date '0044-03-15 BC')", "-44"),
        ("date_part('day', timestamp '2001-02-16 20:38:40')", "16"),
        ("date_part('hour', interval '4 hours 3 minutes')", "4"),
        ("date_part('seconds', time '17:12:28.5')", "28.5"),
        ("date_part('epoch', interval '0.5 seconds')", "0.5"),
        # The abbreviations and the case of units.
        ("extract('YEARS' from date '2024-02-29')", "2024"),
        ("date_part('mon', date '2024-02-29')", "2"),
        ("date_part('msec', time '00:00:01')", "1000"),
        # What grows forever is infinite with the value, and all else is NULL.
        ("extract(year from timestamp 'infinity')", "Infinity"),
        ("extract(epoch from date '-infinity')", "-Infinity"),
        ("extract(month from date 'infinity')", None),
        ("date_part('century', timestamp '-infinity')", "-Infinity"),
        ("extract(day from interval '-infinity')", "-Infinity"),
        ("extract(minute from interval 'infinity')", None),
        ("extract(year from NULL::date)", None),
        ("date_part(NULL, date '2024-01-01')", None),
    ],
)
def test_fields_of_dates_and_times(expression, expected):
    assert value(expression) == expected


@pytest.mark.parametrize(
    ("expression", "sqlstate", "message"),
    [
        ("extract('fortnight' from date '2024-01-01')", "22023", "unit not recognized for type date"),
        ("extract(hour from date '2024-01-01')", "0A000", "unit not supported for type date"),
        ("extract(day from time '12:00')", "0A000", "unit not supported for type time without time zone"),
        (
            "extract(timezone from timestamp '2024-01-01')",
            "0A000",
            "unit not supported for type timestamp without time zone",
        ),
        ("extract(year from timetz '12:00+00')", "0A000", "unit not supported for type time with time zone"),
        ("extract(dow from interval '1 day')", "0A000", "unit not supported for type interval"),
        (
            "extract('' from timestamp '2024-01-01')",
            "22023",
            "unit not recognized for type timestamp without time zone",
        ),
    ],
)
def test_the_error_of_a_field(expression, sqlstate, message):
    assert failure(expression) == (sqlstate, message)


def test_the_weeks_of_an_interval_came_with_18():
    expression = "extract(week from interval '20 days')"
    assert failure(expression, version=170000) == ("0A000", "unit not supported for type interval")
