r"""bytea: the binary format is the bytes; the text is in hex format (``\x0aff``) or escape format.

The escape format comes from servers with an old setting of bytea_output. The formats cannot be
confused, because the escape format writes a backslash as two backslashes.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from subscriber.errors import DataException
from subscriber.types.family import binary_array, family, invalid_text, values_of
from subscriber.types.form import Form, invalid_syntax, sign, without_modifier

_SPACES: Final = " \n\t\r"
_NOT_HEX: Final = 255
_NIBBLES: Final = np.full(256, _NOT_HEX, dtype=np.uint8)
_NIBBLES[list(b"0123456789abcdef")] = range(16)
_NIBBLES[list(b"ABCDEF")] = range(10, 16)

_ESCAPED: Final = re.compile(rb"(?:[^\\]|\\\\|\\[0-3][0-7]{2})*", re.DOTALL)
_ESCAPE: Final = re.compile(rb"\\(\\|[0-7]{3})")


def _from_text(array: pa.BinaryArray) -> pa.BinaryArray:
    is_hex = pc.starts_with(array, pattern=b"\\x")
    if pc.all(is_hex).as_py():
        return _from_hex(array)
    # bytea_output may change between two transactions of a batch.
    mask = is_hex.to_numpy(zero_copy_only=False)
    hexadecimal, escaped = np.flatnonzero(mask), np.flatnonzero(~mask)
    decoded = pa.concat_arrays(
        [_from_hex(array.take(pa.array(hexadecimal))), _from_escape(array.filter(pc.invert(is_hex)))]
    )
    return decoded.take(pa.array(np.argsort(np.concatenate([hexadecimal, escaped]))))


def _from_hex(array: pa.BinaryArray) -> pa.BinaryArray:
    r"""Read ``\x`` and two hex digits for each byte, for all values together."""
    data, offsets = values_of(array)
    is_digit = np.ones(data.size, dtype=np.bool_)
    is_digit[offsets[:-1]] = False
    is_digit[offsets[:-1] + 1] = False
    nibbles = _NIBBLES[data[is_digit]]
    digits = np.diff(offsets) - len("\\x")
    if np.any(nibbles == _NOT_HEX) or np.any(digits % 2):
        raise invalid_text("bytea")
    decoded: NDArray[np.uint8] = nibbles[0::2] * np.uint8(16) + nibbles[1::2]
    return binary_array(decoded, np.concatenate([[0], np.cumsum(digits // 2)]).astype(np.int32))


def _from_escape(array: pa.BinaryArray) -> pa.BinaryArray:
    values = array.to_pylist()
    if not all(map(_ESCAPED.fullmatch, values)):
        raise invalid_text("bytea")
    return pa.array(map(_unescaped, values), type=pa.binary())


def _unescaped(value: bytes) -> bytes:
    return _ESCAPE.sub(lambda code: code[1] if code[1] == b"\\" else bytes([int(code[1], 8)]), value)


def _from_binary(array: pa.BinaryArray) -> pa.BinaryArray:
    return array


def byteain(text: str) -> bytes:
    """The input function of bytea, which reads both formats.

    Raises:
        DataException: 22023, invalid hex format; 22P02, invalid escape format.
    """
    return from_hexadecimal(text[2:]) if text.startswith("\\x") else from_escaped(text)


def byteaout(value: bytes) -> str:
    """The output function of bytea, in hex format."""
    return "\\x" + value.hex()


def from_hexadecimal(text: str) -> bytes:
    """The bytes of hexadecimal digits (``hex_decode``). Blanks are allowed between two bytes.

    Raises:
        DataException: 22023, a character is not a digit, or the number of digits is odd.
    """
    digits = iter(text)
    result = bytearray()
    for first in digits:
        if first in _SPACES:
            continue
        high = _nibble(first)
        second = next(digits, None)
        if second is None:
            raise DataException("invalid hexadecimal data: odd number of digits", sqlstate="22023")
        result.append(high * 16 + _nibble(second))
    return bytes(result)


def _nibble(digit: str) -> int:
    value = _NIBBLES[ord(digit)] if digit.isascii() else _NOT_HEX
    if value == _NOT_HEX:
        raise DataException("invalid hexadecimal digit", sqlstate="22023")
    return int(value)


def from_escaped(text: str) -> bytes:
    """The bytes of a text in escape format (``esc_decode``).

    Raises:
        DataException: 22P02, a backslash is not followed by three octal digits or another
            backslash.
    """
    data = text.encode()
    if not _ESCAPED.fullmatch(data):
        raise invalid_syntax("bytea")
    return _unescaped(data)


def to_escaped(value: bytes) -> str:
    """The text of bytes in escape format (``esc_encode``)."""
    return "".join("\\\\" if byte == ord("\\") else chr(byte) if 0 < byte < 0x80 else f"\\{byte:03o}" for byte in value)


_FORM: Final = Form(without_modifier(byteain), byteaout, pa.binary(), compare=sign)

FAMILIES: Final = (family("bytea", (17,), pa.binary(), _from_text, _from_binary, _FORM, send=byteain),)
