"""interval: a value has months, days and microseconds, which are stored separately.

The reason is that the length of a month in days, and that of a day in hours, can differ.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from subscriber.digits import digits_of, integer_of
from subscriber.types.datetimes.calendar import DAY, HOUR, MINUTE, out_of_range, quotient, rounded
from subscriber.types.form import sign

_INT32: Final = (-(2**31), 2**31 - 1)
_INT64: Final = (-(2**63), 2**63 - 1)
_MONTH: Final = 30
"""The number of days that a month counts for in a conversion to days."""


class Interval(NamedTuple):
    """A value of type interval.

    Use :func:`compare` to compare values, because values with different parts may be equal.
    """

    months: int
    days: int
    microseconds: int

    @property
    def is_finite(self) -> bool:
        """Whether the value is finite."""
        return self not in (INFINITY, MINUS_INFINITY)

    @property
    def span(self) -> int:
        """The length by which intervals are compared, in microseconds, with months of 30 days and
        days of 24 hours.
        """
        return (self.months * _MONTH + self.days) * DAY + self.microseconds


INFINITY: Final = Interval(_INT32[1], _INT32[1], _INT64[1])
MINUS_INFINITY: Final = Interval(_INT32[0], _INT32[0], _INT64[0])


def finite(months: int, days: int, microseconds: int) -> Interval:
    """Make a finite interval and check its parts.

    Raises:
        DataException: 22008, a part does not fit, or the result would be one of the infinities.
    """
    value = Interval(months, days, microseconds)
    if (
        not _INT32[0] <= months <= _INT32[1]
        or not _INT32[0] <= days <= _INT32[1]
        or not _INT64[0] <= microseconds <= _INT64[1]
        or not value.is_finite
    ):
        raise out_of_range("interval")
    return value


def compare(left: Interval, right: Interval) -> int:
    """Compare two intervals by their length."""
    return sign(left.span, right.span)


# --- type modifier ---------------------------------------------------------------------


# The bits of the fields in the upper half of a type modifier, as in datetime.h.
_MONTHS: Final = 1 << 1
_YEARS: Final = 1 << 2
_DAYS: Final = 1 << 3
_HOURS: Final = 1 << 10
_MINUTES: Final = 1 << 11
_SECONDS: Final = 1 << 12
_ANY_FIELD: Final = 0x7FFF
FIELDS: Final = {"month": _MONTHS, "year": _YEARS, "day": _DAYS, "hour": _HOURS, "minute": _MINUTES, "second": _SECONDS}
"""The bit of each field that a type modifier may name."""


def least_field(modifier: int) -> str:
    """The smallest field that ``interval … to …`` names; ``second`` if the type modifier names no
    field.
    """
    fields = (modifier >> 16) & _ANY_FIELD
    if modifier < 0 or fields == _ANY_FIELD:
        return "second"
    return next(name for name in ("second", "minute", "hour", "day", "month", "year") if fields & FIELDS[name])


def scaled(value: Interval, modifier: int) -> Interval:
    """Convert a value to the precision of a column with this type modifier.

    Raises:
        DataException: 22008, the result is out of range.
    """
    if modifier < 0 or not value.is_finite:
        return value
    months, days, microseconds = value
    match least_field(modifier):
        case "year":
            months, days, microseconds = quotient(months, 12) * 12, 0, 0
        case "month":
            days, microseconds = 0, 0
        case "day":
            microseconds = 0
        case "hour":
            microseconds = quotient(microseconds, HOUR) * HOUR
        case "minute":
            microseconds = quotient(microseconds, MINUTE) * MINUTE
    precision = modifier & 0xFFFF
    if precision < 6:
        finite(months, days, abs(microseconds) + 5 * 10 ** (5 - precision))
        microseconds = rounded(microseconds, precision)
    return finite(months, days, microseconds)


# --- equality -----------------------------------------------------------------------------------

_TEXT: Final = re.compile(
    r"(?:([+-]?\d+) years?)? ?(?:([+-]?\d+) mons?)? ?(?:([+-]?\d+) days?)? ?(?:([+-]?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?"
)


def canonical(text: str) -> str:
    """The canonical form of an interval: its length in microseconds.

    >>> [canonical(text) for text in ("1 mon", "29 days 24:00:00", "-1 days +00:00:00.5", "infinity")]
    ['2592000000000', '2592000000000', '-86399500000', 'infinity']
    """
    found = _TEXT.fullmatch(text)
    if not text or found is None:
        return text
    years, months, days = (integer_of(part or "0") for part in found.group(1, 2, 3))
    hours, minutes, seconds = (integer_of(part or "0") for part in found.group(5, 6, 7))
    time = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + int((found[8] or "").ljust(6, "0"))
    whole_days = (years * 12 + months) * _MONTH + days
    return digits_of(whole_days * DAY + (-time if found[4] == "-" else time))
