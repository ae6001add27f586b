"""What a time zone's name means, and which offset a local time has there: ``DecodeTimezoneName``
and ``DetermineTimeZoneOffset``.

A name is, in this order, an abbreviation (``timezone_abbreviations = Default``), a name of the tz
database, or a POSIX specification. An abbreviation has an offset of its own, or stands for whatever
it meant in some zone at the time in question (``MSK``). Case does not matter.

The tz database is the one of the package ``tzdata``, on every machine alike; a server has its own,
of another release perhaps. Two releases differ in what was decided or found out in between. The
session's TimeZone is UTC, as elsewhere in filters: since 18 its own abbreviations come first, and
UTC has none but ``UTC``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final

from subscriber.errors import DataException, NotSupportedError
from subscriber.types.datetimes.calendar import SECOND, UNIX_EPOCH
from subscriber.types.datetimes.timezone_data import Kind, Zone, zone_of_file, zone_of_specification

_DAY_SECONDS: Final = 86_400
_EPOCH: Final = UNIX_EPOCH * _DAY_SECONDS
"""1970 in seconds since 2000."""
_LONGEST_NAME: Final = 255
_OF_AN_INSTALLATION: Final = frozenset({"posix", "right", "localtime", "posixrules"})
"""Files and folders that some servers have beside the database's, and others do not."""

_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER: Final = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}


@dataclass(frozen=True, slots=True)
class TimeZone:
    """What a name means.

    Attributes:
        zone: the zone, of which a fixed offset is the simplest.
        abbreviation: in capitals, if the name is one that stands for what it means in the zone;
            None otherwise.
    """

    zone: Zone
    abbreviation: str | None = None

    def offset_at(self, moment: int) -> int:
        """Seconds east of Greenwich at a timestamp with time zone."""
        seconds = moment // SECOND - _EPOCH
        if self.abbreviation is not None:
            kind = self.zone.kind_named(self.abbreviation, seconds)
            # Then the server takes the local time of that moment, and looks for its offset.
            return kind.offset if kind else self._resolved(seconds + self.zone.kind_at(seconds).offset)[0].offset
        return self.zone.kind_at(seconds).offset

    def offset_of(self, local: int) -> int:
        """Seconds east of Greenwich of a timestamp without time zone in this one."""
        kind, seconds = self._resolved(local // SECOND - _EPOCH)
        if self.abbreviation is not None:
            kind = self.zone.kind_named(self.abbreviation, seconds) or kind
        return kind.offset

    def _resolved(self, local: int) -> tuple[Kind, int]:
        """The kind that a local time is of, and the moment that it is
        (``DetermineTimeZoneOffsetInternal``).

        Where clocks go forward, a time that does not exist is of the kind before; where they go
        back, one that exists twice is of the kind after.
        """
        before, boundary, after = self.zone.next_boundary(local - _DAY_SECONDS)
        earlier, later = local - before.offset, local - after.offset
        if boundary is None or (earlier < boundary and later < boundary):
            return before, earlier
        if earlier > boundary and later >= boundary:
            return after, later
        return (before, earlier) if earlier > later else (after, later)


def time_zone(name: str) -> TimeZone:
    """What a name means.

    Raises:
        DataException: 22023, no such zone.
        NotSupportedError: whether there is one is a matter of the server's installation.
    """
    name = name.encode()[:_LONGEST_NAME].decode(errors="ignore")
    found = abbreviated(name.translate(_LOWER)) or zone_named(name)
    if found is None:
        raise unknown_zone()
    return found


def whole_zone(name: str) -> TimeZone:
    """What a name means where an abbreviation stands for its zone (``DecodeTimezoneNameToTz``).

    Raises:
        DataException: 22023, no such zone.
        NotSupportedError: whether there is one is a matter of the server's installation.
    """
    return TimeZone(time_zone(name).zone)


def unknown_zone() -> DataException:
    """22023. The name may be of a column, so it is not shown."""
    return DataException("time zone not recognized", sqlstate="22023")


def abbreviated(name: str) -> TimeZone | None:
    """What an abbreviation means, written in small letters; None if it is none
    (``DecodeTimezoneAbbrev``).
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
    """An offset, or the name of a zone."""
    found: dict[str, Kind | str] = {}
    for line in (files(__package__) / "timezone_abbreviations.tsv").read_text(encoding="utf-8").splitlines():
        name, meaning, *dst = line.split("\t")
        found[name] = meaning if "/" in meaning or meaning.isalpha() else Kind(int(meaning), bool(dst), 0)
    return found


@lru_cache(maxsize=1000)
def zone_named(name: str) -> TimeZone | None:
    """The zone of a name in the tz database, or of a POSIX specification (``pg_tzset``); None if
    there is none.

    Raises:
        NotSupportedError: whether there is one is a matter of the server's installation.
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
    """The names of the tz database, by what they are in small letters."""
    names = (files("tzdata") / "zones").read_text(encoding="utf-8").split()
    return {name.translate(_LOWER): name for name in names}


def _zone_of(name: str) -> Zone:
    return zone_of_file(files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes())
