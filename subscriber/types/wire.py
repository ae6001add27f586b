"""Reading the binary format of single values, for types that are not stored as rows of numbers.

A converter takes a :class:`Wire` and returns the text that the type's output function would write.
It need not check lengths: :class:`Wire` raises :class:`BadWire` if there are too few or too many
bytes, and converters raise it for invalid numbers. It becomes an error with SQLSTATE 22P03.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import pyarrow as pa

from subscriber.errors import ProtocolError
from subscriber.types.family import Decoder, invalid_binary


class BadWire(Exception):
    """The bytes are not a value of the type.

    It never leaves this package: it becomes a ProtocolError that contains the type's name.
    """


class Wire:
    """The bytes of one value, which are read from front to back."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def numbers(self, layout: str) -> tuple[Any, ...]:
        """Read numbers in network byte order; ``layout`` is a format of :mod:`struct`.

        Raises:
            BadWire: there are not enough bytes left.
        """
        form = _struct(layout)
        start = self._at
        self._at = start + form.size
        if self._at > len(self._data):
            raise BadWire
        return form.unpack_from(self._data, start)

    def number(self, layout: str) -> int:
        """Read one integer."""
        return int(self.numbers(layout)[0])

    def count(self, layout: str, size: int) -> int:
        """Read the number of items that follow, each of which has at least ``size`` bytes.

        Raises:
            BadWire: the number is negative, or there are not enough bytes left for that many items.
        """
        count = self.number(layout)
        if not 0 <= count * size <= len(self._data) - self._at:
            raise BadWire
        return count

    def bytes(self, size: int) -> bytes:
        """Read the next ``size`` bytes.

        Raises:
            BadWire: there are not enough bytes left.
        """
        start = self._at
        self._at = start + size
        if not start <= self._at <= len(self._data):
            raise BadWire
        return self._data[start : self._at]

    def string(self) -> str:
        """Read the text before the next zero byte.

        Raises:
            BadWire: no zero byte follows.
            ProtocolError: 22021, the text is not UTF-8.
        """
        end = self._data.find(0, self._at)
        if end < 0:
            raise BadWire
        text = self._data[self._at : end]
        self._at = end + 1
        try:
            return text.decode()
        except UnicodeDecodeError:
            raise ProtocolError('invalid byte sequence for encoding "UTF8"', sqlstate="22021") from None

    def end(self) -> None:
        """Check that all bytes have been read (rule C5).

        Raises:
            BadWire: some bytes are left.
        """
        if self._at != len(self._data):
            raise BadWire


def value_by_value(name: str, convert: Callable[[Wire], str]) -> Decoder:
    """The decoder of a type whose values ``convert`` reads one by one."""
    return partial(_decode, name, convert)


def _decode(name: str, convert: Callable[[Wire], str], array: pa.BinaryArray) -> pa.StringArray:
    texts = []
    try:
        for value in array.to_pylist():
            wire = Wire(value)
            texts.append(convert(wire))
            wire.end()
    except BadWire:
        raise invalid_binary(name) from None
    return pa.array(texts, type=pa.string())


@cache
def _struct(layout: str) -> struct.Struct:
    return struct.Struct(f">{layout}")
