r"""bytea: binary as it is; text in hex format (``\x0aff``) or, from old settings, escape format.

The formats cannot be confused: escape format writes a backslash as two.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from subscriber.types.family import binary_array, family, invalid_text, values_of

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
    # bytea_output may have changed between two of the batch's transactions.
    mask = is_hex.to_numpy(zero_copy_only=False)
    hexadecimal, escaped = np.flatnonzero(mask), np.flatnonzero(~mask)
    decoded = pa.concat_arrays(
        [_from_hex(array.take(pa.array(hexadecimal))), _from_escape(array.filter(pc.invert(is_hex)))]
    )
    return decoded.take(pa.array(np.argsort(np.concatenate([hexadecimal, escaped]))))


def _from_hex(array: pa.BinaryArray) -> pa.BinaryArray:
    r"""``\x`` and two hex digits a byte, for all values at once."""
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
    return pa.array([_ESCAPE.sub(_unescape, value) for value in values], type=pa.binary())


def _unescape(match: re.Match[bytes]) -> bytes:
    code = match[1]
    return code if code == b"\\" else bytes([int(code, 8)])


def _from_binary(array: pa.BinaryArray) -> pa.BinaryArray:
    return array


FAMILIES: Final = (family("bytea", (17,), pa.binary(), _from_text, _from_binary),)
