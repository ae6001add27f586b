"""The names of time zones, and the offset of a local time in a time zone: a port of
``DecodeTimezoneName`` and ``DetermineTimeZoneOffset``.

A name is looked up as an abbreviation first (``timezone_abbreviations = Default``), then as a name
of the tz database, then as a POSIX specification. An abbreviation either has a fixed offset or
means the offset that it had in a certain time zone at the given time (``MSK``). From PostgreSQL 18
on, the abbreviations of the session's TimeZone are looked up first; UTC has only ``UTC``. The tz
database is that of the Python package ``tzdata``; a server's may be of another release.

The data of a time zone is the moments at which its offset changes, as in ``localtime.c``::

    TZif file ──▶ moments that are listed ──┐
    its footer ─▶ rule for all later ones ──┴▶ Zone ◀── a POSIX specification, such as EST5EDT,M3.2.0,M11.1.0

A time zone has at most 2,000 moments. The Gregorian calendar repeats after 400 years. If the first
or the last moment repeats another moment 400 years from it, all times before the first moment, or
after the last moment, repeat as well.

*Rejected:* ``zoneinfo.ZoneInfo``, which resolves a local time by PEP 495 and reads no POSIX
specifications. PostgreSQL searches for the next change of the offset, and resolves local times that
do not exist, or that exist twice, by the offsets before and after that change.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final, NamedTuple

from subscriber.base.errors import DataException, NotSupportedError
from subscriber.postgres.types.datetimes.date_values import SECOND, UNIX_EPOCH, day_number, month_length, weekday

SECONDS_OF_DAY: Final = 86_400
CYCLE: Final = 146_097 * SECONDS_OF_DAY
"""400 years in seconds."""
MOST_MOMENTS: Final = 2000


class LocalTimeKind(NamedTuple):
    """``ttinfo``: seconds east of Greenwich, and where the abbreviation is in ``Zone.names``."""

    offset: int
    is_dst: bool
    name_at: int


class Boundary(NamedTuple):
    """A change of the offset: the kinds before and after it, and its moment, if there is one."""

    before: LocalTimeKind
    moment: int | None
    after: LocalTimeKind


@dataclass(frozen=True, slots=True)
class Zone:
    """The data of a time zone. ``moments``, in seconds since 1970-01-01 00:00:00 UTC, are those at
    which another kind of local time begins; ``places`` has the index of each in ``kinds``,
    ``default`` that of the kind before the first. ``names`` are the abbreviations, each with a zero
    byte after it. ``repeats_before``, ``repeats_after``: times before the first, after the last
    moment have the offsets of 400 years later or earlier.
    """

    moments: tuple[int, ...]
    places: tuple[int, ...]
    kinds: tuple[LocalTimeKind, ...]
    default: int
    names: bytes
    repeats_before: bool = False
    repeats_after: bool = False

    def kind_at(self, moment: int) -> LocalTimeKind:
        """``pg_localtime``"""
        return self._kind_before(bisect_right(self.moments, moment + self._cycles(moment) * CYCLE))

    def next_boundary(self, moment: int) -> Boundary:
        """``pg_next_dst_boundary``"""
        shift = self._cycles(moment) * CYCLE
        place = bisect_right(self.moments, moment + shift)
        before = self._kind_before(place)
        if place == len(self.moments):
            return Boundary(before, None, before)
        return Boundary(before, self.moments[place] - shift, self.kinds[self.places[place]])

    def _kind_before(self, place: int) -> LocalTimeKind:
        return self.kinds[self.places[place - 1] if place else self.default]

    def _cycles(self, moment: int) -> int:
        """How often 400 years must be added to a moment to get between the listed moments."""
        if self.repeats_before and moment < self.moments[0]:
            return (self.moments[0] - moment - 1) // CYCLE + 1
        if self.repeats_after and moment > self.moments[-1]:
            return -((moment - self.moments[-1] - 1) // CYCLE + 1)
        return 0

    def kind_named(self, name: str, moment: int) -> LocalTimeKind | None:
        """The kind so named at the moment, else the last before it, else the first after it."""
        name_at = self._name_at(name)
        if name_at is None:
            return None
        cutoff = bisect_right(self.moments, moment)
        before = [*reversed(self.places[:cutoff]), self.default]
        for place in (*before, *self.places[cutoff:]):
            if self.kinds[place].name_at == name_at:
                return self.kinds[place]
        return None

    def _name_at(self, name: str) -> int | None:
        at = 0
        for one in self.names.split(b"\0")[:-1]:
            if one == name.encode():
                return at
            at += len(one) + 1
        return None

    @property
    def only_offset(self) -> int | None:
        """The offset of a zone that has always had the same one (``pg_get_timezone_offset``)."""
        offsets = {kind.offset for kind in self.kinds}
        return offsets.pop() if len(offsets) == 1 else None


_CYCLE_YEARS: Final = 400
_FIRST_YEAR: Final = 1970 - _CYCLE_YEARS // 2
_GREATEST_HOUR: Final = 167
_DEFAULT_RULES: Final = ",M3.2.0,M11.1.0"
_DEFAULT_RULE_TIME: Final = 7200

_NAME: Final = re.compile(r"<([^>]*)>|([^0-9,+-]*)")
_OFFSET: Final = re.compile(r"([-+]?)([0-9]+)(?::([0-9]+)(?::([0-9]+))?)?", re.ASCII)
_RULE: Final = re.compile(r"(?:J([0-9]+)|M([0-9]+)\.([0-9]+)\.([0-9]+)|([0-9]+))", re.ASCII)


class _Rule(NamedTuple):
    """When daylight saving time begins or ends in a year: on the day ``julian`` (from 1, February
    29 is not counted), or ``day_of_year`` (from 0), or by ``month``, ``week`` and ``weekday`` (0 is
    Sunday). ``time`` is seconds since midnight, in the local time before the change.
    """

    julian: int | None
    day_of_year: int | None
    month: int
    week: int
    weekday: int
    time: int

    def seconds(self, year: int) -> int:
        """Since the beginning of the year, in local time before the change (``transtime``)."""
        if self.julian is not None:
            day = self.julian - 1 + (month_length(year, 2) == 29 and self.julian >= 60)
        elif self.day_of_year is not None:
            day = self.day_of_year
        else:
            first = day_number(year, self.month, 1)
            day_of_month = (self.weekday - 1 - weekday(first)) % 7
            weeks = min(self.week - 1, (month_length(year, self.month) - 1 - day_of_month) // 7)
            day = first - day_number(year, 1, 1) + day_of_month + 7 * weeks
        return day * SECONDS_OF_DAY + self.time


class _Reader:
    """Reads a specification. Each function returns None if the text does not continue so."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0

    @property
    def rest(self) -> str:
        return self.text[self.place :]

    def accept(self, symbols: str) -> bool:
        found = self.rest[:1] != "" and self.rest[0] in symbols
        self.place += found
        return found

    def name(self) -> str | None:
        match = _NAME.match(self.text, self.place)
        assert match is not None
        if match[1] is None and match[2].startswith("<"):
            return None
        self.place = match.end()
        return match[1] if match[1] is not None else match[2]

    def offset(self) -> int | None:
        """Seconds; in a time zone's offset, positive means west of Greenwich."""
        match = _OFFSET.match(self.text, self.place)
        if match is None:
            return None
        hours, minutes, seconds = (_number(one or "0") for one in match.group(2, 3, 4))
        if hours > _GREATEST_HOUR or minutes > 59 or seconds > 60:
            return None
        end = match.end()
        if self.text[end : end + 1] == ":" and match[4] is None:
            return None
        self.place = end
        total = hours * 3600 + minutes * 60 + seconds
        return -total if match[1] == "-" else total

    def rule(self) -> _Rule | None:
        match = _RULE.match(self.text, self.place)
        if match is None:
            return None
        self.place = match.end()
        julian, month, week, day, day_of_year = (None if one is None else _number(one) for one in match.groups())
        if julian is not None and not 1 <= julian <= 365:
            return None
        if day_of_year is not None and day_of_year > 365:
            return None
        if month is not None:
            assert week is not None
            assert day is not None
            if not 1 <= month <= 12 or not 1 <= week <= 5 or day > 6:
                return None
        time: int | None = _DEFAULT_RULE_TIME
        if self.accept("/"):
            time = self.offset()
        return None if time is None else _Rule(julian, day_of_year, month or 0, week or 0, day or 0, time)


def _number(digits: str) -> int:
    """Above 9999 a number is too large in any case, so its exact value does not matter."""
    return int(digits) if len(digits.lstrip("0")) < 5 else 9999


def zone_of_specification(text: str) -> Zone | None:
    """``tzparse``: such as ``<+02>-2`` or ``CET-1CEST,M3.5.0,M10.5.0/3``."""
    reader = _Reader(text)
    name = reader.name()
    if name is None or not reader.rest:
        return None
    west = reader.offset()
    if west is None:
        return None
    if not reader.rest:
        return Zone((), (), (LocalTimeKind(-west, False, 0),), 0, _names(name))
    dst_name = reader.name()
    if not dst_name:
        return None
    dst_west = reader.offset() if reader.rest and reader.rest[0] not in ",;" else west - 3600
    if dst_west is None:
        return None
    if not reader.rest:
        reader = _Reader(_DEFAULT_RULES)
    if not reader.accept(",;"):
        return None
    start = reader.rule()
    end = reader.rule() if start is not None and reader.accept(",") else None
    if start is None or end is None or reader.rest:
        return None
    kinds = LocalTimeKind(-west, False, 0), LocalTimeKind(-dst_west, True, len(name.encode()) + 1)
    moments, places, is_whole = _repeated(start, end, west, dst_west)
    if not moments:
        return Zone((), (), (kinds[1],), 0, _names(name, dst_name))
    return Zone(tuple(moments), tuple(places), kinds, 0, _names(name, dst_name), is_whole, is_whole)


def _names(*names: str) -> bytes:
    return b"".join(name.encode() + b"\0" for name in names)


def _repeated(start: _Rule, end: _Rule, west: int, dst_west: int) -> tuple[list[int], list[int], bool]:
    """The moments of the changes, the kinds that begin, and whether they cover over 400 years."""
    moments: list[int] = []
    places: list[int] = []
    year, limit = _FIRST_YEAR, _FIRST_YEAR + _CYCLE_YEARS + 1
    while year < limit:
        first, last = start.seconds(year) + west, end.seconds(year) + dst_west
        new_year = (day_number(year, 1, 1) - UNIX_EPOCH) * SECONDS_OF_DAY
        length = (day_number(year + 1, 1, 1) - UNIX_EPOCH) * SECONDS_OF_DAY - new_year
        reverse = last < first
        if reverse:
            first, last = last, first
        if reverse or first < last < first + length + west - dst_west:
            if len(moments) > MOST_MOMENTS - 2:
                break
            moments += [new_year + first, new_year + last]
            places += [int(not reverse), int(reverse)]
            limit = year + _CYCLE_YEARS + 1
        year += 1
    return moments, places, year - _FIRST_YEAR > _CYCLE_YEARS


_MOST_NAME_BYTES: Final = 50
_HEADER: Final = struct.Struct(">4sc15x6I")


class _Block(NamedTuple):
    moments: list[int]
    places: list[int]
    kinds: list[LocalTimeKind]
    names: bytes
    end: int


def _block(data: bytes, start: int, size: int) -> _Block:
    _, _, ut_count, std_count, leap_count, count, kind_count, name_count = _HEADER.unpack_from(data, start)
    at = start + _HEADER.size
    moments = list(struct.unpack_from(f">{count}{'q' if size == 8 else 'l'}", data, at))
    at += count * size
    places = list(data[at : at + count])
    at += count
    kinds = [
        LocalTimeKind(offset, bool(is_dst), name_at)
        for offset, is_dst, name_at in struct.iter_unpack(">lBB", data[at : at + kind_count * 6])
    ]
    at += kind_count * 6
    names = data[at : at + name_count]
    return _Block(moments, places, kinds, names, at + name_count + leap_count * (size + 4) + std_count + ut_count)


def zone_of_file(data: bytes) -> Zone:
    """A TZif file (``tzloadbody``). Leap seconds are not read: the tz database has none."""
    block = _block(data, 0, 4)
    footer = b""
    if data[4:5] != b"\0":
        block = _block(data, block.end, 8)
        footer = data[block.end :].strip(b"\n")
    moments, places, kinds, names = list(block.moments), list(block.places), list(block.kinds), block.names
    rule = zone_of_specification(footer.decode()) if footer else None
    if rule is not None:
        names, places_of_names = _with_names(names, rule)
        if places_of_names is not None:
            while len(moments) > 1 and places[-1] == places[-2]:
                del moments[-1], places[-1]
            room = MOST_MOMENTS - len(moments)
            later = bisect_right(rule.moments, moments[-1]) if moments else 0
            places += [len(kinds) + place for place in rule.places[later:][:room]]
            moments += rule.moments[later:][:room]
            kinds += [kind._replace(name_at=at) for kind, at in zip(rule.kinds, places_of_names, strict=True)]
    return _zone(moments, places, kinds, names)


def _with_names(names: bytes, rule: Zone) -> tuple[bytes, list[int] | None]:
    """The names with those of the rule, and the positions of those; None if there is no room."""
    found = []
    for kind in rule.kinds:
        name = rule.names[kind.name_at :].partition(b"\0")[0] + b"\0"
        at = names.find(name)
        if at < 0:
            at = len(names)
            if at + len(name) - 1 >= _MOST_NAME_BYTES:
                return names, None
            names += name
        found.append(at)
    return names, found


def _zone(moments: list[int], places: list[int], kinds: list[LocalTimeKind], names: bytes) -> Zone:
    def same(one: int, other: int) -> bool:
        left, right = (
            (kind.offset, kind.is_dst, names[kind.name_at :].partition(b"\0")[0])
            for kind in (kinds[places[one]], kinds[places[other]])
        )
        return left == right

    last = len(moments) - 1
    before = any(moments[at] - moments[0] == CYCLE and same(at, 0) for at in range(1, len(moments)))
    after = any(moments[last] - moments[at] == CYCLE and same(at, last) for at in range(last))
    return Zone(tuple(moments), tuple(places), tuple(kinds), _default(places, kinds), names, before, after)


def _default(places: list[int], kinds: list[LocalTimeKind]) -> int:
    """The first kind, unless the moments require another one, as in files of 2018 and older."""
    if 0 not in places:
        return 0
    if kinds[places[0]].is_dst:
        standard = [place for place in range(places[0]) if not kinds[place].is_dst]
        if standard:
            return standard[-1]
    return next((place for place, kind in enumerate(kinds) if not kind.is_dst), 0)


_DAY_SECONDS: Final = 86_400
_EPOCH: Final = UNIX_EPOCH * _DAY_SECONDS
_LONGEST_NAME: Final = 255
_OF_AN_INSTALLATION: Final = frozenset({"posix", "right", "localtime", "posixrules"})
"""Files and folders that some servers have in addition to those of the tz database."""

_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER: Final = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}


@dataclass(frozen=True, slots=True)
class TimeZone:
    """What a time zone's name means; ``abbreviation`` is set if that depends on the time."""

    zone: Zone
    abbreviation: str | None = None

    def offset_at(self, moment: int) -> int:
        """Seconds east of Greenwich at a timestamp with time zone."""
        seconds = moment // SECOND - _EPOCH
        if self.abbreviation is not None:
            kind = self.zone.kind_named(self.abbreviation, seconds)
            # If the abbreviation is not found, the server takes the local time of the moment and
            # determines its offset.
            return kind.offset if kind else self._resolved(seconds + self.zone.kind_at(seconds).offset)[0].offset
        return self.zone.kind_at(seconds).offset

    def offset_of(self, local: int) -> int:
        """Seconds east of Greenwich at a timestamp without time zone, local time in this zone."""
        kind, seconds = self._resolved(local // SECOND - _EPOCH)
        if self.abbreviation is not None:
            kind = self.zone.kind_named(self.abbreviation, seconds) or kind
        return kind.offset

    def _resolved(self, local: int) -> tuple[LocalTimeKind, int]:
        """The kind and the moment of a local time (``DetermineTimeZoneOffsetInternal``). One that
        does not exist has the kind before the change, one that exists twice the kind after it.
        """
        before, boundary, after = self.zone.next_boundary(local - _DAY_SECONDS)
        earlier, later = local - before.offset, local - after.offset
        if boundary is None or (earlier < boundary and later < boundary):
            return before, earlier
        if earlier > boundary and later >= boundary:
            return after, later
        return (before, earlier) if earlier > later else (after, later)


def time_zone(name: str) -> TimeZone:
    """The meaning of a name; DataException (22023), or NotSupportedError if servers differ."""
    name = name.encode()[:_LONGEST_NAME].decode(errors="ignore")
    found = abbreviated(name.translate(_LOWER)) or zone_named(name)
    if found is None:
        raise unknown_zone()
    return found


def whole_zone(name: str) -> TimeZone:
    """An abbreviation means its whole zone here (``DecodeTimezoneNameToTz``)."""
    return TimeZone(time_zone(name).zone)


def unknown_zone() -> DataException:
    """The error does not show the name, which may come from a column."""
    return DataException("time zone not recognized", sqlstate="22023")


def abbreviated(name: str) -> TimeZone | None:
    """``DecodeTimezoneAbbrev``, in lower case."""
    meaning = _abbreviations().get(name)
    if meaning is None:
        return None
    if isinstance(meaning, LocalTimeKind):
        return TimeZone(Zone((), (), (meaning,), 0, b"\0"))
    found = zone_named(meaning)
    if found is None:
        raise NotSupportedError(
            "a time zone abbreviation cannot be evaluated here: the tz database lacks the zone that it stands for",
            hint="Install a complete tzdata package, or write the offset.",
        )
    return TimeZone(found.zone, name.translate(_UPPER))


@cache
def _abbreviations() -> dict[str, LocalTimeKind | str]:
    found: dict[str, LocalTimeKind | str] = {}
    for line in (files(__package__) / "timezone_abbreviations.tsv").read_text(encoding="utf-8").splitlines():
        name, meaning, *dst = line.split("\t")
        found[name] = meaning if "/" in meaning or meaning.isalpha() else LocalTimeKind(int(meaning), bool(dst), 0)
    return found


@lru_cache(maxsize=1000)
def zone_named(name: str) -> TimeZone | None:
    """A name of the tz database or a POSIX specification (``pg_tzset``)."""
    upper = name.translate(_UPPER)
    lower = name.translate(_LOWER)
    if (folder := lower.partition("/")[0]) in _OF_AN_INSTALLATION:
        raise NotSupportedError(
            f"the time zone cannot be evaluated here: not every server has {folder}",
            hint="Write the zone by its name in the tz database, such as Europe/Berlin.",
        )
    if upper == "GMT":
        return TimeZone(Zone((), (), (LocalTimeKind(0, False, 0),), 0, b"GMT\0"))
    known = _zone_names().get(lower.removeprefix(":"))
    if known is not None:
        return TimeZone(_zone_of(known))
    zone = None if upper.startswith(":") else zone_of_specification(upper)
    return None if zone is None else TimeZone(zone)


@cache
def _zone_names() -> dict[str, str]:
    names = (files("tzdata") / "zones").read_text(encoding="utf-8").split()
    return {name.translate(_LOWER): name for name in names}


def _zone_of(name: str) -> Zone:
    return zone_of_file(files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes())
