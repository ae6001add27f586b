"""What the data of a time zone say about a moment."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.time_zones import ZONES, seconds, specified, zone_file


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
