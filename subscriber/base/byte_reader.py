"""The bounds-checked cursor through which every byte of a message is read.

For any bytes, reading ends with a value or with a :class:`~subscriber.base.errors.ProtocolError`
that has the position and PostgreSQL's text (pqformat.c). It never ends with an IndexError, a value
of too few bytes (which ``BytesIO.read`` would return), or a loop that waits for a NUL.
"""

from __future__ import annotations

from functools import cache
from struct import Struct
from typing import Any, Final

from subscriber.base.errors import ProtocolError

_U16: Final = Struct(">H")
_U32: Final = Struct(">I")
_U64: Final = Struct(">Q")
_I64: Final = Struct(">q")


class Reader:
    """A cursor over one message, type byte included."""

    __slots__ = ("data", "message_type", "offset")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.offset = 0
        self.message_type: str | None = None

    @property
    def remaining(self) -> int:
        return len(self.data) - self.offset

    def error(self, message: str, *, at: int | None = None, sqlstate: str | None = None) -> ProtocolError:
        offset = self.offset if at is None else at
        return ProtocolError(message, offset=offset, message_type=self.message_type, sqlstate=sqlstate)

    def type_byte(self) -> int:
        byte = self.byte()
        self.message_type = printable(byte)
        return byte

    def unpack(self, layout: Struct) -> tuple[Any, ...]:
        start = self.offset
        end = start + layout.size
        if end > len(self.data):
            raise self.error("insufficient data left in message")
        self.offset = end
        return layout.unpack_from(self.data, start)

    def byte(self) -> int:
        if self.offset >= len(self.data):
            raise self.error("no data left in message")
        byte = self.data[self.offset]
        self.offset += 1
        return byte

    def flag(self, what: str) -> bool:
        """Read 0 or 1. Other bytes are refused, so that encoding gives the same bytes."""
        byte = self.byte()
        if byte > 1:
            raise self.error(f"unrecognized {what} {byte} in message", at=self.offset - 1)
        return byte == 1

    def u16(self) -> int:
        value: int = self.unpack(_U16)[0]
        return value

    def u32(self) -> int:
        """An OID, a transaction ID, a length."""
        value: int = self.unpack(_U32)[0]
        return value

    def u64(self) -> int:
        """An LSN."""
        value: int = self.unpack(_U64)[0]
        return value

    def i64(self) -> int:
        """A timestamp."""
        value: int = self.unpack(_I64)[0]
        return value

    def numbers(self, layout: str) -> tuple[Any, ...]:
        """Numbers in network byte order; ``layout`` is a format of :mod:`struct`."""
        return self.unpack(_struct(layout))

    def number(self, layout: str) -> int:
        return int(self.numbers(layout)[0])

    def count(self, count: int, size: int) -> int:
        """Check before memory is allocated: the four bytes of a count may have any value."""
        if not 0 <= count * size <= self.remaining:
            raise self.error("insufficient data left in message")
        return count

    def bytes(self, length: int) -> bytes:
        start = self.offset
        end = start + length
        if not start <= end <= len(self.data):
            raise self.error("insufficient data left in message")
        self.offset = end
        return self.data[start:end]

    def string(self) -> str:
        """Read a NUL-terminated string in UTF-8, the session's encoding (rule A1)."""
        start = self.offset
        end = self.data.find(b"\0", start)
        if end < 0:
            raise self.error("invalid string in message")
        try:
            text = self.data[start:end].decode()
        except UnicodeDecodeError as error:
            # The exception contains the bytes, so it is not chained (invariant names_are_data).
            at = start + error.start
            raise self.error('invalid byte sequence for encoding "UTF8"', at=at, sqlstate="22021") from None
        self.offset = end + 1
        return text

    def end(self) -> None:
        if self.offset != len(self.data):
            raise self.error("invalid message format")


@cache
def _struct(layout: str) -> Struct:
    return Struct(f">{layout}")


def printable(byte: int) -> str:
    """A byte as ``%c`` prints it; what is not printable ASCII is escaped, for logs."""
    return chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}"
