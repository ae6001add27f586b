"""AT TIME ZONE, and ``date_add`` in a time zone.

The meaning of a time zone's name, and its offset at a given time, are in
:mod:`subscriber.types.datetimes.timezones`.

A time zone may come from a column. If the tz database does not contain the name, the rows with that
name get the server's error 22023.
"""

from __future__ import annotations

from typing import Final

from subscriber.errors import RowFilterError
from subscriber.filters.functions.date_arithmetic import months_later, timestamp_plus
from subscriber.filters.functions.function_table import FunctionTable
from subscriber.filters.functions.intervals import negative
from subscriber.types.datetimes.calendar import DAY, SECOND, TIMESTAMP_INFINITIES, quotient, valid_timestamp, wrapped
from subscriber.types.datetimes.intervals import Interval
from subscriber.types.datetimes.timezones import TimeZone, time_zone, whole_zone
from subscriber.types.datetimes.values import TimeTZ

FUNCTIONS: Final = FunctionTable()


def _whole_seconds(zone: Interval) -> int:
    """The offset of a time zone in whole seconds east of Greenwich."""
    if not zone.is_finite:
        raise RowFilterError("interval time zone must be finite", sqlstate="22023")
    if zone.months or zone.days:
        raise RowFilterError("interval time zone must not include months or days", sqlstate="22023")
    return quotient(zone.microseconds, SECOND)


def _moved(moment: int, seconds: int) -> int:
    return valid_timestamp(moment + seconds * SECOND)


@FUNCTIONS.elementwise("timezone(text,timestamp)")
def _local_to_utc(zone: str, moment: int) -> int:
    return moment if moment in TIMESTAMP_INFINITIES else _moved(moment, -time_zone(zone).offset_of(moment))


@FUNCTIONS.elementwise("timezone(text,timestamptz)")
def _utc_to_local(zone: str, moment: int) -> int:
    return moment if moment in TIMESTAMP_INFINITIES else _moved(moment, time_zone(zone).offset_at(moment))


@FUNCTIONS.elementwise("timezone(interval,timestamp)")
def _local_to_utc_by_interval(zone: Interval, moment: int) -> int:
    return moment if moment in TIMESTAMP_INFINITIES else _moved(moment, -wrapped(_whole_seconds(zone), 32))


@FUNCTIONS.elementwise("timezone(interval,timestamptz)")
def _utc_to_local_by_interval(zone: Interval, moment: int) -> int:
    return moment if moment in TIMESTAMP_INFINITIES else _moved(moment, -wrapped(-_whole_seconds(zone), 32))


@FUNCTIONS.elementwise("timezone(interval,timetz)")
def _timetz_at_offset(zone: Interval, time: TimeTZ) -> TimeTZ:
    west = wrapped(-_whole_seconds(zone), 32)
    return TimeTZ((time.microseconds + wrapped(time.zone - west, 32) * SECOND) % DAY, west)


# --- date_add -------------------------------------------------------------------------------------


@FUNCTIONS.elementwise("date_add(timestamptz,interval,text)")
def _add(moment: int, length: Interval, zone: str) -> int:
    """Add an interval to a moment in a time zone (``timestamptz_pl_interval_at_zone``).

    Months and days are those of the time zone's calendar; the rest is elapsed time.
    """
    found = whole_zone(zone)
    if moment in TIMESTAMP_INFINITIES or not length.is_finite:
        return timestamp_plus(moment, length)
    if length.months:
        moment = _in_zone(months_later(_local(moment, found), length.months), found)
    if length.days:
        moment = _in_zone(_local(moment, found) + length.days * DAY, found)
    return valid_timestamp(moment + length.microseconds)


@FUNCTIONS.elementwise("date_subtract(timestamptz,interval,text)")
def _subtract(moment: int, length: Interval, zone: str) -> int:
    whole_zone(zone)  # before the interval is negated, which may raise an error
    return _add(moment, negative(length), zone)


def _local(moment: int, zone: TimeZone) -> int:
    return moment + zone.offset_at(moment) * SECOND


def _in_zone(local: int, zone: TimeZone) -> int:
    return valid_timestamp(local - zone.offset_of(local) * SECOND)
