"""Types whose value is their text: regress/sql/char.sql, varchar.sql, name.sql and text.sql."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.base.errors import DataException, NotSupportedError
from subscriber.postgres.types.oids import type_name
from subscriber.postgres.types.registry import equality_of
from subscriber.postgres.types.text import byte_of_char, char_of_byte, charin, length_coerced, text_only
from tests.strategies import texts
from tests.type_samples import bytes_of, canonical, from_binary, from_text, order_of, refused, shown


def modifier(length: int) -> int:
    """The type modifier of a length: atttypmod contains the size of the header."""
    return length + 4


@given(texts)
def test_a_text_is_its_own_value(text):
    assert shown("text", text) == text
    assert from_text("text", text.encode()) == from_binary("text", text.encode()) == [text]


# --- lengths ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "length", "value"),
    [("a", 4, "a"), ("abcd", 4, "abcd"), ("abcd    ", 4, "abcd"), ("a ", 4, "a "), ("", 1, ""), ("éé", 2, "éé")],
)
def test_a_varchar_drops_only_blanks_that_are_too_many(text, length, value):
    assert shown("character varying", text, modifier(length)) == value


@pytest.mark.parametrize(
    ("text", "length", "value"), [("a", 4, "a   "), ("abcd    ", 4, "abcd"), ("", 2, "  "), ("é", 2, "é ")]
)
def test_a_character_is_filled_with_blanks(text, length, value):
    assert shown("character", text, modifier(length)) == value


@pytest.mark.parametrize(("name", "length"), [("character varying", 4), ("character", 4)])
def test_a_longer_text_is_refused(name, length):
    error = refused(name, "abcde", modifier(length))
    assert (error.sqlstate, error.message) == ("22001", f"value too long for type {name}({length})")


def test_without_a_modifier_every_length_is_a_value():
    assert shown("character varying", "abc  ") == shown("character", "abc  ") == "abc  "


def test_an_explicit_cast_cuts_a_text():
    assert length_coerced("abcde", modifier(2), "character", explicit=True) == "ab"
    with pytest.raises(DataException):
        length_coerced("abcde", modifier(2), "character", explicit=False)


def test_a_name_is_cut_to_63_bytes_and_not_within_a_character():
    assert shown("name", "1234567890" * 7) == ("1234567890" * 7)[:63]
    assert shown("name", "a" + "é" * 40) == "a" + "é" * 31
    assert shown("name", "é" * 40) == "é" * 31


# --- equality -----------------------------------------------------------------------------------


def test_characters_are_equal_without_the_blanks_at_their_ends():
    assert order_of("character", "a", "a  ") == 0
    assert canonical("character", "a  ") == canonical("character", "a") == "a"
    assert order_of("character", " a", "a") < 0
    assert order_of("text", "a", "a ") < 0
    assert canonical("text", "a ") == "a "


@given(st.text("ab ", max_size=4), st.integers(0, 3))
def test_the_spellings_of_a_character_contain_it_with_any_number_of_blanks(text, blanks):
    equality = equality_of(1042)
    assert equality.spellings is not None
    first, last = equality.spellings(canonical("character", text))
    assert first <= text.rstrip(" ") + " " * blanks < last


def test_texts_are_ordered_by_their_characters():
    """As in a database with the collation C."""
    assert order_of("text", "B", "a") < 0 < order_of("text", "é", "z")


# --- "char" -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a", "a"),
        ("", ""),
        ("abc", "a"),
        (r"\101", "A"),
        (r"\377", r"\377"),
        (r"\000", ""),
        (r"\12", "\\"),
        (r"\1018", "\\"),
        ("é", r"\303"),
    ],
)
def test_a_char_is_the_first_byte_or_an_octal_number(text, value):
    assert charin(text) == shown('"char"', text) == value


def test_every_byte_is_a_char():
    """charout writes zero as nothing and bytes above 127 in octal."""
    decoded = from_binary('"char"', *(bytes([byte]) for byte in range(256)))
    assert (decoded[0], decoded[65], decoded[127], decoded[128], decoded[255]) == ("", "A", "\x7f", r"\200", r"\377")
    assert decoded == [char_of_byte(byte) for byte in range(256)]
    assert [byte_of_char(text) for text in decoded] == list(range(256))
    assert [charin(text) for text in decoded] == decoded


# --- types without a family ---------------------------------------------------------------------


def test_a_type_without_a_family_has_its_text_and_no_binary_form():
    family = text_only(16_400)
    assert (family.name, family.reads_binary, family.form) == ("type with OID 16400", False, None)
    assert family.decode_text(bytes_of(b"a", None)).to_pylist() == ["a", None]
    with pytest.raises(NotSupportedError, match="type with OID 16400 in binary format"):
        family.decode_binary(bytes_of(b"a"))


def test_only_types_of_indexes_and_xml_have_no_equality():
    assert all(equality_of(oid).exists for oid in (25, 1042, 1043, 19, 790, 16_400))
    without = (142, 1790, 3642, 3644, 4600, 4601)
    assert not any(equality_of(oid).exists for oid in without), [type_name(oid) for oid in without]
