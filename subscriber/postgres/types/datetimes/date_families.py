"""date, time, timetz, timestamp, timestamptz and interval: input functions, decoding, the families.

Input functions read every notation of PostgreSQL 18, with DateStyle ISO, MDY. A value that depends
on the time at which it is read (``today``) is refused.

Decoding gives PostgreSQL's ISO text, because Arrow has no infinity, no BC and no 24:00:00. The text
is that of a session with ``datestyle`` ISO, ``TimeZone`` UTC and ``intervalstyle`` postgres, which
the receiver requests. Other styles are refused: ``02/03/2024`` is February 3 or March 2. The binary
format counts days or microseconds since 2000-01-01. Arrow formats a column if all its years are
ordinary (1 to 9999). Otherwise the values are formatted one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from subscriber.base.errors import ProtocolError
from subscriber.postgres.types import family
from subscriber.postgres.types.datetimes import date_values as dates
from subscriber.postgres.types.datetimes.date_decoding import Moment, decode_datetime, decode_time
from subscriber.postgres.types.datetimes.date_parts import BadFormat
from subscriber.postgres.types.datetimes.interval_input import interval_in
from subscriber.postgres.types.equality import Equality

_ROOM: Final = 129
"""The server's buffer size in characters (``MAXDATELEN`` and one)."""
_ROOM_OF_TIMESTAMPS: Final = 153

_WORDS: Final = {"infinity": 1, "-infinity": 0}


def _read(name: str, decode: Callable[[str, int], Moment], text: str, room: int) -> Moment:
    try:
        return decode(text, room)
    except BadFormat:
        raise family.invalid_syntax(name, sqlstate="22007") from None


def date_in(text: str) -> int:
    moment = _read("date", decode_datetime, text, _ROOM)
    if moment.word is not None:
        return dates.DATE_INFINITIES[_WORDS[moment.word]] if moment.word in _WORDS else dates.UNIX_EPOCH
    assert moment.day is not None
    if not dates.is_valid_date(moment.day):
        raise dates.out_of_range("date")
    return moment.day


def timestamp_in(text: str, modifier: int = -1) -> int:
    """The input function of timestamp, which reads a time zone and ignores it."""
    return dates.scaled_timestamp(_timestamp("timestamp", text, with_zone=False), modifier)


def timestamptz_in(text: str, modifier: int = -1) -> int:
    return dates.scaled_timestamp(_timestamp("timestamp with time zone", text, with_zone=True), modifier)


def _timestamp(name: str, text: str, *, with_zone: bool) -> int:
    moment = _read(name, decode_datetime, text, _ROOM_OF_TIMESTAMPS)
    if moment.word is not None:
        return (
            dates.TIMESTAMP_INFINITIES[_WORDS[moment.word]] if moment.word in _WORDS else dates.UNIX_EPOCH * dates.DAY
        )
    assert moment.day is not None
    return dates.valid_timestamp(
        moment.day * dates.DAY + moment.time + (moment.zone * dates.SECOND if with_zone else 0)
    )


def time_in(text: str, modifier: int = -1) -> int:
    """The input function of time, which reads a date and a time zone and ignores them."""
    return dates.scaled_time(_read("time", decode_time, text, _ROOM).time, modifier)


def timetz_in(text: str, modifier: int = -1) -> dates.TimeTZ:
    moment = _read("time with time zone", decode_time, text, _ROOM)
    return dates.scaled_timetz(dates.TimeTZ(moment.time, moment.zone), modifier)


# --- columns of output text ---------------------------------------------------------------------

_ORDINARY_DATE: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_ORDINARY_TIMESTAMP: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"


def _is_ordinary(texts: pa.StringArray, pattern: str) -> bool:
    """Whether Arrow can read all texts: no infinity, no BC, no year of five digits."""
    return pc.all(pc.match_substring_regex(texts, pattern)).as_py() is not False


def dates_in(texts: pa.StringArray) -> pa.Array:
    if not _is_ordinary(texts, _ORDINARY_DATE):
        return pa.array([None if text is None else date_in(text) for text in texts.to_pylist()], pa.int32())
    days = texts.cast(pa.date32()).cast(pa.int32())
    return pc.subtract(days, pa.scalar(-dates.UNIX_EPOCH, pa.int32()))


def timestamps_in(texts: pa.StringArray) -> pa.Array:
    if not _is_ordinary(texts, _ORDINARY_TIMESTAMP + "$"):
        return pa.array([None if text is None else timestamp_in(text) for text in texts.to_pylist()], pa.int64())
    return _since_2000(texts.cast(pa.timestamp("us")))


def timestamptzs_in(texts: pa.StringArray) -> pa.Array:
    if not _is_ordinary(texts, _ORDINARY_TIMESTAMP + r"\+00$"):
        return pa.array([None if text is None else timestamptz_in(text) for text in texts.to_pylist()], pa.int64())
    return _since_2000(texts.cast(pa.timestamp("us", "UTC")))


def _since_2000(moments: pa.Array) -> pa.Array:
    return pc.subtract(moments.cast(pa.int64()), pa.scalar(-dates.UNIX_EPOCH * dates.DAY, pa.int64()))


_DATE: Final = "[0-9]{4,7}-[0-9]{2}-[0-9]{2}"
_TIME: Final = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"
_USUAL_DATE, _USUAL_TIME = "9999-99-99", "99:99:99"
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


def _from_text(name: str, usual: str, pattern: str, array: pa.BinaryArray) -> pa.StringArray:
    """``usual`` is the form of most values (:func:`family.all_have_form`)."""
    if not family.all_have_form(array, usual) and not family.all_match(array, pattern):
        raise family.invalid_text(name, "22007", hint=_SESSION)
    return family.as_text(array)


def _date_from_binary(array: pa.BinaryArray) -> pa.StringArray:
    """Layout: days i32 since 2000-01-01; the least and the greatest i32 are the infinities."""
    days = family.binary_numbers(array, ">i4", "date").astype(np.int32)
    return _format("date", days, dates.DATE_LIMITS, _ORDINARY_DAYS, _ordinary_dates, dates.date_out)


def _timestamp_from_binary(name: str, zone: str, write: Callable[[int], str], array: pa.BinaryArray) -> pa.StringArray:
    """Layout: microseconds i64 since 2000-01-01 (in UTC for timestamptz)."""
    moments = family.binary_numbers(array, ">i8", name).astype(np.int64)
    ordinary = (_ORDINARY_DAYS[0] * dates.DAY, (_ORDINARY_DAYS[1] + 1) * dates.DAY - 1)
    return _format("timestamp", moments, dates.TIMESTAMP_LIMITS, ordinary, partial(_ordinary_timestamps, zone), write)


def _format(
    name: str,
    values: NDArray[np.signedinteger],
    valid: tuple[int, int],
    ordinary: tuple[int, int],
    write_ordinary: Callable[[NDArray[np.signedinteger]], pa.StringArray],
    write: Callable[[int], str],
) -> pa.StringArray:
    """Arrow writes the texts if all values are ordinary, otherwise the output function."""
    if values.min() >= ordinary[0] and values.max() <= ordinary[1]:
        return write_ordinary(values)
    limits = np.iinfo(values.dtype)
    infinite = (values == limits.min) | (values == limits.max)
    if not np.all(infinite | ((values >= valid[0]) & (values <= valid[1]))):
        raise ProtocolError(f"{name} out of range", sqlstate="22008")
    return pa.array(map(write, values.tolist()), type=pa.string())


def _ordinary_dates(days: NDArray[np.signedinteger]) -> pa.StringArray:
    return pa.array(days - np.int32(dates.UNIX_EPOCH)).cast(pa.date32()).cast(pa.string())


def _ordinary_timestamps(zone: str, microseconds: NDArray[np.signedinteger]) -> pa.StringArray:
    moments = pa.array(microseconds - dates.UNIX_EPOCH * dates.DAY).cast(pa.timestamp("us"))
    trimmed = pc.utf8_rtrim(pc.utf8_rtrim(moments.cast(pa.string()), "0"), ".")
    # There are always six decimals, so the first trim cannot remove digits of the seconds.
    return pc.binary_join_element_wise(trimmed, zone, "") if zone else trimmed


def _time_from_binary(array: pa.BinaryArray) -> pa.StringArray:
    """Layout: microseconds i64 since midnight; 24:00:00 is possible."""
    values = family.binary_numbers(array, ">i8", "time without time zone").tolist()
    _check_times(values)
    return pa.array([dates.time_text(value) for value in values], type=pa.string())


def _timetz_from_binary(array: pa.BinaryArray) -> pa.StringArray:
    """Layout: microseconds i64 since midnight, zone i32 in seconds west of Greenwich."""
    rows = family.binary_numbers(array, ">i8, >i4", "time with time zone").tolist()
    if any(abs(zone) >= _ZONE_LIMIT for _, zone in rows):
        raise ProtocolError("time zone displacement out of range", sqlstate="22009")
    _check_times([microseconds for microseconds, _ in rows])
    return pa.array([dates.timetz_out(dates.TimeTZ(*row)) for row in rows], type=pa.string())


def _interval_from_binary(array: pa.BinaryArray) -> pa.StringArray:
    """Layout: microseconds i64, days i32, months i32.

    If all three are the least or the greatest integer, the value is an infinity. Before PostgreSQL
    17 the same bytes were the largest interval, which interval_recv of 17 reads as infinity, too.
    """
    rows = family.binary_numbers(array, ">i8, >i4, >i4", "interval").tolist()
    values = (dates.Interval(months, days, microseconds) for microseconds, days, months in rows)
    return pa.array(map(dates.interval_out, values), type=pa.string())


def _interval_parts(text: str) -> tuple[int, int, int]:
    value = interval_in(text, -1)
    return value.microseconds, value.days, value.months


def _check_times(microseconds: list[int]) -> None:
    if min(microseconds) < 0 or max(microseconds) > dates.DAY:
        raise ProtocolError("time out of range", sqlstate="22008")


def _timestamp_family(
    name: str, oid: int, zone: str, write: Callable[[int], str], form: family.Form
) -> family.TypeFamily:
    pattern = rf"{_DATE} {_TIME}{zone.replace('+', '[+]')}(?: BC)?|{_INFINITE}"
    # PostgreSQL's errors contain the full name of the types with a time zone, and the short name of
    # those without.
    from_text = partial(
        _from_text, name.removesuffix(" without time zone"), f"{_USUAL_DATE} {_USUAL_TIME}{zone}", pattern
    )
    send = partial(family.packed, "q", timestamptz_in if zone else timestamp_in)
    from_binary = partial(_timestamp_from_binary, name, zone, write)
    return family.of_decoders(name, oid, pa.string(), from_text, from_binary, form, send=send)


FAMILIES: Final = (
    family.of_decoders(
        "date",
        1082,
        pa.string(),
        partial(_from_text, "date", _USUAL_DATE, rf"{_DATE}(?: BC)?|{_INFINITE}"),
        _date_from_binary,
        family.Form(family.without_modifier(date_in), dates.date_out, pa.int32(), dates_in, family.sign),
        send=partial(family.packed, "i", date_in),
    ),
    family.of_decoders(
        "time without time zone",
        1083,
        pa.string(),
        partial(_from_text, "time", _USUAL_TIME, _TIME),
        _time_from_binary,
        family.Form(time_in, dates.time_text, pa.int64(), compare=family.sign),
        send=partial(family.packed, "q", time_in),
    ),
    family.of_decoders(
        "time with time zone",
        1266,
        pa.string(),
        partial(_from_text, "time with time zone", _USUAL_TIME + "+99", _TIME + _ZONE),
        _timetz_from_binary,
        family.Form(timetz_in, dates.timetz_out, compare=dates.compare_timetz),
        send=partial(family.packed, "qi", timetz_in),
    ),
    _timestamp_family(
        "timestamp without time zone",
        1114,
        "",
        dates.timestamp_out,
        family.Form(timestamp_in, dates.timestamp_out, pa.int64(), timestamps_in, family.sign),
    ),
    _timestamp_family(
        "timestamp with time zone",
        1184,
        "+00",
        dates.timestamptz_out,
        family.Form(timestamptz_in, dates.timestamptz_out, pa.int64(), timestamptzs_in, family.sign),
    ),
    family.of_decoders(
        "interval",
        1186,
        pa.string(),
        partial(_from_text, "interval", _USUAL_TIME, f"{_INTERVAL}|{_INFINITE}"),
        _interval_from_binary,
        family.Form(interval_in, dates.interval_out, compare=dates.compare_intervals),
        equality=Equality(canonical=dates.canonical_interval),
        send=partial(family.packed, "qii", _interval_parts),
    ),
)
