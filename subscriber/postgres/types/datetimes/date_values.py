"""The calendar and the clock, the values of timetz and interval, and the text of dates and times.

Days are counted from 2000-01-01, and times are in microseconds. Years are astronomical (0 is 1 BC),
and the Gregorian calendar is used for all years. The infinities are the least and the greatest
value of the integer that PostgreSQL stores. The text is that of a replication session: ISO,
TimeZone UTC.
"""

from __future__ import annotations

import math
import re
from typing import Final, NamedTuple

from subscriber.base.digits import digits_of, parse_int
from subscriber.base.errors import DataException
from subscriber.postgres.types.family import sign
from subscriber.postgres.types.oids import INTERVAL_FIELDS

SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

DATE_LIMITS: Final = (-2_451_545, 2_145_031_948)
"""The first and the last: 4714-11-24 BC and 5874897-12-31."""
TIMESTAMP_LIMITS: Final = (-211_813_488_000_000_000, 9_223_371_331_199_999_999)
"""The first and the last: 4714-11-24 00:00:00 BC and 294276-12-31 23:59:59.999999."""

DATE_INFINITIES: Final = (-(2**31), 2**31 - 1)
TIMESTAMP_INFINITIES: Final = (-(2**63), 2**63 - 1)
DAYS_OF_TIMESTAMPS: Final = (TIMESTAMP_LIMITS[1] + 1) // DAY
"""The first date that is too late for a timestamp."""
JULIAN_DAY: Final = 2_451_545
UNIX_EPOCH: Final = -10_957

_MONTH_LENGTHS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def out_of_range(what: str) -> DataException:
    return DataException(f"{what} out of range", sqlstate="22008")


def quotient(dividend: int, divisor: int) -> int:
    """Integer division as in C: it truncates towards zero."""
    return dividend // divisor if dividend >= 0 else -(-dividend // divisor)


def remainder(dividend: int, divisor: int) -> int:
    """The remainder of :func:`quotient`, which has the sign of the dividend."""
    return dividend - quotient(dividend, divisor) * divisor


def wrapped(value: int, bits: int) -> int:
    """An integer reduced to signed ``bits``, where the server does not check for an overflow."""
    half: int = 2 ** (bits - 1)
    return (value + half) % (2 * half) - half


def rint(value: float) -> float:
    """The nearest integer; a half is rounded to even. Infinities and NaN are unchanged."""
    return float(round(value)) if math.isfinite(value) else value


def rounded(microseconds: int, precision: int) -> int:
    """Round to this number of decimals of a second; a half is rounded away from zero."""
    unit: int = 10 ** (6 - precision)
    magnitude = (abs(microseconds) + unit // 2) // unit * unit
    return magnitude if microseconds >= 0 else -magnitude


def month_length(year: int, month: int) -> int:
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 29 if leap else _MONTH_LENGTHS[month - 1]


def day_number(year: int, month: int, day: int) -> int:
    """A day after the end of the month counts into the following months."""
    # Years begin in March here, so that February 29 is the last day of its year.
    year -= month <= 2
    cycle, year_of_cycle = divmod(year, 400)
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return cycle * 146_097 + year_of_cycle * 365 + year_of_cycle // 4 - year_of_cycle // 100 + day_of_year - 730_425


def civil(day: int) -> tuple[int, int, int]:
    cycle, day_of_cycle = divmod(day + 730_425, 146_097)
    year_of_cycle = (day_of_cycle - day_of_cycle // 1460 + day_of_cycle // 36_524 - day_of_cycle // 146_096) // 365
    day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle // 4 - year_of_cycle // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_cycle + cycle * 400 + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1


def weekday(day: int) -> int:
    return (day + 5) % 7


def iso_week(day: int) -> tuple[int, int]:
    """The ISO year and week of a day: those of the Thursday in the same week."""
    thursday = day - weekday(day) + 3
    year = civil(thursday)[0]
    return year, (thursday - day_number(year, 1, 1)) // 7 + 1


def is_valid_date(day: int) -> bool:
    return DATE_LIMITS[0] <= day <= DATE_LIMITS[1]


def is_valid_timestamp(microseconds: int) -> bool:
    return TIMESTAMP_LIMITS[0] <= microseconds <= TIMESTAMP_LIMITS[1]


def valid_timestamp(microseconds: int) -> int:
    if not is_valid_timestamp(microseconds):
        raise out_of_range("timestamp")
    return microseconds


_PRECISION: Final = 6
"""The number of decimals of a second that PostgreSQL stores."""


class TimeTZ(NamedTuple):
    """Microseconds since midnight in a time zone, and its offset in seconds west of Greenwich."""

    microseconds: int
    zone: int

    @property
    def utc(self) -> int:
        """Microseconds since midnight in UTC, which may be before or after that day."""
        return self.microseconds + self.zone * SECOND


def compare_timetz(left: TimeTZ, right: TimeTZ) -> int:
    return sign((left.utc, left.zone), (right.utc, right.zone))


def scaled_time(value: int, modifier: int) -> int:
    return rounded(value, modifier) if 0 <= modifier < _PRECISION else value


def scaled_timetz(value: TimeTZ, modifier: int) -> TimeTZ:
    return TimeTZ(scaled_time(value.microseconds, modifier), value.zone)


def scaled_timestamp(value: int, modifier: int) -> int:
    """``time(modifier)`` for timestamps; 22023 if the modifier is not valid."""
    if value in TIMESTAMP_INFINITIES or modifier in {-1, _PRECISION}:
        return value
    if not 0 <= modifier < _PRECISION:
        raise DataException(f"timestamp({modifier}) precision must be between 0 and 6", sqlstate="22023")
    return rounded(value, modifier)


_INT32: Final = (-(2**31), 2**31 - 1)
_INT64: Final = (-(2**63), 2**63 - 1)
_MONTH: Final = 30
"""The number of days that a month counts for in a conversion to days."""


class Interval(NamedTuple):
    """Months, days and microseconds, which are separate because a month or a day has no fixed
    length. Values with different parts may be equal: use :func:`compare_intervals`.
    """

    months: int
    days: int
    microseconds: int

    @property
    def is_finite(self) -> bool:
        return self not in (INFINITY, MINUS_INFINITY)

    @property
    def span(self) -> int:
        """Microseconds, with months of 30 days and days of 24 hours, for comparison."""
        return (self.months * _MONTH + self.days) * DAY + self.microseconds


INFINITY: Final = Interval(_INT32[1], _INT32[1], _INT64[1])
MINUS_INFINITY: Final = Interval(_INT32[0], _INT32[0], _INT64[0])


def finite_interval(months: int, days: int, microseconds: int) -> Interval:
    """Make a finite interval; 22008 if a part does not fit, or the result would be an infinity."""
    value = Interval(months, days, microseconds)
    if (
        not _INT32[0] <= months <= _INT32[1]
        or not _INT32[0] <= days <= _INT32[1]
        or not _INT64[0] <= microseconds <= _INT64[1]
        or not value.is_finite
    ):
        raise out_of_range("interval")
    return value


def compare_intervals(left: Interval, right: Interval) -> int:
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
_EVERY_DIGIT: Final = 0xFFFF
"""The precision of a type modifier that keeps all decimals of a second."""
_MOST_DIGITS: Final = 6
FIELDS: Final = {"month": _MONTHS, "year": _YEARS, "day": _DAYS, "hour": _HOURS, "minute": _MINUTES, "second": _SECONDS}
"""The bit of each field that a type modifier may name."""


def least_field(modifier: int) -> str:
    """The smallest field that ``interval … to …`` names, or ``second``."""
    fields = (modifier >> 16) & _ANY_FIELD
    if modifier < 0 or fields == _ANY_FIELD:
        return "second"
    return next(name for name in ("second", "minute", "hour", "day", "month", "year") if fields & FIELDS[name])


def scaled_interval(value: Interval, modifier: int) -> Interval:
    """22008: out of range; XX000: no type modifier has these fields; 22023: invalid precision."""
    if modifier < 0 or not value.is_finite:
        return value
    fields, precision = (modifier >> 16) & _ANY_FIELD, modifier & 0xFFFF
    if fields not in INTERVAL_FIELDS and fields != _ANY_FIELD:
        raise DataException(f"unrecognized interval typmod: {modifier}", sqlstate="XX000")
    if _MOST_DIGITS < precision != _EVERY_DIGIT:
        raise DataException(f"interval({precision}) precision must be between 0 and 6", sqlstate="22023")
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
    if precision < _MOST_DIGITS:
        finite_interval(months, days, abs(microseconds) + 5 * 10 ** (5 - precision))
        microseconds = rounded(microseconds, precision)
    return finite_interval(months, days, microseconds)


# --- equality -----------------------------------------------------------------------------------

_TEXT: Final = re.compile(
    r"(?:([+-]?\d+) years?)? ?(?:([+-]?\d+) mons?)? ?(?:([+-]?\d+) days?)? ?(?:([+-]?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?"
)


def canonical_interval(text: str) -> str:
    """The canonical form of an interval: its length in microseconds.

    >>> [canonical_interval(text) for text in ("1 mon", "-1 days +00:00:00.5", "infinity")]
    ['2592000000000', '-86399500000', 'infinity']
    """
    found = _TEXT.fullmatch(text)
    if not text or found is None:
        return text
    years, months, days = (parse_int(part or "0") for part in found.group(1, 2, 3))
    hours, minutes, seconds = (parse_int(part or "0") for part in found.group(5, 6, 7))
    time = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + int((found[8] or "").ljust(6, "0"))
    whole_days = (years * 12 + months) * _MONTH + days
    return digits_of(whole_days * DAY + (-time if found[4] == "-" else time))


def time_text(microseconds: int) -> str:
    """A time of day, or the time part of an interval, with as many decimals as it needs."""
    seconds, fraction = divmod(microseconds, 1_000_000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{fraction:06d}".rstrip("0") if fraction else text


def zone_text(seconds_west: int) -> str:
    """A time zone's offset in the shortest of ``+hh``, ``+hh:mm``, ``+hh:mm:ss``."""
    seconds = abs(seconds_west)
    parts = [seconds // 3600, seconds // 60 % 60, seconds % 60]
    while len(parts) > 1 and parts[-1] == 0:
        parts.pop()
    return ("-" if seconds_west > 0 else "+") + ":".join(f"{part:02d}" for part in parts)


def date_text(day: int) -> tuple[str, str]:
    """The Gregorian date of a day since 2000-01-01, and `` BC`` or an empty string."""
    year, month, day_of_month = civil(day)
    # There is no year 0: the year before 1 is 1 BC.
    return f"{year if year > 0 else 1 - year:04d}-{month:02d}-{day_of_month:02d}", "" if year > 0 else " BC"


def date_out(value: int) -> str:
    if value in DATE_INFINITIES:
        return "infinity" if value > 0 else "-infinity"
    day, era = date_text(value)
    return day + era


def timestamp_out(value: int, zone: str = "") -> str:
    """The output function of timestamp; ``zone`` is appended to the time."""
    if value in TIMESTAMP_INFINITIES:
        return "infinity" if value > 0 else "-infinity"
    day, era = date_text(value // DAY)
    return f"{day} {time_text(value % DAY)}{zone}{era}"


def timestamptz_out(value: int) -> str:
    return timestamp_out(value, "+00")


def timetz_out(value: TimeTZ) -> str:
    return time_text(value.microseconds) + zone_text(value.zone)


def interval_out(value: Interval) -> str:
    """The output function (``postgres``); a positive part after a negative one has a ``+``."""
    if not value.is_finite:
        return "infinity" if value == INFINITY else "-infinity"
    sign = -1 if value.months < 0 else 1
    years, months = sign * (abs(value.months) // 12), sign * (abs(value.months) % 12)
    parts, behind_negative = [], False
    for count, unit in ((years, "year"), (months, "mon"), (value.days, "day")):
        if count:
            parts.append(f"{count:{'+' if behind_negative else '-'}d} {unit}{'' if count == 1 else 's'}")
            behind_negative = count < 0
    if value.microseconds or not parts:
        plus = "+" if behind_negative else ""
        parts.append(("-" if value.microseconds < 0 else plus) + time_text(abs(value.microseconds)))
    return " ".join(parts)
