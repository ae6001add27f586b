"""Time zones of files of the tz database."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from subscriber.postgres.types.datetimes.timezones import LocalTimeKind, zone_of_file
from tests.time_zones import ZONES, zone_file


@given(st.sampled_from(ZONES), st.integers(-3_786_825_600, 16_725_225_600))
def test_a_zone_of_the_tz_database_has_the_offset_that_python_gives_it(name, moment):
    """From 1850 to 2500."""
    in_utc = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=moment)
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        offset = in_utc.astimezone(ZoneInfo.from_file(file)).utcoffset()
    assert offset is not None
    assert zone_file(name).kind_at(moment).offset == int(offset.total_seconds())


def test_a_file_of_the_first_version_is_read():
    """It has moments of 32 bits and no rule at its end."""
    header = struct.pack(">4sc15x6I", b"TZif", b"\0", 0, 0, 0, 1, 2, 8)
    kinds = struct.pack(">lBBlBB", 3600, 0, 0, 7200, 1, 4)
    zone = zone_of_file(header + struct.pack(">l", 1000) + b"\1" + kinds + b"CET\0CES\0")
    assert (zone.kind_at(999), zone.kind_at(1000)) == (LocalTimeKind(3600, False, 0), LocalTimeKind(7200, True, 4))
    assert zone.next_boundary(1000).moment is None
