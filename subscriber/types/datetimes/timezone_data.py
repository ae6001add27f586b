"""The data of a time zone, as in PostgreSQL's ``localtime.c``.

A time zone is a list of moments at which the offset changes. It is read from a file or from a POSIX
specification.

::

    TZif file ──────▶ moments that are listed ──┐
       its footer ──▶ rule for all later ones ──┴▶ Zone ◀── rule: a POSIX specification, such as EST5EDT,M3.2.0,M11.1.0

A time zone has at most 2,000 moments, as in PostgreSQL. The Gregorian calendar repeats after 400
years. If the first or the last moment repeats another moment 400 years from it, all times before
the first moment, or after the last moment, repeat as well.

*Rejected:* ``zoneinfo.ZoneInfo``. It resolves a local time by PEP 495. PostgreSQL searches for the
next change of the offset, and resolves local times that do not exist, or that exist twice, by the
offsets before and after that change. Also, ``zoneinfo.ZoneInfo`` does not read POSIX
specifications.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from dataclasses import dataclass
from typing import Final, NamedTuple

from subscriber.types.datetimes.calendar import UNIX_EPOCH, day_number, month_length, weekday

_DAY: Final = 86_400
_CYCLE: Final = 146_097 * _DAY
"""The length of 400 years in seconds."""
_CYCLE_YEARS: Final = 400
_FIRST_YEAR: Final = 1970 - _CYCLE_YEARS // 2
_MOST_MOMENTS: Final = 2000
_MOST_NAME_BYTES: Final = 50
_GREATEST_HOUR: Final = 167
_DEFAULT_RULES: Final = ",M3.2.0,M11.1.0"
_DEFAULT_RULE_TIME: Final = 7200

_HEADER: Final = struct.Struct(">4sc15x6I")
_NAME: Final = re.compile(r"<([^>]*)>|([^0-9,+-]*)")
_OFFSET: Final = re.compile(r"([-+]?)([0-9]+)(?::([0-9]+)(?::([0-9]+))?)?", re.ASCII)
_RULE: Final = re.compile(r"(?:J([0-9]+)|M([0-9]+)\.([0-9]+)\.([0-9]+)|([0-9]+))", re.ASCII)


class Kind(NamedTuple):
    """A kind of local time (``ttinfo``).

    Attributes:
        offset: seconds east of Greenwich.
        is_dst: whether it is daylight saving time.
        name_at: the position of its abbreviation in :attr:`Zone.names`.
    """

    offset: int
    is_dst: bool
    name_at: int


class Boundary(NamedTuple):
    """A change of the offset: the kinds before and after it, and its moment.

    The moment is None if there is no such change.
    """

    before: Kind
    moment: int | None
    after: Kind


@dataclass(frozen=True, slots=True)
class Zone:
    """The data of a time zone. Moments are seconds since 1970-01-01 00:00:00 UTC.

    Attributes:
        moments: the moments at which another kind of local time begins, ascending.
        places: for each moment, the index in ``kinds`` of the kind that begins.
        kinds: all kinds of local time.
        default: the index of the kind before the first moment.
        names: the abbreviations, each with a zero byte after it.
        repeats_before: whether times before the first moment have the offsets of 400 years later.
        repeats_after: whether times after the last moment have the offsets of 400 years earlier.
    """

    moments: tuple[int, ...]
    places: tuple[int, ...]
    kinds: tuple[Kind, ...]
    default: int
    names: bytes
    repeats_before: bool = False
    repeats_after: bool = False

    def kind_at(self, moment: int) -> Kind:
        """The kind of local time at a moment (``pg_localtime``)."""
        return self._kind_before(bisect_right(self.moments, moment + self._cycles(moment) * _CYCLE))

    def next_boundary(self, moment: int) -> Boundary:
        """The first change of the offset after a moment (``pg_next_dst_boundary``)."""
        shift = self._cycles(moment) * _CYCLE
        place = bisect_right(self.moments, moment + shift)
        before = self._kind_before(place)
        if place == len(self.moments):
            return Boundary(before, None, before)
        return Boundary(before, self.moments[place] - shift, self.kinds[self.places[place]])

    def _kind_before(self, place: int) -> Kind:
        return self.kinds[self.places[place - 1] if place else self.default]

    def _cycles(self, moment: int) -> int:
        """How often 400 years must be added to a moment so that it is between the listed
        moments.
        """
        if self.repeats_before and moment < self.moments[0]:
            return (self.moments[0] - moment - 1) // _CYCLE + 1
        if self.repeats_after and moment > self.moments[-1]:
            return -((moment - self.moments[-1] - 1) // _CYCLE + 1)
        return 0

    def kind_named(self, name: str, moment: int) -> Kind | None:
        """The kind that an abbreviation means (``pg_interpret_timezone_abbrev``).

        It is the kind that has this abbreviation at the moment or was the last to have it before
        the moment. If there is none, it is the first one after the moment.
        """
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
        """The offset of a time zone that has always had the same one (``pg_get_timezone_offset``);
        None for other time zones.
        """
        offsets = {kind.offset for kind in self.kinds}
        return offsets.pop() if len(offsets) == 1 else None


# --- POSIX specifications -----------------------------------------------------------------------


class _Rule(NamedTuple):
    """When daylight saving time begins or ends in a year.

    Attributes:
        julian: the day of the year from 1, where February 29 is not counted; None for other rules.
        day_of_year: the day of the year from 0; None for other rules.
        month: the month, if ``julian`` and ``day_of_year`` are None. ``week`` and ``weekday`` (0 is
            Sunday) give the day in it.
        time: seconds since midnight of that day, in the local time before the change.
    """

    julian: int | None
    day_of_year: int | None
    month: int
    week: int
    weekday: int
    time: int

    def seconds(self, year: int) -> int:
        """Seconds from the beginning of the year to the change, in the local time before the change
        (``transtime``).
        """
        if self.julian is not None:
            day = self.julian - 1 + (month_length(year, 2) == 29 and self.julian >= 60)
        elif self.day_of_year is not None:
            day = self.day_of_year
        else:
            first = day_number(year, self.month, 1)
            day_of_month = (self.weekday - 1 - weekday(first)) % 7
            weeks = min(self.week - 1, (month_length(year, self.month) - 1 - day_of_month) // 7)
            day = first - day_number(year, 1, 1) + day_of_month + 7 * weeks
        return day * _DAY + self.time


class _Reader:
    """A specification that is read from left to right.

    Each function returns None if the text does not continue with what the function reads.
    """

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
        """An offset in seconds; in a time zone's offset, positive means west of Greenwich."""
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
    """The number that these digits form. A number above 9999 is too large in any case, so its exact
    value does not matter.
    """
    return int(digits) if len(digits.lstrip("0")) < 5 else 9999


def zone_of_specification(text: str) -> Zone | None:
    """The time zone of a POSIX specification (``tzparse``), such as ``<+02>-2`` or
    ``CET-1CEST,M3.5.0,M10.5.0/3``.

    None if the text is not such a specification.
    """
    reader = _Reader(text)
    name = reader.name()
    if name is None or not reader.rest:
        return None
    west = reader.offset()
    if west is None:
        return None
    if not reader.rest:
        return Zone((), (), (Kind(-west, False, 0),), 0, _names(name))
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
    kinds = Kind(-west, False, 0), Kind(-dst_west, True, len(name.encode()) + 1)
    moments, places, is_whole = _repeated(start, end, west, dst_west)
    if not moments:
        return Zone((), (), (kinds[1],), 0, _names(name, dst_name))
    return Zone(tuple(moments), tuple(places), kinds, 0, _names(name, dst_name), is_whole, is_whole)


def _names(*names: str) -> bytes:
    return b"".join(name.encode() + b"\0" for name in names)


def _repeated(start: _Rule, end: _Rule, west: int, dst_west: int) -> tuple[list[int], list[int], bool]:
    """The moments of the changes by these rules, the kinds that begin at them, and whether they
    cover more than 400 years.
    """
    moments: list[int] = []
    places: list[int] = []
    year, limit = _FIRST_YEAR, _FIRST_YEAR + _CYCLE_YEARS + 1
    while year < limit:
        first, last = start.seconds(year) + west, end.seconds(year) + dst_west
        new_year = (day_number(year, 1, 1) - UNIX_EPOCH) * _DAY
        length = (day_number(year + 1, 1, 1) - UNIX_EPOCH) * _DAY - new_year
        reverse = last < first
        if reverse:
            first, last = last, first
        if reverse or first < last < first + length + west - dst_west:
            if len(moments) > _MOST_MOMENTS - 2:
                break
            moments += [new_year + first, new_year + last]
            places += [int(not reverse), int(reverse)]
            limit = year + _CYCLE_YEARS + 1
        year += 1
    return moments, places, year - _FIRST_YEAR > _CYCLE_YEARS


# --- files --------------------------------------------------------------------------------------


class _Block(NamedTuple):
    """The data block of a file, with moments of 32 or of 64 bits."""

    moments: list[int]
    places: list[int]
    kinds: list[Kind]
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
        Kind(offset, bool(is_dst), name_at)
        for offset, is_dst, name_at in struct.iter_unpack(">lBB", data[at : at + kind_count * 6])
    ]
    at += kind_count * 6
    names = data[at : at + name_count]
    return _Block(moments, places, kinds, names, at + name_count + leap_count * (size + 4) + std_count + ut_count)


def zone_of_file(data: bytes) -> Zone:
    """The time zone of a TZif file (``tzloadbody``).

    Leap seconds are not read, because no time zone of the tz database has any.
    """
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
            room = _MOST_MOMENTS - len(moments)
            later = bisect_right(rule.moments, moments[-1]) if moments else 0
            places += [len(kinds) + place for place in rule.places[later:][:room]]
            moments += rule.moments[later:][:room]
            kinds += [kind._replace(name_at=at) for kind, at in zip(rule.kinds, places_of_names, strict=True)]
    return _zone(moments, places, kinds, names)


def _with_names(names: bytes, rule: Zone) -> tuple[bytes, list[int] | None]:
    """The names extended by those of the rule, and the positions of the rule's names.

    The positions are None if there is no room for them.
    """
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


def _zone(moments: list[int], places: list[int], kinds: list[Kind], names: bytes) -> Zone:
    def same(one: int, other: int) -> bool:
        left, right = (
            (kind.offset, kind.is_dst, names[kind.name_at :].partition(b"\0")[0])
            for kind in (kinds[places[one]], kinds[places[other]])
        )
        return left == right

    last = len(moments) - 1
    before = any(moments[at] - moments[0] == _CYCLE and same(at, 0) for at in range(1, len(moments)))
    after = any(moments[last] - moments[at] == _CYCLE and same(at, last) for at in range(last))
    return Zone(tuple(moments), tuple(places), tuple(kinds), _default(places, kinds), names, before, after)


def _default(places: list[int], kinds: list[Kind]) -> int:
    """The index of the kind before the first moment.

    It is the first kind, unless the moments require another one, as in files of 2018 and older.
    """
    if 0 not in places:
        return 0
    if kinds[places[0]].is_dst:
        standard = [place for place in range(places[0]) if not kinds[place].is_dst]
        if standard:
            return standard[-1]
    return next((place for place, kind in enumerate(kinds) if not kind.is_dst), 0)
