"""The input function of interval, and the form.

Two notations, as the server tries them: numbers with units, clocks and ``ago`` in any order (``1 year -2 days +03:04:05``), read from
the right so that a unit is known before its number; and ISO 8601 with designators (``P1Y2M3DT4H5M6S``). ISO's alternative form
(``P0001-02-03T04:05:06``) is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from subscriber.errors import NotSupportedError, RowFilterError
from subscriber.publication.functions.calendar import HOUR, MINUTE, SECOND, rint
from subscriber.publication.functions.forms import Form, register
from subscriber.publication.functions.intervals import (
    INFINITY,
    MINUS_INFINITY,
    Interval,
    finite,
    least_field,
    scale,
    to_text,
)
from subscriber.types.datetimes import DAY

_INT32: Final = (-(2**31), 2**31 - 1)
_INT64: Final = (-(2**63), 2**63 - 1)

_SPACE: Final = " \t\n\v\f\r"
_TOKEN: Final = re.compile(
    r"(?P<clock>[0-9]+:[0-9:.]*)"
    r"|(?P<number>[0-9]+(?:\.[0-9]+|\.(?![A-Za-z])|-[0-9]+)?(?![-/.])|\.[0-9]+)"
    rf"|(?P<signed>[-+][{_SPACE}]*[0-9.][0-9:.-]*)"
    rf"|(?P<special>[-+][{_SPACE}]*[A-Za-z]+)"
    r"|(?P<word>[A-Za-z]+)(?![-/._])"
    r"|(?P<other>[0-9].*)"
    r"|(?P<ignored>[!-*,/:-@[-`{-~])",
    re.DOTALL,
)
_TOKEN_SIZE: Final = 10
"""Words are compared up to this length."""

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
"""Words for units, cut to the length that they are compared up to."""
_NO_NUMBER: Final = frozenset({"qtr", "quarter", "timezone", "timezone_h", "timezone_m", "ago"})
"""Where a number needs a unit, these are none, though they may stand there."""
_SECONDS: Final = frozenset({"second", "millisecond", "microsecond"})
_CLOCK: Final = _SECONDS | {"hour", "minute"}
_SCALES: Final = {"microsecond": 1, "millisecond": 1000, "second": SECOND, "minute": MINUTE, "hour": HOUR}
_YEARS: Final = {"year": 1, "decade": 10, "century": 100, "millennium": 1000}

_ISO_NUMBER: Final = re.compile(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_ISO_DATE: Final = {"Y": "year", "M": "month", "W": "week", "D": "day"}
_ISO_TIME: Final = {"H": "hour", "M": "minute", "S": "second"}
_ISO_LIMIT: Final = 1e15


class _BadFormatError(Exception):
    """The text is no interval in this notation."""


def _invalid() -> RowFilterError:
    return RowFilterError("invalid input syntax for type interval", sqlstate="22007")


def _refused() -> NotSupportedError:
    return NotSupportedError(
        "an interval that is written this way is not supported",
        hint="Write it as numbers with units and a time, such as 1 year 2 months 3 days 04:05:06.",
    )


def _overflow() -> RowFilterError:
    return RowFilterError("interval field value out of range", sqlstate="22015")


@dataclass(slots=True)
class _Sum:
    """What has been read so far."""

    years: int = 0
    months: int = 0
    days: int = 0
    microseconds: int = 0

    def add(self, unit: str, whole: int, fraction: float) -> None:
        """So many of a unit; fractions go to smaller ones."""
        if unit in _SCALES:
            self._add_microseconds(whole * _SCALES[unit])
            self._add_fraction(fraction, _SCALES[unit])
        elif unit == "day":
            self._add_days(whole, 1)
            self._add_fraction(fraction, DAY)
        elif unit == "week":
            self._add_days(whole, 7)
            self._add_fraction_of_days(fraction, 7)
        elif unit == "month":
            self.months = _in_int32(self.months + _in_int32(whole))
            self._add_fraction_of_days(fraction, 30)
        else:
            self.years = _in_int32(self.years + _in_int32(_in_int32(whole) * _YEARS[unit]))
            self.months = _in_int32(self.months + int(rint(fraction * _YEARS[unit] * 12)))

    def _add_microseconds(self, count: int) -> None:
        if not _INT64[0] <= count <= _INT64[1] or not _INT64[0] <= self.microseconds + count <= _INT64[1]:
            raise _overflow()
        self.microseconds += count

    def _add_fraction(self, fraction: float, unit: int) -> None:
        """A half of a microsecond is dropped, more than that is one."""
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
        self._add_fraction(scaled - whole, DAY)

    def negate(self) -> None:
        """``ago``."""
        if _INT32[0] in (self.years, self.months, self.days) or self.microseconds == _INT64[0]:
            raise _overflow()
        self.years, self.months = -self.years, -self.months
        self.days, self.microseconds = -self.days, -self.microseconds

    def value(self) -> Interval:
        """All of it."""
        return finite(self.years * 12 + self.months, self.days, self.microseconds)


def _in_int32(value: int) -> int:
    if not _INT32[0] <= value <= _INT32[1]:
        raise _overflow()
    return value


def from_text(text: str, modifier: int) -> Interval:
    """``interval_in``.

    Raises:
        RowFilterError: 22007, 22008, 22015.
        NotSupportedError: it may be an interval, in a notation that is not read here.
    """
    try:
        value = _from_fields(text, modifier)
    except _BadFormatError:
        value = _from_iso(text)
    return scale(value, modifier)


def _fields(text: str) -> list[tuple[str, str]]:
    """Kind and text of each token; those that only separate are left out."""
    found: list[tuple[str, str]] = []
    place = 0
    while place < len(text):
        if text[place] in _SPACE:
            place += 1
            continue
        token = _TOKEN.match(text, place)
        if token is None:
            raise _BadFormatError
        place, kind = token.end(), str(token.lastgroup)
        if kind == "other":
            raise _refused()
        if kind != "ignored":
            found.append(
                (kind, "".join(token.group().split()).lower() if kind in {"signed", "special"} else token.group())
            )
    return found


def _from_fields(text: str, modifier: int) -> Interval:
    fields = _fields(text)
    total, seen = _Sum(), set[str]()
    unit: str | None = None
    unit_waits = is_ago = False
    for place in range(len(fields) - 1, -1, -1):
        kind, word = fields[place]
        is_last = place == len(fields) - 1
        if kind == "clock" or (kind == "signed" and ":" in word):
            names = _CLOCK
            microseconds = _clock(word.lstrip("+-"), modifier)
            total.microseconds = -microseconds if word[0] == "-" else microseconds
            unit, unit_waits = "day", False
        elif kind in {"number", "signed"}:
            whole, fraction, is_months = _number(word)
            unit = "month" if is_months else unit or least_field(modifier)
            if unit in _NO_NUMBER:
                raise _BadFormatError
            total.add(unit, whole, fraction)
            names = _SECONDS if unit == "second" and fraction else frozenset({unit})
            unit, unit_waits = ("day" if unit == "hour" else unit), False
        else:
            if unit_waits:
                raise _BadFormatError
            names = frozenset()
            word = word.lower()[:_TOKEN_SIZE]
            if word in UNITS:
                unit, unit_waits = UNITS[word], True
            elif word in _NO_NUMBER and word != "ago":
                unit, unit_waits = word, True
            elif word == "ago" and is_last:
                # It stands where a unit would: a number before it has none.
                is_ago, unit = True, "ago"
            elif word in {"infinity", "+infinity", "-infinity"} and is_last:
                if len(fields) > 1:
                    raise _refused()
                return MINUS_INFINITY if word[0] == "-" else INFINITY
            elif word in {"at", "on"}:
                raise _refused()
            else:
                raise _BadFormatError
        if names & seen:
            raise _BadFormatError
        seen |= names
    if not seen or unit_waits:
        raise _BadFormatError
    if is_ago:
        total.negate()
    return total.value()


def _number(word: str) -> tuple[int, float, bool]:
    """The whole part, the fraction, and whether it is ``years-months``."""
    match = re.fullmatch(r"([-+]?)([0-9]*)(?:(\.[0-9]*)|-([0-9]+))?", word)
    if match is None:
        raise _BadFormatError
    negative, digits = match[1] == "-", match[2]
    whole = int(digits or "0")
    if whole > _INT64[1]:
        raise _overflow()
    fraction = float(match[3]) if match[3] and match[3] != "." else 0.0
    if match[4] is not None:
        if int(match[4]) >= 12 or whole * 12 > _INT64[1]:
            raise _overflow()
        whole = whole * 12 + int(match[4])
    return (-whole if negative else whole), (-fraction if negative else fraction), match[4] is not None


def _clock(word: str, modifier: int) -> int:
    """``hh:mm``, ``hh:mm:ss`` or ``mm:ss.fraction``; of an interval minute to second the first one is ``mm:ss``."""
    match = re.fullmatch(r"([0-9]+):([0-9]*)(?::([0-9]*))?(\.[0-9]*)?", word)
    if match is None:
        raise _BadFormatError
    first, second, third = int(match[1]), int(match[2] or 0), match[3]
    fraction = rint(float(match[4]) * SECOND) if match[4] and match[4] != "." else 0
    if third is not None:
        hours, minutes, seconds = first, second, int(third or 0)
    elif match[4] is not None or (modifier >= 0 and (modifier >> 16) & 0x7FFF == (1 << 11) | (1 << 12)):
        hours, minutes, seconds = 0, first, second
    else:
        hours, minutes, seconds = first, second, 0
    if minutes > 59 or seconds > 60:
        raise _overflow()
    microseconds = hours * HOUR + minutes * MINUTE + seconds * SECOND + int(fraction)
    if microseconds > _INT64[1]:
        raise _overflow()
    return microseconds


def _from_iso(text: str) -> Interval:
    if len(text) < 2 or text[0] != "P":
        raise _invalid()
    total, units, place = _Sum(), _ISO_DATE, 1
    while place < len(text):
        if text[place] == "T":
            units = _ISO_TIME
            place += 1
            continue
        number = _ISO_NUMBER.match(text, place)
        if number is None:
            raise _invalid()
        place = number.end() + 1
        unit = text[number.end() : place]
        if unit in {"", "T", "-", ":"}:
            raise _refused()
        if unit not in units:
            raise _invalid()
        value = float(number.group())
        if abs(value) > _ISO_LIMIT:
            raise _overflow()
        total.add(units[unit], int(value), value - int(value))
    return total.value()


FORM: Final = register(Form((1186,), from_text, to_text))
