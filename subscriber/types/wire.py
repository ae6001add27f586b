"""Reading send functions' bytes value by value, for the types whose values are no rows of numbers.

A converter takes a :class:`Wire` and gives the text that the type's output function would write. It
needs no checks of length: what is too short or too long is refused here (22P03), as are numbers
that no value has, by :class:`BadWire`.
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
    """The bytes are none of the type's. Never leaves this package: it becomes a ProtocolError that
    names the type.
    """


class Wire:
    """The bytes of one value, read from front to back."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def numbers(self, layout: str) -> tuple[Any, ...]:
        """Numbers in network order, as :mod:`struct` names them.

        Raises:
            BadWire: there are not as many bytes left.
        """
        form = _struct(layout)
        start = self._at
        self._at = start + form.size
        if self._at > len(self._data):
            raise BadWire
        return form.unpack_from(self._data, start)

    def number(self, layout: str) -> int:
        """One whole number."""
        return int(self.numbers(layout)[0])

    def count(self, layout: str, size: int) -> int:
        """How many things of at least ``size`` bytes follow.

        Raises:
            BadWire: a negative count, or one for which the bytes do not suffice.
        """
        count = self.number(layout)
        if not 0 <= count * size <= len(self._data) - self._at:
            raise BadWire
        return count

    def bytes(self, size: int) -> bytes:
        """The next ``size`` bytes.

        Raises:
            BadWire: there are not as many left.
        """
        start = self._at
        self._at = start + size
        if not start <= self._at <= len(self._data):
            raise BadWire
        return self._data[start : self._at]

    def string(self) -> str:
        """The text before the next zero byte.

        Raises:
            BadWire: no zero byte follows.
            ProtocolError: 22021, it is not UTF-8.
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
        """Nothing may follow (rule C5).

        Raises:
            BadWire: something does.
        """
        if self._at != len(self._data):
            raise BadWire


def value_by_value(name: str, convert: Callable[[Wire], str]) -> Decoder:
    """The decoder of a type that ``convert`` reads, one value at a time."""
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
