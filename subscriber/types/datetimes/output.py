"""The text of dates, times and intervals, as a replication session prints it: ISO, TimeZone UTC."""

from __future__ import annotations

from subscriber.types.datetimes.calendar import DATE_INFINITIES, DAY, TIMESTAMP_INFINITIES, civil
from subscriber.types.datetimes.intervals import INFINITY, Interval
from subscriber.types.datetimes.values import TimeTZ


def time_text(microseconds: int) -> str:
    """A time of day, or the time part of an interval, with as many decimals as it needs."""
    seconds, fraction = divmod(microseconds, 1_000_000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{fraction:06d}".rstrip("0") if fraction else text


def zone_text(seconds_west: int) -> str:
    """A time zone's offset in the shortest of ``+hh``, ``+hh:mm``, ``+hh:mm:ss``."""
    seconds = abs(seconds_west)
    parts = [seconds // 3600, seconds // 60 % 60, seconds % 60]
    while len(parts) > 1 and parts[-1] == 0:
        parts.pop()
    return ("-" if seconds_west > 0 else "+") + ":".join(f"{part:02d}" for part in parts)


def date_text(day: int) -> tuple[str, str]:
    """The Gregorian date of a day since 2000-01-01, and `` BC`` or an empty string."""
    year, month, day_of_month = civil(day)
    # There is no year 0: the year before 1 is 1 BC.
    return f"{year if year > 0 else 1 - year:04d}-{month:02d}-{day_of_month:02d}", "" if year > 0 else " BC"


def date_out(value: int) -> str:
    """The output function of date."""
    if value in DATE_INFINITIES:
        return "infinity" if value > 0 else "-infinity"
    day, era = date_text(value)
    return day + era


def timestamp_out(value: int, zone: str = "") -> str:
    """The output function of timestamp; ``zone`` is appended to the time."""
    if value in TIMESTAMP_INFINITIES:
        return "infinity" if value > 0 else "-infinity"
    day, era = date_text(value // DAY)
    return f"{day} {time_text(value % DAY)}{zone}{era}"


def timestamptz_out(value: int) -> str:
    """The output function of timestamptz in a session with TimeZone UTC."""
    return timestamp_out(value, "+00")


def timetz_out(value: TimeTZ) -> str:
    """The output function of timetz."""
    return time_text(value.microseconds) + zone_text(value.zone)


def interval_out(value: Interval) -> str:
    """The output function of interval, with ``intervalstyle`` postgres.

    It writes the parts that are not zero, largest first. A positive part after a negative part has
    a ``+``.
    """
    if not value.is_finite:
        return "infinity" if value == INFINITY else "-infinity"
    sign = -1 if value.months < 0 else 1
    years, months = sign * (abs(value.months) // 12), sign * (abs(value.months) % 12)
    parts, behind_negative = [], False
    for count, unit in ((years, "year"), (months, "mon"), (value.days, "day")):
        if count:
            parts.append(f"{count:{'+' if behind_negative else '-'}d} {unit}{'' if count == 1 else 's'}")
            behind_negative = count < 0
    if value.microseconds or not parts:
        plus = "+" if behind_negative else ""
        parts.append(("-" if value.microseconds < 0 else plus) + time_text(abs(value.microseconds)))
    return " ".join(parts)
