"""AT TIME ZONE, as far as no time zone file is needed: UTC under its names, and offsets.

When a zone has which offset is in the server's own files, which differ from version to version and may be the system's; so named zones
and abbreviations are refused, when the filter is given. So is a zone that comes from a column.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from subscriber.errors import NotSupportedError, RowFilterError
from subscriber.publication.functions.calendar import SECOND, TIMESTAMP_INFINITIES, quotient, valid_timestamp, wrapped
from subscriber.publication.functions.dates import TimeTZ
from subscriber.publication.functions.intervals import Interval
from subscriber.publication.functions.registry import Implementation, elementwise
from subscriber.types.datetimes import DAY

_UTC: Final = frozenset({"utc", "gmt", "z", "zulu", "uct", "etc/utc", "etc/gmt"})
_OFFSET: Final = re.compile(r"([-+]?)([0-9]{1,2})(?::([0-5]?[0-9])(?::([0-5]?[0-9]))?)?", re.ASCII)


def offset_of(zone: str) -> int:
    """Seconds east of Greenwich. An offset that is written as a zone counts to the west, as in POSIX.

    Raises:
        NotSupportedError: a zone that the server looks up in its files.
    """
    if zone.lower() in _UTC:
        return 0
    match = _OFFSET.fullmatch(zone)
    if match is None:
        raise NotSupportedError(
            "a time zone that is not UTC or an offset is not supported in a publication WHERE expression",
            hint="Use an interval, as in AT TIME ZONE interval '2 hours'.",
        )
    west = int(match[2]) * 3600 + int(match[3] or 0) * 60 + int(match[4] or 0)
    return west if match[1] == "-" else -west


def specialise_zone(implementation: Implementation, constants: Mapping[int, Any], place: int) -> Implementation:
    """Refuse a zone that is no constant, and one that is not known here."""
    if place not in constants:
        raise NotSupportedError(
            "a time zone that is not a constant is not supported in a publication WHERE expression",
            hint="Write the zone as a constant.",
        )
    if constants[place] is not None:
        offset_of(constants[place])
    return implementation


def _specialise_first(implementation: Implementation, constants: Mapping[int, Any]) -> Implementation:
    return specialise_zone(implementation, constants, 0)


def _whole_seconds(zone: Interval) -> int:
    """Of an offset to the east of Greenwich."""
    if not zone.is_finite:
        raise RowFilterError("interval time zone must be finite", sqlstate="22023")
    if zone.months or zone.days:
        raise RowFilterError("interval time zone must not include months or days", sqlstate="22023")
    return quotient(zone.microseconds, SECOND)


def _moved(moment: int, seconds: int) -> int:
    return valid_timestamp(moment + seconds * SECOND)


@elementwise("timezone(text,timestamp)", specialise=_specialise_first)
def _local_to_utc(zone: str, moment: int) -> int:
    return moment if moment in TIMESTAMP_INFINITIES else _moved(moment, -offset_of(zone))


@elementwise("timezone(text,timestamptz)", specialise=_specialise_first)
def _utc_to_local(zone: str, moment: int) -> int:
    return moment if moment in TIMESTAMP_INFINITIES else _moved(moment, offset_of(zone))


@elementwise("timezone(interval,timestamp)")
def _local_to_utc_by_interval(zone: Interval, moment: int) -> int:
    return moment if moment in TIMESTAMP_INFINITIES else _moved(moment, -wrapped(_whole_seconds(zone), 32))


@elementwise("timezone(interval,timestamptz)")
def _utc_to_local_by_interval(zone: Interval, moment: int) -> int:
    return moment if moment in TIMESTAMP_INFINITIES else _moved(moment, -wrapped(-_whole_seconds(zone), 32))


@elementwise("timezone(interval,timetz)")
def _timetz_at_offset(zone: Interval, time: TimeTZ) -> TimeTZ:
    west = wrapped(-_whole_seconds(zone), 32)
    return TimeTZ((time.microseconds + wrapped(time.zone - west, 32) * SECOND) % DAY, west)
