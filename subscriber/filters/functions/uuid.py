"""uuid: 16 bytes, which compare as they are."""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa

from subscriber.errors import RowFilterError
from subscriber.filters.functions.calendar import UNIX_EPOCH
from subscriber.filters.functions.comparison import register_columns
from subscriber.filters.functions.forms import Form, register
from subscriber.filters.functions.function_registry import elementwise
from subscriber.types.datetimes import DAY

# A hyphen may stand behind every second byte, and one pair of braces around it all.
_DIGITS: Final = r"(?:[0-9A-Fa-f]{4}-?){7}[0-9A-Fa-f]{4}"
_TEXT: Final = re.compile(rf"\{{{_DIGITS}\}}|{_DIGITS}", re.ASCII)

_GREGORIAN_EPOCH: Final = -152_384
"""1582-10-15, from which the times of version 1 count, in days since 2000-01-01."""


def _from_text(text: str, _: int) -> bytes:
    """``uuid_in``."""
    if not _TEXT.fullmatch(text):
        raise RowFilterError("invalid input syntax for type uuid", sqlstate="22P02")
    return bytes.fromhex(text.strip("{}").replace("-", ""))


def _to_text(value: bytes) -> str:
    digits = value.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


FORM: Final = register(Form((2950,), _from_text, _to_text, pa.binary()))

# uuid_cmp is not here: it gives what C's memcmp does, which is more or less than zero by an amount that C leaves open.
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
