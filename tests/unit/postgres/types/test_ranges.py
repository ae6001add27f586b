"""Decoding of ranges and multiranges: the bytes of range_send and multirange_send."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.type_samples import SAMPLES, canonical, from_binary, refused, refused_binary, shown, sized

ONE, THREE, FIVE = b"\0\0\0\1", b"\0\0\0\3", b"\0\0\0\5"
NUMERICS = [struct.pack(">HhHHH", 1, 0, 0, 0, digit) for digit in (1, 3)]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\1", "empty"),
        (b"\2" + sized(*NUMERICS), "[1,3)"),
        (b"\0" + sized(*NUMERICS), "(1,3)"),
        (b"\6" + sized(*NUMERICS), "[1,3]"),
        (b"\4" + sized(*NUMERICS), "(1,3]"),
        (b"\x08" + sized(NUMERICS[1]), "(,3)"),
        (b"\x12" + sized(NUMERICS[0]), "[1,)"),
        (b"\x18", "(,)"),
    ],
)
def test_the_flags_decide_which_bounds_a_range_has(data, text):
    assert from_binary("numrange", data) == [text]


def test_flags_that_are_not_sent_are_ignored():
    """range_recv masks the flags that exist only on disk."""
    assert from_binary("int4range", b"\xe2" + sized(ONE, THREE)) == ["[1,3)"]


def test_the_ranges_of_a_column_do_not_influence_each_other():
    values = (b"\1", None, b"\2" + sized(ONE, THREE), b"\x18", b"\x12" + sized(THREE))
    assert from_binary("int4range", *values) == ["empty", None, "[1,3)", "(,)", "[3,)"]


def test_a_bound_with_a_blank_is_quoted():
    moments = [struct.pack(">q", second * 1_000_000) for second in (0, 1)]
    assert from_binary("tsrange", b"\2" + sized(*moments)) == ['["2000-01-01 00:00:00","2000-01-01 00:00:01")']


def test_a_multirange_is_its_ranges_in_braces():
    ranges = (b"\2" + sized(ONE, THREE), b"\x12" + sized(FIVE))
    values = (b"\0\0\0\2" + sized(*ranges), None, b"\0\0\0\0", b"\0\0\0\1" + sized(ranges[1]))
    assert from_binary("int4multirange", *values) == ["{[1,3),[5,)}", None, "{}", "{[5,)}"]


@given(st.integers(-(2**31), 2**31 - 2), st.integers(1, 100))
def test_a_range_survives_the_binary_form(low, width):
    high = min(low + width, 2**31 - 1)
    (text,) = from_binary("int4range", b"\2" + sized(struct.pack(">i", low), struct.pack(">i", high)))
    assert text == f"[{low},{high})" == shown("int4range", text)


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("int4range", b"\2" + sized(None, THREE)),
        ("int4range", b"\2" + sized(b"\1", THREE)),
        ("int4range", b"\1" + sized(ONE)),
        ("int4multirange", b"\xff\xff\xff\xff"),
        ("int4multirange", b"\0\0\0\1" + sized(b"\2")),
        ("int4multirange", b"\x7f\xff\xff\xff"),
    ],
    ids=["null bound", "short bound", "empty with bound", "negative count", "short range", "missing ranges"],
)
def test_bytes_that_no_server_sends_are_refused(name, bad):
    error = refused_binary(name, SAMPLES[name][1], bad)
    assert error.sqlstate == "22P03"
    assert error.message.startswith("incorrect binary data format for type ")


def test_ranges_of_numerics_are_equal_whatever_their_scale():
    assert canonical("numrange", "[1.0,2.50)") == canonical("numrange", "[1.00,2.5)")
    assert canonical("nummultirange", "{[1.0,2)}") == canonical("nummultirange", "{[1,2.0)}")
    assert canonical("numrange", "[1.0,2)") != canonical("numrange", "(1.0,2)")


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("", "Missing left brace."),
        ("[1,2)", "Missing left brace."),
        ("{1", "Expected range start."),
        ("{[1,2),", "Unexpected end of input."),
        ("{[1,2) [3,4)}", "Expected comma or end of multirange."),
        ("{[1,2)", "Unexpected end of input."),
        ('{["1', "Unexpected end of input."),
        ("{} x", "Junk after closing right brace."),
    ],
)
def test_a_text_that_is_no_multirange_is_refused(text, detail):
    error = refused("int4multirange", text)
    assert (error.sqlstate, error.message, error.detail) == ("22P02", "malformed multirange literal", detail)


@pytest.mark.parametrize(
    ("name", "text", "written"),
    [
        ("int4multirange", " { } ", "{}"),
        ("int4multirange", "{[5,7),empty,[1,2],(2,5)}", "{[1,7)}"),
        ("nummultirange", "{(1,2),(2,3)}", "{(1,2),(2,3)}"),
        ("nummultirange", "{[1,2),[2,3]}", "{[1,3]}"),
        ("datemultirange", "{(,2000-01-01],[2000-01-03,)}", "{(,2000-01-02),[2000-01-03,)}"),
    ],
)
def test_the_ranges_of_a_multirange_are_in_order_and_joined(name, text, written):
    assert shown(name, text) == written
