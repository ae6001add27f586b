"""bit and bit varying: regress/sql/bit.sql, and the bytes of bit_send."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.postgres.types.byte_strings import fixed, limited
from tests.type_samples import SAMPLES, from_binary, order_of, refused, refused_binary, shown


@pytest.mark.parametrize(
    ("text", "value"),
    [("101", "101"), ("b101", "101"), ("B0", "0"), ("x5", "0101"), ("XaF", "10101111"), ("", ""), ("b", ""), ("x", "")],
)
@pytest.mark.parametrize("name", ["bit", "bit varying"])
def test_bits_are_read_as_binary_or_hexadecimal_digits(name, text, value):
    assert shown(name, text) == value


@pytest.mark.parametrize(
    ("text", "kind", "wrong"),
    [
        ("102", "binary", "2"),
        ("b01x", "binary", "x"),
        (" 1", "binary", " "),
        ("x0g", "hexadecimal", "g"),
        ("x 1", "hexadecimal", " "),
    ],
)
def test_a_character_that_is_not_a_digit_is_refused(text, kind, wrong):
    error = refused("bit varying", text)
    assert (error.sqlstate, error.message) == ("22P02", f"invalid {kind} digit in a bit string")
    assert error.quoting == f'"{wrong}" is not a valid {kind} digit'


def test_a_bit_value_must_have_the_length_of_its_type():
    assert shown("bit", "11011000000", 11) == "11011000000"
    for text in ("10", "1101100000", "110110000000"):
        error = refused("bit", text, 11)
        assert (error.sqlstate, error.message) == ("22026", "bit string length does not match type bit(11)")


def test_a_bit_varying_value_must_not_be_longer_than_its_type():
    assert [shown("bit varying", text, 11) for text in ("", "010101", "11011000000")] == ["", "010101", "11011000000"]
    error = refused("bit varying", "101011111010", 11)
    assert (error.sqlstate, error.message) == ("22001", "bit string too long for type bit varying(11)")


def test_an_explicit_cast_cuts_or_fills_a_value():
    assert (fixed("101", 5, explicit=True), fixed("101", 2, explicit=True)) == ("10100", "10")
    assert (limited("101", 5, explicit=True), limited("101", 2, explicit=True)) == ("101", "10")


@pytest.mark.parametrize("length", [-1, 0])
def test_without_a_length_a_value_is_unchanged(length):
    assert fixed("101", length, explicit=False) == limited("101", length, explicit=False) == "101"


def test_bits_are_ordered_from_the_left_and_then_by_their_length():
    assert order_of("bit varying", "0", "00") < 0 < order_of("bit varying", "1", "011")


@given(st.text("01", max_size=40))
def test_every_value_survives_the_binary_form(bits):
    padded = bits.ljust(-(-len(bits) // 8) * 8, "0")
    data = struct.pack(">i", len(bits)) + bytes(int(padded[at : at + 8], 2) for at in range(0, len(padded), 8))
    assert from_binary("bit varying", data) == [bits]
    assert shown("bit varying", bits) == bits


def test_surplus_bits_of_the_last_byte_are_ignored():
    assert from_binary("bit", b"\0\0\0\3\xff") == ["111"]


def test_a_negative_length_is_refused():
    error = refused_binary("bit", SAMPLES["bit"][1], b"\xff\xff\xff\xff")
    assert (error.sqlstate, error.message) == ("22P03", "incorrect binary data format for type bit")
