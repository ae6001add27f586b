r"""The escapes of string constants: chapters 4.1.2.2 and 4.1.2.3 of the documentation, scan.l and
parser.c.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.postgres.sql.string_constants import Fault, is_escape_character, with_escapes, with_unicode_escapes
from tests.strategies import texts

PAIR = "invalid Unicode surrogate pair"


def escaped(text: str) -> str | Fault:
    """The meaning of ``E'text'``."""
    sql = f"E'{text}'"
    return with_escapes(sql, [(2, 2 + len(text))])


# --- E'…' ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", ""), ("plain", "plain"), ("it''s", "it's"), (r"\b\f\n\r\t", "\b\f\n\r\t"), (r"\\\'\q", "\\'q"), (r"\1\12\101\1018", "\1\nAA8"), (r"\x41\x4a4\xA", "AJ4\n"),
        (r"\xg", "xg"), (r"\303\251", "é"), (r"\xc3\xa9", "é"), (r"\u00e9", "é"), (r"\U0001F600", "😀"), (r"\ud83d\ude00", "😀"), (r"\ud83d\U0000de00", "😀"), ("\\\n", "\n"), ("é\\n😀", "é\n😀"),
    ],
)  # fmt: skip
def test_an_escape_is_replaced_by_its_meaning(text, value):
    assert escaped(text) == value


@pytest.mark.parametrize(
    ("text", "message", "position", "sqlstate"),
    [
        (r"a\u12", "invalid Unicode escape", 3, "22025"),
        (r"\U0001F60", "invalid Unicode escape", 2, "22025"),
        (r"\U00110000", r'invalid Unicode escape value at or near "\U00110000"', 2, "42601"),
        (r"\u0000", r'invalid Unicode escape value at or near "\u0000"', 2, "42601"),
        (r"\ud83d", f'{PAIR} at or near "\'"', 8, "42601"),
        (r"\ud83dx", f'{PAIR} at or near "x"', 8, "42601"),
        (r"\ud83d\n", f'{PAIR} at or near "\\"', 8, "42601"),
        (r"\ud83d\u0041", f'{PAIR} at or near "\\u0041"', 8, "42601"),
        (r"\ude00", f'{PAIR} at or near "\\ude00"', 2, "42601"),
        (r"\xff", 'invalid byte sequence for encoding "UTF8": 0xff', 2, "22021"),
        (r"a\0", 'invalid byte sequence for encoding "UTF8": 0x00', 2, "22021"),
    ],
)
def test_an_escape_without_a_meaning_is_a_fault(text, message, position, sqlstate):
    assert escaped(text) == Fault(message, position, sqlstate)


def test_a_constant_on_several_lines_is_one_text():
    sql = "E'\\xc3'\n'\\xa9'"
    assert with_escapes(sql, [(2, 6), (9, 13)]) == "é"


@given(texts)
def test_a_text_without_backslashes_and_quotes_is_its_own_meaning(text):
    plain = text.replace("\\", "").replace("'", "")
    assert escaped(plain) == plain


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5))
def test_every_character_can_be_written_with_its_number(text):
    assert escaped("".join(f"\\U{ord(character):08x}" for character in text)) == text
    assert escaped("".join(f"\\x{byte:02x}" for byte in text.encode())) == text
    assert with_unicode_escapes("".join(f"\\+{ord(character):06X}" for character in text), 0) == text


# --- U&'…' --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "escape", "value"),
    [
        ("", "\\", ""), ("plain", "\\", "plain"), (r"d\0061t\+000061", "\\", "data"), (r"\\", "\\", "\\"), (r"\D83D\DE00", "\\", "😀"), (r"\+00D83D\DE00", "\\", "😀"), (r"\+01F600", "\\", "😀"),
        ("d!0061t!+000061!!", "!", "data!"), (r"\n", "!", r"\n"), (r"\00e9\00E9", "\\", "éé"), (r"\00611", "\\", "a1"),
    ],
)  # fmt: skip
def test_a_number_stands_for_its_character(text, escape, value):
    assert with_unicode_escapes(text, 0, escape) == value


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        (r"a\00", "invalid Unicode escape", 1),
        (r"\x", "invalid Unicode escape", 0),
        (r"\+00004", "invalid Unicode escape", 0),
        ("a\\", "invalid Unicode escape", 1),
        (r"\0000", "invalid Unicode escape value", 0),
        (r"\+110000", "invalid Unicode escape value", 0),
        (r"\D83D", PAIR, 5),
        (r"\D83Dx", PAIR, 5),
        (r"\D83D\\", PAIR, 5),
        (r"\D83D\0041", PAIR, 5),
        (r"\DE00", PAIR, 0),
    ],
)
def test_a_wrong_number_is_a_fault(text, message, place):
    """The position is counted from the beginning of the constant, which is ``U&'``."""
    assert with_unicode_escapes(text, 10) == Fault(message, 10 + 3 + place)


def test_an_escape_character_is_one_byte_that_is_no_digit_sign_quote_or_space():
    assert all(map(is_escape_character, "\\!/gG_.-#$"))
    assert not any(map(is_escape_character, ["", "ab", "é", "+", "'", '"', " ", "\t", "\n", "0", "9", "a", "F"]))
