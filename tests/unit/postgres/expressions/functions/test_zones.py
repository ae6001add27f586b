"""Time zones in filters: names, abbreviations, POSIX specifications, and times that do not exist or
exist twice.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib.resources import files
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.base.errors import DataException, NotSupportedError
from subscriber.postgres.types.datetimes.timezones import time_zone, zone_of_specification
from subscriber.postgres.types.registry import form_of
from tests.filter_expressions import implementation

TIMESTAMP, TIMESTAMPTZ, INTERVAL = 1114, 1184, 1186
FORMS = {"timestamp": TIMESTAMP, "timestamptz": TIMESTAMPTZ, "interval": INTERVAL}


def computed(signature: str, *arguments: str) -> str:
    """What a function gives, as text; arguments of types without a form here are text."""
    values = []
    for name, text in zip(signature[:-1].partition("(")[2].split(","), arguments, strict=True):
        form = form_of(FORMS[name]) if name in FORMS else None
        values.append(text if form is None else form.from_text(text, -1))
    result = form_of(TIMESTAMPTZ if signature != "timezone(text,timestamptz)" else TIMESTAMP)
    assert result is not None
    return result.to_text(implementation(signature).function(*values))


@pytest.mark.parametrize(
    ("zone", "local", "moment"),
    [
        ("Europe/Berlin", "2024-03-31 02:30:00", "2024-03-31 01:30:00+00"),  # does not exist: the offset before
        ("Europe/Berlin", "2024-10-27 02:30:00", "2024-10-27 01:30:00+00"),  # exists twice: the offset after
        ("Europe/Berlin", "2024-10-27 02:59:59.999999", "2024-10-27 01:59:59.999999+00"),
        ("eUROPE/bERLIN", "2024-07-01 12:00:00", "2024-07-01 10:00:00+00"),
        ("Europe/Berlin", "1850-01-01 00:00:00", "1849-12-31 23:06:32+00"),  # local mean time
        ("Europe/Berlin", "2999-07-01 12:00:00", "2999-07-01 10:00:00+00"),  # the rule goes on
        ("America/New_York", "2024-11-03 01:30:00", "2024-11-03 06:30:00+00"),
        ("MSK", "2024-01-01 00:00:00", "2023-12-31 21:00:00+00"),
        ("MSK", "2012-01-01 00:00:00", "2011-12-31 20:00:00+00"),  # it meant another offset then
        ("IST", "2024-01-01 00:00:00", "2023-12-31 22:00:00+00"),  # Israel's
        ("UTC+3", "2024-01-01 00:00:00", "2024-01-01 03:00:00+00"),  # to the west, as POSIX has it
        ("<+03>-3", "2024-01-01 00:00:00", "2023-12-31 21:00:00+00"),
        ("x5y,M3.2.0,M11.1.0", "1000-07-01 00:00:00", "1000-07-01 04:00:00+00"),
        (":Asia/Tokyo", "2024-01-01 00:00:00", "2023-12-31 15:00:00+00"),
        ("Europe/Berlin", "infinity", "infinity"),
    ],
)
def test_a_local_time_is_the_moment_that_the_server_takes_it_for(zone, local, moment):
    """B27: DetermineTimeZoneOffset."""
    assert computed("timezone(text,timestamp)", zone, local) == moment


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/Santiago", "Australia/Lord_Howe", "Africa/Casablanca"])
@given(seconds=st.integers(-(2**31), 2**32))
def test_a_moment_has_the_local_time_that_python_gives_it(zone, seconds):
    known = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    with files("tzdata").joinpath("zoneinfo", *zone.split("/")).open("rb") as file:
        expected = known.astimezone(ZoneInfo.from_file(file)).utcoffset()
    assert expected is not None
    assert time_zone(zone).offset_at((seconds - 946_684_800) * 1_000_000) == expected.total_seconds()


def test_date_trunc_and_date_add_count_days_as_the_zone_has_them():
    """B27: a day of 23 hours, which begins in another offset than it ends."""
    assert computed("date_trunc(text,timestamptz,text)", "day", "2024-03-31 12:00:00+00", "Europe/Berlin") == (
        "2024-03-30 23:00:00+00"
    )
    assert computed("date_trunc(text,timestamptz,text)", "hour", "2024-10-27 00:30:00+00", "Europe/Berlin") == (
        "2024-10-27 00:00:00+00"
    )
    added = computed("date_add(timestamptz,interval,text)", "2024-03-30 12:00:00+00", "1 day 1 hour", "Europe/Berlin")
    assert added == "2024-03-31 12:00:00+00"
    back = computed("date_subtract(timestamptz,interval,text)", "2024-03-31 11:00:00+00", "1 mon", "Europe/Berlin")
    assert back == "2024-02-29 12:00:00+00"


@pytest.mark.parametrize("zone", ["Europe/Berln", "", "America", "x5y,M13.1.0,M1.1.1", "x168", "<x", "x5:", ":x5"])
def test_a_zone_that_does_not_exist_is_the_servers_error_and_is_not_shown(zone):
    """names_are_data: it may be the value of a column."""
    with pytest.raises(DataException) as caught:
        time_zone(zone)
    assert (caught.value.sqlstate, caught.value.message) == ("22023", "time zone not recognized")


@pytest.mark.parametrize("zone", ["localtime", "posix/Europe/Berlin", "right/UTC", "POSIXRULES"])
def test_a_zone_that_only_some_servers_have_is_refused(zone):
    """refuse_not_guess."""
    with pytest.raises(NotSupportedError) as caught:
        time_zone(zone)
    assert caught.value.hint


def test_a_specification_repeats_itself_every_400_years():
    zone = zone_of_specification("CET-1CEST,M3.5.0,M10.5.0/3")
    assert zone is not None
    cycle = 146_097 * 86_400
    summer = 1_720_000_000
    for moment in (summer, summer + 7 * cycle, summer - 9 * cycle):
        assert zone.kind_at(moment).offset == 7200
        boundary = zone.next_boundary(moment).moment
        assert boundary is not None
        assert 0 < boundary - moment < 366 * 86_400


def test_daylight_saving_time_all_year_has_no_boundary():
    zone = zone_of_specification("XXX3YYY,J1/0,J365/25")
    assert zone is not None
    assert zone.next_boundary(0).moment is None or zone.kind_at(0).is_dst
