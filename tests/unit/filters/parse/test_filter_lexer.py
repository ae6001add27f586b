"""Lexemes of expressions (scan.l)."""

from __future__ import annotations

import pytest

from subscriber.errors import SQLSyntaxError
from subscriber.filters.parse.filter_lexer import Kind, lex_expression


def lexed(text: str, major: int = 18) -> list[str]:
    *found, end = lex_expression(text, major)
    assert end.kind is Kind.END
    return [lexeme.value for lexeme in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a<-1", ["a", "<", "-", "1"]),
        ("a@-1", ["a", "@-", "1"]),
        ("a*-+1", ["a", "*", "-", "+", "1"]),
        ("a!=b", ["a", "<>", "b"]),
        ("a+--c\n1", ["a", "+", "1"]),
        ("a+/*c /* d */*/1", ["a", "+", "1"]),
        ("a->>'x'", ["a", "->>", "x"]),
        ("a::int", ["a", "::", "int"]),
        ("1..2", ["1", "..", "2"]),
    ],
)
def test_an_operator_is_as_long_as_postgresql_makes_it(text, expected):
    assert lexed(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("E'a\\tb\\u00e9'", "a\tbé"),
        ("U&'d\\0061\\+01F600'", "da😀"),
        ("U&'\\D83D\\DE00'", "😀"),
        ("U&'!0041\\' UESCAPE '!'", "A\\"),
        ("'a' -- c\n  'b'", "ab"),
        ("E'a\\n'\n'\\t'", "a\n\t"),
        ("$q$it's $1 $$q$", "it's $1 $"),
        ("'it''s'", "it's"),
    ],
)
def test_a_string_is_what_its_form_means(text, expected):
    (lexeme, _) = lex_expression(text, 18)
    assert (lexeme.kind, lexeme.value) == (Kind.STRING, expected)


def test_a_number_of_another_base_is_made_decimal():
    assert lexed("0x1F 0o17 0b101 1_000 1_0.5e1_0") == ["31", "15", "5", "1000", "10.5e10"]


@pytest.mark.parametrize("text", ["0x1F", "1_000", "1_0.5"])
def test_before_16_numbers_are_decimal_and_plain(text):
    with pytest.raises(SQLSyntaxError, match="trailing junk after numeric literal"):
        lexed(text, 15)


def test_identifiers_are_folded_unless_quoted_and_cut_to_63_bytes():
    assert lexed('Größe "A""b" U&"\\0041"') == ["größe", 'A"b', "A"]
    assert lexed("é" * 40) == ["é" * 31]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("'x", "unterminated quoted string"),
        ("'x'\n'y", "unterminated quoted string"),
        ('"x', "unterminated quoted identifier"),
        ('""', "zero-length delimited identifier"),
        ("$x$ $y$", "unterminated dollar-quoted string"),
        ("/* /* */", r"unterminated /\* comment"),
        ("1x", 'trailing junk after numeric literal at or near "1x"'),
        ("0x", 'invalid hexadecimal integer at or near "0x"'),
        ("U&'\\D83D'", "invalid Unicode surrogate pair"),
        ("U&'\\00'", "invalid Unicode escape"),
        ("U&'\\0000'", "invalid Unicode escape value"),
        ("U&'x' UESCAPE 'a'", "invalid Unicode escape character"),
        ("U&'x' UESCAPE 1", "UESCAPE must be followed by a simple string literal"),
        ("E'\\uD'", "invalid Unicode escape"),
        ("a $ b", 'syntax error at or near "\\$"'),
        ("a \\ b", "syntax error at or near"),
    ],
)
def test_what_is_no_lexeme_is_refused_as_postgresql_does(text, message):
    with pytest.raises(SQLSyntaxError, match=message):
        lexed(text)


def test_an_error_shows_no_string():
    with pytest.raises(SQLSyntaxError) as caught:
        lexed("'secret' = 'hidden")
    assert "hidden" not in caught.value.report()
