"""The data of time zones: POSIX specifications and files of the tz database."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.types.datetimes.timezone_data import Boundary, Kind, Zone, zone_of_file, zone_of_specification

CYCLE = 146_097 * 86_400
ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Tokyo",
    "Africa/Casablanca",
    "America/Sao_Paulo",
    "UTC",
)


def specified(text: str) -> Zone:
    zone = zone_of_specification(text)
    assert zone is not None
    return zone


def seconds(*moment: int) -> int:
    """A moment in UTC in seconds since 1970."""
    return int(datetime(*moment, tzinfo=UTC).timestamp())  # type: ignore[arg-type,misc]


# --- specifications -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("UTC0", 0),
        ("EST5", -18_000),
        ("<+02>-2", 7200),
        ("x-5:30", 19_800),
        ("x1:02:03", -3723),
        ("x+5", -18_000),
        ("x167", -601_200),
        ("5", -18_000),
    ],
)
def test_an_offset_of_a_specification_is_west_of_greenwich(text, offset):
    zone = specified(text)
    assert zone.kind_at(0) == Kind(offset, False, 0)
    assert zone.only_offset == offset
    assert zone.next_boundary(0) == Boundary(zone.kind_at(0), None, zone.kind_at(0))


@pytest.mark.parametrize(
    "text",
    ["", "x", "x168", "x5:60", "x5:", "<x", "x5y,M13.1.0,M1.1.1", "x5y,M1.6.0,M1.1.1", "x5y,M1.1.7,M1.1.1", "x5y,J0,J1", "x5y,J366,J1", "x5y,366,1",
     "x5y,M3.2.0", "x5y,M3.2.0,", "x5y,M3.2.0,M11.1.0x", "x5y6z", "x5y,M3.2.0/x,M11.1.0", "x5,M3.2.0,M11.1.0"],
)  # fmt: skip
def test_a_text_that_is_not_a_specification_has_no_zone(text):
    assert zone_of_specification(text) is None


@pytest.mark.parametrize("text", ["EST5EDT,M3.2.0,M11.1.0", "EST5EDT4,M3.2.0/2,M11.1.0/2:00:00", "EST5EDT"])
def test_without_rules_those_of_the_united_states_apply(text):
    zone = specified(text)
    begin, end = seconds(2024, 3, 10, 7), seconds(2024, 11, 3, 6)
    assert [zone.kind_at(moment).offset for moment in (begin - 1, begin, end - 1, end)] == [
        -18_000,
        -14_400,
        -14_400,
        -18_000,
    ]
    assert zone.next_boundary(begin - 1).moment == begin
    assert zone.next_boundary(begin).moment == end
    assert zone.only_offset is None


@pytest.mark.parametrize(
    ("rule", "year", "moment"),
    [
        ("J60/0", 2023, (2023, 3, 1)),
        ("J60/0", 2024, (2024, 3, 1)),
        ("59/0", 2023, (2023, 3, 1)),
        ("59/0", 2024, (2024, 2, 29)),
        ("M2.5.4/0", 2024, (2024, 2, 29)),
        ("M2.5.0/0", 2024, (2024, 2, 25)),
        ("M3.1.0/-24", 2024, (2024, 3, 2)),
        ("M3.1.0/25:30", 2024, (2024, 3, 4, 1, 30)),
    ],
)
def test_the_rules_name_days_of_the_year_or_of_a_month(rule, year, moment):
    """J60 is always March 1; 59 counts February 29; week 5 is the last one."""
    zone = specified(f"x0y,{rule},J300")
    assert zone.next_boundary(seconds(year, 1, 2)).moment == seconds(*moment)


def test_daylight_saving_time_is_around_the_new_year_in_the_south():
    zone = specified("x-10y,M10.1.0,M4.1.0/3")
    assert [zone.kind_at(seconds(2024, month, 1)).is_dst for month in (1, 3, 5, 7, 9, 11, 12)] == [
        True,
        True,
        False,
        False,
        False,
        True,
        True,
    ]


@given(st.integers(-(10**10), 10**10), st.integers(-20, 20))
def test_a_specification_repeats_itself_every_400_years(moment, cycles):
    zone = specified("CET-1CEST,M3.5.0,M10.5.0/3")
    later = moment + cycles * CYCLE
    assert zone.kind_at(moment) == zone.kind_at(later)
    boundary, repeated = zone.next_boundary(moment).moment, zone.next_boundary(later).moment
    assert boundary is not None
    assert repeated is not None
    assert repeated - later == boundary - moment > 0


def test_daylight_saving_time_all_year_has_no_boundary():
    zone = specified("XXX3YYY,J1/0,J365/26")
    assert (zone.kind_at(0).offset, zone.kind_at(0).is_dst) == (-7200, True)
    assert zone.next_boundary(0).moment is None


# --- files --------------------------------------------------------------------------------------


def zone_file(name: str) -> Zone:
    return zone_of_file(files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes())


@given(st.sampled_from(ZONES), st.integers(-3_786_825_600, 16_725_225_600))
def test_a_zone_of_the_tz_database_has_the_offset_that_python_gives_it(name, moment):
    """From 1850 to 2500."""
    in_utc = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=moment)
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        offset = in_utc.astimezone(ZoneInfo.from_file(file)).utcoffset()
    assert offset is not None
    assert zone_file(name).kind_at(moment).offset == int(offset.total_seconds())


@given(st.sampled_from(ZONES), st.integers(-(10**10), 10**10))
def test_the_offset_changes_only_at_a_boundary(name, moment):
    zone = zone_file(name)
    before, boundary, after = zone.next_boundary(moment)
    assert zone.kind_at(moment) == before
    if boundary is not None:
        assert boundary > moment
        assert zone.kind_at(boundary - 1) == before
        assert zone.kind_at(boundary) == after


def test_an_abbreviation_means_its_latest_kind_before_the_moment():
    zone = zone_file("Europe/Moscow")
    for moment, offset in (((2012, 1, 1), 4 * 3600), ((2024, 1, 1), 3 * 3600), ((2000, 1, 1), 3 * 3600)):
        kind = zone.kind_named("MSK", seconds(*moment))
        assert kind is not None
        assert kind.offset == offset
    assert zone.kind_named("CEST", 0) is None


def test_an_abbreviation_that_is_used_only_later_means_its_first_kind():
    zone = specified("x0yyy,M3.1.0,M11.1.0")
    kind = zone.kind_named("yyy", -(10**11))
    assert kind is not None
    assert kind.is_dst


def test_a_file_of_the_first_version_is_read():
    """It has moments of 32 bits and no rule at its end."""
    header = struct.pack(">4sc15x6I", b"TZif", b"\0", 0, 0, 0, 1, 2, 8)
    kinds = struct.pack(">lBBlBB", 3600, 0, 0, 7200, 1, 4)
    zone = zone_of_file(header + struct.pack(">l", 1000) + b"\1" + kinds + b"CET\0CES\0")
    assert (zone.kind_at(999), zone.kind_at(1000)) == (Kind(3600, False, 0), Kind(7200, True, 4))
    assert zone.next_boundary(1000).moment is None
