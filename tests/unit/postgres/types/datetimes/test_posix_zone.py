"""Time zones of POSIX specifications."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.postgres.types.datetimes.timezones import Boundary, LocalTimeKind, zone_of_specification
from tests.time_zones import seconds, specified

CYCLE = 146_097 * 86_400


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
    assert zone.kind_at(0) == LocalTimeKind(offset, False, 0)
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
