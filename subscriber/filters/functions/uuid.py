"""uuid: 16 bytes, which are compared byte by byte."""

from __future__ import annotations

from typing import Final

from subscriber.filters.functions.comparison import register_columns
from subscriber.filters.functions.function_table import FunctionTable
from subscriber.types.datetimes.calendar import DAY, UNIX_EPOCH

FUNCTIONS: Final = FunctionTable()

_GREGORIAN_EPOCH: Final = -152_384
"""1582-10-15, the epoch of the timestamps of version 1, in days since 2000-01-01."""


# uuid_cmp is not here: it returns the result of C's memcmp, of which only the sign is
# defined.
register_columns(FUNCTIONS, "uuid_{}(uuid,uuid)")


def _is_rfc_variant(value: bytes) -> bool:
    return value[8] & 0xC0 == 0x80


@FUNCTIONS.elementwise("uuid_extract_version(uuid)", raises=False)
def _version(value: bytes) -> int | None:
    return value[6] >> 4 if _is_rfc_variant(value) else None


@FUNCTIONS.elementwise("uuid_extract_timestamp(uuid)", raises=False)
def _timestamp(value: bytes) -> int | None:
    """The timestamp of a UUID of version 1 or 7, in microseconds since 2000-01-01; None for other
    versions.
    """
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
