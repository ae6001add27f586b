"""The output functions of dates, times and intervals."""

import pytest

from subscriber.postgres.types.datetimes.date_values import (
    DATE_INFINITIES,
    DAY,
    INFINITY,
    MINUS_INFINITY,
    TIMESTAMP_INFINITIES,
    Interval,
    TimeTZ,
    date_out,
    date_text,
    interval_out,
    time_text,
    timestamp_out,
    timestamptz_out,
    timetz_out,
    zone_text,
)

HOUR = DAY // 24


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (0, "00:00:00"),
        (DAY, "24:00:00"),
        (1, "00:00:00.000001"),
        (100_000, "00:00:00.1"),
        (1_500_000, "00:00:01.5"),
        (DAY - 1, "23:59:59.999999"),
        (100 * HOUR, "100:00:00"),
    ],
)
def test_a_time_has_as_many_decimals_as_it_needs(microseconds, text):
    assert time_text(microseconds) == text


@pytest.mark.parametrize(
    ("seconds_west", "text"),
    [
        (0, "+00"),
        (-7200, "+02"),
        (18_000, "-05"),
        (-19_800, "+05:30"),
        (57_599, "-15:59:59"),
        (-1, "+00:00:01"),
        (-3601, "+01:00:01"),
    ],
)
def test_an_offset_is_written_east_of_greenwich_and_as_short_as_possible(seconds_west, text):
    assert zone_text(seconds_west) == text
    assert timetz_out(TimeTZ(0, seconds_west)) == f"00:00:00{text}"


@pytest.mark.parametrize(
    ("day", "text"),
    [
        (0, "2000-01-01"),
        (-730_119, "0001-01-01"),
        (-730_120, "0001-12-31 BC"),
        (2_921_940, "10000-01-01"),
        (DATE_INFINITIES[0], "-infinity"),
        (DATE_INFINITIES[1], "infinity"),
    ],
)
def test_a_date_is_written_with_its_era(day, text):
    assert date_out(day) == text


def test_the_year_before_1_is_1_bc():
    assert date_text(-730_120) == ("0001-12-31", " BC")


@pytest.mark.parametrize(
    ("moment", "text", "in_utc"),
    [
        (0, "2000-01-01 00:00:00", "2000-01-01 00:00:00+00"),
        (-1, "1999-12-31 23:59:59.999999", "1999-12-31 23:59:59.999999+00"),
        (-730_120 * DAY, "0001-12-31 00:00:00 BC", "0001-12-31 00:00:00+00 BC"),
        (TIMESTAMP_INFINITIES[0], "-infinity", "-infinity"),
        (TIMESTAMP_INFINITIES[1], "infinity", "infinity"),
    ],
)
def test_the_era_of_a_timestamp_follows_its_offset(moment, text, in_utc):
    assert (timestamp_out(moment), timestamptz_out(moment)) == (text, in_utc)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Interval(0, 0, 0), "00:00:00"),
        (Interval(1, 1, 0), "1 mon 1 day"),
        (Interval(13, 0, 1), "1 year 1 mon 00:00:00.000001"),
        (Interval(-13, 0, 0), "-1 years -1 mons"),
        (Interval(-1, 1, 0), "-1 mons +1 day"),
        (Interval(0, -1, HOUR), "-1 days +01:00:00"),
        (Interval(-1, 1, HOUR), "-1 mons +1 day 01:00:00"),
        (Interval(1, -1, -HOUR), "1 mon -1 days -01:00:00"),
        (Interval(0, 0, -1), "-00:00:00.000001"),
        (Interval(24, 0, 0), "2 years"),
        (INFINITY, "infinity"),
        (MINUS_INFINITY, "-infinity"),
    ],
)
def test_an_interval_has_a_sign_where_it_changes(value, text):
    assert interval_out(value) == text
