"""interval: comparison, arithmetic and justification.

The value type is in :mod:`subscriber.types.datetimes.intervals`.
"""

from __future__ import annotations

import math
from typing import Final

from subscriber.errors import RowFilterError
from subscriber.filters.functions.comparison import register_extremes, register_values
from subscriber.filters.functions.function_table import Context, FunctionTable
from subscriber.types.datetimes.calendar import DAY, HOUR, MINUTE, SECOND, out_of_range, quotient, remainder, rint
from subscriber.types.datetimes.intervals import INFINITY, MINUS_INFINITY, Interval, compare, finite, scaled

FUNCTIONS: Final = FunctionTable()

_INT32: Final = (-(2**31), 2**31 - 1)
_INT64: Final = (-(2**63), 2**63 - 1)
INFINITE_INTERVALS: Final = 170000
"""The first version that has infinite intervals. In older versions such a result is an error."""
_MONTH: Final = 30
"""The number of days that a month counts for in a conversion to days."""


def infinite_difference(left_sign: int, right_sign: int) -> Interval:
    """``left - right`` where at least one of them is infinite; a finite operand has the sign 0.

    Raises:
        DataException: 22008, both are the same infinity.
    """
    if left_sign == right_sign:
        raise out_of_range("interval")
    return INFINITY if (left_sign or -right_sign) > 0 else MINUS_INFINITY


def infinite_sign(value: Interval) -> int:
    """1 for infinity, -1 for -infinity, 0 for a finite interval."""
    return int(value == INFINITY) - int(value == MINUS_INFINITY)


FUNCTIONS.elementwise("interval(interval,int4)")(scaled)

# --- comparison and arithmetic ------------------------------------------------------------------

register_values(FUNCTIONS, "interval_{}(interval,interval)", compare)
register_extremes(FUNCTIONS, "interval_larger(interval,interval)", "interval_smaller(interval,interval)", compare)


@FUNCTIONS.elementwise("isfinite(interval)", raises=False)
def is_finite(value: Interval) -> bool:
    """Whether an interval is finite (``isfinite``)."""
    return value.is_finite


@FUNCTIONS.elementwise("interval_um(interval)")
def negative(value: Interval) -> Interval:
    """Negate an interval (``- interval``).

    Raises:
        DataException: 22008, the result is out of range.
    """
    if not value.is_finite:
        return MINUS_INFINITY if value == INFINITY else INFINITY
    return finite(-value.months, -value.days, -value.microseconds)


@FUNCTIONS.elementwise("interval_pl(interval,interval)")
def plus(left: Interval, right: Interval) -> Interval:
    """Add two intervals (``interval + interval``).

    Raises:
        DataException: 22008, the result is out of range.
    """
    signs = infinite_sign(left), infinite_sign(right)
    if any(signs):
        return infinite_difference(signs[0], -signs[1])
    return finite(left.months + right.months, left.days + right.days, left.microseconds + right.microseconds)


@FUNCTIONS.elementwise("interval_mi(interval,interval)")
def minus(left: Interval, right: Interval) -> Interval:
    """Subtract an interval from another (``interval - interval``).

    Raises:
        DataException: 22008, the result is out of range.
    """
    signs = infinite_sign(left), infinite_sign(right)
    if any(signs):
        return infinite_difference(*signs)
    return finite(left.months - right.months, left.days - right.days, left.microseconds - right.microseconds)


@FUNCTIONS.elementwise("interval_mul(interval,float8)", context=True)
def times(context: Context, value: Interval, factor: float) -> Interval:
    """Multiply an interval (``interval * factor``): fractions of months become days, fractions of
    days become time.

    Raises:
        DataException: 22008, the result is out of range.
    """
    if math.isnan(factor):
        raise out_of_range("interval")
    if not value.is_finite:
        if factor == 0:
            raise out_of_range("interval")
        return negative(value) if factor < 0 else value
    if math.isinf(factor):
        if value.span == 0 or context.server_version < INFINITE_INTERVALS:
            raise out_of_range("interval")
        return INFINITY if (factor > 0) == (value.span > 0) else MINUS_INFINITY
    return _cascade(value.months * factor, value.days * factor, value.microseconds * factor)


@FUNCTIONS.elementwise("mul_d_interval(float8,interval)", context=True)
def times_mirrored(context: Context, factor: float, value: Interval) -> Interval:
    """Multiply an interval (``factor * interval``).

    Raises:
        DataException: 22008, the result is out of range.
    """
    return times(context, value, factor)


@FUNCTIONS.elementwise("interval_div(interval,float8)")
def divided(value: Interval, divisor: float) -> Interval:
    """Divide an interval (``interval / divisor``).

    Raises:
        RowFilterError: 22012, the divisor is zero.
        DataException: 22008, the result is out of range.
    """
    if divisor == 0:
        raise RowFilterError("division by zero", sqlstate="22012")
    if math.isnan(divisor):
        raise out_of_range("interval")
    if not value.is_finite:
        if math.isinf(divisor):
            raise out_of_range("interval")
        return negative(value) if divisor < 0 else value
    return _cascade(value.months / divisor, value.days / divisor, value.microseconds / divisor)


def _cascade(months: float, days: float, microseconds: float) -> Interval:
    """An interval of whole months and days, whose fractions are added to the next smaller part.

    It is computed in double precision, in the same steps as in the server.
    """
    whole_months, whole_days = _truncated(months, _INT32), _truncated(days, _INT32)
    days_left = _to_microsecond((months - whole_months) * _MONTH)
    seconds_left = _to_microsecond((days - whole_days + days_left - int(days_left)) * 86400)
    if abs(seconds_left) >= 86400:
        extra = int(seconds_left / 86400)
        whole_days += extra
        seconds_left -= extra * 86400
    time = rint(microseconds + seconds_left * 1_000_000)
    return finite(whole_months, whole_days + int(days_left), _truncated(time, _INT64))


def _to_microsecond(value: float) -> float:
    return rint(value * 1_000_000) / 1_000_000


def _truncated(value: float, limits: tuple[int, int]) -> int:
    if math.isnan(value) or not limits[0] <= value < -float(limits[0]):
        raise out_of_range("interval")
    return int(value)


@FUNCTIONS.elementwise("justify_hours(interval)")
def justify_hours(value: Interval) -> Interval:
    """Convert each 24 hours to a day (``justify_hours``).

    Raises:
        DataException: 22008, the result is out of range.
    """
    if not value.is_finite:
        return value
    days, microseconds = value.days + quotient(value.microseconds, DAY), remainder(value.microseconds, DAY)
    if not _INT32[0] <= days <= _INT32[1]:
        raise out_of_range("interval")
    days, microseconds = _one_sign(days, microseconds, DAY)
    return Interval(value.months, days, microseconds)


@FUNCTIONS.elementwise("justify_days(interval)")
def justify_days(value: Interval) -> Interval:
    """Convert each 30 days to a month (``justify_days``).

    Raises:
        DataException: 22008, the result is out of range.
    """
    if not value.is_finite:
        return value
    months, days = _add_months(value.months, value.days)
    months, days = _one_sign(months, days, _MONTH)
    return Interval(months, days, value.microseconds)


@FUNCTIONS.elementwise("justify_interval(interval)")
def justify_interval(value: Interval) -> Interval:
    """Convert hours to days and days to months, and give all parts the same sign
    (``justify_interval``).

    Raises:
        DataException: 22008, the result is out of range.
    """
    if not value.is_finite:
        return value
    months, days, microseconds = value
    if (days > 0 and microseconds > 0) or (days < 0 and microseconds < 0):
        months, days = _add_months(months, days)
    days, microseconds = days + quotient(microseconds, DAY), remainder(microseconds, DAY)
    months, days = _add_months(months, days)
    if months > 0 and (days < 0 or (days == 0 and microseconds < 0)):
        months, days = months - 1, days + _MONTH
    elif months < 0 and (days > 0 or (days == 0 and microseconds > 0)):
        months, days = months + 1, days - _MONTH
    days, microseconds = _one_sign(days, microseconds, DAY)
    return Interval(months, days, microseconds)


def _add_months(months: int, days: int) -> tuple[int, int]:
    whole = quotient(days, _MONTH)
    if not _INT32[0] <= months + whole <= _INT32[1]:
        raise out_of_range("interval")
    return months + whole, days - whole * _MONTH


def _one_sign(large: int, small: int, unit: int) -> tuple[int, int]:
    """Express ``large * unit + small`` with the same sign for both parts."""
    if large > 0 and small < 0:
        return large - 1, small + unit
    if large < 0 and small > 0:
        return large + 1, small - unit
    return large, small


@FUNCTIONS.elementwise("make_interval(int4,int4,int4,int4,int4,int4,float8)")
def make(years: int, months: int, weeks: int, days: int, hours: int, minutes: int, seconds: float) -> Interval:
    """Make an interval from its parts (``make_interval``).

    Raises:
        DataException: 22008, the result is out of range.
        RowFilterError: 22003, the number of seconds overflows.
    """
    if not math.isfinite(seconds):
        raise out_of_range("interval")
    whole = finite(years * 12, weeks * 7, hours * HOUR + minutes * MINUTE)
    finite(whole.months + months, whole.days + days, whole.microseconds)
    microseconds = rint(seconds * SECOND)
    if math.isinf(microseconds):
        raise RowFilterError("value out of range: overflow", sqlstate="22003")
    if not _INT64[0] <= microseconds < -float(_INT64[0]):
        raise out_of_range("interval")
    return finite(whole.months + months, whole.days + days, whole.microseconds + int(microseconds))
