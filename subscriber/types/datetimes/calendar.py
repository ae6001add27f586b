"""The calendar and the clock that dates, timestamps and intervals share.

Days are counted from 2000-01-01, and times are in microseconds. Years are astronomical (0 is 1 BC),
and the Gregorian calendar is used for all years. The infinities are the least and the greatest
value of the integer that PostgreSQL stores.
"""

from __future__ import annotations

import math
from typing import Final

from subscriber.errors import DataException

SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

DATE_LIMITS: Final = (-2_451_545, 2_145_031_948)
"""The first and the last date of PostgreSQL: 4714-11-24 BC and 5874897-12-31."""
TIMESTAMP_LIMITS: Final = (-211_813_488_000_000_000, 9_223_371_331_199_999_999)
"""The first and the last timestamp: 4714-11-24 00:00:00 BC and 294276-12-31 23:59:59.999999."""

DATE_INFINITIES: Final = (-(2**31), 2**31 - 1)
TIMESTAMP_INFINITIES: Final = (-(2**63), 2**63 - 1)
DAYS_OF_TIMESTAMPS: Final = (TIMESTAMP_LIMITS[1] + 1) // DAY
"""The first date that is too late for a timestamp."""
JULIAN_DAY: Final = 2_451_545
"""The Julian day number of 2000-01-01."""
UNIX_EPOCH: Final = -10_957
"""The day number of 1970-01-01."""

_MONTH_LENGTHS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def out_of_range(what: str) -> DataException:
    """The error for a result that the type cannot hold (22008)."""
    return DataException(f"{what} out of range", sqlstate="22008")


def quotient(dividend: int, divisor: int) -> int:
    """Integer division as in C: it truncates towards zero."""
    return dividend // divisor if dividend >= 0 else -(-dividend // divisor)


def remainder(dividend: int, divisor: int) -> int:
    """The remainder of :func:`quotient`, which has the sign of the dividend."""
    return dividend - quotient(dividend, divisor) * divisor


def wrapped(value: int, bits: int) -> int:
    """An integer reduced to a signed integer of this many bits.

    It is used where the server does not check for an overflow.
    """
    half: int = 2 ** (bits - 1)
    return (value + half) % (2 * half) - half


def rint(value: float) -> float:
    """The nearest integer; a half is rounded to the even integer. Infinities and NaN are
    unchanged.
    """
    return float(round(value)) if math.isfinite(value) else value


def rounded(microseconds: int, precision: int) -> int:
    """Round to this number of decimals of a second; a half is rounded away from zero."""
    unit: int = 10 ** (6 - precision)
    magnitude = (abs(microseconds) + unit // 2) // unit * unit
    return magnitude if microseconds >= 0 else -magnitude


def month_length(year: int, month: int) -> int:
    """The number of days of a month."""
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 29 if leap else _MONTH_LENGTHS[month - 1]


def day_number(year: int, month: int, day: int) -> int:
    """The day number of a date. A day after the end of the month counts into the following
    months.
    """
    # Years begin in March here, so that February 29 is the last day of its year.
    year -= month <= 2
    cycle, year_of_cycle = divmod(year, 400)
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return cycle * 146_097 + year_of_cycle * 365 + year_of_cycle // 4 - year_of_cycle // 100 + day_of_year - 730_425


def civil(day: int) -> tuple[int, int, int]:
    """Year, month and day of a day number: the inverse of :func:`day_number`."""
    cycle, day_of_cycle = divmod(day + 730_425, 146_097)
    year_of_cycle = (day_of_cycle - day_of_cycle // 1460 + day_of_cycle // 36_524 - day_of_cycle // 146_096) // 365
    day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle // 4 - year_of_cycle // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_cycle + cycle * 400 + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1


def weekday(day: int) -> int:
    """The day of the week; 0 is Monday."""
    return (day + 5) % 7


def iso_week(day: int) -> tuple[int, int]:
    """The ISO year and week of a day: those of the Thursday in the same week."""
    thursday = day - weekday(day) + 3
    year = civil(thursday)[0]
    return year, (thursday - day_number(year, 1, 1)) // 7 + 1


def is_valid_date(day: int) -> bool:
    """Whether the type date contains this day."""
    return DATE_LIMITS[0] <= day <= DATE_LIMITS[1]


def is_valid_timestamp(microseconds: int) -> bool:
    """Whether the type timestamp contains this moment."""
    return TIMESTAMP_LIMITS[0] <= microseconds <= TIMESTAMP_LIMITS[1]


def valid_timestamp(microseconds: int) -> int:
    """Check a moment and return it.

    Raises:
        DataException: 22008, the type timestamp does not contain the moment.
    """
    if not is_valid_timestamp(microseconds):
        raise out_of_range("timestamp")
    return microseconds
