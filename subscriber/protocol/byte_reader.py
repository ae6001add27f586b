"""The bounds-checked cursor through which every byte of a message is read.

For any bytes, reading ends with a value or with a :class:`~subscriber.errors.ProtocolError` that
has the position. It never ends with an IndexError, with a value of too few bytes (which
``BytesIO.read`` would return), or in a loop that waits for a NUL. PostgreSQL's readers (pqformat.c)
work in the same way, and the error texts are PostgreSQL's.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

from subscriber.errors import ProtocolError

_U16: Final = Struct(">H")
_U32: Final = Struct(">I")
_U64: Final = Struct(">Q")


class Reader:
    """A cursor over one message.

    Attributes:
        data: the whole message, including the type byte.
        offset: the offset in the message of the next byte to read.
        message_type: the type byte as text, None before it was read.
    """

    __slots__ = ("data", "message_type", "offset")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.offset = 0
        self.message_type: str | None = None

    @property
    def remaining(self) -> int:
        """The number of bytes not yet read."""
        return len(self.data) - self.offset

    def error(self, message: str, *, at: int | None = None, sqlstate: str | None = None) -> ProtocolError:
        """An error with its position: offset ``at``, or else the cursor."""
        offset = self.offset if at is None else at
        return ProtocolError(message, offset=offset, message_type=self.message_type, sqlstate=sqlstate)

    def type_byte(self) -> int:
        """Read the message's type byte, and remember it for errors."""
        byte = self.byte()
        self.message_type = printable(byte)
        return byte

    def unpack(self, layout: Struct) -> tuple[Any, ...]:
        """Read the fixed-size fields of ``layout``."""
        start = self.offset
        end = start + layout.size
        if end > len(self.data):
            raise self.error("insufficient data left in message")
        self.offset = end
        return layout.unpack_from(self.data, start)

    def byte(self) -> int:
        """Read one byte as a number."""
        if self.offset >= len(self.data):
            raise self.error("no data left in message")
        byte = self.data[self.offset]
        self.offset += 1
        return byte

    def flag(self, what: str) -> bool:
        """Read a byte that is 0 or 1.

        PostgreSQL interprets any other byte as one of the two. No publisher sends such a byte, and
        it is refused here, so that encoding the message gives the same bytes.
        """
        byte = self.byte()
        if byte > 1:
            raise self.error(f"unrecognized {what} {byte} in message", at=self.offset - 1)
        return byte == 1

    def u16(self) -> int:
        """Read an unsigned 16-bit number."""
        value: int = self.unpack(_U16)[0]
        return value

    def u32(self) -> int:
        """Read an unsigned 32-bit number: an OID, a transaction ID, a length."""
        value: int = self.unpack(_U32)[0]
        return value

    def u64(self) -> int:
        """Read an unsigned 64-bit number: an LSN."""
        value: int = self.unpack(_U64)[0]
        return value

    def count(self, count: int, size: int) -> int:
        """Check that ``count`` items of at least ``size`` bytes can follow; returns ``count``.

        The check comes before memory is allocated for the items, since the four bytes of a count
        may have any value.
        """
        if count * size > self.remaining:
            raise self.error("insufficient data left in message")
        return count

    def bytes(self, length: int) -> bytes:
        """Read ``length`` bytes."""
        start = self.offset
        end = start + length
        if end > len(self.data):
            raise self.error("insufficient data left in message")
        self.offset = end
        return self.data[start:end]

    def string(self) -> str:
        """Read a NUL-terminated string in UTF-8, the encoding that the receiver requests (rule
        A1).
        """
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
        """Check that the whole message was read."""
        if self.offset != len(self.data):
            raise self.error("invalid message format")


def printable(byte: int) -> str:
    """A byte as ``%c`` prints it; bytes that are not printable ASCII are escaped, so that a log can
    contain them.
    """
    return chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}"
