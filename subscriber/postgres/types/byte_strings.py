r"""bytea, bit and bit varying.

The text of bits consists of zeros and ones. Their binary format is the number of bits and the bytes
that hold them; the first bit is the highest bit of the first byte.

The text of bytea is in hex format (``\x0aff``) or, from servers with an old setting of
bytea_output, in escape format, which writes a backslash as two backslashes.
"""

from __future__ import annotations

import re
import struct
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from subscriber.base.byte_reader import Reader
from subscriber.base.errors import DataException
from subscriber.postgres.types import family


def _bits(wire: Reader) -> str:
    """Layout: bits i32, bytes. Surplus bits of the last byte are ignored (VARBIT_PAD)."""
    bits = wire.number("i")
    if bits < 0:
        raise family.BadWire
    size = (bits + 7) // 8
    return f"{int.from_bytes(wire.bytes(size)):0{size * 8}b}"[:bits]


def bit_send(text: str) -> bytes:
    """The send function of bit and bit varying (``varbit_send``).

    >>> bit_send("101").hex()
    '00000003a0'
    """
    digits = bit_digits(text)
    size = (len(digits) + 7) // 8
    return struct.pack(">i", len(digits)) + int(digits.ljust(size * 8, "0") or "0", 2).to_bytes(size)


MOST_BITS: Final = 2**31 - 8
"""The greatest valid length (``VARBITMAXLEN``)."""

_BINARY: Final = {"0": "0", "1": "1"}
_HEXADECIMAL: Final = {digit: f"{int(digit, 16):04b}" for digit in "0123456789abcdefABCDEF"}


def bit_digits(text: str) -> str:
    """The bits of a text such as ``101``, ``b101`` or ``x5``.

    >>> bit_digits("b101"), bit_digits("X5f")
    ('101', '01011111')
    """
    kind, digits = (text[0].lower(), text[1:]) if text[:1] in {"b", "B", "x", "X"} else ("b", text)
    name, bits = ("hexadecimal", _HEXADECIMAL) if kind == "x" else ("binary", _BINARY)
    wrong = next((digit for digit in digits if digit not in bits), None)
    if wrong is not None:
        raise DataException(
            f"invalid {name} digit in a bit string",
            sqlstate="22P02",
            quoting=f'"{wrong}" is not a valid {name} digit',
        )
    return digits if kind == "b" else "".join(map(bits.__getitem__, digits))


def _bit_in(text: str, modifier: int) -> str:
    return fixed(bit_digits(text), modifier, False)


def _varbit_in(text: str, modifier: int) -> str:
    return limited(bit_digits(text), modifier, False)


def fixed(value: str, length: int, explicit: bool) -> str:
    """``bit(length)``: an explicit cast truncates, or adds zeros; otherwise 22026."""
    if not 0 < length <= MOST_BITS:
        return value
    if len(value) != length and not explicit:
        raise DataException(f"bit string length does not match type bit({length})", sqlstate="22026")
    return value[:length].ljust(length, "0")


def limited(value: str, longest: int, explicit: bool) -> str:
    """``bit varying(longest)``: an explicit cast truncates; otherwise 22001."""
    if longest <= 0:
        return value
    if len(value) > longest and not explicit:
        raise DataException(f"bit string too long for type bit varying({longest})", sqlstate="22001")
    return value[:longest]


_BITS: Final = tuple(
    family.of_texts(
        name,
        oid,
        _bits,
        family.Form(read, str, pa.string(), compare=family.sign),
        send=bit_send,
    )
    for name, oid, read in (("bit", 1560, _bit_in), ("bit varying", 1562, _varbit_in))
)


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
    data, offsets = family.values_of(array)
    is_digit = np.ones(data.size, dtype=np.bool_)
    is_digit[offsets[:-1]] = False
    is_digit[offsets[:-1] + 1] = False
    nibbles = _NIBBLES[data[is_digit]]
    digits = np.diff(offsets) - len("\\x")
    if np.any(nibbles == _NOT_HEX) or np.any(digits % 2):
        raise family.invalid_text("bytea")
    decoded: NDArray[np.uint8] = nibbles[0::2] * np.uint8(16) + nibbles[1::2]
    return family.binary_array(decoded, np.concatenate([[0], np.cumsum(digits // 2)]).astype(np.int32))


def _from_escape(array: pa.BinaryArray) -> pa.BinaryArray:
    values = array.to_pylist()
    if not all(map(_ESCAPED.fullmatch, values)):
        raise family.invalid_text("bytea")
    return pa.array(map(_unescaped, values), type=pa.binary())


def _unescaped(value: bytes) -> bytes:
    return _ESCAPE.sub(lambda code: code[1] if code[1] == b"\\" else bytes([int(code[1], 8)]), value)


def _from_binary(array: pa.BinaryArray) -> pa.BinaryArray:
    return array


def byteain(text: str) -> bytes:
    """The input function of bytea, which reads both formats."""
    return from_hexadecimal(text[2:]) if text.startswith("\\x") else from_escaped(text)


def byteaout(value: bytes) -> str:
    return "\\x" + value.hex()


def from_hexadecimal(text: str) -> bytes:
    """The bytes of hexadecimal digits (``hex_decode``). Blanks are allowed between two bytes."""
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
    """The bytes of a text in escape format (``esc_decode``)."""
    data = text.encode()
    if not _ESCAPED.fullmatch(data):
        raise family.invalid_syntax("bytea")
    return _unescaped(data)


def to_escaped(value: bytes) -> str:
    return "".join("\\\\" if byte == ord("\\") else chr(byte) if 0 < byte < 0x80 else f"\\{byte:03o}" for byte in value)


_FORM: Final = family.Form(family.without_modifier(byteain), byteaout, pa.binary(), compare=family.sign)

_BYTEA: Final = (family.of_decoders("bytea", 17, pa.binary(), _from_text, _from_binary, _FORM, send=byteain),)

FAMILIES: Final = (*_BITS, *_BYTEA)
