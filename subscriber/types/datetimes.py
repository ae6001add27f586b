"""Dates and times: PostgreSQL's ISO text, because Arrow has no infinity, no BC and no 24:00:00.

The text is that of a session with ``datestyle`` ISO, ``TimeZone`` UTC and ``intervalstyle``
postgres, which the receiver asks for. Other styles are refused rather than passed on: ``02/03/2024``
means two days, and a target that keeps text would keep the wrong one. The binary form counts days
or microseconds since 2000-01-01 and is written as that session would write it.

Ordinary years (1 to 9999) are formatted by Arrow, the rest one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from subscriber.errors import ProtocolError
from subscriber.types.family import TypeFamily, all_match, as_text, binary_numbers, family, invalid_text

_DATE: Final = "[0-9]{4,7}-[0-9]{2}-[0-9]{2}"
_TIME: Final = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"
_ZONE: Final = "[-+][0-9]{2}(?::[0-9]{2}){0,2}"
_INFINITE: Final = "-?infinity"
_CLOCK: Final = r"[-+]?[0-9]{2,}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"
_PART: Final = "[-+]?[0-9]+ (?:years?|mons?|days?)"
_INTERVAL: Final = f"{_PART}(?: {_PART})*(?: {_CLOCK})?|{_CLOCK}"
_SESSION: Final = "The replication session must have datestyle ISO, TimeZone UTC and intervalstyle postgres."

DAY: Final = 86_400_000_000
"""Microseconds."""
_EPOCH: Final = date(2000, 1, 1)
_DAYS_IN_CYCLE: Final = 146_097
"""400 Gregorian years."""
_EPOCH_DAY: Final = 10_957
"""2000-01-01 in days since 1970-01-01, Arrow's epoch."""
_ORDINARY_DAYS: Final = (-730_119, 2_921_939)
"""0001-01-01 and 9999-12-31 in days since 2000-01-01."""
DATE_LIMITS: Final = (-2_451_545, 2_145_031_948)
"""The first and last date that PostgreSQL has: 4714-11-24 BC and 5874897-12-31."""
TIMESTAMP_LIMITS: Final = (-211_813_488_000_000_000, 9_223_371_331_199_999_999)
"""The first and last timestamp: 4714-11-24 00:00:00 BC and 294276-12-31 23:59:59.999999."""
_INFINITE_INTERVALS: Final = {
    (2**63 - 1, 2**31 - 1, 2**31 - 1): "infinity",
    (-(2**63), -(2**31), -(2**31)): "-infinity",
}
_ZONE_LIMIT: Final = 16 * 3600
"""Seconds that a zone must stay below (TZDISP_LIMIT)."""


def _from_text(name: str, pattern: str, array: pa.BinaryArray) -> pa.StringArray:
    if not all_match(array, pattern):
        raise invalid_text(name, "22007", hint=_SESSION)
    return as_text(array)


def _date_from_binary(array: pa.BinaryArray) -> pa.StringArray:
    """Layout: days i32 since 2000-01-01; the type's extremes are the infinities."""
    days = binary_numbers(array, ">i4", "date").astype(np.int32)
    return _format(
        "date", days, DATE_LIMITS, _ORDINARY_DAYS, _ordinary_dates, lambda day: "{}{}".format(*date_text(day))
    )


def _timestamp_from_binary(name: str, zone: str, array: pa.BinaryArray) -> pa.StringArray:
    """Layout: microseconds i64 since 2000-01-01 (UTC when it has a zone)."""

    def format_one(microseconds: int) -> str:
        day, era = date_text(microseconds // DAY)
        return f"{day} {time_text(microseconds % DAY)}{zone}{era}"

    moments = binary_numbers(array, ">i8", name).astype(np.int64)
    ordinary = (_ORDINARY_DAYS[0] * DAY, (_ORDINARY_DAYS[1] + 1) * DAY - 1)
    return _format("timestamp", moments, TIMESTAMP_LIMITS, ordinary, partial(_ordinary_timestamps, zone), format_one)


def _format(
    name: str,
    values: NDArray[np.signedinteger],
    valid: tuple[int, int],
    ordinary: tuple[int, int],
    format_ordinary: Callable[[NDArray[np.signedinteger]], pa.StringArray],
    format_one: Callable[[int], str],
) -> pa.StringArray:
    """Format every value: Arrow the ordinary ones, ``format_one`` the others, infinities by name."""
    if values.min() >= ordinary[0] and values.max() <= ordinary[1]:
        return format_ordinary(values)
    limits = np.iinfo(values.dtype)
    names = {int(limits.min): "-infinity", int(limits.max): "infinity"}
    texts = []
    for value in values.tolist():
        if value not in names and not valid[0] <= value <= valid[1]:
            raise ProtocolError(f"{name} out of range", sqlstate="22008")
        texts.append(names.get(value) or format_one(value))
    return pa.array(texts, type=pa.string())


def _ordinary_dates(days: NDArray[np.signedinteger]) -> pa.StringArray:
    return pa.array(days + np.int32(_EPOCH_DAY)).cast(pa.date32()).cast(pa.string())


def _ordinary_timestamps(zone: str, microseconds: NDArray[np.signedinteger]) -> pa.StringArray:
    moments = pa.array(microseconds + _EPOCH_DAY * DAY).cast(pa.timestamp("us"))
    trimmed = pc.utf8_rtrim(pc.utf8_rtrim(moments.cast(pa.string()), "0"), ".")
    # Six decimals are always there, so the first trim cannot reach the seconds.
    return pc.binary_join_element_wise(trimmed, zone, "") if zone else trimmed


def _time_from_binary(array: pa.BinaryArray) -> pa.StringArray:
    """Layout: microseconds i64 since midnight, 24:00:00 included."""
    values = binary_numbers(array, ">i8", "time without time zone").tolist()
    _check_times(values)
    return pa.array([time_text(value) for value in values], type=pa.string())


def _timetz_from_binary(array: pa.BinaryArray) -> pa.StringArray:
    """Layout: microseconds i64 since midnight, zone i32 in seconds west of Greenwich."""
    rows = binary_numbers(array, ">i8, >i4", "time with time zone").tolist()
    if any(abs(zone) >= _ZONE_LIMIT for _, zone in rows):
        raise ProtocolError("time zone displacement out of range", sqlstate="22009")
    _check_times([microseconds for microseconds, _ in rows])
    return pa.array([time_text(microseconds) + zone_text(zone) for microseconds, zone in rows], type=pa.string())


def _interval_from_binary(array: pa.BinaryArray) -> pa.StringArray:
    """Layout: microseconds i64, days i32, months i32; all at an extreme is an infinity.

    Before 17 the largest interval had these bytes; 17's interval_recv takes them for infinity too.
    """
    rows = binary_numbers(array, ">i8, >i4, >i4", "interval").tolist()
    return pa.array([_INFINITE_INTERVALS.get(row) or interval_text(*row) for row in rows], type=pa.string())


def interval_text(microseconds: int, days: int, months: int) -> str:
    """An interval: what is not zero, largest first; a positive part behind a negative one says ``+``."""
    sign = -1 if months < 0 else 1
    years, months = sign * (abs(months) // 12), sign * (abs(months) % 12)
    parts, behind_negative = [], False
    for count, unit in ((years, "year"), (months, "mon"), (days, "day")):
        if count:
            parts.append(f"{count:{'+' if behind_negative else '-'}d} {unit}{'' if count == 1 else 's'}")
            behind_negative = count < 0
    if microseconds or not parts:
        plus = "+" if behind_negative else ""
        parts.append(("-" if microseconds < 0 else plus) + time_text(abs(microseconds)))
    return " ".join(parts)


def _check_times(microseconds: list[int]) -> None:
    if min(microseconds) < 0 or max(microseconds) > DAY:
        raise ProtocolError("time out of range", sqlstate="22008")


def time_text(microseconds: int) -> str:
    """A time of day, or the clock part of an interval: as many decimals as it needs."""
    seconds, fraction = divmod(microseconds, 1_000_000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{fraction:06d}".rstrip("0") if fraction else text


def zone_text(seconds_west: int) -> str:
    """A zone: the shortest of ``+hh``, ``+hh:mm``, ``+hh:mm:ss``."""
    seconds = abs(seconds_west)
    parts = [seconds // 3600, seconds // 60 % 60, seconds % 60]
    while len(parts) > 1 and parts[-1] == 0:
        parts.pop()
    return ("-" if seconds_west > 0 else "+") + ":".join(f"{part:02d}" for part in parts)


def date_text(day: int) -> tuple[str, str]:
    """The proleptic Gregorian date of a day since 2000-01-01, and `` BC`` or nothing.

    The calendar repeats after 400 years, so Python's, which has the years 1 to 9999, can count for all.
    """
    cycles, day_of_cycle = divmod(day, _DAYS_IN_CYCLE)
    day_in_2000s = _EPOCH + timedelta(days=day_of_cycle)
    year = day_in_2000s.year + 400 * cycles
    # There is no year 0: the year before 1 is 1 BC.
    return f"{year if year > 0 else 1 - year:04d}-{day_in_2000s:%m-%d}", "" if year > 0 else " BC"


def _timestamp(name: str, oid: int, zone: str) -> TypeFamily:
    pattern = rf"{_DATE} {_TIME}{zone.replace('+', '[+]')}(?: BC)?|{_INFINITE}"
    # PostgreSQL's errors name the types with a zone in full and those without in short.
    from_text = partial(_from_text, name.removesuffix(" without time zone"), pattern)
    return family(name, (oid,), pa.string(), from_text, partial(_timestamp_from_binary, name, zone))


FAMILIES: Final = (
    family(
        "date", (1082,), pa.string(), partial(_from_text, "date", rf"{_DATE}(?: BC)?|{_INFINITE}"), _date_from_binary
    ),
    family(
        "time without time zone",
        (1083,),
        pa.string(),
        partial(_from_text, "time", _TIME),
        _time_from_binary,
    ),
    family(
        "time with time zone",
        (1266,),
        pa.string(),
        partial(_from_text, "time with time zone", _TIME + _ZONE),
        _timetz_from_binary,
    ),
    _timestamp("timestamp without time zone", 1114, ""),
    _timestamp("timestamp with time zone", 1184, "+00"),
    family(
        "interval",
        (1186,),
        pa.string(),
        partial(_from_text, "interval", f"{_INTERVAL}|{_INFINITE}"),
        _interval_from_binary,
    ),
)
