"""The one bounds-checked cursor through which every byte of a message is read.

Whatever the bytes are, reading ends in a value or in a :class:`~subscriber.errors.ProtocolError`
that says where; never in an IndexError, in a value made of too few bytes (what ``BytesIO.read``
gives), or in a loop that waits for a NUL. PostgreSQL's own readers (pqformat.c) work so, and the
texts are theirs.
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
        data: the whole message, type byte included.
        offset: bytes from the start of the message to what is read next.
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
        """An error that knows where it happened: at byte ``at``, else at the cursor."""
        offset = self.offset if at is None else at
        return ProtocolError(message, offset=offset, message_type=self.message_type, sqlstate=sqlstate)

    def type_byte(self) -> int:
        """Read the byte that says what kind of message this is, and remember it for errors."""
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

        PostgreSQL takes any other byte for one of the two; a message that nobody writes so is
        refused here, so that encoding what was read gives the bytes back.
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
        """Check that ``count`` items of at least ``size`` bytes can follow; gives ``count`` back.

        Checked before anything is allocated for them: a count is four bytes that may say anything.
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
        """Read a NUL-terminated string in UTF-8, the encoding that the receiver asks for
        (rule A1).
        """
        start = self.offset
        end = self.data.find(b"\0", start)
        if end < 0:
            raise self.error("invalid string in message")
        try:
            text = self.data[start:end].decode()
        except UnicodeDecodeError as error:
            # The exception holds the bytes, so it is not chained (invariant names_are_data).
            at = start + error.start
            raise self.error('invalid byte sequence for encoding "UTF8"', at=at, sqlstate="22021") from None
        self.offset = end + 1
        return text

    def end(self) -> None:
        """Check that the whole message was read."""
        if self.offset != len(self.data):
            raise self.error("invalid message format")


def printable(byte: int) -> str:
    """A byte as ``%c`` would print it, escaped unless it is printable ASCII, for a log cannot hold
    the rest.
    """
    return chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}"
