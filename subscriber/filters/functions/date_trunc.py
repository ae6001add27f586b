"""``date_trunc``: the beginning of the unit that a moment is in.

A timestamp with time zone is truncated in the local time of a time zone, and its offset is looked
up again for the result. An interval is truncated towards zero.
"""

from __future__ import annotations

from typing import Final

from subscriber.filters.functions.fields import INTERVAL_UNITS, unit_named, unit_not_supported
from subscriber.filters.functions.function_table import FunctionTable
from subscriber.types.datetimes.calendar import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    TIMESTAMP_INFINITIES,
    civil,
    day_number,
    quotient,
    valid_timestamp,
    weekday,
)
from subscriber.types.datetimes.intervals import Interval
from subscriber.types.datetimes.intervals import finite as finite_interval
from subscriber.types.datetimes.timezones import whole_zone

FUNCTIONS: Final = FunctionTable()

_UNIT_SIZES: Final = {
    "microsecond": 1,
    "millisecond": 1000,
    "second": SECOND,
    "minute": MINUTE,
    "hour": HOUR,
    "day": DAY,
}


def _unit_to_truncate(text: str, type_name: str) -> str:
    unit = unit_named(text, type_name, reserved=False)
    if unit not in INTERVAL_UNITS:
        raise unit_not_supported(type_name)
    return unit


def _truncate(unit: str, moment: int) -> int:
    if unit in _UNIT_SIZES:
        return moment // _UNIT_SIZES[unit] * _UNIT_SIZES[unit]
    day = moment // DAY
    year, month, _ = civil(day)
    match unit:
        case "week":
            day -= weekday(day)
        case "month":
            day = day_number(year, month, 1)
        case "quarter":
            day = day_number(year, (month - 1) // 3 * 3 + 1, 1)
        case _:
            day = day_number(_first_year(unit, year), 1, 1)
    return day * DAY


def _first_year(unit: str, year: int) -> int:
    match unit:
        case "year":
            return year
        case "decade":
            return year // 10 * 10 if year > 0 else -((8 - (year - 1)) // 10) * 10
        case "century":
            return (year + 99) // 100 * 100 - 99 if year > 0 else -((99 - (year - 1)) // 100) * 100 + 1
        case _:
            # The first year of the millennium, and from it the first year of its century.
            return _first_year(
                "century",
                (year + 999) // 1000 * 1000 - 999 if year > 0 else -((999 - (year - 1)) // 1000) * 1000 + 1,
            )


@FUNCTIONS.elementwise("date_trunc(text,timestamp)")
def _truncate_timestamp(text: str, moment: int) -> int:
    unit = _unit_to_truncate(text, "timestamp without time zone")
    return moment if moment in TIMESTAMP_INFINITIES else valid_timestamp(_truncate(unit, moment))


@FUNCTIONS.elementwise("date_trunc(text,timestamptz,text)")
def _truncate_timestamptz(text: str, moment: int, name: str) -> int:
    zone = whole_zone(name)
    unit = _unit_to_truncate(text, "timestamp with time zone")
    if moment in TIMESTAMP_INFINITIES:
        return moment
    offset = zone.offset_at(moment)
    local = _truncate(unit, moment + offset * SECOND)
    # If the result is within the same day, it keeps the offset of the moment.
    if unit not in _UNIT_SIZES or unit == "day":
        offset = zone.offset_of(local)
    return valid_timestamp(local - offset * SECOND)


@FUNCTIONS.elementwise("date_trunc(text,interval)")
def _truncate_interval(text: str, value: Interval) -> Interval:
    unit = _unit_to_truncate(text, "interval")
    if unit == "week":
        raise unit_not_supported("interval")
    if not value.is_finite:
        return value
    if unit in _UNIT_SIZES and unit != "day":
        size = _UNIT_SIZES[unit]
        return finite_interval(value.months, value.days, quotient(value.microseconds, size) * size)
    if unit == "day":
        return finite_interval(value.months, value.days, 0)
    size = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1200, "millennium": 12000}[unit]
    return finite_interval(quotient(value.months, size) * size, 0, 0)
