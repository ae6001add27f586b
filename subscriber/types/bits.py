"""bit and bit varying.

The text consists of zeros and ones. The binary format is the number of bits and the bytes that hold
them; the first bit is the highest bit of the first byte.
"""

from __future__ import annotations

import struct
from typing import Final

import pyarrow as pa

from subscriber.errors import DataException
from subscriber.types.family import as_text, family
from subscriber.types.form import Form, sign
from subscriber.types.wire import BadWire, Wire, value_by_value


def _bits(wire: Wire) -> str:
    """Layout: bits i32, bytes. Surplus bits of the last byte are ignored (VARBIT_PAD)."""
    bits = wire.number("i")
    if bits < 0:
        raise BadWire
    size = (bits + 7) // 8
    return f"{int.from_bytes(wire.bytes(size)):0{size * 8}b}"[:bits]


def bit_send(text: str) -> bytes:
    """The send function of bit and bit varying (``varbit_send``). It raises the errors of
    :func:`bit_digits`.

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

    Raises:
        DataException: 22P02, a character is not a digit.

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
    return fixed(bit_digits(text), modifier, explicit=False)


def _varbit_in(text: str, modifier: int) -> str:
    return limited(bit_digits(text), modifier, explicit=False)


def fixed(value: str, length: int, *, explicit: bool) -> str:
    """Convert ``value`` to ``bit(length)``. An explicit cast truncates the value, or adds zeros.

    Raises:
        DataException: 22026, the value has another length, and the cast is not explicit.
    """
    if not 0 < length <= MOST_BITS:
        return value
    if len(value) != length and not explicit:
        raise DataException(f"bit string length does not match type bit({length})", sqlstate="22026")
    return value[:length].ljust(length, "0")


def limited(value: str, longest: int, *, explicit: bool) -> str:
    """Convert ``value`` to ``bit varying(longest)``. An explicit cast truncates the value.

    Raises:
        DataException: 22001, the value is longer, and the cast is not explicit.
    """
    if longest <= 0:
        return value
    if len(value) > longest and not explicit:
        raise DataException(f"bit string too long for type bit varying({longest})", sqlstate="22001")
    return value[:longest]


FAMILIES: Final = tuple(
    family(
        name,
        (oid,),
        pa.string(),
        as_text,
        value_by_value(name, _bits),
        Form(read, str, pa.string(), compare=sign),
        send=bit_send,
    )
    for name, oid, read in (("bit", 1560, _bit_in), ("bit varying", 1562, _varbit_in))
)
