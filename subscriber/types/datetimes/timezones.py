"""The names of time zones, and the offset of a local time in a time zone.

This is a port of ``DecodeTimezoneName`` and ``DetermineTimeZoneOffset``.

A name is looked up as an abbreviation first (``timezone_abbreviations = Default``), then as a name
of the tz database, then as a POSIX specification. An abbreviation either has a fixed offset or
means the offset that the abbreviation had in a certain time zone at the given time (``MSK``). Case
does not matter.

The tz database is that of the Python package ``tzdata``, so it is the same on every machine. A
server has a separate copy, possibly of another release. Two releases differ in changes that
governments decided, and corrections that were made, between them. As everywhere in filters, the
session's TimeZone is UTC. From PostgreSQL 18 on, the abbreviations of that time zone are looked up
first; UTC has only ``UTC``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final

from subscriber.errors import DataException, NotSupportedError
from subscriber.types.datetimes.calendar import SECOND, UNIX_EPOCH
from subscriber.types.datetimes.posix_zone import zone_of_specification
from subscriber.types.datetimes.timezone_data import Kind, Zone
from subscriber.types.datetimes.zone_file import zone_of_file

_DAY_SECONDS: Final = 86_400
_EPOCH: Final = UNIX_EPOCH * _DAY_SECONDS
"""1970-01-01 in seconds since 2000-01-01."""
_LONGEST_NAME: Final = 255
_OF_AN_INSTALLATION: Final = frozenset({"posix", "right", "localtime", "posixrules"})
"""Files and folders that some servers have in addition to those of the tz database."""

_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER: Final = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}


@dataclass(frozen=True, slots=True)
class TimeZone:
    """The meaning of a time zone's name.

    Attributes:
        zone: the data of the time zone. A fixed offset is a time zone without changes.
        abbreviation: the abbreviation in capitals, if its meaning depends on the time; None
            otherwise.
    """

    zone: Zone
    abbreviation: str | None = None

    def offset_at(self, moment: int) -> int:
        """The offset at a timestamp with time zone, in seconds east of Greenwich."""
        seconds = moment // SECOND - _EPOCH
        if self.abbreviation is not None:
            kind = self.zone.kind_named(self.abbreviation, seconds)
            # If the abbreviation is not found, the server takes the local time of the moment and
            # determines its offset.
            return kind.offset if kind else self._resolved(seconds + self.zone.kind_at(seconds).offset)[0].offset
        return self.zone.kind_at(seconds).offset

    def offset_of(self, local: int) -> int:
        """The offset at a timestamp without time zone, which is a local time in this time zone, in
        seconds east of Greenwich.
        """
        kind, seconds = self._resolved(local // SECOND - _EPOCH)
        if self.abbreviation is not None:
            kind = self.zone.kind_named(self.abbreviation, seconds) or kind
        return kind.offset

    def _resolved(self, local: int) -> tuple[Kind, int]:
        """The kind and the moment of a local time (``DetermineTimeZoneOffsetInternal``).

        If clocks are set forward, a local time that does not exist has the kind before the change.
        If they are set back, a local time that exists twice has the kind after the change.
        """
        before, boundary, after = self.zone.next_boundary(local - _DAY_SECONDS)
        earlier, later = local - before.offset, local - after.offset
        if boundary is None or (earlier < boundary and later < boundary):
            return before, earlier
        if earlier > boundary and later >= boundary:
            return after, later
        return (before, earlier) if earlier > later else (after, later)


def time_zone(name: str) -> TimeZone:
    """The meaning of a time zone's name.

    Raises:
        DataException: 22023, there is no such time zone.
        NotSupportedError: the existence of the time zone depends on the server's installation.
    """
    name = name.encode()[:_LONGEST_NAME].decode(errors="ignore")
    found = abbreviated(name.translate(_LOWER)) or zone_named(name)
    if found is None:
        raise unknown_zone()
    return found


def whole_zone(name: str) -> TimeZone:
    """The meaning of a name; an abbreviation means its whole time zone
    (``DecodeTimezoneNameToTz``).

    Raises:
        DataException: 22023, there is no such time zone.
        NotSupportedError: the existence of the time zone depends on the server's installation.
    """
    return TimeZone(time_zone(name).zone)


def unknown_zone() -> DataException:
    """The error for an unknown time zone (22023). It does not show the name, which may come from a
    column.
    """
    return DataException("time zone not recognized", sqlstate="22023")


def abbreviated(name: str) -> TimeZone | None:
    """The meaning of an abbreviation in lower case (``DecodeTimezoneAbbrev``).

    None if it is not an abbreviation.
    """
    meaning = _abbreviations().get(name)
    if meaning is None:
        return None
    if isinstance(meaning, Kind):
        return TimeZone(Zone((), (), (meaning,), 0, b"\0"))
    found = zone_named(meaning)
    if found is None:
        raise NotSupportedError(
            "a time zone abbreviation cannot be evaluated here: the tz database lacks the zone that it stands for",
            hint="Install a complete tzdata package, or write the offset.",
        )
    return TimeZone(found.zone, name.translate(_UPPER))


@cache
def _abbreviations() -> dict[str, Kind | str]:
    """The abbreviations, each with its fixed offset or the name of its time zone."""
    found: dict[str, Kind | str] = {}
    for line in (files(__package__) / "timezone_abbreviations.tsv").read_text(encoding="utf-8").splitlines():
        name, meaning, *dst = line.split("\t")
        found[name] = meaning if "/" in meaning or meaning.isalpha() else Kind(int(meaning), bool(dst), 0)
    return found


@lru_cache(maxsize=1000)
def zone_named(name: str) -> TimeZone | None:
    """The time zone of a name in the tz database or of a POSIX specification (``pg_tzset``).

    None if there is no such time zone.

    Raises:
        NotSupportedError: the existence of the time zone depends on the server's installation.
    """
    upper = name.translate(_UPPER)
    lower = name.translate(_LOWER)
    if (folder := lower.partition("/")[0]) in _OF_AN_INSTALLATION:
        raise NotSupportedError(
            f"the time zone cannot be evaluated here: not every server has {folder}",
            hint="Write the zone by its name in the tz database, such as Europe/Berlin.",
        )
    if upper == "GMT":
        return TimeZone(Zone((), (), (Kind(0, False, 0),), 0, b"GMT\0"))
    known = _names().get(lower.removeprefix(":"))
    if known is not None:
        return TimeZone(_zone_of(known))
    zone = None if upper.startswith(":") else zone_of_specification(upper)
    return None if zone is None else TimeZone(zone)


@cache
def _names() -> dict[str, str]:
    """The names of the tz database, by the same names in lower case."""
    names = (files("tzdata") / "zones").read_text(encoding="utf-8").split()
    return {name.translate(_LOWER): name for name in names}


def _zone_of(name: str) -> Zone:
    return zone_of_file(files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes())
