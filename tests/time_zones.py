"""Time zones for tests: of specifications, and of files of the tz database."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.resources import files

from subscriber.postgres.types.datetimes.timezones import Zone, zone_of_file, zone_of_specification

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
    """The time zone of a POSIX specification."""
    zone = zone_of_specification(text)
    assert zone is not None
    return zone


def zone_file(name: str) -> Zone:
    """A time zone of the tz database."""
    return zone_of_file(files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes())


def seconds(*moment: int) -> int:
    """A moment in UTC in seconds since 1970."""
    return int(datetime(*moment, tzinfo=UTC).timestamp())  # type: ignore[arg-type,misc]
