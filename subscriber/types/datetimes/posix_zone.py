"""Time zones of POSIX specifications, such as ``CET-1CEST,M3.5.0,M10.5.0/3`` (``tzparse`` of
PostgreSQL's ``localtime.c``).
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from subscriber.types.datetimes.calendar import UNIX_EPOCH, day_number, month_length, weekday
from subscriber.types.datetimes.timezone_data import MOST_MOMENTS, SECONDS_OF_DAY, Kind, Zone

_CYCLE_YEARS: Final = 400
_FIRST_YEAR: Final = 1970 - _CYCLE_YEARS // 2
_GREATEST_HOUR: Final = 167
_DEFAULT_RULES: Final = ",M3.2.0,M11.1.0"
_DEFAULT_RULE_TIME: Final = 7200

_NAME: Final = re.compile(r"<([^>]*)>|([^0-9,+-]*)")
_OFFSET: Final = re.compile(r"([-+]?)([0-9]+)(?::([0-9]+)(?::([0-9]+))?)?", re.ASCII)
_RULE: Final = re.compile(r"(?:J([0-9]+)|M([0-9]+)\.([0-9]+)\.([0-9]+)|([0-9]+))", re.ASCII)


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
        return day * SECONDS_OF_DAY + self.time


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
