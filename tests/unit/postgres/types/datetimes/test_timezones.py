"""The names of time zones, and the offset of a local time in them: chapter 8.5.3 of PostgreSQL's
documentation.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.base.errors import DataException, NotSupportedError
from subscriber.postgres.types.datetimes.date_values import SECOND
from subscriber.postgres.types.datetimes.timezones import abbreviated, time_zone, whole_zone, zone_named

HOUR = 3600


def moment(text: str) -> int:
    """A moment in microseconds since 2000-01-01, which is a local time or a time in UTC."""
    return (datetime.fromisoformat(f"{text}+00:00") - datetime(2000, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("name", "local", "offset"),
    [
        ("Europe/Berlin", "2024-01-01 12:00", HOUR),
        ("eUROPE/bERLIN", "2024-07-01 12:00", 2 * HOUR),
        ("Europe/Berlin", "1850-01-01 00:00", 3208),
        ("Europe/Berlin", "2999-07-01 12:00", 2 * HOUR),
        (":Asia/Tokyo", "2024-01-01 00:00", 9 * HOUR),
        ("UTC", "2024-01-01 00:00", 0),
        ("gmt", "2024-01-01 00:00", 0),
        ("PST", "2024-07-01 00:00", -8 * HOUR),
        ("PDT", "2024-01-01 00:00", -7 * HOUR),
        ("z", "2024-01-01 00:00", 0),
        ("MSK", "2024-01-01 00:00", 3 * HOUR),
        ("MSK", "2012-01-01 00:00", 4 * HOUR),
        ("IST", "2024-01-01 00:00", 2 * HOUR),
        ("UTC+3", "2024-01-01 00:00", -3 * HOUR),
        ("<+03>-3", "2024-01-01 00:00", 3 * HOUR),
        ("EST5EDT", "2024-07-01 00:00", -4 * HOUR),
        ("x5y,M3.2.0,M11.1.0", "1000-07-01 00:00", -4 * HOUR),
    ],
)
def test_a_name_is_an_abbreviation_a_zone_or_a_specification(name, local, offset):
    assert time_zone(name).offset_of(moment(local)) == offset


@pytest.mark.parametrize("name", ["Europe/Berln", "", "America", "x5y,M13.1.0,M1.1.1", "x168", "<x", "x5:", ":x5"])
def test_a_zone_that_does_not_exist_is_the_servers_error_and_is_not_shown(name):
    """names_are_data: the name may be the value of a column."""
    for find in (time_zone, whole_zone):
        with pytest.raises(DataException) as caught:
            find(name)
        assert (caught.value.sqlstate, caught.value.message) == ("22023", "time zone not recognized")


@pytest.mark.parametrize("name", ["localtime", "posix/Europe/Berlin", "right/UTC", "POSIXRULES"])
def test_a_zone_that_only_some_servers_have_is_refused(name):
    """refuse_not_guess."""
    with pytest.raises(NotSupportedError) as caught:
        time_zone(name)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("name", "local", "offset"),
    [
        ("Europe/Berlin", "2024-03-31 01:59:59", HOUR),
        ("Europe/Berlin", "2024-03-31 02:30", HOUR),  # does not exist
        ("Europe/Berlin", "2024-03-31 03:00", 2 * HOUR),
        ("Europe/Berlin", "2024-10-27 01:59:59", 2 * HOUR),
        ("Europe/Berlin", "2024-10-27 02:30", HOUR),  # exists twice
        ("Europe/Berlin", "2024-10-27 02:59:59.999999", HOUR),
        ("America/New_York", "2024-03-10 02:30", -5 * HOUR),
        ("America/New_York", "2024-11-03 01:30", -5 * HOUR),
    ],
)
def test_a_local_time_at_a_change_has_the_offset_of_standard_time(name, local, offset):
    """DetermineTimeZoneOffset: before the change if clocks are set forward, after it if they are
    set back.
    """
    assert time_zone(name).offset_of(moment(local)) == offset


@given(
    st.sampled_from(["Europe/Berlin", "America/New_York", "Asia/Tokyo", "x5y,M3.2.0,M11.1.0"]),
    st.integers(-(10**10), 10**10),
)
def test_a_moment_has_the_local_time_whose_offset_leads_back_to_it(name, seconds):
    """Only the first of two equal local times does not lead back."""
    zone = time_zone(name)
    utc = seconds * SECOND
    local = utc + zone.offset_at(utc) * SECOND
    back = local - zone.offset_of(local) * SECOND
    assert back - utc in (0, HOUR * SECOND)


def test_an_abbreviation_means_its_offset_at_the_moment():
    zone = time_zone("MSK")
    assert zone.abbreviation == "MSK"
    assert [zone.offset_at(moment(text)) for text in ("2012-01-01 00:00", "2024-01-01 00:00")] == [4 * HOUR, 3 * HOUR]


def test_the_whole_zone_of_an_abbreviation_has_all_its_offsets():
    """DecodeTimezoneNameToTz: in the summer of 1990, Moscow had MSD, and MSK meant the winter."""
    summer = moment("1990-07-01 00:00")
    assert time_zone("MSK").offset_at(summer) == 3 * HOUR
    assert whole_zone("MSK").offset_at(summer) == 4 * HOUR
    assert whole_zone("PST").offset_at(summer) == -8 * HOUR


def test_a_text_that_is_not_an_abbreviation_or_a_zone_is_none():
    assert abbreviated("europe/berlin") is None
    assert abbreviated("PST") is None, "abbreviations are looked up in lower case"
    assert zone_named("pst") is None
    assert zone_named("Europe/Berln") is None


def test_a_long_name_is_cut_as_the_server_cuts_it():
    """TZ_STRLEN_MAX: the name is valid only without the characters after the first 255."""
    assert time_zone("x" * 253 + "-1" + "garbage").offset_at(0) == HOUR
