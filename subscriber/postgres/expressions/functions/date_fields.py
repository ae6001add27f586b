"""``extract``, ``date_part``, ``date_trunc``, AT TIME ZONE, and ``date_add`` in a time zone.

The server looks a unit up among the units of an interval first, and then among the words of a date,
which contain some further units. ``extract`` gives numeric, ``date_part`` double precision, by
different computations.

If the tz database does not contain a name that comes from a column, its rows get the server's error
22023. A constant time zone that exists only in some servers is refused when the filter is given.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Any, Final

from subscriber.base.errors import DataException, RowFilterError
from subscriber.postgres.expressions.functions import date_functions
from subscriber.postgres.expressions.functions.function_table import Context, Implementation, Specialise, elementwise
from subscriber.postgres.expressions.functions.interval_functions import negative
from subscriber.postgres.expressions.functions.numeric_functions import divide
from subscriber.postgres.types.datetimes import date_values as dates
from subscriber.postgres.types.datetimes.interval_input import UNITS
from subscriber.postgres.types.datetimes.timezones import TimeZone, time_zone, whole_zone


def with_zone(place: int) -> Specialise:
    """Refuse a constant time zone that exists only on some servers; an unknown one fails later."""

    def check(implementation: Implementation, constants: Mapping[int, Any]) -> Implementation:
        if constants.get(place) is not None:
            with suppress(DataException):
                time_zone(constants[place])
        return implementation

    return check


def _whole_seconds(zone: dates.Interval) -> int:
    """The offset of a time zone in whole seconds east of Greenwich."""
    if not zone.is_finite:
        raise RowFilterError("interval time zone must be finite", sqlstate="22023")
    if zone.months or zone.days:
        raise RowFilterError("interval time zone must not include months or days", sqlstate="22023")
    return dates.quotient(zone.microseconds, dates.SECOND)


def _moved(moment: int, seconds: int) -> int:
    return dates.valid_timestamp(moment + seconds * dates.SECOND)


elementwise("timezone(text,timestamp)", specialise=with_zone(0))(
    lambda zone, moment: (
        moment if moment in dates.TIMESTAMP_INFINITIES else _moved(moment, -time_zone(zone).offset_of(moment))
    )
)
elementwise("timezone(text,timestamptz)", specialise=with_zone(0))(
    lambda zone, moment: (
        moment if moment in dates.TIMESTAMP_INFINITIES else _moved(moment, time_zone(zone).offset_at(moment))
    )
)
elementwise("timezone(interval,timestamp)")(
    lambda zone, moment: (
        moment if moment in dates.TIMESTAMP_INFINITIES else _moved(moment, -dates.wrapped(_whole_seconds(zone), 32))
    )
)
elementwise("timezone(interval,timestamptz)")(
    lambda zone, moment: (
        moment if moment in dates.TIMESTAMP_INFINITIES else _moved(moment, -dates.wrapped(-_whole_seconds(zone), 32))
    )
)


@elementwise("timezone(interval,timetz)")
def _timetz_at_offset(zone: dates.Interval, time: dates.TimeTZ) -> dates.TimeTZ:
    west = dates.wrapped(-_whole_seconds(zone), 32)
    return dates.TimeTZ((time.microseconds + dates.wrapped(time.zone - west, 32) * dates.SECOND) % dates.DAY, west)


# --- date_add -------------------------------------------------------------------------------------


@elementwise("date_add(timestamptz,interval,text)", specialise=with_zone(2))
def _add(moment: int, length: dates.Interval, zone: str) -> int:
    """``timestamptz_pl_interval_at_zone``: months and days by the zone's calendar."""
    found = whole_zone(zone)
    if moment in dates.TIMESTAMP_INFINITIES or not length.is_finite:
        return date_functions.timestamp_plus(moment, length)
    if length.months:
        moment = _in_zone(date_functions.months_later(_local(moment, found), length.months), found)
    if length.days:
        moment = _in_zone(_local(moment, found) + length.days * dates.DAY, found)
    return dates.valid_timestamp(moment + length.microseconds)


@elementwise("date_subtract(timestamptz,interval,text)", specialise=with_zone(2))
def _subtract(moment: int, length: dates.Interval, zone: str) -> int:
    whole_zone(zone)  # before the interval is negated, which may raise an error
    return _add(moment, negative(length), zone)


def _local(moment: int, zone: TimeZone) -> int:
    return moment + zone.offset_at(moment) * dates.SECOND


def _in_zone(local: int, zone: TimeZone) -> int:
    return dates.valid_timestamp(local - zone.offset_of(local) * dates.SECOND)


_WORD_SIZE: Final = 10
_IDENTIFIER_SIZE: Final = 63

_DELTA_UNITS: Final = UNITS | {
    "qtr": "quarter",
    "quarter": "quarter",
    "timezone": "timezone",
    "timezone_h": "timezone_hour",
    "timezone_m": "timezone_minute",
}
_DATE_UNITS: Final = {
    "dow": "dow", "doy": "doy", "isodow": "isodow", "isoyear": "isoyear", "j": "julian", "jd": "julian",
    "julian": "julian", "mm": "minute",
}  # fmt: skip
_RESERVED: Final = frozenset(["-infinity", "allballs", "epoch", "infinity", "now", "today", "tomorrow", "yesterday"])

INTERVAL_UNITS: Final = (
    "microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year", "decade",
    "century", "millennium",
)  # fmt: skip
_OF_DATE: Final = frozenset({
    "day", "week", "month", "quarter", "year", "decade", "century", "millennium", "julian", "isoyear", "dow",
    "isodow", "doy", "epoch",
})  # fmt: skip
_OF_TIME: Final = frozenset(["microsecond", "millisecond", "second", "minute", "hour", "epoch"])
_OF_TIMETZ: Final = _OF_TIME | {"timezone", "timezone_hour", "timezone_minute"}
_OF_TIMESTAMP: Final = _OF_DATE | _OF_TIME
_OF_INTERVAL: Final = frozenset({*INTERVAL_UNITS, "epoch"})

# Fields of an infinite value: a field that only increases is infinite, a field that repeats is
# NULL.
_GROWING: Final = frozenset(["year", "decade", "century", "millennium", "julian", "isoyear", "epoch"])
_GROWING_OF_INTERVAL: Final = frozenset(["hour", "day", "year", "decade", "century", "millennium", "epoch"])
_ZONE_UNITS: Final = frozenset({"timezone", "timezone_hour", "timezone_minute"})

_WEEKS_OF_INTERVALS: Final = 180000
"""The first version that extracts a week or a negative quarter from an interval."""

_OTHER_WORDS_ARE_UNKNOWN: Final = frozenset({"interval", "time without time zone", "time with time zone"})
"""Types for which a word such as ``now`` is an unrecognized, not an unsupported unit."""

_EXACT: Final = decimal.Context(prec=100)
"""For sums of numerics that need more digits than Python's default."""

Value = Decimal | float | None


# The message does not contain the unit: it may come from a column, and no error shows a value of a
# row.
def _not_recognized(type_name: str) -> RowFilterError:
    return RowFilterError(f"unit not recognized for type {type_name}", sqlstate="22023")


def unit_not_supported(type_name: str) -> RowFilterError:
    """The error for a unit that a type does not have (0A000)."""
    return RowFilterError(f"unit not supported for type {type_name}", sqlstate="0A000")


def unit_named(text: str, type_name: str, *, reserved: bool) -> str:
    """The unit that a word names. With ``reserved``, the words of a date are found, too."""
    # Only ASCII letters are converted to lower case, as in an identifier.
    word = "".join(chr(ord(one) + 32) if "A" <= one <= "Z" else one for one in text)
    word = word.encode()[:_IDENTIFIER_SIZE].decode(errors="ignore")[:_WORD_SIZE]
    unit = _DELTA_UNITS.get(word)
    if unit is None and reserved:
        unit = _DATE_UNITS.get(word) or (word if word in _RESERVED else None)
    if unit is None:
        raise _not_recognized(type_name)
    return unit


def _find(text: str, type_name: str, units: frozenset[str]) -> str:
    unit = unit_named(text, type_name, reserved=True)
    if unit in _RESERVED and unit != "epoch" and type_name in _OTHER_WORDS_ARE_UNKNOWN:
        raise _not_recognized(type_name)
    if unit not in units:
        raise unit_not_supported(type_name)
    return unit


def _scaled(count: int, decimals: int) -> Decimal:
    return Decimal(count).scaleb(-decimals)


def _register(type_name: str, extract: Callable[[str, Any, bool], Value]) -> None:
    """Register ``extract`` and ``date_part``; ``extract`` gets unit, value, and whether numeric."""

    def as_numeric(unit: str, value: Any) -> Value:
        return extract(unit, value, True)

    def as_float(unit: str, value: Any) -> Value:
        found = extract(unit, value, False)
        return None if found is None else float(found)

    elementwise(f"extract(text,{type_name})")(as_numeric)
    elementwise(f"date_part(text,{type_name})")(as_float)


def _infinite(unit: str, growing: frozenset[str], *, positive: bool) -> Decimal | None:
    return None if unit not in growing else Decimal("Infinity" if positive else "-Infinity")


# --- dates and timestamps -----------------------------------------------------------------------


def _of_day(unit: str, day: int) -> int:
    """Every unit of a date except the epoch."""
    year, month, day_of_month = dates.civil(day)
    match unit:
        case "day":
            return day_of_month
        case "month":
            return month
        case "quarter":
            return (month - 1) // 3 + 1
        case "week":
            return dates.iso_week(day)[1]
        case "year":
            return year if year > 0 else year - 1
        case "decade":
            return year // 10 if year >= 0 else -((8 - (year - 1)) // 10)
        case "century":
            return (year + 99) // 100 if year > 0 else -((99 - (year - 1)) // 100)
        case "millennium":
            return (year + 999) // 1000 if year > 0 else -((999 - (year - 1)) // 1000)
        case "isoyear":
            iso_year = dates.iso_week(day)[0]
            return iso_year if iso_year > 0 else iso_year - 1
        case "dow":
            return (dates.weekday(day) + 1) % 7
        case "isodow":
            return dates.weekday(day) + 1
        case "doy":
            return day - dates.day_number(year, 1, 1) + 1
        case _:
            return day + dates.JULIAN_DAY


def _of_time(unit: str, time: int, numeric: bool) -> Value:
    """Every unit of a time except the epoch."""
    minutes, microseconds = divmod(time, dates.MINUTE)
    match unit:
        case "hour":
            return Decimal(minutes // 60)
        case "minute":
            return Decimal(minutes % 60)
        case "microsecond":
            return Decimal(microseconds)
    return _of_seconds(unit, *divmod(microseconds, dates.SECOND), numeric)


def _of_seconds(unit: str, seconds: int, microseconds: int, numeric: bool) -> Value:
    if numeric:
        return _scaled(seconds * dates.SECOND + microseconds, 3 if unit == "millisecond" else 6)
    return seconds * 1000.0 + microseconds / 1000.0 if unit == "millisecond" else seconds + microseconds / 1000000.0


@elementwise("extract(text,date)")
def _of_date(text: str, day: int) -> Value:
    unit = _find(text, "date", _OF_DATE)
    if day in dates.DATE_INFINITIES:
        return _infinite(unit, _GROWING, positive=day > 0)
    return Decimal((day - dates.UNIX_EPOCH) * 86400 if unit == "epoch" else _of_day(unit, day))


@elementwise("date_part(text,date)")
def _date_part_of_date(text: str, day: int) -> float | None:
    # The server has no separate code for dates here: it converts the date to a timestamp.
    found = _of_timestamp(text, date_functions.timestamp_of_date(day), False)
    return None if found is None else float(found)


def _of_timestamp(text: str, moment: int, numeric: bool) -> Value:
    name = "timestamp without time zone"
    infinite = moment in dates.TIMESTAMP_INFINITIES
    unit = _find(text, name, _OF_TIMESTAMP | _ZONE_UNITS if infinite else _OF_TIMESTAMP)
    if infinite:
        return _infinite(unit, _GROWING, positive=moment > 0)
    day, time = divmod(moment, dates.DAY)
    if unit == "epoch":
        return _epoch_of_timestamp(moment, numeric)
    if unit in _OF_TIME:
        return _of_time(unit, time, numeric)
    if unit == "julian":
        if numeric:
            return _EXACT.add(Decimal(day + dates.JULIAN_DAY), _divided(time, dates.DAY))
        return day + dates.JULIAN_DAY + (time // dates.SECOND + (time % dates.SECOND) / 1000000.0) / 86400.0
    return Decimal(_of_day(unit, day))


def _divided(dividend: int, divisor: int) -> Decimal:
    """Divide as numerics, with the decimals that PostgreSQL chooses from the operands' sizes."""
    return divide(Decimal(dividend), Decimal(divisor))


def _epoch_of_timestamp(moment: int, numeric: bool) -> Value:
    since = moment - dates.UNIX_EPOCH * dates.DAY
    is_small = moment < 2**63 - 1 + dates.UNIX_EPOCH * dates.DAY
    if numeric:
        # In the last 30 years of the range, the microseconds since 1970 do not fit an integer.
        # There the server divides numerics, which keeps fewer decimals.
        return _scaled(since, 6) if is_small else _EXACT.quantize(_divided(since, dates.SECOND), Decimal("0.000001"))
    if is_small:
        return since / 1000000.0
    return (float(moment) - dates.UNIX_EPOCH * dates.DAY) / 1000000.0


# --- times and intervals ------------------------------------------------------------------------


def _of_time_of_day(text: str, time: int, numeric: bool) -> Value:
    unit = _find(text, "time without time zone", _OF_TIME)
    if unit == "epoch":
        return _scaled(time, 6) if numeric else time / 1000000.0
    return _of_time(unit, time, numeric)


def _of_timetz(text: str, time: dates.TimeTZ, numeric: bool) -> Value:
    unit = _find(text, "time with time zone", _OF_TIMETZ)
    east = -time.zone
    match unit:
        case "epoch":
            return _scaled(time.utc, 6) if numeric else time.microseconds / 1000000.0 + time.zone
        case "timezone":
            return Decimal(east)
        case "timezone_hour":
            return Decimal(dates.quotient(east, 3600))
        case "timezone_minute":
            return Decimal(dates.remainder(dates.quotient(east, 60), 60))
    return _of_time(unit, time.microseconds, numeric)


def _of_interval(context: Context, text: str, value: dates.Interval, numeric: bool) -> Value:
    if not value.is_finite and unit_named(text, "interval", reserved=True) in _RESERVED - {"epoch"}:
        raise unit_not_supported("interval")
    is_new = context.server_version >= _WEEKS_OF_INTERVALS
    unit = _find(text, "interval", _OF_INTERVAL if is_new else _OF_INTERVAL - {"week"})
    if not value.is_finite:
        return _infinite(unit, _GROWING_OF_INTERVAL, positive=value == dates.INFINITY)
    months, days, time = value
    years = dates.quotient(months, 12)
    match unit:
        case "epoch":
            return _epoch_of_interval(value, numeric)
        case "hour":
            return Decimal(dates.quotient(time, dates.HOUR))
        case "minute":
            return Decimal(dates.quotient(dates.remainder(time, dates.HOUR), dates.MINUTE))
        case "microsecond":
            return Decimal(dates.remainder(time, dates.MINUTE))
        case "second" | "millisecond":
            in_minute = dates.remainder(time, dates.MINUTE)
            return _of_seconds(
                unit,
                dates.quotient(in_minute, dates.SECOND),
                dates.remainder(in_minute, dates.SECOND),
                numeric,
            )
        case "day":
            return Decimal(days)
        case "week":
            return Decimal(dates.quotient(days, 7))
        case "month":
            return Decimal(dates.remainder(months, 12))
        case "quarter":
            if months < 0:
                return Decimal(
                    -(-months % 12 // 3 + 1) if is_new else dates.quotient(dates.remainder(months, 12), 3) + 1
                )
            return Decimal(months % 12 // 3 + 1)
        case "year":
            return Decimal(years)
        case "decade":
            return Decimal(dates.quotient(years, 10))
        case "century":
            return Decimal(dates.quotient(years, 100))
        case _:
            return Decimal(dates.quotient(years, 1000))


def _epoch_of_interval(value: dates.Interval, numeric: bool) -> Value:
    """The epoch of an interval: a year counts as 365.25 days, a month as 30 days."""
    years, months = dates.quotient(value.months, 12), dates.remainder(value.months, 12)
    if numeric:
        quarter_days = 1461 * years + 120 * months + 4 * value.days
        return _scaled(quarter_days * 21600 * dates.SECOND + value.microseconds, 6)
    seconds = value.microseconds / 1000000.0
    seconds += 365.25 * 86400 * years
    seconds += 30.0 * 86400 * months
    return seconds + 86400.0 * value.days


_register("time", _of_time_of_day)
_register("timetz", _of_timetz)
_register("timestamp", _of_timestamp)
elementwise("extract(text,interval)", context=True)(
    lambda context, text, value: _of_interval(context, text, value, True)
)


@elementwise("date_part(text,interval)", context=True)
def _date_part_of_interval(context: Context, text: str, value: dates.Interval) -> float | None:
    found = _of_interval(context, text, value, False)
    return None if found is None else float(found)


_UNIT_SIZES: Final = {
    "microsecond": 1, "millisecond": 1000, "second": dates.SECOND, "minute": dates.MINUTE,
    "hour": dates.HOUR, "day": dates.DAY,
}  # fmt: skip


def _unit_to_truncate(text: str, type_name: str) -> str:
    unit = unit_named(text, type_name, reserved=False)
    if unit not in INTERVAL_UNITS:
        raise unit_not_supported(type_name)
    return unit


def _truncate(unit: str, moment: int) -> int:
    if unit in _UNIT_SIZES:
        return moment // _UNIT_SIZES[unit] * _UNIT_SIZES[unit]
    day = moment // dates.DAY
    year, month, _ = dates.civil(day)
    match unit:
        case "week":
            day -= dates.weekday(day)
        case "month":
            day = dates.day_number(year, month, 1)
        case "quarter":
            day = dates.day_number(year, (month - 1) // 3 * 3 + 1, 1)
        case _:
            day = dates.day_number(_first_year(unit, year), 1, 1)
    return day * dates.DAY


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


@elementwise("date_trunc(text,timestamp)")
def _truncate_timestamp(text: str, moment: int) -> int:
    unit = _unit_to_truncate(text, "timestamp without time zone")
    return moment if moment in dates.TIMESTAMP_INFINITIES else dates.valid_timestamp(_truncate(unit, moment))


@elementwise("date_trunc(text,timestamptz,text)", specialise=with_zone(2))
def _truncate_timestamptz(text: str, moment: int, name: str) -> int:
    zone = whole_zone(name)
    unit = _unit_to_truncate(text, "timestamp with time zone")
    if moment in dates.TIMESTAMP_INFINITIES:
        return moment
    offset = zone.offset_at(moment)
    local = _truncate(unit, moment + offset * dates.SECOND)
    # If the result is within the same day, it keeps the offset of the moment.
    if unit not in _UNIT_SIZES or unit == "day":
        offset = zone.offset_of(local)
    return dates.valid_timestamp(local - offset * dates.SECOND)


@elementwise("date_trunc(text,interval)")
def _truncate_interval(text: str, value: dates.Interval) -> dates.Interval:
    unit = _unit_to_truncate(text, "interval")
    if unit == "week":
        raise unit_not_supported("interval")
    if not value.is_finite:
        return value
    if unit in _UNIT_SIZES and unit != "day":
        size = _UNIT_SIZES[unit]
        return dates.finite_interval(value.months, value.days, dates.quotient(value.microseconds, size) * size)
    if unit == "day":
        return dates.finite_interval(value.months, value.days, 0)
    size = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1200, "millennium": 12000}[unit]
    return dates.finite_interval(dates.quotient(value.months, size) * size, 0, 0)
