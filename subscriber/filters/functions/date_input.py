"""Input functions of date, time, timetz, timestamp and timestamptz, in every notation of PostgreSQL 18 with DateStyle ISO, MDY.

What they share is in :mod:`.datetime_decoding`. What depends on the time when it is read (``today``) is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from subscriber.errors import RowFilterError
from subscriber.filters.functions.calendar import (
    DATE_INFINITIES,
    SECOND,
    TIMESTAMP_INFINITIES,
    UNIX_EPOCH,
    is_valid_date,
    out_of_range,
    valid_timestamp,
)
from subscriber.filters.functions.datetime_decoding import BadFormat, Moment, decode_datetime, decode_time
from subscriber.types.datetimes import DAY

_ROOM: Final = 129
"""Characters that the server has room for (``MAXDATELEN`` and one)."""
_ROOM_OF_TIMESTAMPS: Final = 153

_WORDS: Final = {"infinity": 1, "-infinity": 0}


def _read(name: str, decode: Callable[[str, int], Moment], text: str, room: int) -> Moment:
    try:
        return decode(text, room)
    except BadFormat:
        raise RowFilterError(f"invalid input syntax for type {name}", sqlstate="22007") from None


def read_date(text: str) -> int:
    """``date_in``.

    Raises:
        RowFilterError: 22007, 22008, 22009, 22023.
        NotSupportedError: it depends on the clock or on the server's installation. So with the other functions.
    """
    moment = _read("date", decode_datetime, text, _ROOM)
    if moment.word is not None:
        return DATE_INFINITIES[_WORDS[moment.word]] if moment.word in _WORDS else UNIX_EPOCH
    assert moment.day is not None
    if not is_valid_date(moment.day):
        raise out_of_range("date")
    return moment.day


def read_timestamp(text: str) -> int:
    """``timestamp_in``: a zone is read and has no effect."""
    return _timestamp("timestamp", text, with_zone=False)


def read_timestamptz(text: str) -> int:
    """``timestamptz_in`` of a session in UTC."""
    return _timestamp("timestamp with time zone", text, with_zone=True)


def _timestamp(name: str, text: str, *, with_zone: bool) -> int:
    moment = _read(name, decode_datetime, text, _ROOM_OF_TIMESTAMPS)
    if moment.word is not None:
        return TIMESTAMP_INFINITIES[_WORDS[moment.word]] if moment.word in _WORDS else UNIX_EPOCH * DAY
    assert moment.day is not None
    return valid_timestamp(moment.day * DAY + moment.time + (moment.zone * SECOND if with_zone else 0))


def read_time(text: str) -> int:
    """``time_in``: a date and a zone are read and have no effect."""
    return _read("time", decode_time, text, _ROOM).time


def read_timetz(text: str) -> tuple[int, int]:
    """``timetz_in`` of a session in UTC: microseconds, and seconds west of Greenwich."""
    moment = _read("time with time zone", decode_time, text, _ROOM)
    return moment.time, moment.zone


# --- columns of output text ---------------------------------------------------------------------

_ORDINARY_DATE: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_ORDINARY_TIMESTAMP: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"


def _is_ordinary(texts: pa.StringArray, pattern: str) -> bool:
    """Whether Arrow can read all of them: no infinity, no BC, no year with more than four digits."""
    return pc.all(pc.match_substring_regex(texts, pattern)).as_py() is not False


def read_dates(texts: pa.StringArray) -> pa.Array:
    """A column of what ``date_out`` prints."""
    if not _is_ordinary(texts, _ORDINARY_DATE):
        return pa.array([None if text is None else read_date(text) for text in texts.to_pylist()], pa.int32())
    days = texts.cast(pa.date32()).cast(pa.int32())
    return pc.subtract(days, pa.scalar(-UNIX_EPOCH, pa.int32()))


def read_timestamps(texts: pa.StringArray) -> pa.Array:
    """A column of what ``timestamp_out`` prints."""
    if not _is_ordinary(texts, _ORDINARY_TIMESTAMP + "$"):
        return pa.array([None if text is None else read_timestamp(text) for text in texts.to_pylist()], pa.int64())
    return _since_2000(texts.cast(pa.timestamp("us")))


def read_timestamptzs(texts: pa.StringArray) -> pa.Array:
    """A column of what ``timestamptz_out`` prints in a session in UTC."""
    if not _is_ordinary(texts, _ORDINARY_TIMESTAMP + r"\+00$"):
        return pa.array([None if text is None else read_timestamptz(text) for text in texts.to_pylist()], pa.int64())
    return _since_2000(texts.cast(pa.timestamp("us", "UTC")))


def _since_2000(moments: pa.Array) -> pa.Array:
    return pc.subtract(moments.cast(pa.int64()), pa.scalar(-UNIX_EPOCH * DAY, pa.int64()))
