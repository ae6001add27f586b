"""date, time, timetz, timestamp and timestamptz: type modifiers, comparison, conversion,
arithmetic, OVERLAPS, and ``make_date`` and its kind. ``date_fields`` has ``extract``,
``date_trunc`` and AT TIME ZONE.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from subscriber.base.errors import RowFilterError
from subscriber.postgres.expressions.functions import function_table, interval_functions
from subscriber.postgres.expressions.functions.interval_functions import negative as negative_interval
from subscriber.postgres.types.datetimes import date_values as dates
from subscriber.postgres.types.family import sign

function_table.elementwise("time(time,int4)", raises=False)(dates.scaled_time)
function_table.elementwise("timetz(timetz,int4)", raises=False)(dates.scaled_timetz)
function_table.elementwise("timestamp(timestamp,int4)", "timestamptz(timestamptz,int4)")(dates.scaled_timestamp)

# --- comparison ---------------------------------------------------------------------------------

for _name in ("date", "time", "timestamp", "timestamptz"):
    function_table.register_columns(f"{_name}_{{}}({_name},{_name})")
    function_table.register_order(f"{_name}_cmp({_name},{_name})", sign)
    function_table.register_extremes(f"{_name}_larger({_name},{_name})", f"{_name}_smaller({_name},{_name})", sign)


_AFTER_TIMESTAMPS: Final = dates.TIMESTAMP_INFINITIES[1] - 1
"""For dates without a timestamp: later than every finite timestamp, before infinity."""


def _moment_of_dates(days: Any) -> Any:
    minus_infinity, infinity = dates.DATE_INFINITIES
    latest = pc.min_element_wise(days, pa.scalar(dates.DAYS_OF_TIMESTAMPS, pa.int32()), skip_nulls=False)
    # -infinity would overflow in the multiplication. It is limited here and replaced afterwards.
    earliest = pc.max_element_wise(latest, pa.scalar(-dates.DAYS_OF_TIMESTAMPS, pa.int32()), skip_nulls=False)
    moments = pc.multiply(pc.cast(earliest, pa.int64()), pa.scalar(dates.DAY, pa.int64()))
    is_late = pc.greater_equal(days, dates.DAYS_OF_TIMESTAMPS)
    moments = pc.if_else(is_late, pa.scalar(_AFTER_TIMESTAMPS, pa.int64()), moments)
    moments = pc.if_else(pc.equal(days, infinity), pa.scalar(dates.TIMESTAMP_INFINITIES[1], pa.int64()), moments)
    return pc.if_else(pc.equal(days, minus_infinity), pa.scalar(dates.TIMESTAMP_INFINITIES[0], pa.int64()), moments)


function_table.register_columns("date_{}_timestamp(date,timestamp)", _moment_of_dates)
function_table.register_columns("timestamp_{}_date(timestamp,date)", None, _moment_of_dates)


def _moment_of_date(day: int) -> int:
    if day in dates.DATE_INFINITIES:
        return dates.TIMESTAMP_INFINITIES[dates.DATE_INFINITIES.index(day)]
    return day * dates.DAY if day < dates.DAYS_OF_TIMESTAMPS else _AFTER_TIMESTAMPS


function_table.register_order(
    "date_cmp_timestamp(date,timestamp)", lambda day, moment: sign(_moment_of_date(day), moment)
)
function_table.register_order(
    "timestamp_cmp_date(timestamp,date)", lambda moment, day: sign(moment, _moment_of_date(day))
)
function_table.register_values("timetz_{}(timetz,timetz)", dates.compare_timetz)
function_table.register_extremes("timetz_larger(timetz,timetz)", "timetz_smaller(timetz,timetz)", dates.compare_timetz)
function_table.vectorised("isfinite(date)")(
    lambda values: pc.and_(
        pc.not_equal(values, dates.DATE_INFINITIES[0]), pc.not_equal(values, dates.DATE_INFINITIES[1])
    )
)
function_table.vectorised("isfinite(timestamp)", "isfinite(timestamptz)")(
    lambda values: pc.and_(
        pc.not_equal(values, pa.scalar(dates.TIMESTAMP_INFINITIES[0], pa.int64())),
        pc.not_equal(values, pa.scalar(dates.TIMESTAMP_INFINITIES[1], pa.int64())),
    )
)


# --- date ---------------------------------------------------------------------------------------


@function_table.elementwise("date_pli(date,int4)")
def _date_plus(day: int, count: int) -> int:
    if day in dates.DATE_INFINITIES:
        return day
    if not dates.is_valid_date(day + count):
        raise dates.out_of_range("date")
    return day + count


function_table.elementwise("date_mii(date,int4)")(lambda day, count: _date_plus(day, -count))


@function_table.elementwise("date_mi(date,date)")
def _date_difference(left: int, right: int) -> int:
    if left in dates.DATE_INFINITIES or right in dates.DATE_INFINITIES:
        raise RowFilterError("cannot subtract infinite dates", sqlstate="22008")
    return left - right


@function_table.elementwise("timestamp(date)")
def timestamp_of_date(day: int) -> int:
    if day in dates.DATE_INFINITIES:
        return dates.TIMESTAMP_INFINITIES[dates.DATE_INFINITIES.index(day)]
    if day >= dates.DAYS_OF_TIMESTAMPS:
        raise RowFilterError("date out of range for timestamp", sqlstate="22008")
    return day * dates.DAY


@function_table.elementwise("date(timestamp)")
def _date_of_timestamp(moment: int) -> int:
    if moment in dates.TIMESTAMP_INFINITIES:
        return dates.DATE_INFINITIES[dates.TIMESTAMP_INFINITIES.index(moment)]
    return moment // dates.DAY


@function_table.elementwise("timestamp(date,time)", "datetime_pl(date,time)")
def _timestamp_of_date_and_time(day: int, time: int) -> int:
    moment = timestamp_of_date(day)
    return moment if moment in dates.TIMESTAMP_INFINITIES else dates.valid_timestamp(moment + time)


@function_table.elementwise("timestamptz(date,timetz)", "datetimetz_pl(date,timetz)")
def _timestamptz_of_date_and_time(day: int, time: dates.TimeTZ) -> int:
    moment = timestamp_of_date(day)
    return moment if moment in dates.TIMESTAMP_INFINITIES else dates.valid_timestamp(moment + time.utc)


@function_table.elementwise("make_date(int4,int4,int4)")
def _make_date(year: int, month: int, day: int) -> int:
    number = _day_of_fields(year, month, day)
    if number is None:
        raise RowFilterError("date field value out of range", sqlstate="22008")
    if not dates.is_valid_date(number):
        raise dates.out_of_range("date")
    return number


def _day_of_fields(year: int, month: int, day: int) -> int | None:
    """The day number of a date, with negative years for BC. None if there is no such date."""
    if year == 0 or not 1 <= month <= 12:
        return None
    if year < 0:
        year += 1
    return dates.day_number(year, month, day) if 1 <= day <= dates.month_length(year, month) else None


# --- time ---------------------------------------------------------------------------------------


def _around_the_clock(microseconds: int) -> int:
    """The time of day of a sum of microseconds. A sum that exceeds 64 bits first wraps around."""
    return dates.wrapped(microseconds, 64) % dates.DAY


def _finite_length(length: dates.Interval, what: str) -> dates.Interval:
    if not length.is_finite:
        raise RowFilterError(f"cannot {what}", sqlstate="22008")
    return length


@function_table.elementwise("time_pl_interval(time,interval)")
def time_plus(time: int, length: dates.Interval) -> int:
    """``time + interval``; the result wraps around at midnight."""
    return _around_the_clock(time + _finite_length(length, "add infinite interval to time").microseconds)


@function_table.elementwise("time_mi_interval(time,interval)")
def _time_minus(time: int, length: dates.Interval) -> int:
    return _around_the_clock(time - _finite_length(length, "subtract infinite interval from time").microseconds)


@function_table.elementwise("timetz_pl_interval(timetz,interval)")
def _timetz_plus(time: dates.TimeTZ, length: dates.Interval) -> dates.TimeTZ:
    return dates.TimeTZ(time_plus(time.microseconds, length), time.zone)


function_table.elementwise("timetz_mi_interval(timetz,interval)")(
    lambda time, length: dates.TimeTZ(_time_minus(time.microseconds, length), time.zone)
)
function_table.elementwise("time_mi_time(time,time)", raises=False)(
    lambda left, right: dates.Interval(0, 0, left - right)
)
function_table.elementwise("interval(time)", raises=False)(lambda time: dates.Interval(0, 0, time))
function_table.elementwise("time(interval)")(
    lambda length: _around_the_clock(_finite_length(length, "convert infinite interval to time").microseconds)
)
function_table.elementwise("time(timetz)", raises=False)(lambda time: time.microseconds)
function_table.elementwise("time(timestamp)", raises=False)(
    lambda moment: None if moment in dates.TIMESTAMP_INFINITIES else moment % dates.DAY
)


@function_table.elementwise("make_time(int4,int4,float8)")
def _make_time(hour: int, minute: int, second: float) -> int:
    time = _time_of_fields(hour, minute, second)
    if time is None:
        raise RowFilterError("time field value out of range", sqlstate="22008")
    return time


def _time_of_fields(hour: int, minute: int, second: float) -> int | None:
    if not 0 <= hour <= 24 or not 0 <= minute <= 59 or not math.isfinite(second):
        return None
    microseconds = dates.rint(second * dates.SECOND)
    if not 0 <= microseconds <= dates.MINUTE:
        return None
    time = hour * dates.HOUR + minute * dates.MINUTE + int(microseconds)
    return time if time <= dates.DAY else None


# --- timestamp ----------------------------------------------------------------------------------


@function_table.elementwise("make_timestamp(int4,int4,int4,int4,int4,float8)")
def _make_timestamp(year: int, month: int, day: int, hour: int, minute: int, second: float) -> int:
    number = _day_of_fields(year, month, day)
    if number is None:
        raise RowFilterError("date field value out of range", sqlstate="22008")
    if not dates.is_valid_date(number):
        raise dates.out_of_range("date")
    time = _time_of_fields(hour, minute, second)
    if time is None:
        raise RowFilterError("time field value out of range", sqlstate="22008")
    return dates.valid_timestamp(number * dates.DAY + time)


@function_table.elementwise("to_timestamp(float8)")
def _timestamptz_of_epoch(seconds: float) -> int:
    if math.isnan(seconds):
        raise RowFilterError("timestamp cannot be NaN", sqlstate="22008")
    if math.isinf(seconds):
        return dates.TIMESTAMP_INFINITIES[1] if seconds > 0 else dates.TIMESTAMP_INFINITIES[0]
    first, end = -2_451_545 - dates.UNIX_EPOCH, dates.DAYS_OF_TIMESTAMPS - dates.UNIX_EPOCH
    if not first * 86400.0 <= seconds < end * 86400.0:
        raise dates.out_of_range("timestamp")
    return dates.valid_timestamp(int(dates.rint((seconds + dates.UNIX_EPOCH * 86400) * dates.SECOND)))


def months_later(moment: int, months: int) -> int:
    """Some months later, at the last day where the month is too short; it may be out of range."""
    day, time = divmod(moment, dates.DAY)
    year, month, day_of_month = dates.civil(day)
    years, month = divmod(month - 1 + months, 12)
    year, month = year + years, month + 1
    return dates.day_number(year, month, min(day_of_month, dates.month_length(year, month))) * dates.DAY + time


@function_table.elementwise("timestamp_pl_interval(timestamp,interval)")
def timestamp_plus(moment: int, length: dates.Interval) -> int:
    """Adds months first, up to the last day of the month, then days, then time."""
    direction = interval_functions.infinite_sign(length)
    if direction:
        if moment == dates.TIMESTAMP_INFINITIES[direction < 0]:
            raise dates.out_of_range("timestamp")
        return dates.TIMESTAMP_INFINITIES[direction > 0]
    if moment in dates.TIMESTAMP_INFINITIES:
        return moment
    if length.months:
        moment = dates.valid_timestamp(months_later(moment, length.months))
    if length.days:
        moment = dates.valid_timestamp(moment + length.days * dates.DAY)
    return dates.valid_timestamp(moment + length.microseconds)


@function_table.elementwise("timestamp_mi_interval(timestamp,interval)")
def _timestamp_minus(moment: int, length: dates.Interval) -> int:
    return timestamp_plus(moment, negative_interval(length))


@function_table.elementwise("date_pl_interval(date,interval)")
def _date_plus_interval(day: int, length: dates.Interval) -> int:
    return timestamp_plus(timestamp_of_date(day), length)


function_table.elementwise("date_mi_interval(date,interval)")(
    lambda day, length: _timestamp_minus(timestamp_of_date(day), length)
)


def _infinite_sign(moment: int) -> int:
    return int(moment == dates.TIMESTAMP_INFINITIES[1]) - int(moment == dates.TIMESTAMP_INFINITIES[0])


@function_table.elementwise(
    "timestamp_mi(timestamp,timestamp)", "timestamptz_mi(timestamptz,timestamptz)", context=True
)
def _timestamp_difference(context: function_table.Context, left: int, right: int) -> dates.Interval:
    if left in dates.TIMESTAMP_INFINITIES or right in dates.TIMESTAMP_INFINITIES:
        if context.server_version < interval_functions.INFINITE_INTERVALS:
            raise RowFilterError("cannot subtract infinite timestamps", sqlstate="22008")
        return interval_functions.infinite_difference(_infinite_sign(left), _infinite_sign(right))
    return interval_functions.justify_hours(dates.finite_interval(0, 0, left - right))


@function_table.elementwise("age(timestamp,timestamp)", "age(timestamptz,timestamptz)", context=True)
def _age(context: function_table.Context, left: int, right: int) -> dates.Interval:
    """``age``. If days are missing, a month is converted to days by its own length."""
    if left in dates.TIMESTAMP_INFINITIES or right in dates.TIMESTAMP_INFINITIES:
        if context.server_version >= interval_functions.INFINITE_INTERVALS:
            return interval_functions.infinite_difference(_infinite_sign(left), _infinite_sign(right))
        # Before infinite intervals existed, the server computed with infinity's bits as with any
        # other moment. For -infinity that is out of range.
        if dates.TIMESTAMP_INFINITIES[0] in {left, right}:
            raise dates.out_of_range("timestamp")
    later, earlier = max(left, right), min(left, right)
    years, months, days = (
        one - other
        for one, other in zip(dates.civil(later // dates.DAY), dates.civil(earlier // dates.DAY), strict=True)
    )
    time = later % dates.DAY - earlier % dates.DAY
    if time < 0:
        time, days = time + dates.DAY, days - 1
    # Borrow the days of the earlier moment's month, again if that month has fewer days than are
    # missing.
    year, month, _ = dates.civil(earlier // dates.DAY)
    while days < 0:
        days, months = days + dates.month_length(year, month), months - 1
    months += years * 12
    return dates.finite_interval(months, days, time) if left >= right else dates.finite_interval(-months, -days, -time)


@function_table.elementwise("date_bin(interval,timestamp,timestamp)", "date_bin(interval,timestamptz,timestamptz)")
def _bin(stride: dates.Interval, moment: int, origin: int) -> int:
    if moment in dates.TIMESTAMP_INFINITIES:
        return moment
    if origin in dates.TIMESTAMP_INFINITIES:
        raise dates.out_of_range("origin")
    if not stride.is_finite:
        raise RowFilterError("timestamps cannot be binned into infinite intervals", sqlstate="22008")
    if stride.months:
        raise RowFilterError("timestamps cannot be binned into intervals containing months or years", sqlstate="0A000")
    width = dates.finite_interval(0, 0, stride.days * dates.DAY + stride.microseconds).microseconds
    if width <= 0:
        raise RowFilterError("stride must be greater than zero", sqlstate="22008")
    difference = dates.finite_interval(0, 0, moment - origin).microseconds
    return dates.valid_timestamp(origin + difference // width * width) if difference % width else moment


def _register_overlaps(
    name: str, start_plus: Callable[[Any, dates.Interval], Any] | None, compare: Callable[[Any, Any], int]
) -> None:
    """Register OVERLAPS; an end may be a length. NULL gives what the SQL standard says."""

    def less(left: Any, right: Any) -> bool:
        return compare(left, right) < 0

    def ordered(start: Any, end: Any) -> tuple[Any, Any]:
        if start is None:
            return end, None
        return (end, start) if end is not None and less(end, start) else (start, end)

    def overlap(start: Any, end: Any, other_start: Any, other_end: Any) -> bool | None:
        start, end = ordered(start, end)
        other_start, other_end = ordered(other_start, other_end)
        if start is None or other_start is None:
            return None
        if less(other_start, start):
            start, end, other_start, other_end = other_start, other_end, start, end
        if less(start, other_start):
            # The first period begins earlier, so they overlap if it ends after the start of the
            # other period.
            if end is None:
                return None
            return True if less(other_start, end) else (None if other_end is None else False)
        return None if end is None or other_end is None else True

    function_table.elementwise(f"overlaps({name},{name},{name},{name})", strict=False, raises=False)(overlap)
    if start_plus is None:
        return

    def end_of(start: Any, length: dates.Interval | None) -> Any:
        return None if start is None or length is None else start_plus(start, length)

    function_table.elementwise(f"overlaps({name},interval,{name},interval)", strict=False)(
        lambda start, length, other, other_length: overlap(
            start, end_of(start, length), other, end_of(other, other_length)
        )
    )
    function_table.elementwise(f"overlaps({name},{name},{name},interval)", strict=False)(
        lambda start, end, other, other_length: overlap(start, end, other, end_of(other, other_length))
    )
    function_table.elementwise(f"overlaps({name},interval,{name},{name})", strict=False)(
        lambda start, length, other, other_end: overlap(start, end_of(start, length), other, other_end)
    )


_register_overlaps("time", time_plus, sign)
_register_overlaps("timetz", None, dates.compare_timetz)
_register_overlaps("timestamp", timestamp_plus, sign)
_register_overlaps("timestamptz", None, sign)
