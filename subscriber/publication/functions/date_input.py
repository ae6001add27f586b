"""Input functions of date, time, timetz, timestamp and timestamptz: ISO 8601, as every server prints it, and what stands for infinity.

The server takes many more notations, some of which depend on its settings (``02/03/2024``), on the time when they are read (``today``) or
on its time zone files. They are refused.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from subscriber.errors import NotSupportedError, RowFilterError
from subscriber.publication.functions.calendar import (
    DATE_INFINITIES,
    HOUR,
    MINUTE,
    SECOND,
    TIMESTAMP_INFINITIES,
    UNIX_EPOCH,
    day_number,
    is_valid_date,
    month_length,
    out_of_range,
    rint,
    valid_timestamp,
)
from subscriber.types.datetimes import DAY

_SPACE: Final = r"[ \t\n\v\f\r]"
_DATE: Final = r"(?P<year>[0-9]{3,9})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
_BASIC_DATE: Final = r"(?P<basic>[0-9]{8})"
_TIME: Final = r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})(?P<fraction>\.[0-9]*)?)?"
_ZONE: Final = (
    rf"{_SPACE}*(?:(?P<utc>[zZ]|[uU][tT][cC]|[gG][mM][tT])"
    r"|(?P<west>[-+])(?:(?P<zone>[0-9]{1,2}(?::[0-9]{1,2}(?::[0-9]{1,2})?)?)|(?P<run>[0-9]{3,4})))"
)
_ERA: Final = rf"(?:{_SPACE}*(?<![A-Za-z])(?P<era>[bB][cC]|[aA][dD]))"
_MOMENT: Final = re.compile(
    rf"{_SPACE}*(?:{_DATE}|{_BASIC_DATE})(?:(?:{_SPACE}+|(?P<t>[tT])){_TIME}(?:{_ZONE})?)?{_ERA}?{_SPACE}*", re.ASCII
)
_CLOCK: Final = re.compile(rf"{_SPACE}*{_TIME}(?:{_ZONE})?{_SPACE}*", re.ASCII)
_WORD: Final = re.compile(rf"{_SPACE}*([-+]?){_SPACE}*([a-z]+){_SPACE}*", re.ASCII | re.IGNORECASE)
_WORDS_OF_DATES: Final = re.compile("now|today|tomorrow|yesterday|allballs|epoch|infinity", re.IGNORECASE)

_ZONE_HOURS: Final = 15
"""More than any place on earth needs."""


class _Moment(NamedTuple):
    """What was read; None for what was not there.

    Attributes:
        day: the date.
        time: of the day.
        zone: seconds west of Greenwich.
    """

    day: int | None
    time: int | None
    zone: int | None


def _field_error() -> RowFilterError:
    return RowFilterError("date/time field value out of range", sqlstate="22008")


def _unreadable(name: str, text: str) -> Exception:
    """The error for text in no notation that is read: the server's, where it would not read it either."""
    if not any(character.isdigit() for character in text) and not _WORDS_OF_DATES.search(text):
        return RowFilterError(f"invalid input syntax for type {name}", sqlstate="22007")
    return NotSupportedError(
        f"a value of type {name} that is written this way is not supported",
        hint="Write it as ISO 8601, such as 2024-02-29, 13:30:00 or 2024-02-29 13:30:00+00.",
    )


def _read(name: str, text: str, *, clock: bool) -> _Moment:
    """The fields of a moment, or with ``clock`` of a time of day."""
    match = _MOMENT.fullmatch(text)
    if match is None or (clock and (match["t"] or match["basic"] or match["hour"] is None)):
        match = _CLOCK.fullmatch(text) if clock else None
        if match is None:
            raise _unreadable(name, text)
        return _Moment(None, *_time_and_zone_of(match, clock=True))
    # A zone that is wrong is found before a date that is.
    time, zone = (None, None) if match["hour"] is None else _time_and_zone_of(match, clock=clock)
    return _Moment(_day_of(match), time, zone)


def _day_of(match: re.Match[str]) -> int:
    if match["basic"] is not None:
        year, month, day = int(match["basic"][:4]), int(match["basic"][4:6]), int(match["basic"][6:])
    else:
        year, month, day = int(match["year"]), int(match["month"]), int(match["day"])
    if year == 0:
        raise _field_error()
    if match["era"] in {"BC", "bc", "Bc", "bC"}:
        year = 1 - year
    if not 1 <= month <= 12 or not 1 <= day <= month_length(year, month):
        raise _field_error()
    return day_number(year, month, day)


def _time_and_zone_of(match: re.Match[str], *, clock: bool) -> tuple[int, int | None]:
    hour, minute, second = int(match["hour"]), int(match["minute"]), int(match["second"] or 0)
    fraction = match["fraction"]
    microseconds = int(rint(float(fraction) * SECOND)) if fraction and fraction != "." else 0
    time = hour * HOUR + minute * MINUTE + second * SECOND + microseconds
    # More than a day is found before a wrong zone in a timestamp, and after it in a time.
    if minute > 59 or second > 60 or (time > DAY and not clock):
        raise _field_error()
    zone = _zone_of(match)
    if time > DAY:
        raise _field_error()
    return time, zone


def _zone_of(match: re.Match[str]) -> int | None:
    if match["utc"] is not None:
        return 0
    if match["west"] is None:
        return None
    if match["run"] is not None:
        parts = [int(match["run"][:-2]), int(match["run"][-2:]), 0]
    else:
        parts = [int(part) for part in match["zone"].split(":")] + [0, 0]
    if parts[0] > _ZONE_HOURS or parts[1] > 59 or parts[2] > 59:
        raise RowFilterError("time zone displacement out of range", sqlstate="22009")
    east = parts[0] * 3600 + parts[1] * 60 + parts[2]
    return east if match["west"] == "-" else -east


def _special(text: str, infinities: tuple[int, int], epoch: int) -> int | None:
    """``infinity``, ``-infinity`` and ``epoch``; None for all else."""
    match = _WORD.fullmatch(text)
    if match is None:
        return None
    word = match[1] + match[2].lower()
    return {"infinity": infinities[1], "+infinity": infinities[1], "-infinity": infinities[0], "epoch": epoch}.get(word)


def read_date(text: str) -> int:
    """``date_in``.

    Raises:
        RowFilterError: 22007, 22008, 22009.
        NotSupportedError: it may be a date, in a notation that is not read here. So with the other functions.
    """
    special = _special(text, DATE_INFINITIES, UNIX_EPOCH)
    if special is not None:
        return special
    day = _read("date", text, clock=False).day
    assert day is not None
    if not is_valid_date(day):
        raise out_of_range("date")
    return day


def read_timestamp(text: str) -> int:
    """``timestamp_in``: a zone is read and has no effect."""
    special = _special(text, TIMESTAMP_INFINITIES, UNIX_EPOCH * DAY)
    if special is not None:
        return special
    day, time, _ = _read("timestamp", text, clock=False)
    assert day is not None
    return valid_timestamp(day * DAY + (time or 0))


def read_timestamptz(text: str) -> int:
    """``timestamptz_in`` of a session in UTC."""
    special = _special(text, TIMESTAMP_INFINITIES, UNIX_EPOCH * DAY)
    if special is not None:
        return special
    day, time, zone = _read("timestamp with time zone", text, clock=False)
    assert day is not None
    return valid_timestamp(day * DAY + (time or 0) + (zone or 0) * SECOND)


def read_time(text: str) -> int:
    """``time_in``: a date and a zone are read and have no effect."""
    time = _read("time", text, clock=True).time
    assert time is not None
    return time


def read_timetz(text: str) -> tuple[int, int]:
    """``timetz_in`` of a session in UTC: microseconds, and seconds west of Greenwich."""
    _, time, zone = _read("time with time zone", text, clock=True)
    assert time is not None
    return time, zone or 0


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
