"""The input function of interval.

::

    text ──fields──▶ numbers, words, clocks ──_from_fields──▶ value      DecodeInterval: read from the right, so that a unit is known
      │                       (ParseDateTime)                            before its number: 1 year -2 days +03:04:05 ago
      └── if the format is invalid ─── iso_interval ──▶ value            DecodeISO8601Interval: P1Y2M3DT4H5M6S, P0001-02-03T04:05:06

Each step fails as in the server. After an invalid format the next step is tried; after a field that
is too large it is not.
"""

from __future__ import annotations

import re
from typing import Final

from subscriber.digits import integer_of
from subscriber.errors import DataException
from subscriber.types.datetimes.calendar import HOUR, MINUTE, SECOND, rint
from subscriber.types.datetimes.interval_sum import (
    COUNTED_UNITS,
    INT32,
    INT64,
    BadIntervalError,
    IntervalSum,
    interval_overflow,
)
from subscriber.types.datetimes.intervals import (
    FIELDS,
    INFINITY,
    MINUS_INFINITY,
    Interval,
    least_field,
    scaled,
)
from subscriber.types.datetimes.iso_interval import iso_interval
from subscriber.types.datetimes.parts import Guess, Part, parts_of

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
"""The words for units, truncated to the compared length, and their units."""
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
_MINUTE_TO_SECOND: Final = FIELDS["minute"] | FIELDS["second"]

_INTEGER: Final = re.compile(r"[-+]?[0-9]+")


def _invalid() -> DataException:
    return DataException("invalid input syntax for type interval", sqlstate="22007")


def interval_in(text: str, modifier: int) -> Interval:
    """The input function of interval.

    Raises:
        DataException: 22007, 22008, 22015.
    """
    try:
        value = _from_fields(_fields(text), modifier)
    except BadIntervalError:
        try:
            value = iso_interval(text)
        except BadIntervalError:
            raise _invalid() from None
    return scaled(value, modifier)


def _fields(text: str) -> list[Part]:
    fields = parts_of(text, _ROOM)
    if fields is None:
        raise BadIntervalError
    return fields


def _from_fields(fields: list[Part], modifier: int) -> Interval:
    """The interval of these fields (``DecodeInterval``)."""
    total, seen = IntervalSum(), frozenset[str]()
    unit: str | None = None
    infinity: Interval | None = None
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
            unit = "month" if is_months else unit or least_field(modifier)
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
                infinity, unit = (MINUS_INFINITY if word[0] == "-" else INFINITY), word
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
    """The integer at the beginning of a text, as C's strtol reads it, and the rest of the text.

    Without digits it is 0.
    """
    match = _INTEGER.match(text)
    if match is None:
        return 0, text
    number = integer_of(match[0])
    if not limits[0] <= number <= limits[1]:
        raise interval_overflow()
    return number, text[match.end() :]


def _fraction(text: str) -> float:
    """The fraction of a text: a point and digits, or only a point (``ParseFraction``)."""
    if not set(text[1:]) <= set("0123456789"):
        raise BadIntervalError
    return float(text) if text[1:] else 0.0


def _number(word: str) -> tuple[int, float, bool]:
    """The integer part and the fraction of a number, and whether it has the format
    ``years-months``.
    """
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
    """Whether a field with a sign is a time. A field that is not a valid time is then read as a
    number.
    """
    try:
        return ":" in word[1:] and _clock(word[1:], modifier) >= 0
    except (BadIntervalError, DataException):
        return False


def _clock(word: str, modifier: int) -> int:
    """Read ``hh:mm``, ``hh:mm:ss`` or ``mm:ss.fraction``.

    For an ``interval minute to second``, the first format is read as ``mm:ss``.
    """
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
    microseconds = hours * HOUR + minutes * MINUTE + seconds * SECOND + int(rint(fraction * SECOND))
    if microseconds > INT64[1]:
        raise interval_overflow()
    return microseconds
