"""Arithmetic and conversion of date, time, timetz, timestamp and timestamptz.

The functions that make such values from numbers (``make_date`` and so on) are here, too.
"""

from __future__ import annotations

import math
from typing import Final

from subscriber.errors import RowFilterError
from subscriber.filters.functions.function_table import Context, FunctionTable
from subscriber.filters.functions.intervals import (
    INFINITE_INTERVALS,
    infinite_difference,
    infinite_sign,
    justify_hours,
)
from subscriber.filters.functions.intervals import negative as negative_interval
from subscriber.types.datetimes.calendar import (
    DATE_INFINITIES,
    DAY,
    DAYS_OF_TIMESTAMPS,
    HOUR,
    MINUTE,
    SECOND,
    TIMESTAMP_INFINITIES,
    UNIX_EPOCH,
    civil,
    day_number,
    is_valid_date,
    month_length,
    out_of_range,
    rint,
    valid_timestamp,
    wrapped,
)
from subscriber.types.datetimes.intervals import Interval
from subscriber.types.datetimes.intervals import finite as finite_interval
from subscriber.types.datetimes.values import TimeTZ

FUNCTIONS: Final = FunctionTable()

# --- date ---------------------------------------------------------------------------------------


@FUNCTIONS.elementwise("date_pli(date,int4)")
def _date_plus(day: int, count: int) -> int:
    if day in DATE_INFINITIES:
        return day
    if not is_valid_date(day + count):
        raise out_of_range("date")
    return day + count


@FUNCTIONS.elementwise("integer_pl_date(int4,date)")
def _plus_date(count: int, day: int) -> int:
    return _date_plus(day, count)


@FUNCTIONS.elementwise("date_mii(date,int4)")
def _date_minus(day: int, count: int) -> int:
    return _date_plus(day, -count)


@FUNCTIONS.elementwise("date_mi(date,date)")
def _date_difference(left: int, right: int) -> int:
    if left in DATE_INFINITIES or right in DATE_INFINITIES:
        raise RowFilterError("cannot subtract infinite dates", sqlstate="22008")
    return left - right


@FUNCTIONS.elementwise("timestamp(date)")
def timestamp_of_date(day: int) -> int:
    """Convert a date to a timestamp (``date::timestamp``).

    Raises:
        RowFilterError: 22008, the date is out of range for a timestamp.
    """
    if day in DATE_INFINITIES:
        return TIMESTAMP_INFINITIES[DATE_INFINITIES.index(day)]
    if day >= DAYS_OF_TIMESTAMPS:
        raise RowFilterError("date out of range for timestamp", sqlstate="22008")
    return day * DAY


@FUNCTIONS.elementwise("date(timestamp)")
def _date_of_timestamp(moment: int) -> int:
    if moment in TIMESTAMP_INFINITIES:
        return DATE_INFINITIES[TIMESTAMP_INFINITIES.index(moment)]
    return moment // DAY


@FUNCTIONS.elementwise("timestamp(date,time)", "datetime_pl(date,time)")
def _timestamp_of_date_and_time(day: int, time: int) -> int:
    moment = timestamp_of_date(day)
    return moment if moment in TIMESTAMP_INFINITIES else valid_timestamp(moment + time)


@FUNCTIONS.elementwise("timedate_pl(time,date)")
def _timestamp_of_time_and_date(time: int, day: int) -> int:
    return _timestamp_of_date_and_time(day, time)


@FUNCTIONS.elementwise("timestamptz(date,timetz)", "datetimetz_pl(date,timetz)")
def _timestamptz_of_date_and_time(day: int, time: TimeTZ) -> int:
    moment = timestamp_of_date(day)
    return moment if moment in TIMESTAMP_INFINITIES else valid_timestamp(moment + time.utc)


@FUNCTIONS.elementwise("timetzdate_pl(timetz,date)")
def _timestamptz_of_time_and_date(time: TimeTZ, day: int) -> int:
    return _timestamptz_of_date_and_time(day, time)


@FUNCTIONS.elementwise("make_date(int4,int4,int4)")
def _make_date(year: int, month: int, day: int) -> int:
    number = _day_of_fields(year, month, day)
    if number is None:
        raise RowFilterError("date field value out of range", sqlstate="22008")
    if not is_valid_date(number):
        raise out_of_range("date")
    return number


def _day_of_fields(year: int, month: int, day: int) -> int | None:
    """The day number of a date, with negative years for BC. None if there is no such date."""
    if year == 0 or not 1 <= month <= 12:
        return None
    if year < 0:
        year += 1
    return day_number(year, month, day) if 1 <= day <= month_length(year, month) else None


# --- time ---------------------------------------------------------------------------------------


def _around_the_clock(microseconds: int) -> int:
    """The time of day of a sum of microseconds. A sum that exceeds 64 bits first wraps around."""
    return wrapped(microseconds, 64) % DAY


def _finite_length(length: Interval, what: str) -> Interval:
    if not length.is_finite:
        raise RowFilterError(f"cannot {what}", sqlstate="22008")
    return length


@FUNCTIONS.elementwise("time_pl_interval(time,interval)")
def time_plus(time: int, length: Interval) -> int:
    """``time + interval``; the result wraps around at midnight."""
    return _around_the_clock(time + _finite_length(length, "add infinite interval to time").microseconds)


@FUNCTIONS.elementwise("interval_pl_time(interval,time)")
def _plus_time(length: Interval, time: int) -> int:
    return time_plus(time, length)


@FUNCTIONS.elementwise("time_mi_interval(time,interval)")
def _time_minus(time: int, length: Interval) -> int:
    return _around_the_clock(time - _finite_length(length, "subtract infinite interval from time").microseconds)


@FUNCTIONS.elementwise("timetz_pl_interval(timetz,interval)")
def _timetz_plus(time: TimeTZ, length: Interval) -> TimeTZ:
    return TimeTZ(time_plus(time.microseconds, length), time.zone)


@FUNCTIONS.elementwise("interval_pl_timetz(interval,timetz)")
def _plus_timetz(length: Interval, time: TimeTZ) -> TimeTZ:
    return _timetz_plus(time, length)


@FUNCTIONS.elementwise("timetz_mi_interval(timetz,interval)")
def _timetz_minus(time: TimeTZ, length: Interval) -> TimeTZ:
    return TimeTZ(_time_minus(time.microseconds, length), time.zone)


@FUNCTIONS.elementwise("time_mi_time(time,time)", raises=False)
def _time_difference(left: int, right: int) -> Interval:
    return Interval(0, 0, left - right)


@FUNCTIONS.elementwise("interval(time)", raises=False)
def _interval_of_time(time: int) -> Interval:
    return Interval(0, 0, time)


@FUNCTIONS.elementwise("time(interval)")
def _time_of_interval(length: Interval) -> int:
    return _around_the_clock(_finite_length(length, "convert infinite interval to time").microseconds)


@FUNCTIONS.elementwise("time(timetz)", raises=False)
def _time_of_timetz(time: TimeTZ) -> int:
    return time.microseconds


@FUNCTIONS.elementwise("time(timestamp)", raises=False)
def _time_of_timestamp(moment: int) -> int | None:
    return None if moment in TIMESTAMP_INFINITIES else moment % DAY


@FUNCTIONS.elementwise("make_time(int4,int4,float8)")
def _make_time(hour: int, minute: int, second: float) -> int:
    time = _time_of_fields(hour, minute, second)
    if time is None:
        raise RowFilterError("time field value out of range", sqlstate="22008")
    return time


def _time_of_fields(hour: int, minute: int, second: float) -> int | None:
    if not 0 <= hour <= 24 or not 0 <= minute <= 59 or not math.isfinite(second):
        return None
    microseconds = rint(second * SECOND)
    if not 0 <= microseconds <= MINUTE:
        return None
    time = hour * HOUR + minute * MINUTE + int(microseconds)
    return time if time <= DAY else None


# --- timestamp ----------------------------------------------------------------------------------


@FUNCTIONS.elementwise("make_timestamp(int4,int4,int4,int4,int4,float8)")
def _make_timestamp(year: int, month: int, day: int, hour: int, minute: int, second: float) -> int:
    number = _day_of_fields(year, month, day)
    if number is None:
        raise RowFilterError("date field value out of range", sqlstate="22008")
    if not is_valid_date(number):
        raise out_of_range("date")
    time = _time_of_fields(hour, minute, second)
    if time is None:
        raise RowFilterError("time field value out of range", sqlstate="22008")
    return valid_timestamp(number * DAY + time)


@FUNCTIONS.elementwise("to_timestamp(float8)")
def _timestamptz_of_epoch(seconds: float) -> int:
    if math.isnan(seconds):
        raise RowFilterError("timestamp cannot be NaN", sqlstate="22008")
    if math.isinf(seconds):
        return TIMESTAMP_INFINITIES[1] if seconds > 0 else TIMESTAMP_INFINITIES[0]
    first, end = -2_451_545 - UNIX_EPOCH, DAYS_OF_TIMESTAMPS - UNIX_EPOCH
    if not first * 86400.0 <= seconds < end * 86400.0:
        raise out_of_range("timestamp")
    return valid_timestamp(int(rint((seconds + UNIX_EPOCH * 86400) * SECOND)))


def months_later(moment: int, months: int) -> int:
    """The moment some months later, at the same day of the month and time.

    If that month is too short, the result is its last day. The result may be out of range.
    """
    day, time = divmod(moment, DAY)
    year, month, day_of_month = civil(day)
    years, month = divmod(month - 1 + months, 12)
    year, month = year + years, month + 1
    return day_number(year, month, min(day_of_month, month_length(year, month))) * DAY + time


@FUNCTIONS.elementwise("timestamp_pl_interval(timestamp,interval)")
def timestamp_plus(moment: int, length: Interval) -> int:
    """``timestamp + interval``: adds the months first, limited to the last day of the month, then
    the days, then the time.

    Raises:
        DataException: 22008, the result is out of range.
    """
    direction = infinite_sign(length)
    if direction:
        if moment == TIMESTAMP_INFINITIES[direction < 0]:
            raise out_of_range("timestamp")
        return TIMESTAMP_INFINITIES[direction > 0]
    if moment in TIMESTAMP_INFINITIES:
        return moment
    if length.months:
        moment = valid_timestamp(months_later(moment, length.months))
    if length.days:
        moment = valid_timestamp(moment + length.days * DAY)
    return valid_timestamp(moment + length.microseconds)


@FUNCTIONS.elementwise("interval_pl_timestamp(interval,timestamp)")
def _plus_timestamp(length: Interval, moment: int) -> int:
    return timestamp_plus(moment, length)


@FUNCTIONS.elementwise("timestamp_mi_interval(timestamp,interval)")
def _timestamp_minus(moment: int, length: Interval) -> int:
    return timestamp_plus(moment, negative_interval(length))


@FUNCTIONS.elementwise("date_pl_interval(date,interval)")
def _date_plus_interval(day: int, length: Interval) -> int:
    return timestamp_plus(timestamp_of_date(day), length)


@FUNCTIONS.elementwise("interval_pl_date(interval,date)")
def _interval_plus_date(length: Interval, day: int) -> int:
    return _date_plus_interval(day, length)


@FUNCTIONS.elementwise("date_mi_interval(date,interval)")
def _date_minus_interval(day: int, length: Interval) -> int:
    return _timestamp_minus(timestamp_of_date(day), length)


def _infinite_sign(moment: int) -> int:
    return int(moment == TIMESTAMP_INFINITIES[1]) - int(moment == TIMESTAMP_INFINITIES[0])


@FUNCTIONS.elementwise("timestamp_mi(timestamp,timestamp)", "timestamptz_mi(timestamptz,timestamptz)", context=True)
def _timestamp_difference(context: Context, left: int, right: int) -> Interval:
    if left in TIMESTAMP_INFINITIES or right in TIMESTAMP_INFINITIES:
        if context.server_version < INFINITE_INTERVALS:
            raise RowFilterError("cannot subtract infinite timestamps", sqlstate="22008")
        return infinite_difference(_infinite_sign(left), _infinite_sign(right))
    return justify_hours(finite_interval(0, 0, left - right))


@FUNCTIONS.elementwise("age(timestamp,timestamp)", "age(timestamptz,timestamptz)", context=True)
def _age(context: Context, left: int, right: int) -> Interval:
    """Years, months, days and time between two moments (``age``).

    If days are missing, a month is converted to days by its own length.
    """
    if left in TIMESTAMP_INFINITIES or right in TIMESTAMP_INFINITIES:
        if context.server_version >= INFINITE_INTERVALS:
            return infinite_difference(_infinite_sign(left), _infinite_sign(right))
        # Before infinite intervals existed, the server computed with infinity's bits as with any
        # other moment. For -infinity that is out of range.
        if TIMESTAMP_INFINITIES[0] in {left, right}:
            raise out_of_range("timestamp")
    later, earlier = max(left, right), min(left, right)
    years, months, days = (one - other for one, other in zip(civil(later // DAY), civil(earlier // DAY), strict=True))
    time = later % DAY - earlier % DAY
    if time < 0:
        time, days = time + DAY, days - 1
    # Borrow the days of the earlier moment's month, again if that month has fewer days than are
    # missing.
    year, month, _ = civil(earlier // DAY)
    while days < 0:
        days, months = days + month_length(year, month), months - 1
    months += years * 12
    return finite_interval(months, days, time) if left >= right else finite_interval(-months, -days, -time)


@FUNCTIONS.elementwise("date_bin(interval,timestamp,timestamp)", "date_bin(interval,timestamptz,timestamptz)")
def _bin(stride: Interval, moment: int, origin: int) -> int:
    if moment in TIMESTAMP_INFINITIES:
        return moment
    if origin in TIMESTAMP_INFINITIES:
        raise out_of_range("origin")
    if not stride.is_finite:
        raise RowFilterError("timestamps cannot be binned into infinite intervals", sqlstate="22008")
    if stride.months:
        raise RowFilterError("timestamps cannot be binned into intervals containing months or years", sqlstate="0A000")
    width = finite_interval(0, 0, stride.days * DAY + stride.microseconds).microseconds
    if width <= 0:
        raise RowFilterError("stride must be greater than zero", sqlstate="22008")
    difference = finite_interval(0, 0, moment - origin).microseconds
    return valid_timestamp(origin + difference // width * width) if difference % width else moment
