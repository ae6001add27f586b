"""bytea: the formats hex and escape (the documentation's chapter 8.4, regress/sql/strings.sql)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.postgres.types.byte_strings import to_escaped
from tests.type_samples import form, from_binary, from_text, order_of, read, refused, refused_text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r"\xDeAdBeEf", b"\xde\xad\xbe\xef"), (r"\x De Ad Be Ef ", b"\xde\xad\xbe\xef"), ("\\x\tDE\n\rAD", b"\xde\xad"), (r"\x", b""), ("", b""),
        ("DeAdBeEf", b"DeAdBeEf"), (r"De\\123dBeEf", b"De\\123dBeEf"), (r"De\123dBeEf", b"DeSdBeEf"), (r"De\000dBeEf", b"De\0dBeEf"),
        (r"\377\\", b"\xff\\"), ("é", b"\xc3\xa9"), (r"\\x41", rb"\x41"),
    ],
)  # fmt: skip
def test_both_formats_are_read(text, value):
    assert read("bytea", text) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (r"\xDeAdBeE", "invalid hexadecimal data: odd number of digits"),
        (r"\xDeAdBeEx", "invalid hexadecimal digit"),
        (r"\xD eA", "invalid hexadecimal digit"),
        (r"\xé0", "invalid hexadecimal digit"),
    ],
)
def test_wrong_hexadecimal_digits_are_refused(text, message):
    error = refused("bytea", text)
    assert (error.sqlstate, error.message) == ("22023", message)


@pytest.mark.parametrize("text", [r"De\12dBeEf", r"De\678dBeEf", "a\\", r"\400", r"\b"])
def test_a_wrong_escape_is_refused(text):
    error = refused("bytea", text)
    assert (error.sqlstate, error.message) == ("22P02", "invalid input syntax for type bytea")


@given(st.binary())
def test_every_value_survives_both_formats_and_the_binary_form(value):
    in_hex, escaped = form("bytea").to_text(value), to_escaped(value)
    assert read("bytea", in_hex) == read("bytea", escaped) == value
    assert from_text("bytea", in_hex.encode(), escaped.encode()) == [value, value]
    assert from_binary("bytea", value) == [value]


def test_the_escape_format_writes_bytes_that_are_not_ascii_in_octal():
    assert to_escaped(b"a\\\0\x7f\x80\xff") == "a\\\\\\000\x7f\\200\\377"


def test_values_are_ordered_byte_by_byte():
    assert order_of("bytea", r"\x", r"\x00") < 0 < order_of("bytea", r"\xff", r"\x7fff")


@pytest.mark.parametrize("bad", [rb"\x0", rb"\x0g", rb"\x\xc3", rb"\x 00", rb"\\\ ", rb"a\b", rb"\400", rb"\12"])
def test_a_publishers_text_is_only_what_the_output_function_writes(bad):
    error = refused_text("bytea", rb"\x00", None, bad)
    assert (error.sqlstate, error.message) == ("22P02", "invalid input syntax for type bytea")


def test_two_wrong_values_that_are_right_together_are_refused():
    assert refused_text("bytea", rb"\x0", rb"\x0").sqlstate == "22P02"


def test_both_formats_may_stand_in_one_column():
    """bytea_output may change between two transactions of a batch; a value in escape format never
    starts as hex does.
    """
    texts = (rb"\x4142", b"AB", None, b"", rb"\x", rb"\\x41", rb"\000\377\\", b"a\nb", rb"\x00")
    expected = [b"AB", b"AB", None, b"", b"", rb"\x41", b"\0\xff\\", b"a\nb", b"\0"]
    assert from_text("bytea", *texts) == expected
