"""Decoding of dates and times to PostgreSQL's ISO text.

The result is text, because Arrow has no infinity, no BC and no 24:00:00.

The text is that of a session with ``datestyle`` ISO, ``TimeZone`` UTC and ``intervalstyle``
postgres, which the receiver requests. Other styles are refused: ``02/03/2024`` is February 3 or
March 2, depending on the style, and a target that stores text could store the wrong date. The
binary format counts days or microseconds since 2000-01-01. It is converted to the text that such a
session would write.

Arrow formats a column if all its years are ordinary (1 to 9999). Otherwise the values are formatted
one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from subscriber.errors import ProtocolError
from subscriber.types.datetimes.calendar import DATE_LIMITS, DAY, TIMESTAMP_LIMITS, UNIX_EPOCH
from subscriber.types.datetimes.input import (
    date_in,
    dates_in,
    time_in,
    timestamp_in,
    timestamps_in,
    timestamptz_in,
    timestamptzs_in,
    timetz_in,
)
from subscriber.types.datetimes.interval_input import interval_in
from subscriber.types.datetimes.intervals import Interval
from subscriber.types.datetimes.intervals import canonical as canonical_interval
from subscriber.types.datetimes.intervals import compare as compare_intervals
from subscriber.types.datetimes.output import (
    date_out,
    interval_out,
    time_text,
    timestamp_out,
    timestamptz_out,
    timetz_out,
)
from subscriber.types.datetimes.values import TimeTZ, compare_timetz
from subscriber.types.equality import Equality
from subscriber.types.family import TypeFamily, all_match, as_text, binary_numbers, family, invalid_text, packed
from subscriber.types.form import Form, sign, without_modifier

_DATE: Final = "[0-9]{4,7}-[0-9]{2}-[0-9]{2}"
_TIME: Final = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"
_ZONE: Final = "[-+][0-9]{2}(?::[0-9]{2}){0,2}"
_INFINITE: Final = "-?infinity"
_CLOCK: Final = r"[-+]?[0-9]{2,}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"
_PART: Final = "[-+]?[0-9]+ (?:years?|mons?|days?)"
_INTERVAL: Final = f"{_PART}(?: {_PART})*(?: {_CLOCK})?|{_CLOCK}"
_SESSION: Final = "The replication session must have datestyle ISO, TimeZone UTC and intervalstyle postgres."

_ORDINARY_DAYS: Final = (-730_119, 2_921_939)
"""0001-01-01 and 9999-12-31 in days since 2000-01-01."""
_ZONE_LIMIT: Final = 16 * 3600
"""The limit in seconds that an offset must not reach (TZDISP_LIMIT)."""


def _from_text(name: str, pattern: str, array: pa.BinaryArray) -> pa.StringArray:
    if not all_match(array, pattern):
        raise invalid_text(name, "22007", hint=_SESSION)
    return as_text(array)


def _date_from_binary(array: pa.BinaryArray) -> pa.StringArray:
    """Layout: days i32 since 2000-01-01; the least and the greatest i32 are the infinities."""
    days = binary_numbers(array, ">i4", "date").astype(np.int32)
    return _format("date", days, DATE_LIMITS, _ORDINARY_DAYS, _ordinary_dates, date_out)


def _timestamp_from_binary(name: str, zone: str, write: Callable[[int], str], array: pa.BinaryArray) -> pa.StringArray:
    """Layout: microseconds i64 since 2000-01-01 (in UTC for timestamptz)."""
    moments = binary_numbers(array, ">i8", name).astype(np.int64)
    ordinary = (_ORDINARY_DAYS[0] * DAY, (_ORDINARY_DAYS[1] + 1) * DAY - 1)
    return _format("timestamp", moments, TIMESTAMP_LIMITS, ordinary, partial(_ordinary_timestamps, zone), write)


def _format(
    name: str,
    values: NDArray[np.signedinteger],
    valid: tuple[int, int],
    ordinary: tuple[int, int],
    write_ordinary: Callable[[NDArray[np.signedinteger]], pa.StringArray],
    write: Callable[[int], str],
) -> pa.StringArray:
    """The text of every value: written by Arrow if all are ordinary, otherwise by the output
    function.
    """
    if values.min() >= ordinary[0] and values.max() <= ordinary[1]:
        return write_ordinary(values)
    limits = np.iinfo(values.dtype)
    infinite = (values == limits.min) | (values == limits.max)
    if not np.all(infinite | ((values >= valid[0]) & (values <= valid[1]))):
        raise ProtocolError(f"{name} out of range", sqlstate="22008")
    return pa.array(map(write, values.tolist()), type=pa.string())


def _ordinary_dates(days: NDArray[np.signedinteger]) -> pa.StringArray:
    return pa.array(days - np.int32(UNIX_EPOCH)).cast(pa.date32()).cast(pa.string())


def _ordinary_timestamps(zone: str, microseconds: NDArray[np.signedinteger]) -> pa.StringArray:
    moments = pa.array(microseconds - UNIX_EPOCH * DAY).cast(pa.timestamp("us"))
    trimmed = pc.utf8_rtrim(pc.utf8_rtrim(moments.cast(pa.string()), "0"), ".")
    # There are always six decimals, so the first trim cannot remove digits of the seconds.
    return pc.binary_join_element_wise(trimmed, zone, "") if zone else trimmed


def _time_from_binary(array: pa.BinaryArray) -> pa.StringArray:
    """Layout: microseconds i64 since midnight; 24:00:00 is possible."""
    values = binary_numbers(array, ">i8", "time without time zone").tolist()
    _check_times(values)
    return pa.array([time_text(value) for value in values], type=pa.string())


def _timetz_from_binary(array: pa.BinaryArray) -> pa.StringArray:
    """Layout: microseconds i64 since midnight, zone i32 in seconds west of Greenwich."""
    rows = binary_numbers(array, ">i8, >i4", "time with time zone").tolist()
    if any(abs(zone) >= _ZONE_LIMIT for _, zone in rows):
        raise ProtocolError("time zone displacement out of range", sqlstate="22009")
    _check_times([microseconds for microseconds, _ in rows])
    return pa.array([timetz_out(TimeTZ(*row)) for row in rows], type=pa.string())


def _interval_from_binary(array: pa.BinaryArray) -> pa.StringArray:
    """Layout: microseconds i64, days i32, months i32.

    If all three are the least or the greatest integer, the value is an infinity. Before PostgreSQL
    17 the same bytes were the largest interval. The interval_recv of 17 reads them as infinity,
    too.
    """
    rows = binary_numbers(array, ">i8, >i4, >i4", "interval").tolist()
    values = (Interval(months, days, microseconds) for microseconds, days, months in rows)
    return pa.array(map(interval_out, values), type=pa.string())


def _interval_parts(text: str) -> tuple[int, int, int]:
    value = interval_in(text, -1)
    return value.microseconds, value.days, value.months


def _check_times(microseconds: list[int]) -> None:
    if min(microseconds) < 0 or max(microseconds) > DAY:
        raise ProtocolError("time out of range", sqlstate="22008")


def _timestamp(name: str, oid: int, zone: str, write: Callable[[int], str], form: Form) -> TypeFamily:
    pattern = rf"{_DATE} {_TIME}{zone.replace('+', '[+]')}(?: BC)?|{_INFINITE}"
    # PostgreSQL's errors contain the full name of the types with a time zone, and the short name of
    # those without.
    from_text = partial(_from_text, name.removesuffix(" without time zone"), pattern)
    send = partial(packed, "q", timestamptz_in if zone else timestamp_in)
    from_binary = partial(_timestamp_from_binary, name, zone, write)
    return family(name, (oid,), pa.string(), from_text, from_binary, form, send=send)


FAMILIES: Final = (
    family(
        "date",
        (1082,),
        pa.string(),
        partial(_from_text, "date", rf"{_DATE}(?: BC)?|{_INFINITE}"),
        _date_from_binary,
        Form(without_modifier(date_in), date_out, pa.int32(), dates_in, sign),
        send=partial(packed, "i", date_in),
    ),
    family(
        "time without time zone",
        (1083,),
        pa.string(),
        partial(_from_text, "time", _TIME),
        _time_from_binary,
        Form(time_in, time_text, pa.int64(), compare=sign),
        send=partial(packed, "q", time_in),
    ),
    family(
        "time with time zone",
        (1266,),
        pa.string(),
        partial(_from_text, "time with time zone", _TIME + _ZONE),
        _timetz_from_binary,
        Form(timetz_in, timetz_out, compare=compare_timetz),
        send=partial(packed, "qi", timetz_in),
    ),
    _timestamp(
        "timestamp without time zone",
        1114,
        "",
        timestamp_out,
        Form(timestamp_in, timestamp_out, pa.int64(), timestamps_in, sign),
    ),
    _timestamp(
        "timestamp with time zone",
        1184,
        "+00",
        timestamptz_out,
        Form(timestamptz_in, timestamptz_out, pa.int64(), timestamptzs_in, sign),
    ),
    family(
        "interval",
        (1186,),
        pa.string(),
        partial(_from_text, "interval", f"{_INTERVAL}|{_INFINITE}"),
        _interval_from_binary,
        Form(interval_in, interval_out, compare=compare_intervals),
        equality=Equality(canonical=canonical_interval),
        send=partial(packed, "qii", _interval_parts),
    ),
)
