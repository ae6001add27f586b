"""smallint, integer, bigint and the unsigned types: regress/sql/int2.sql, int4.sql, int8.sql and
oid.sql.
"""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.type_samples import form, from_binary, from_text, order_of, read, refused, refused_binary, refused_text

LIMITS = {
    "smallint": (-32_768, 32_767),
    "integer": (-2_147_483_648, 2_147_483_647),
    "bigint": (-9_223_372_036_854_775_808, 9_223_372_036_854_775_807),
}
LAYOUTS = {"smallint": ">h", "integer": ">i", "bigint": ">q"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0), ("+7", 7), ("-7", -7), (" \t\n\v\f\r7 \t\n\v\f\r", 7), ("007", 7), ("-0", 0),
        ("0b100101", 37), ("0B11", 3), ("-0b1", -1), ("0o273", 187), ("0O17", 15), ("0x42F", 1071), ("0XfF", 255), ("-0x8", -8),
        ("1_000", 1000), ("1_2_3", 123), ("0x1_F", 31), ("0x_1F", 31), ("0o2_73", 187), ("0b_10_0101", 37),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", LIMITS)
def test_an_integer_is_read_in_any_base_with_underscores(name, text, value):
    assert read(name, text) == value


@pytest.mark.parametrize("name", LIMITS)
def test_the_least_and_the_greatest_integer_are_read_in_any_base(name):
    for limit in LIMITS[name]:
        for text in (f"{limit}", f"{limit:#x}", f"{limit:#o}", f"{limit:#b}"):
            assert read(name, text) == limit


@pytest.mark.parametrize("name", LIMITS)
def test_an_integer_beyond_the_limits_is_out_of_range(name):
    least, greatest = LIMITS[name]
    for number in (least - 1, greatest + 1, 10**30):
        for text in (f"{number}", f"{number:#x}", f"{number:#o}", f"{number:#b}"):
            error = refused(name, text)
            assert (error.sqlstate, error.message) == ("22003", f"value is out of range for type {name}")
            assert error.quoting == f'value "{text}" is out of range for type {name}'


@pytest.mark.parametrize(
    "text",
    ["", "    ", "asdf", "34.5", "1e3", "- 1", "123       5", "12x", "_100", "100_", "100__000", "0b", "0o", "0x",
     "0b1_", "0x__1", "0b2", "0o8", "--1", "\u0661", "1\u00a0", "NULL"],
)  # fmt: skip
@pytest.mark.parametrize("name", LIMITS)
def test_a_text_that_is_not_an_integer_is_refused(name, text):
    error = refused(name, text)
    assert (error.sqlstate, error.message) == ("22P02", f"invalid input syntax for type {name}")
    assert error.quoting == f'invalid input syntax for type {name}: "{text}"'


def test_an_overflow_is_found_before_the_text_after_the_number():
    """pg_strtoint16 adds one digit after another."""
    assert refused("smallint", "99999x").sqlstate == "22003"
    assert refused("smallint", "9x").sqlstate == "22P02"


@pytest.mark.parametrize("name", LIMITS)
@given(data=st.data())
def test_every_integer_survives_each_form(name, data):
    value = data.draw(st.integers(*LIMITS[name]))
    text = form(name).to_text(value)
    assert read(name, text) == value
    assert from_text(name, text.encode()) == from_binary(name, struct.pack(LAYOUTS[name], value)) == [value]


@pytest.mark.parametrize(
    "bad", [b"", b"-", b"x", b"1.0", b" 1", b"1 ", b"0x10", b"1_0", b"1-1", b"--1", b"1\0", "\u0661".encode(), b"NaN"]
)
@pytest.mark.parametrize("name", [*LIMITS, "oid", "xid", "cid"])
def test_a_publishers_text_is_only_sign_and_digits(name, bad):
    error = refused_text(name, b"1", None, bad)
    assert (error.sqlstate, error.message) == ("22P02", f"invalid input syntax for type {name}")
    assert error.__cause__ is None


@pytest.mark.parametrize("name", LIMITS)
def test_a_publishers_text_beyond_the_limits_is_refused(name):
    least, greatest = LIMITS[name]
    for number in (least - 1, greatest + 1):
        assert refused_text(name, str(number).encode()).sqlstate == "22P02"


def test_integers_are_ordered_as_numbers():
    assert order_of("bigint", "-2", "-1") < 0 < order_of("bigint", "10", "9")
    assert order_of("integer", "0x10", "16") == 0


# --- unsigned types -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0), ("4294967295", 4_294_967_295), ("-1040", 4_294_966_256), ("-2147483648", 2_147_483_648), ("  10  ", 10),
        ("\t 15 \t", 15), ("010", 8), ("0x1F", 31), ("-0", 0), ("+5", 5),
    ],
)  # fmt: skip
def test_an_oid_is_read_as_c_reads_it(text, value):
    """oidin calls strtoul, which knows octal numbers and wraps negative ones."""
    assert read("oid", text) == value


@pytest.mark.parametrize(
    "text", ["", "    ", "asdfasd", "99asdfasd", "5 d", "    5d", "5    5", " - 500", "08", "0x", "1_0"]
)
def test_a_text_that_is_not_an_oid_is_refused(text):
    assert refused("oid", text).sqlstate == "22P02"


@pytest.mark.parametrize("text", ["4294967296", "32958209582039852935", "-23582358720398502385", "-2147483649"])
def test_an_oid_beyond_32_bits_is_out_of_range(text):
    error = refused("oid", text)
    assert (error.sqlstate, error.message) == ("22003", "value is out of range for type oid")


@pytest.mark.parametrize("name", ["oid", "xid", "cid"])
def test_unsigned_types_hold_32_bits(name):
    assert from_binary(name, b"\0\0\0\0", b"\xff\xff\xff\xff") == [0, 2**32 - 1]
    assert from_text(name, b"0", b"4294967295") == [0, 2**32 - 1]
    for bad in (b"-1", b"4294967296"):
        assert refused_text(name, bad).sqlstate == "22P02"
    assert refused_binary(name, b"\0" * 8).sqlstate == "22P03"
