"""Reading the binary form of single values."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.base.byte_reader import Reader
from subscriber.base.errors import ProtocolError
from subscriber.postgres.types.family import of_texts
from tests.type_samples import bytes_of


def test_values_are_read_from_front_to_back():
    wire = Reader(struct.pack(">iHd", -1, 2, 0.5) + b"abc" + "é\0".encode())
    assert wire.numbers("iH") == (-1, 2)
    assert wire.numbers("d") == (0.5,)
    assert (wire.bytes(2), wire.bytes(0), wire.bytes(1)) == (b"ab", b"", b"c")
    assert wire.string() == "é"
    wire.end()


@given(st.integers(-(2**31), 2**31 - 1))
def test_numbers_are_in_network_byte_order_without_padding(number):
    wire = Reader(b"\7" + number.to_bytes(4, signed=True))
    assert wire.numbers("Bi") == (7, number)


@pytest.mark.parametrize(
    "read",
    [
        lambda wire: wire.number("i"),
        lambda wire: wire.numbers("BBBB"),
        lambda wire: wire.bytes(4),
        lambda wire: wire.bytes(-1),
        lambda wire: wire.string(),
        lambda wire: wire.end(),
    ],
    ids=["number", "numbers", "bytes", "negative size", "no zero byte", "bytes left"],
)
def test_too_few_and_too_many_bytes_are_bad(read):
    with pytest.raises(ProtocolError):
        read(Reader(b"abc"))


@pytest.mark.parametrize(("count", "size", "rest"), [(0, 1, b""), (2, 1, b"ab"), (2, 2, b"abcd"), (1, 2, b"abcd")])
def test_a_count_is_read_if_that_many_items_can_follow(count, size, rest):
    wire = Reader(struct.pack(">i", count) + rest)
    assert wire.count(wire.number("i"), size) == count


@pytest.mark.parametrize(
    ("count", "size", "rest"), [(-1, 1, b"ab"), (3, 1, b"ab"), (2, 2, b"abc"), (2**31 - 1, 8, b"")]
)
def test_a_count_is_bad_if_that_many_items_cannot_follow(count, size, rest):
    wire = Reader(struct.pack(">i", count) + rest)
    found = wire.number("i")
    with pytest.raises(ProtocolError):
        wire.count(found, size)


def test_a_string_is_utf8():
    with pytest.raises(ProtocolError) as caught:
        Reader(b"\xff\0").string()
    assert (caught.value.sqlstate, caught.value.message) == ("22021", 'invalid byte sequence for encoding "UTF8"')


def test_a_decoder_converts_every_value_and_reads_all_of_it():
    decode = of_texts("pair", 1, lambda wire: "{},{}".format(*wire.numbers("BB"))).decode_binary
    assert decode(bytes_of(b"\1\2", b"\3\4")).to_pylist() == ["1,2", "3,4"]
    for bad in (b"\1", b"\1\2\3"):
        with pytest.raises(ProtocolError) as caught:
            decode(bytes_of(b"\1\2", bad))
        assert (caught.value.sqlstate, caught.value.message) == ("22P03", "incorrect binary data format for type pair")
        assert caught.value.__cause__ is None
