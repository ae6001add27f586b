"""The input function of interval.

::

    text ──fields──▶ numbers, words, clocks ──_from_fields──▶ value      DecodeInterval: read from the right, so that a unit is known
      │                       (ParseDateTime)                            before its number: 1 year -2 days +03:04:05 ago
      └── if the format is invalid ─── iso_interval ──▶ value            DecodeISO8601Interval: P1Y2M3DT4H5M6S, P0001-02-03T04:05:06

Each step fails as in the server. After an invalid format the next step is tried; after a field that
is too large it is not.

An interval is a sum of units (``struct pg_itm_in``). The fraction of a unit is added to smaller
units: that of a month to days and microseconds, that of a day to microseconds. Each sum that is too
large is an error at its place.
"""

from __future__ import annotations

import math
import re
import sys
from dataclasses import dataclass
from typing import Final

from subscriber.base.digits import parse_int
from subscriber.base.errors import DataException
from subscriber.postgres.types.datetimes import date_values as dates
from subscriber.postgres.types.datetimes.date_parts import Guess, Part, parts_of

INT32: Final = (-(2**31), 2**31 - 1)
INT64: Final = (-(2**63), 2**63 - 1)
_SCALES: Final = {
    "microsecond": 1,
    "millisecond": 1000,
    "second": dates.SECOND,
    "minute": dates.MINUTE,
    "hour": dates.HOUR,
}
_YEARS: Final = {"year": 1, "decade": 10, "century": 100, "millennium": 1000}
COUNTED_UNITS: Final = frozenset({*_SCALES, "day", "week", "month", *_YEARS})


class BadIntervalError(Exception): ...


def interval_overflow() -> DataException:
    return DataException("interval field value out of range", sqlstate="22015")


@dataclass(slots=True)
class IntervalSum:
    years: int = 0
    months: int = 0
    days: int = 0
    microseconds: int = 0

    def add(self, unit: str, whole: int, fraction: float) -> None:
        """Add a number of a unit. Its fraction is added to smaller units."""
        if unit in _SCALES:
            self._add_microseconds(whole * _SCALES[unit])
            self._add_fraction(fraction, _SCALES[unit])
        elif unit == "day":
            self._add_days(whole, 1)
            self._add_fraction(fraction, dates.DAY)
        elif unit == "week":
            self._add_days(whole, 7)
            self._add_fraction_of_days(fraction, 7)
        elif unit == "month":
            self.months = _in_int32(self.months + _in_int32(whole))
            self._add_fraction_of_days(fraction, 30)
        else:
            self.years = _in_int32(self.years + _in_int32(_in_int32(whole) * _YEARS[unit]))
            self.months = _in_int32(self.months + int(dates.rint(fraction * _YEARS[unit] * 12)))

    def _add_microseconds(self, count: int) -> None:
        if not INT64[0] <= count <= INT64[1] or not INT64[0] <= self.microseconds + count <= INT64[1]:
            raise interval_overflow()
        self.microseconds += count

    def _add_fraction(self, fraction: float, unit: int) -> None:
        """``fraction`` of ``unit`` microseconds; half a microsecond is dropped, more rounds up."""
        scaled = fraction * unit
        whole = int(scaled)
        left = scaled - whole
        self._add_microseconds(whole + (left > 0.5) - (left < -0.5))

    def _add_days(self, count: int, unit: int) -> None:
        self.days = _in_int32(self.days + _in_int32(_in_int32(count) * unit))

    def _add_fraction_of_days(self, fraction: float, unit: int) -> None:
        scaled = fraction * unit
        whole = int(scaled)
        self.days = _in_int32(self.days + whole)
        self._add_fraction(scaled - whole, dates.DAY)

    def negate(self) -> None:
        if INT32[0] in (self.years, self.months, self.days) or self.microseconds == INT64[0]:
            raise interval_overflow()
        self.years, self.months = -self.years, -self.months
        self.days, self.microseconds = -self.days, -self.microseconds

    def value(self) -> dates.Interval:
        return dates.finite_interval(self.years * 12 + self.months, self.days, self.microseconds)


def _in_int32(value: int) -> int:
    if not INT32[0] <= value <= INT32[1]:
        raise interval_overflow()
    return value


_ISO_NUMBER: Final = re.compile(
    r"-?(?P<hexadecimal>0x(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+))(?:p[-+]?[0-9]+)?"
    r"|-?(?P<decimal>[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]+)?"
    r"|-(?:inf(?:inity)?|nan)",
    re.IGNORECASE,
)
_ISO_DATE: Final = {"Y": "year", "M": "month", "W": "week", "D": "day"}
_ISO_TIME: Final = {"H": "hour", "M": "minute", "S": "second"}
_ISO_LIMIT: Final = 1e15
_LEAST_NORMAL: Final = sys.float_info.min
_NOT_ZERO: Final = re.compile("[1-9a-fA-F]")


def iso_interval(text: str) -> dates.Interval:
    return _Reader(text).value()


def _c_double(text: str) -> float:
    """Convert a decimal or hexadecimal number; a number that is too large becomes infinity."""
    try:
        return float.fromhex(text) if "x" in text.lower() else float(text)
    except OverflowError:
        return math.inf


class _Reader:
    """The ISO 8601 formats (``DecodeISO8601Interval``), with designators and without."""

    def __init__(self, text: str) -> None:
        if len(text) < 2 or text[0] != "P":
            raise BadIntervalError
        self._text = text
        self._place = 1
        self._total = IntervalSum()

    def value(self) -> dates.Interval:
        in_date, has_field = True, False
        while self._place < len(self._text):
            if self._accept("T"):
                in_date, has_field = False, False
                continue
            start = self._place
            whole, fraction = self._number()
            unit = self._text[self._place : self._place + 1]
            if unit in (_ISO_DATE if in_date else _ISO_TIME):
                self._place += 1
                self._total.add((_ISO_DATE if in_date else _ISO_TIME)[unit], whole, fraction)
                has_field = True
            elif unit not in (("", "T", "-") if in_date else ("", ":")) or (has_field and unit in {"-", ":"}):
                raise BadIntervalError
            elif in_date:
                self._date(start, whole, fraction, has_field)
                in_date = False
            else:
                self._time(start, whole, fraction, has_field)
                break
        return self._total.value()

    def _date(self, start: int, whole: int, fraction: float, has_field: bool) -> None:
        if self._at_end_of_part() and self._width(start) == 8 and not has_field:
            sign = -1 if whole < 0 else 1
            years, rest = divmod(abs(whole), 10000)
            self._total.add("year", sign * years, 0.0)
            self._total.add("month", sign * (rest // 100), 0.0)
            self._total.add("day", sign * (rest % 100), fraction)
        elif has_field:
            raise BadIntervalError
        else:
            self._total.add("year", whole, fraction)
            for unit in ("month", "day"):
                if self._at_end_of_part():
                    break
                if not self._accept("-"):
                    raise BadIntervalError
                self._total.add(unit, *self._number())
        if not self._at_end_of_part():
            raise BadIntervalError
        self._accept("T")

    def _time(self, start: int, whole: int, fraction: float, has_field: bool) -> None:
        if self._place == len(self._text) and self._width(start) == 6 and not has_field:
            sign = -1 if whole < 0 else 1
            hours, rest = divmod(abs(whole), 10000)
            self._total.add("hour", sign * hours, 0.0)
            self._total.add("minute", sign * (rest // 100), 0.0)
            self._total.add("second", sign * (rest % 100), 0.0)
            self._total.add("microsecond", 0, fraction)
            return
        if has_field:
            raise BadIntervalError
        self._total.add("hour", whole, fraction)
        for unit in ("minute", "second"):
            if self._place == len(self._text):
                return
            if not self._accept(":"):
                raise BadIntervalError
            self._total.add(unit, *self._number())
        if self._place < len(self._text):
            raise BadIntervalError

    def _number(self) -> tuple[int, float]:
        """Integer part and fraction, as strtod reads them (``ParseISO8601Number``)."""
        match = _ISO_NUMBER.match(self._text, self._place)
        if match is None:
            raise BadIntervalError
        self._place = match.end()
        digits = match["hexadecimal"] or match["decimal"]
        value = _c_double(match[0]) if digits else math.inf
        # C reports a range error for a number that is too small, as for a number that is too large.
        if digits and (math.isinf(value) or (abs(value) < _LEAST_NORMAL and _NOT_ZERO.search(digits))):
            raise BadIntervalError
        if not abs(value) <= _ISO_LIMIT:
            raise interval_overflow()
        return int(value), value - int(value)

    def _accept(self, mark: str) -> bool:
        if not self._text.startswith(mark, self._place):
            return False
        self._place += 1
        return True

    def _at_end_of_part(self) -> bool:
        return self._place == len(self._text) or self._text[self._place] == "T"

    def _width(self, start: int) -> int:
        start += self._text.startswith("-", start)
        return len(self._text[start:]) - len(self._text[start:].lstrip("0123456789"))


_ROOM: Final = 255
"""The server's buffer size in characters (twice ``MAXDATELEN``, less one)."""
_TOKEN_SIZE: Final = 10
"""Words are compared up to this number of characters."""

UNITS: Final = {
    name: unit
    for unit, names in {
        "microsecond": "us usec usecs usecond useconds microsecon",
        "millisecond": "ms msec msecs msecond mseconds millisecon",
        "second": "s sec secs second seconds",
        "minute": "m min mins minute minutes",
        "hour": "h hr hrs hour hours",
        "day": "d day days",
        "week": "w week weeks",
        "month": "mon mons month months",
        "year": "y yr yrs year years",
        "decade": "dec decs decade decades",
        "century": "c cent century centuries",
        "millennium": "mil mils millennium millennia",
    }.items()
    for name in names.split()
}
"""The words for units, truncated to the compared length."""
_UNITS_OF_DATES: Final = {"mm": "minute"}
"""Words for units that otherwise occur only in dates."""
_NO_UNITS: Final = frozenset(
    ["qtr", "quarter", "timezone", "timezone_h", "timezone_m", "dow", "doy", "isodow", "isoyear", "j", "jd", "julian"]
)
"""Words for units that an interval cannot contain a number of."""
_IGNORED: Final = frozenset({"at", "on"})

_CLOCK: Final = frozenset({"hour", "minute", "second", "millisecond", "microsecond"})
_FRACTIONS: Final = frozenset({"second", "millisecond", "microsecond"})
_EVERYTHING: Final = _CLOCK | {"year", "month", "day"}
_MINUTE_TO_SECOND: Final = dates.FIELDS["minute"] | dates.FIELDS["second"]

_INTEGER: Final = re.compile(r"[-+]?[0-9]+")


def interval_in(text: str, modifier: int) -> dates.Interval:
    try:
        value = _from_fields(_fields(text), modifier)
    except BadIntervalError:
        try:
            value = iso_interval(text)
        except BadIntervalError:
            raise DataException("invalid input syntax for type interval", sqlstate="22007") from None
    return dates.scaled_interval(value, modifier)


def _fields(text: str) -> list[Part]:
    fields = parts_of(text, _ROOM)
    if fields is None:
        raise BadIntervalError
    return fields


def _from_fields(fields: list[Part], modifier: int) -> dates.Interval:
    total, seen = IntervalSum(), frozenset[str]()
    unit: str | None = None
    infinity: dates.Interval | None = None
    unit_waits = is_ago = False
    for place in range(len(fields) - 1, -1, -1):
        guess, word = fields[place]
        is_last = place == len(fields) - 1
        names: frozenset[str] = frozenset()
        if guess is Guess.TIME or (guess is Guess.ZONE and _is_signed_clock(word, modifier)):
            microseconds = _clock(word.lstrip("+-"), modifier)
            total.microseconds = -microseconds if word[0] == "-" else microseconds
            names, unit, unit_waits = _CLOCK, "day", False
        elif guess in {Guess.NUMBER, Guess.ZONE, Guess.DATE}:
            whole, fraction, is_months = _number(word)
            unit = "month" if is_months else unit or dates.least_field(modifier)
            if unit not in COUNTED_UNITS:
                raise BadIntervalError
            total.add(unit, whole, fraction)
            names = _FRACTIONS if unit == "second" and fraction else frozenset({unit})
            unit, unit_waits = ("day" if unit == "hour" else unit), False
        else:
            if unit_waits:
                raise BadIntervalError
            word = word[:_TOKEN_SIZE]
            if word in _IGNORED:
                unit = None
                continue
            if (named := UNITS.get(word) or _UNITS_OF_DATES.get(word)) or word in _NO_UNITS:
                unit, unit_waits = named or word, True
            elif word == "ago" and is_last:
                is_ago, unit = True, "ago"  # it takes the place of a unit, so a number before it has no unit
            elif word in {"infinity", "+infinity", "-infinity"} and is_last:
                infinity, unit = (dates.MINUS_INFINITY if word[0] == "-" else dates.INFINITY), word
                names = _EVERYTHING
            else:
                raise BadIntervalError
        if names & seen:
            raise BadIntervalError
        seen |= names
    if not seen or unit_waits:
        raise BadIntervalError
    if is_ago:
        total.negate()
    return total.value() if infinity is None else infinity


def _integer(text: str, limits: tuple[int, int]) -> tuple[int, str]:
    """The integer at the beginning of a text (strtol; 0 without digits), and the rest."""
    match = _INTEGER.match(text)
    if match is None:
        return 0, text
    number = parse_int(match[0])
    if not limits[0] <= number <= limits[1]:
        raise interval_overflow()
    return number, text[match.end() :]


def _fraction(text: str) -> float:
    if not set(text[1:]) <= set("0123456789"):
        raise BadIntervalError
    return float(text) if text[1:] else 0.0


def _number(word: str) -> tuple[int, float, bool]:
    """The integer part and the fraction of a number; whether it has the format ``years-months``."""
    whole, rest = _integer(word, INT64)
    if rest.startswith("-"):
        months, rest = _integer(rest[1:], INT32)
        if not 0 <= months < 12:
            raise interval_overflow()
        if rest:
            raise BadIntervalError
        whole = whole * 12 + (-months if word[0] == "-" else months)
        if not INT64[0] <= whole <= INT64[1]:
            raise interval_overflow()
        return whole, 0.0, True
    if not rest:
        return whole, 0.0, False
    if rest[0] != ".":
        raise BadIntervalError
    fraction = _fraction(rest)
    return whole, -fraction if word[0] == "-" else fraction, False


def _is_signed_clock(word: str, modifier: int) -> bool:
    """Whether a field with a sign is a time. What is not a valid time is then read as a number."""
    try:
        return ":" in word[1:] and _clock(word[1:], modifier) >= 0
    except (BadIntervalError, DataException):
        return False


def _clock(word: str, modifier: int) -> int:
    """``hh:mm``, ``hh:mm:ss`` or ``mm:ss.f``; in ``interval minute to second`` ``mm:ss``."""
    first, rest = _integer(word, INT64)
    if not rest.startswith(":"):
        raise BadIntervalError
    second, rest = _integer(rest[1:], INT32)
    hours, minutes, seconds, fraction = first, second, 0, 0.0
    if rest.startswith(":"):
        seconds, rest = _integer(rest[1:], INT32)
        if rest and rest[0] != ".":
            raise BadIntervalError
        fraction = _fraction(rest) if rest else 0.0
    elif rest.startswith("."):
        fraction = _fraction(rest)
        hours, minutes, seconds = 0, first, second
    elif rest:
        raise BadIntervalError
    elif modifier >= 0 and (modifier >> 16) & 0x7FFF == _MINUTE_TO_SECOND:
        hours, minutes, seconds = 0, first, second
    if hours < 0 or not 0 <= minutes <= 59 or not 0 <= seconds <= 60:
        raise interval_overflow()
    microseconds = (
        hours * dates.HOUR + minutes * dates.MINUTE + seconds * dates.SECOND + int(dates.rint(fraction * dates.SECOND))
    )
    if microseconds > INT64[1]:
        raise interval_overflow()
    return microseconds
