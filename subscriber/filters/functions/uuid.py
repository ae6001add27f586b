"""uuid: 16 bytes, which compare as they are."""

from __future__ import annotations

from typing import Final

from subscriber.filters.functions.comparison import register_columns
from subscriber.filters.functions.function_registry import elementwise
from subscriber.types.datetimes.calendar import DAY, UNIX_EPOCH

_GREGORIAN_EPOCH: Final = -152_384
"""1582-10-15, from which the times of version 1 count, in days since 2000-01-01."""


# uuid_cmp is not here: it gives what C's memcmp does, which is more or less than zero by an amount
# that C leaves open.
register_columns("uuid_{}(uuid,uuid)")


def _is_rfc_variant(value: bytes) -> bool:
    return value[8] & 0xC0 == 0x80


@elementwise("uuid_extract_version(uuid)", raises=False)
def _version(value: bytes) -> int | None:
    return value[6] >> 4 if _is_rfc_variant(value) else None


@elementwise("uuid_extract_timestamp(uuid)", raises=False)
def _timestamp(value: bytes) -> int | None:
    """Versions 1 and 7 have one; microseconds since 2000-01-01."""
    if not _is_rfc_variant(value):
        return None
    match value[6] >> 4:
        case 1:
            ticks = int.from_bytes(value[6:8]) & 0x0FFF
            ticks = (ticks << 16 | int.from_bytes(value[4:6])) << 32 | int.from_bytes(value[:4])
            return ticks // 10 + _GREGORIAN_EPOCH * DAY
        case 7:
            return int.from_bytes(value[:6]) * 1000 + UNIX_EPOCH * DAY
        case _:
            return None
