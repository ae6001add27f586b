"""``extract`` and ``date_part``.

A unit is a word. The server looks it up among the units of an interval first, and then among the
words of a date, which contain some further units. ``extract`` gives numeric, with the number of
decimals that the unit defines. ``date_part`` gives the same field in double precision, by a
computation that differs from that of ``extract``.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from subscriber.errors import RowFilterError
from subscriber.filters.functions.date_arithmetic import timestamp_of_date
from subscriber.filters.functions.function_table import Context, FunctionTable
from subscriber.filters.functions.numeric import FUNCTIONS as NUMERIC_FUNCTIONS
from subscriber.types.datetimes.calendar import (
    DATE_INFINITIES,
    DAY,
    HOUR,
    JULIAN_DAY,
    MINUTE,
    SECOND,
    TIMESTAMP_INFINITIES,
    UNIX_EPOCH,
    civil,
    day_number,
    iso_week,
    quotient,
    remainder,
    weekday,
)
from subscriber.types.datetimes.interval_input import UNITS
from subscriber.types.datetimes.intervals import INFINITY, Interval
from subscriber.types.datetimes.values import TimeTZ

FUNCTIONS: Final = FunctionTable()

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
    "dow": "dow",
    "doy": "doy",
    "isodow": "isodow",
    "isoyear": "isoyear",
    "j": "julian",
    "jd": "julian",
    "julian": "julian",
    "mm": "minute",
}
_RESERVED: Final = frozenset(["-infinity", "allballs", "epoch", "infinity", "now", "today", "tomorrow", "yesterday"])

INTERVAL_UNITS: Final = (
    "microsecond",
    "millisecond",
    "second",
    "minute",
    "hour",
    "day",
    "week",
    "month",
    "quarter",
    "year",
    "decade",
    "century",
    "millennium",
)
_OF_DATE: Final = frozenset(
    [
        "day",
        "week",
        "month",
        "quarter",
        "year",
        "decade",
        "century",
        "millennium",
        "julian",
        "isoyear",
        "dow",
        "isodow",
        "doy",
        "epoch",
    ]
)
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
"""Types for which a word such as ``now`` is an unrecognized unit rather than an unsupported
unit.
"""

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
    """Find the unit that a word names. With ``reserved``, the words of a date are found, too.

    Raises:
        RowFilterError: 22023, there is no such unit.
    """
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
    """Register ``extract`` and ``date_part`` of a type.

    The function ``extract`` is called with the unit, the value, and whether the result must be
    numeric.
    """

    def as_numeric(unit: str, value: Any) -> Value:
        return extract(unit, value, True)

    def as_float(unit: str, value: Any) -> Value:
        found = extract(unit, value, False)
        return None if found is None else float(found)

    FUNCTIONS.elementwise(f"extract(text,{type_name})")(as_numeric)
    FUNCTIONS.elementwise(f"date_part(text,{type_name})")(as_float)


def _infinite(unit: str, growing: frozenset[str], *, positive: bool) -> Decimal | None:
    return None if unit not in growing else Decimal("Infinity" if positive else "-Infinity")


# --- dates and timestamps -----------------------------------------------------------------------


def _of_day(unit: str, day: int) -> int:
    """A field that is computed from the day: every unit of a date except the epoch."""
    year, month, day_of_month = civil(day)
    match unit:
        case "day":
            return day_of_month
        case "month":
            return month
        case "quarter":
            return (month - 1) // 3 + 1
        case "week":
            return iso_week(day)[1]
        case "year":
            return year if year > 0 else year - 1
        case "decade":
            return year // 10 if year >= 0 else -((8 - (year - 1)) // 10)
        case "century":
            return (year + 99) // 100 if year > 0 else -((99 - (year - 1)) // 100)
        case "millennium":
            return (year + 999) // 1000 if year > 0 else -((999 - (year - 1)) // 1000)
        case "isoyear":
            iso_year = iso_week(day)[0]
            return iso_year if iso_year > 0 else iso_year - 1
        case "dow":
            return (weekday(day) + 1) % 7
        case "isodow":
            return weekday(day) + 1
        case "doy":
            return day - day_number(year, 1, 1) + 1
        case _:
            return day + JULIAN_DAY


def _of_time(unit: str, time: int, numeric: bool) -> Value:
    """A field that is computed from the time of day: every unit of a time except the epoch."""
    minutes, microseconds = divmod(time, MINUTE)
    match unit:
        case "hour":
            return Decimal(minutes // 60)
        case "minute":
            return Decimal(minutes % 60)
        case "microsecond":
            return Decimal(microseconds)
    return _of_seconds(unit, *divmod(microseconds, SECOND), numeric)


def _of_seconds(unit: str, seconds: int, microseconds: int, numeric: bool) -> Value:
    if numeric:
        return _scaled(seconds * SECOND + microseconds, 3 if unit == "millisecond" else 6)
    return seconds * 1000.0 + microseconds / 1000.0 if unit == "millisecond" else seconds + microseconds / 1000000.0


@FUNCTIONS.elementwise("extract(text,date)")
def _of_date(text: str, day: int) -> Value:
    unit = _find(text, "date", _OF_DATE)
    if day in DATE_INFINITIES:
        return _infinite(unit, _GROWING, positive=day > 0)
    return Decimal((day - UNIX_EPOCH) * 86400 if unit == "epoch" else _of_day(unit, day))


@FUNCTIONS.elementwise("date_part(text,date)")
def _date_part_of_date(text: str, day: int) -> float | None:
    # The server has no separate code for dates here: it converts the date to a timestamp.
    found = _of_timestamp(text, timestamp_of_date(day), False)
    return None if found is None else float(found)


def _of_timestamp(text: str, moment: int, numeric: bool) -> Value:
    name = "timestamp without time zone"
    infinite = moment in TIMESTAMP_INFINITIES
    unit = _find(text, name, _OF_TIMESTAMP | _ZONE_UNITS if infinite else _OF_TIMESTAMP)
    if infinite:
        return _infinite(unit, _GROWING, positive=moment > 0)
    day, time = divmod(moment, DAY)
    if unit == "epoch":
        return _epoch_of_timestamp(moment, numeric)
    if unit in _OF_TIME:
        return _of_time(unit, time, numeric)
    if unit == "julian":
        if numeric:
            return _EXACT.add(Decimal(day + JULIAN_DAY), _divided(time, DAY))
        return day + JULIAN_DAY + (time // SECOND + (time % SECOND) / 1000000.0) / 86400.0
    return Decimal(_of_day(unit, day))


def _divided(dividend: int, divisor: int) -> Decimal:
    """Divide two integers as numerics, with the number of decimals that PostgreSQL chooses from the
    operands' sizes.
    """
    divide = NUMERIC_FUNCTIONS["numeric_div(numeric,numeric)"]
    found: Decimal = divide.function(Decimal(dividend), Decimal(divisor))
    return found


def _epoch_of_timestamp(moment: int, numeric: bool) -> Value:
    since = moment - UNIX_EPOCH * DAY
    is_small = moment < 2**63 - 1 + UNIX_EPOCH * DAY
    if numeric:
        # In the last 30 years of the range, the microseconds since 1970 do not fit an integer.
        # There the server divides numerics, which keeps fewer decimals.
        return _scaled(since, 6) if is_small else _EXACT.quantize(_divided(since, SECOND), Decimal("0.000001"))
    if is_small:
        return since / 1000000.0
    return (float(moment) - UNIX_EPOCH * DAY) / 1000000.0


# --- times and intervals ------------------------------------------------------------------------


def _of_time_of_day(text: str, time: int, numeric: bool) -> Value:
    unit = _find(text, "time without time zone", _OF_TIME)
    if unit == "epoch":
        return _scaled(time, 6) if numeric else time / 1000000.0
    return _of_time(unit, time, numeric)


def _of_timetz(text: str, time: TimeTZ, numeric: bool) -> Value:
    unit = _find(text, "time with time zone", _OF_TIMETZ)
    east = -time.zone
    match unit:
        case "epoch":
            return _scaled(time.utc, 6) if numeric else time.microseconds / 1000000.0 + time.zone
        case "timezone":
            return Decimal(east)
        case "timezone_hour":
            return Decimal(quotient(east, 3600))
        case "timezone_minute":
            return Decimal(remainder(quotient(east, 60), 60))
    return _of_time(unit, time.microseconds, numeric)


def _of_interval(context: Context, text: str, value: Interval, numeric: bool) -> Value:
    if not value.is_finite and unit_named(text, "interval", reserved=True) in _RESERVED - {"epoch"}:
        raise unit_not_supported("interval")
    is_new = context.server_version >= _WEEKS_OF_INTERVALS
    unit = _find(text, "interval", _OF_INTERVAL if is_new else _OF_INTERVAL - {"week"})
    if not value.is_finite:
        return _infinite(unit, _GROWING_OF_INTERVAL, positive=value == INFINITY)
    months, days, time = value
    years = quotient(months, 12)
    match unit:
        case "epoch":
            return _epoch_of_interval(value, numeric)
        case "hour":
            return Decimal(quotient(time, HOUR))
        case "minute":
            return Decimal(quotient(remainder(time, HOUR), MINUTE))
        case "microsecond":
            return Decimal(remainder(time, MINUTE))
        case "second" | "millisecond":
            in_minute = remainder(time, MINUTE)
            return _of_seconds(unit, quotient(in_minute, SECOND), remainder(in_minute, SECOND), numeric)
        case "day":
            return Decimal(days)
        case "week":
            return Decimal(quotient(days, 7))
        case "month":
            return Decimal(remainder(months, 12))
        case "quarter":
            if months < 0:
                return Decimal(-(-months % 12 // 3 + 1) if is_new else quotient(remainder(months, 12), 3) + 1)
            return Decimal(months % 12 // 3 + 1)
        case "year":
            return Decimal(years)
        case "decade":
            return Decimal(quotient(years, 10))
        case "century":
            return Decimal(quotient(years, 100))
        case _:
            return Decimal(quotient(years, 1000))


def _epoch_of_interval(value: Interval, numeric: bool) -> Value:
    """The epoch of an interval: a year counts as 365.25 days, a month as 30 days."""
    years, months = quotient(value.months, 12), remainder(value.months, 12)
    if numeric:
        quarter_days = 1461 * years + 120 * months + 4 * value.days
        return _scaled(quarter_days * 21600 * SECOND + value.microseconds, 6)
    seconds = value.microseconds / 1000000.0
    seconds += 365.25 * 86400 * years
    seconds += 30.0 * 86400 * months
    return seconds + 86400.0 * value.days


_register("time", _of_time_of_day)
_register("timetz", _of_timetz)
_register("timestamp", _of_timestamp)


@FUNCTIONS.elementwise("extract(text,interval)", context=True)
def _extract_from_interval(context: Context, text: str, value: Interval) -> Value:
    return _of_interval(context, text, value, True)


@FUNCTIONS.elementwise("date_part(text,interval)", context=True)
def _date_part_of_interval(context: Context, text: str, value: Interval) -> float | None:
    found = _of_interval(context, text, value, False)
    return None if found is None else float(found)
