"""numeric: its exact text, with every trailing zero, NaN and the infinities.

Arrow's decimals end at 76 digits and have one scale a column; PostgreSQL's numeric has neither limit.
"""

from __future__ import annotations

import struct
from typing import Final

import pyarrow as pa

from subscriber.types.family import all_match, as_text, family, invalid_binary, invalid_text

_TEXT: Final = r"-?[0-9]+(?:\.[0-9]+)?|NaN|-?Infinity"
_HEADER: Final = struct.Struct(">HhHH")
_NEGATIVE: Final = 0x4000
_SPECIAL: Final = {0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}
_LARGEST_SCALE: Final = 0x3FFF
_DIGITS_IN_GROUP: Final = 4
_LARGEST_GROUP: Final = 9999


def _from_text(array: pa.BinaryArray) -> pa.StringArray:
    if not all_match(array, _TEXT):
        raise invalid_text("numeric")
    return as_text(array)


def _from_binary(array: pa.BinaryArray) -> pa.StringArray:
    return pa.array([_text(value) for value in array.to_pylist()], type=pa.string())


def _text(value: bytes) -> str:
    """Layout: ndigits u16, weight i16, sign u16, dscale u16, ndigits base-10000 digits u16.

    The first digit counts 10000 ** weight; dscale is how many decimals are shown.
    """
    if len(value) < _HEADER.size:
        raise invalid_binary("numeric")
    ndigits, weight, sign, scale = _HEADER.unpack_from(value)
    if len(value) != _HEADER.size + 2 * ndigits or scale > _LARGEST_SCALE:
        raise invalid_binary("numeric")
    groups = struct.unpack_from(f">{ndigits}H", value, _HEADER.size)
    if sign in _SPECIAL:
        return _SPECIAL[sign]
    if sign not in (0, _NEGATIVE) or any(group > _LARGEST_GROUP for group in groups):
        raise invalid_binary("numeric")
    number = _positional("".join(f"{group:04d}" for group in groups), (weight + 1) * _DIGITS_IN_GROUP, scale)
    return f"-{number}" if sign and number.strip("0.") else number


def _positional(digits: str, point: int, scale: int) -> str:
    """Put the point behind ``point`` digits and show ``scale`` decimals (cut, as numeric_recv does)."""
    whole = digits[: max(point, 0)].ljust(point, "0").lstrip("0") or "0"
    decimals = ("0" * -point + digits[max(point, 0) :])[:scale].ljust(scale, "0")
    return f"{whole}.{decimals}" if scale else whole


FAMILIES: Final = (family("numeric", (1700,), pa.string(), _from_text, _from_binary),)
