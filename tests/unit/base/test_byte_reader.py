"""The one cursor: in bounds, or an error that says where."""

from __future__ import annotations

from struct import Struct

import pytest

from subscriber.base.byte_reader import Reader, printable
from subscriber.base.errors import ProtocolError


def test_each_read_moves_the_cursor_by_what_it_read():
    reader = Reader(b"I\1\0\2\0\0\0\3\0\0\0\0\0\0\0\4ab\0xy")
    assert (reader.type_byte(), reader.message_type) == (ord("I"), "I")
    assert reader.flag("flags") is True
    assert (reader.u16(), reader.u32(), reader.u64()) == (2, 3, 4)
    assert (reader.string(), reader.bytes(2), reader.remaining) == ("ab", b"xy", 0)
    reader.end()


@pytest.mark.parametrize(
    "read",
    [
        Reader.u16,
        Reader.u32,
        Reader.u64,
        Reader.string,
        lambda reader: reader.bytes(2),
        lambda reader: reader.unpack(Struct(">q")),
        lambda reader: reader.count(2, 1),
        Reader.end,
    ],
)
def test_a_refused_read_leaves_the_cursor_where_it_was(read):
    """The offset of an error is where the field begins."""
    reader = Reader(b"I\1")
    reader.type_byte()
    with pytest.raises(ProtocolError) as caught:
        read(reader)
    assert (reader.offset, caught.value.offset, caught.value.message_type) == (1, 1, "I")
    assert caught.value.context == 'decoding at byte 1 of message type "I"'


def test_a_byte_past_the_end_is_an_error():
    with pytest.raises(ProtocolError, match="no data left in message"):
        Reader(b"").byte()


def test_the_offset_of_invalid_utf8_is_the_byte_itself():
    with pytest.raises(ProtocolError) as caught:
        Reader(b"ab\xff\0").string()
    assert caught.value.offset == 2


def test_an_unprintable_byte_cannot_break_a_log_line():
    assert [printable(byte) for byte in (0, 10, 0x7F, 0xFF)] == [r"\x00", r"\x0a", r"\x7f", r"\xff"]
    assert printable(ord("z")) == "z"
