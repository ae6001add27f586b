"""real and double precision: regress/sql/float4.sql and float8.sql; IEEE 754 for the bytes."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.postgres.types.registry import family_of
from tests.type_samples import (
    OIDS,
    bytes_of,
    canonical,
    form,
    from_binary,
    from_text,
    order_of,
    read,
    refused,
    refused_text,
    shown,
)

FLOATS = ("real", "double precision")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("0.0", "0"), ("-0", "-0"), ("1004.30", "1004.3"), ("     -34.84    ", "-34.84"), ("+.5", "0.5"), ("5.", "5"), ("1e5", "100000"),
        ("1E-5", "1e-05"), ("NaN", "NaN"), ("nan", "NaN"), ("   NAN  ", "NaN"), ("-nan", "NaN"), ("+nan", "NaN"), ("nan()", "NaN"), ("-NaN(a_1)", "NaN"), ("infinity", "Infinity"), ("inf", "Infinity"),
        ("+Infinity", "Infinity"), ("          -INFINiTY   ", "-Infinity"), ("-inf", "-Infinity"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", FLOATS)
def test_a_number_is_read_and_written_as_the_shortest_decimal(name, text, written):
    assert shown(name, text) == written


@pytest.mark.parametrize(
    "text",
    ["", "       ", "xyz", "5.0.0", "5 . 0", "5.   0", "     - 3.0", "123            5", "N A N", "NaN x", " INFINITY    x",
     "1_0", "1,5", ".", "+", "e5", "1e", "nan(", "nan(-)", "nan( )", "- nan", "nan(\u212a)"],
)  # fmt: skip
@pytest.mark.parametrize("name", FLOATS)
def test_a_text_that_is_not_a_number_is_refused(name, text):
    error = refused(name, text)
    assert (error.sqlstate, error.message) == ("22P02", f"invalid input syntax for type {name}")
    assert error.quoting == f'invalid input syntax for type {name}: "{text}"'


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("real", "10e70"), ("real", "-10e70"), ("real", "10e-70"), ("real", "-10e-70"), ("real", "10e400"), ("real", "10e-400"),
        ("real", "3.4028236e38"), ("real", "1e-46"),
        ("double precision", "10e400"), ("double precision", "-10e400"), ("double precision", "10e-400"), ("double precision", "-10e-400"),
    ],
)  # fmt: skip
def test_a_number_that_would_be_infinite_or_zero_is_out_of_range(name, text):
    error = refused(name, text)
    assert (error.sqlstate, error.message) == ("22003", f"value is out of range for type {name}")
    assert error.quoting == f'"{text}" is out of range for type {name}'


def test_an_overflow_is_found_before_the_text_after_the_number():
    error = refused("real", "1e39x")
    assert (error.sqlstate, error.quoting) == ("22003", '"1e39" is out of range for type real')


def test_a_zero_may_have_any_exponent():
    assert read("double precision", "0e-999") == 0
    assert read("real", "0.00e999") == 0


def test_the_limits_of_the_types_are_read():
    assert read("real", "3.4028235e38") == float(np.finfo(np.float32).max)
    assert read("double precision", "1.7976931348623157e308") == float(np.finfo(np.float64).max)
    assert read("double precision", "2.2250738585072014e-308") == float(np.finfo(np.float64).tiny)


def test_a_real_is_rounded_once():
    """The decimal is just above the middle of 1 and the next real. As a double it would be exactly
    the middle, and then become 1.
    """
    assert read("real", "1.00000005960464477540") == 1.00000011920928955078125


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("double precision", "0x1p-2", 0.25),
        ("double precision", "-0X1F.8", -31.5),
        ("double precision", "0x.8P+1", 1.0),
        ("double precision", "0x1.00000000000008p0", 1.0),
        ("double precision", "0x1.000000000000080001p0", 1.0000000000000002),
        ("double precision", "0x0p99999999", 0.0),
        ("real", "0x1.0000010000000001p0", 1.00000011920928955078125),
    ],
)
def test_a_hexadecimal_number_is_rounded_once(name, text, value):
    assert read(name, text) == value


@pytest.mark.parametrize(
    ("text", "sqlstate"), [("0x1p1024", "22003"), ("0x1p-99999999", "22003"), ("0x", "22P02"), ("0x1p", "22P02")]
)
def test_a_hexadecimal_number_that_is_wrong(text, sqlstate):
    assert refused("double precision", text).sqlstate == sqlstate


@pytest.mark.parametrize("name", FLOATS)
def test_nan_equals_itself_and_is_the_greatest(name):
    assert order_of(name, "NaN", "NaN") == 0
    assert order_of(name, "NaN", "Infinity") > 0 > order_of(name, "1", "NaN")
    assert order_of(name, "-Infinity", "-1e30") < 0
    assert order_of(name, "-0", "0") == 0


@given(st.floats())
def test_every_double_survives_each_form(value):
    text = form("double precision").to_text(value)
    for found in (
        read("double precision", text),
        *from_text("double precision", text.encode()),
        *from_binary("double precision", struct.pack(">d", value)),
    ):
        assert repr(found) == repr(value)


@given(st.floats(width=32))
def test_every_real_survives_each_form(value):
    text = form("real").to_text(value)
    for found in (
        read("real", text),
        *from_text("real", text.encode()),
        *from_binary("real", struct.pack(">f", value)),
    ):
        assert repr(found) == repr(value)


@pytest.mark.parametrize(
    "bad",
    [b"", b"x", b"nan", b"inf", b"1e999", b"-1e999", b"1e-999", b"0x1p3", b"1,5", b" 1", b"1e", b"NaNaN", b"infinity"],
)
@pytest.mark.parametrize("name", FLOATS)
def test_a_publishers_text_is_only_what_the_output_function_writes(name, bad):
    error = refused_text(name, b"1.5", None, bad)
    assert (error.sqlstate, error.message) == ("22P02", f"invalid input syntax for type {name}")


def test_a_nan_has_one_bit_pattern():
    """Equal keys have equal bytes: -NaN (what x86 computes) and NaN are the same value to
    PostgreSQL.
    """
    for name, wire, patterns in (
        ("real", ">u4", (0x7FC00000, 0xFFC00000, 0x7F800001)),
        ("double precision", ">u8", (0x7FF8 << 48, 0xFFF8 << 48)),
    ):
        family = family_of(OIDS[name])
        binary = family.decode_binary(bytes_of(*(np.array(pattern, wire).tobytes() for pattern in patterns)))
        text = family.decode_text(bytes_of(*[b"NaN"] * len(patterns)))
        assert binary.buffers()[1].to_pybytes()[: binary.nbytes] == text.buffers()[1].to_pybytes()[: text.nbytes]


def test_negative_zero_stays_negative():
    values = [*from_text("real", b"-0"), *from_binary("double precision", struct.pack(">d", -0.0))]
    assert [math.copysign(1, value) for value in values] == [-1, -1]


def test_an_array_has_one_text_for_both_zeros():
    """-0 and 0 are equal, also as the elements of arrays, which are text."""
    assert canonical("real[]", "{-0,1,NULL}") == canonical("real[]", "{0,1,NULL}")
    assert canonical("real[]", "{-0.5}") != canonical("real[]", "{0.5}")
