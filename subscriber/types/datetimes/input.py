"""Input functions of date, time, timetz, timestamp and timestamptz.

They read every notation of PostgreSQL 18, with DateStyle ISO, MDY. The common part is in
:mod:`.decoding`. A value that depends on the time at which it is read (``today``) is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from subscriber.types.datetimes.calendar import (
    DATE_INFINITIES,
    DAY,
    SECOND,
    TIMESTAMP_INFINITIES,
    UNIX_EPOCH,
    is_valid_date,
    out_of_range,
    valid_timestamp,
)
from subscriber.types.datetimes.decoding import Moment, decode_datetime, decode_time
from subscriber.types.datetimes.field_numbers import BadFormat
from subscriber.types.datetimes.values import TimeTZ, scaled_time, scaled_timestamp, scaled_timetz
from subscriber.types.form import invalid_syntax

_ROOM: Final = 129
"""The server's buffer size in characters (``MAXDATELEN`` and one)."""
_ROOM_OF_TIMESTAMPS: Final = 153

_WORDS: Final = {"infinity": 1, "-infinity": 0}


def _read(name: str, decode: Callable[[str, int], Moment], text: str, room: int) -> Moment:
    try:
        return decode(text, room)
    except BadFormat:
        raise invalid_syntax(name, sqlstate="22007") from None


def date_in(text: str) -> int:
    """The input function of date.

    The other input functions of this module raise the same errors.

    Raises:
        DataException: 22007, 22008, 22009, 22023.
        NotSupportedError: the value depends on the clock or on the server's installation.
    """
    moment = _read("date", decode_datetime, text, _ROOM)
    if moment.word is not None:
        return DATE_INFINITIES[_WORDS[moment.word]] if moment.word in _WORDS else UNIX_EPOCH
    assert moment.day is not None
    if not is_valid_date(moment.day):
        raise out_of_range("date")
    return moment.day


def timestamp_in(text: str, modifier: int = -1) -> int:
    """The input function of timestamp, which reads a time zone and ignores it."""
    return scaled_timestamp(_timestamp("timestamp", text, with_zone=False), modifier)


def timestamptz_in(text: str, modifier: int = -1) -> int:
    """The input function of timestamptz in a session with TimeZone UTC."""
    return scaled_timestamp(_timestamp("timestamp with time zone", text, with_zone=True), modifier)


def _timestamp(name: str, text: str, *, with_zone: bool) -> int:
    moment = _read(name, decode_datetime, text, _ROOM_OF_TIMESTAMPS)
    if moment.word is not None:
        return TIMESTAMP_INFINITIES[_WORDS[moment.word]] if moment.word in _WORDS else UNIX_EPOCH * DAY
    assert moment.day is not None
    return valid_timestamp(moment.day * DAY + moment.time + (moment.zone * SECOND if with_zone else 0))


def time_in(text: str, modifier: int = -1) -> int:
    """The input function of time, which reads a date and a time zone and ignores them."""
    return scaled_time(_read("time", decode_time, text, _ROOM).time, modifier)


def timetz_in(text: str, modifier: int = -1) -> TimeTZ:
    """The input function of timetz in a session with TimeZone UTC."""
    moment = _read("time with time zone", decode_time, text, _ROOM)
    return scaled_timetz(TimeTZ(moment.time, moment.zone), modifier)


# --- columns of output text ---------------------------------------------------------------------

_ORDINARY_DATE: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_ORDINARY_TIMESTAMP: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"


def _is_ordinary(texts: pa.StringArray, pattern: str) -> bool:
    """Whether Arrow can read all texts: there is no infinity, no BC, and no year with more than
    four digits.
    """
    return pc.all(pc.match_substring_regex(texts, pattern)).as_py() is not False


def dates_in(texts: pa.StringArray) -> pa.Array:
    """Read a column of texts that ``date_out`` wrote."""
    if not _is_ordinary(texts, _ORDINARY_DATE):
        return pa.array([None if text is None else date_in(text) for text in texts.to_pylist()], pa.int32())
    days = texts.cast(pa.date32()).cast(pa.int32())
    return pc.subtract(days, pa.scalar(-UNIX_EPOCH, pa.int32()))


def timestamps_in(texts: pa.StringArray) -> pa.Array:
    """Read a column of texts that ``timestamp_out`` wrote."""
    if not _is_ordinary(texts, _ORDINARY_TIMESTAMP + "$"):
        return pa.array([None if text is None else timestamp_in(text) for text in texts.to_pylist()], pa.int64())
    return _since_2000(texts.cast(pa.timestamp("us")))


def timestamptzs_in(texts: pa.StringArray) -> pa.Array:
    """Read a column of texts that ``timestamptz_out`` wrote in a session with TimeZone UTC."""
    if not _is_ordinary(texts, _ORDINARY_TIMESTAMP + r"\+00$"):
        return pa.array([None if text is None else timestamptz_in(text) for text in texts.to_pylist()], pa.int64())
    return _since_2000(texts.cast(pa.timestamp("us", "UTC")))


def _since_2000(moments: pa.Array) -> pa.Array:
    return pc.subtract(moments.cast(pa.int64()), pa.scalar(-UNIX_EPOCH * DAY, pa.int64()))
