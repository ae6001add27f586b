"""The meaning of the fields of a date or time; the texts of dates and times are in
tests/unit/postgres/types/datetimes/test_input.py.
"""

from __future__ import annotations

import pytest

from subscriber.base.errors import DataException, NotSupportedError
from subscriber.postgres.types.datetimes.date_decoding import Moment, decode_datetime, decode_time
from subscriber.postgres.types.datetimes.date_parts import BadFormat
from subscriber.postgres.types.datetimes.date_values import HOUR, MINUTE, SECOND, day_number

ROOM = 153


@pytest.mark.parametrize(
    ("text", "date", "time", "zone"),
    [
        ("2024-02-29", (2024, 2, 29), 0, 0),
        ("2024-02-29 10:11:12.5", (2024, 2, 29), 10 * HOUR + 11 * MINUTE + 12_500_000, 0),
        ("2024-02-29 10:11-08", (2024, 2, 29), 10 * HOUR + 11 * MINUTE, 8 * 3600),
        ("2024-02-29 10:11+0530", (2024, 2, 29), 10 * HOUR + 11 * MINUTE, -19_800),
        ("2024-02-29 10:11+05:30:15", (2024, 2, 29), 10 * HOUR + 11 * MINUTE, -19_815),
        ("2024-02-29 10:11 PST", (2024, 2, 29), 10 * HOUR + 11 * MINUTE, 8 * 3600),
        ("2024-07-01 10:00 America/New_York", (2024, 7, 1), 10 * HOUR, 4 * 3600),
        ("2024-07-01 10:00 MET DST", (2024, 7, 1), 10 * HOUR, -7200),
        ("0044-03-15 BC", (-43, 3, 15), 0, 0),
        ("March 15, 44 BC", (-43, 3, 15), 0, 0),
        ("15 March 69", (2069, 3, 15), 0, 0),
        ("15 March 70", (1970, 3, 15), 0, 0),
        ("2024-060", (2024, 2, 29), 0, 0),
        ("2024.366", (2024, 12, 31), 0, 0),
        ("J2451545", (2000, 1, 1), 0, 0),
        ("J2451545.5", (2000, 1, 1), 12 * HOUR, 0),
        ("20240229T101112", (2024, 2, 29), 10 * HOUR + 11 * MINUTE + 12 * SECOND, 0),
        ("20240229 1011", (2024, 2, 29), 10 * HOUR + 11 * MINUTE, 0),
        ("240229", (2024, 2, 29), 0, 0),
        ("2024-02-29 12:00 AM", (2024, 2, 29), 0, 0),
        ("2024-02-29 12:00 PM", (2024, 2, 29), 12 * HOUR, 0),
        ("2024-02-29 allballs", (2024, 2, 29), 0, 0),
        ("Thursday Feb 29 10:00 2024", (2024, 2, 29), 10 * HOUR, 0),
        ("2024-02-29 at 10:00", (2024, 2, 29), 10 * HOUR, 0),
        ("2024-02-29 24:00", (2024, 2, 29), 24 * HOUR, 0),
        ("9999999-01-01", (9_999_999, 1, 1), 0, 0),
    ],
)
def test_a_date_has_its_day_time_and_zone(text, date, time, zone):
    """The zone is in seconds west of Greenwich; no type's limit is checked here."""
    assert decode_datetime(text, ROOM) == Moment(None, day_number(*date), time, zone)


@pytest.mark.parametrize(
    ("text", "word"),
    [("epoch", "epoch"), ("Infinity", "infinity"), ("+infinity", "infinity"), ("-infinity", "-infinity")],
)
def test_a_date_may_be_a_word(text, word):
    assert decode_datetime(text, ROOM).word == word


@pytest.mark.parametrize(
    ("text", "day", "time", "zone"),
    [
        ("10:11:12", None, 10 * HOUR + 11 * MINUTE + 12 * SECOND, 0),
        ("101112", None, 10 * HOUR + 11 * MINUTE + 12 * SECOND, 0),
        ("1011", None, 10 * HOUR + 11 * MINUTE, 0),
        ("T10:11", None, 10 * HOUR + 11 * MINUTE, 0),
        ("10:11.5", None, 10 * MINUTE + 11_500_000, 0),
        ("10:11 PM", None, 22 * HOUR + 11 * MINUTE, 0),
        ("10:11 EST", None, 10 * HOUR + 11 * MINUTE, 5 * 3600),
        ("2024-07-01 10:11 America/New_York", day_number(2024, 7, 1), 10 * HOUR + 11 * MINUTE, 4 * 3600),
        ("allballs", None, 0, 0),
    ],
)
def test_a_time_has_its_zone_and_the_day_that_is_written_with_it(text, day, time, zone):
    assert decode_time(text, ROOM) == Moment(None, day, time, zone)


@pytest.mark.parametrize(
    ("date", "zone"),
    [("4713-01-01 BC", -3208), ("4714-11-01 BC", -3208), ("4714-10-31 BC", 0), ("3664713-01-01 BC", 0)],
)
def test_a_named_zone_is_utc_on_days_before_the_julian_ones(date, zone):
    """The local mean time of Berlin is 53 minutes and 28 seconds ahead."""
    assert decode_time(f"{date} 10:11 Europe/Berlin", ROOM).zone == zone


@pytest.mark.parametrize(
    "text",
    [
        "", "x", "10:11", "2024-02", "2024-02-29 2024-02-29", "2024-02-29 10:11 10:11", "2024-02-29 10:11 PST PST", "2024-02-29 AM PM", "2024-02-29 BC AD",
        "2024-02-29 10:11 dst", "epoch 2024-02-29", "2024-02-29 y", "2024-02-29 Nowhere", "Feb Feb 29 2024", "t10:11", "2024-02-29 10:11:12x", "1 2",
    ],
)  # fmt: skip
def test_a_text_that_is_not_a_date_has_a_bad_format(text):
    with pytest.raises(BadFormat):
        decode_datetime(text, ROOM)


@pytest.mark.parametrize(
    "text", ["", "x", "infinity", "today", "10", "Jan 10:11", "10:11 Europe/Berlin", "10:11 10:12"]
)
def test_a_text_that_is_not_a_time_has_a_bad_format(text):
    with pytest.raises(BadFormat):
        decode_time(text, ROOM)


@pytest.mark.parametrize(
    ("text", "sqlstate", "hint"),
    [
        ("29/2/2024", "22008", True),
        ("2024-02-30", "22008", False),
        ("2024-02-32", "22008", True),
        ("0000-01-01 BC", "22008", False),
        ("0000-01-01", "22008", False),
        ("2024-02-29 25:00", "22008", False),
        ("2024-02-29 10:60", "22008", False),
        ("2024-02-29 13:00 PM", "22008", False),
        ("99999999999-01-01", "22008", False),
        ("2024-02-29 10:11+16", "22009", False),
        ("2024-02-29 10:11+01:60", "22009", False),
        ("2024-02-29 10:11 Europe/Nowhere", "22023", False),
    ],
)
def test_a_field_that_is_out_of_range_has_its_sqlstate(text, sqlstate, hint):
    """A month or day that may be in another order has a hint about the order."""
    with pytest.raises(DataException) as caught:
        decode_datetime(text, ROOM)
    assert caught.value.sqlstate == sqlstate
    assert (caught.value.hint is not None) == hint


@pytest.mark.parametrize(
    "text", ["now", "today", "tomorrow", "yesterday", "2024-02-29 10:11 localtime", "2024-02-29 posix/UTC"]
)
def test_a_date_that_depends_on_clock_or_installation_is_refused(text):
    with pytest.raises(NotSupportedError) as caught:
        decode_datetime(text, ROOM)
    assert caught.value.hint


def test_an_abbreviation_that_has_changed_needs_a_date():
    """MSK was +03, and +04 from 2011 to 2014."""
    with pytest.raises(NotSupportedError, match="abbreviation without a date"):
        decode_time("10:11 MSK", ROOM)
    assert decode_time("2024-02-29 10:11 MSK", ROOM).zone == -3 * 3600
    assert decode_datetime("2012-02-29 10:11 MSK", ROOM).zone == -4 * 3600
