"""interval: comparison, arithmetic and justification."""

from __future__ import annotations

import math
from typing import Final

from subscriber.base.errors import RowFilterError
from subscriber.postgres.expressions.functions import function_table
from subscriber.postgres.types.datetimes import date_values as dates

_INT32: Final = (-(2**31), 2**31 - 1)
_INT64: Final = (-(2**63), 2**63 - 1)
INFINITE_INTERVALS: Final = 170000
"""The first version that has infinite intervals. In older versions such a result is an error."""
_MONTH: Final = 30
"""The number of days that a month counts for in a conversion to days."""


def infinite_difference(left_sign: int, right_sign: int) -> dates.Interval:
    """``left - right`` where at least one of them is infinite; a finite operand has the sign 0."""
    if left_sign == right_sign:
        raise dates.out_of_range("interval")
    return dates.INFINITY if (left_sign or -right_sign) > 0 else dates.MINUS_INFINITY


def infinite_sign(value: dates.Interval) -> int:
    """1 for infinity, -1 for -infinity, 0 for a finite interval."""
    return int(value == dates.INFINITY) - int(value == dates.MINUS_INFINITY)


function_table.elementwise("interval(interval,int4)")(dates.scaled_interval)

# --- comparison and arithmetic ------------------------------------------------------------------

function_table.register_values("interval_{}(interval,interval)", dates.compare_intervals)
function_table.register_extremes(
    "interval_larger(interval,interval)", "interval_smaller(interval,interval)", dates.compare_intervals
)


@function_table.elementwise("isfinite(interval)", raises=False)
def is_finite(value: dates.Interval) -> bool:
    return value.is_finite


@function_table.elementwise("interval_um(interval)")
def negative(value: dates.Interval) -> dates.Interval:
    if not value.is_finite:
        return dates.MINUS_INFINITY if value == dates.INFINITY else dates.INFINITY
    return dates.finite_interval(-value.months, -value.days, -value.microseconds)


@function_table.elementwise("interval_pl(interval,interval)")
def plus(left: dates.Interval, right: dates.Interval) -> dates.Interval:
    signs = infinite_sign(left), infinite_sign(right)
    if any(signs):
        return infinite_difference(signs[0], -signs[1])
    return dates.finite_interval(
        left.months + right.months, left.days + right.days, left.microseconds + right.microseconds
    )


@function_table.elementwise("interval_mi(interval,interval)")
def minus(left: dates.Interval, right: dates.Interval) -> dates.Interval:
    signs = infinite_sign(left), infinite_sign(right)
    if any(signs):
        return infinite_difference(*signs)
    return dates.finite_interval(
        left.months - right.months, left.days - right.days, left.microseconds - right.microseconds
    )


@function_table.elementwise("interval_mul(interval,float8)", context=True)
def times(context: function_table.Context, value: dates.Interval, factor: float) -> dates.Interval:
    """``interval * factor``: fractions of months become days, fractions of days become time."""
    if math.isnan(factor):
        raise dates.out_of_range("interval")
    if not value.is_finite:
        if factor == 0:
            raise dates.out_of_range("interval")
        return negative(value) if factor < 0 else value
    if math.isinf(factor):
        if value.span == 0 or context.server_version < INFINITE_INTERVALS:
            raise dates.out_of_range("interval")
        return dates.INFINITY if (factor > 0) == (value.span > 0) else dates.MINUS_INFINITY
    return _cascade(value.months * factor, value.days * factor, value.microseconds * factor)


function_table.elementwise("mul_d_interval(float8,interval)", context=True)(
    lambda context, factor, value: times(context, value, factor)
)


@function_table.elementwise("interval_div(interval,float8)")
def divided(value: dates.Interval, divisor: float) -> dates.Interval:
    if divisor == 0:
        raise RowFilterError("division by zero", sqlstate="22012")
    if math.isnan(divisor):
        raise dates.out_of_range("interval")
    if not value.is_finite:
        if math.isinf(divisor):
            raise dates.out_of_range("interval")
        return negative(value) if divisor < 0 else value
    return _cascade(value.months / divisor, value.days / divisor, value.microseconds / divisor)


def _cascade(months: float, days: float, microseconds: float) -> dates.Interval:
    """Add fractions to the next smaller part, in double precision and the server's steps."""
    whole_months, whole_days = _truncated(months, _INT32), _truncated(days, _INT32)
    days_left = _to_microsecond((months - whole_months) * _MONTH)
    seconds_left = _to_microsecond((days - whole_days + days_left - int(days_left)) * 86400)
    if abs(seconds_left) >= 86400:
        extra = int(seconds_left / 86400)
        whole_days += extra
        seconds_left -= extra * 86400
    time = dates.rint(microseconds + seconds_left * 1_000_000)
    return dates.finite_interval(whole_months, whole_days + int(days_left), _truncated(time, _INT64))


def _to_microsecond(value: float) -> float:
    return dates.rint(value * 1_000_000) / 1_000_000


def _truncated(value: float, limits: tuple[int, int]) -> int:
    if math.isnan(value) or not limits[0] <= value < -float(limits[0]):
        raise dates.out_of_range("interval")
    return int(value)


@function_table.elementwise("justify_hours(interval)")
def justify_hours(value: dates.Interval) -> dates.Interval:
    if not value.is_finite:
        return value
    days, microseconds = (
        value.days + dates.quotient(value.microseconds, dates.DAY),
        dates.remainder(value.microseconds, dates.DAY),
    )
    if not _INT32[0] <= days <= _INT32[1]:
        raise dates.out_of_range("interval")
    days, microseconds = _one_sign(days, microseconds, dates.DAY)
    return dates.Interval(value.months, days, microseconds)


@function_table.elementwise("justify_days(interval)")
def justify_days(value: dates.Interval) -> dates.Interval:
    if not value.is_finite:
        return value
    months, days = _add_months(value.months, value.days)
    months, days = _one_sign(months, days, _MONTH)
    return dates.Interval(months, days, value.microseconds)


@function_table.elementwise("justify_interval(interval)")
def justify_interval(value: dates.Interval) -> dates.Interval:
    if not value.is_finite:
        return value
    months, days, microseconds = value
    if (days > 0 and microseconds > 0) or (days < 0 and microseconds < 0):
        months, days = _add_months(months, days)
    days, microseconds = (
        days + dates.quotient(microseconds, dates.DAY),
        dates.remainder(microseconds, dates.DAY),
    )
    months, days = _add_months(months, days)
    if months > 0 and (days < 0 or (days == 0 and microseconds < 0)):
        months, days = months - 1, days + _MONTH
    elif months < 0 and (days > 0 or (days == 0 and microseconds > 0)):
        months, days = months + 1, days - _MONTH
    days, microseconds = _one_sign(days, microseconds, dates.DAY)
    return dates.Interval(months, days, microseconds)


def _add_months(months: int, days: int) -> tuple[int, int]:
    whole = dates.quotient(days, _MONTH)
    if not _INT32[0] <= months + whole <= _INT32[1]:
        raise dates.out_of_range("interval")
    return months + whole, days - whole * _MONTH


def _one_sign(large: int, small: int, unit: int) -> tuple[int, int]:
    """``large * unit + small`` with the same sign for both parts."""
    if large > 0 and small < 0:
        return large - 1, small + unit
    if large < 0 and small > 0:
        return large + 1, small - unit
    return large, small


@function_table.elementwise("make_interval(int4,int4,int4,int4,int4,int4,float8)")
def make(years: int, months: int, weeks: int, days: int, hours: int, minutes: int, seconds: float) -> dates.Interval:
    if not math.isfinite(seconds):
        raise dates.out_of_range("interval")
    whole = dates.finite_interval(years * 12, weeks * 7, hours * dates.HOUR + minutes * dates.MINUTE)
    dates.finite_interval(whole.months + months, whole.days + days, whole.microseconds)
    microseconds = dates.rint(seconds * dates.SECOND)
    if math.isinf(microseconds):
        raise RowFilterError("value out of range: overflow", sqlstate="22003")
    if not _INT64[0] <= microseconds < -float(_INT64[0]):
        raise dates.out_of_range("interval")
    return dates.finite_interval(whole.months + months, whole.days + days, whole.microseconds + int(microseconds))
