"""uuid: the text has 36 characters, the binary format has 16 bytes."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pyarrow as pa

from subscriber.types.family import all_match, as_text, family, fixed_width, invalid_binary, invalid_text
from subscriber.types.form import Form, invalid_syntax, sign, without_modifier

_TEXT: Final = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
# A hyphen is allowed after every second byte, and braces are allowed around the whole text.
_DIGITS: Final = r"(?:[0-9A-Fa-f]{4}-?){7}[0-9A-Fa-f]{4}"
_READ: Final = re.compile(rf"\{{{_DIGITS}\}}|{_DIGITS}", re.ASCII)
_TEXT_SIZE: Final = 36
_HYPHENS: Final = (8, 13, 18, 23)
_DIGIT_PLACES: Final = np.array([place for place in range(_TEXT_SIZE) if place not in _HYPHENS])
_HEX: Final = np.frombuffer(b"0123456789abcdef", np.uint8)


def _from_text(array: pa.BinaryArray) -> pa.StringArray:
    if not all_match(array, _TEXT):
        raise invalid_text("uuid")
    return as_text(array)


def _from_binary(array: pa.BinaryArray) -> pa.StringArray:
    rows = fixed_width(array, 16)
    if rows is None:
        raise invalid_binary("uuid")
    text = np.full((len(array), _TEXT_SIZE), ord("-"), dtype=np.uint8)
    text[:, _DIGIT_PLACES[0::2]] = _HEX[rows >> 4]
    text[:, _DIGIT_PLACES[1::2]] = _HEX[rows & 15]
    offsets = np.arange(len(array) + 1, dtype=np.int32) * _TEXT_SIZE
    return pa.StringArray.from_buffers(len(array), pa.py_buffer(offsets), pa.py_buffer(text))


def uuid_in(text: str) -> bytes:
    """The input function of uuid: 32 digits, optionally with hyphens and braces.

    Raises:
        DataException: 22P02, the text is not a UUID.
    """
    if not _READ.fullmatch(text):
        raise invalid_syntax("uuid")
    return bytes.fromhex(text.strip("{}").replace("-", ""))


def uuid_out(value: bytes) -> str:
    """The output function of uuid."""
    digits = value.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


_FORM: Final = Form(without_modifier(uuid_in), uuid_out, pa.binary(), compare=sign)

FAMILIES: Final = (family("uuid", (2950,), pa.string(), _from_text, _from_binary, _FORM, send=uuid_in),)
