"""Regular expressions as tokens: options, escapes, brackets and bounds (the manual's 9.7.3)."""

from __future__ import annotations

import pytest

from subscriber.base.errors import NotSupportedError, RowFilterError
from subscriber.postgres.expressions.regex.automaton import (
    CLASSES,
    EVERYTHING,
    Anchor,
    CharacterSet,
    complement,
    union,
)
from subscriber.postgres.expressions.regex.regex_scanner import Options, Scanner, Token


def tokens(pattern: str, **options: bool) -> list[Token]:
    scanner = Scanner(pattern, Options(**options))
    found = []
    while (token := scanner.token()).kind != "end":
        found.append(token)
    return found


def characters(text: str) -> CharacterSet:
    return union([tuple((ord(one), ord(one)) for one in text)])


def one(pattern: str, **options: bool) -> CharacterSet:
    """The characters of a pattern that is one token."""
    (token,) = tokens(pattern, **options)
    assert token.kind == "characters"
    return token.characters


def kinds(pattern: str, **options: bool) -> list[str]:
    return [token.kind for token in tokens(pattern, **options)]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("a", characters("a")),
        (".", EVERYTHING),
        # Escapes.
        (r"\.", characters(".")),
        (r"\n", characters("\n")),
        (r"\e", characters("\x1b")),
        (r"\B", characters("\\")),
        (r"\x41", characters("A")),
        (r"\u00e9", characters("é")),
        (r"\U0001F600", characters("😀")),
        (r"\101", characters("A")),
        (r"\0", characters("\0")),
        (r"\cA", characters("\x01")),
        (r"\d", CLASSES["digit"]),
        (r"\D", complement(CLASSES["digit"])),
        (r"\w", CLASSES["word"]),
        (r"\S", complement(CLASSES["space"])),
        # Bracket expressions.
        ("[abc]", characters("abc")),
        ("[^a]", complement(characters("a"))),
        ("[a-c]", characters("abc")),
        ("[]a]", characters("]a")),
        ("[^]a]", complement(characters("]a"))),
        ("[a-]", characters("a-")),
        ("[-a]", characters("-a")),
        ("[[:digit:]x]", union([CLASSES["digit"], characters("x")])),
        ("[[.hyphen.]]", characters("-")),
        ("[[=a=]]", characters("a")),
        ("[[.a.]-c]", characters("abc")),
        (r"[\d_]", union([CLASSES["digit"], characters("_")])),
        (r"[\]]", characters("]")),
        ("[[]", characters("[")),
        ("{", characters("{")),
    ],
)
def test_a_token_of_characters(pattern, expected):
    assert one(pattern) == expected


@pytest.mark.parametrize(
    ("pattern", "least", "most", "prefers"),
    [
        ("*", 0, None, True),
        ("+", 1, None, True),
        ("?", 0, 1, True),
        ("*?", 0, None, False),
        ("+?", 1, None, False),
        ("??", 0, 1, False),
        ("{3}", 3, 3, None),
        ("{3,}", 3, None, True),
        ("{3,5}", 3, 5, True),
        ("{3,5}?", 3, 5, False),
        ("{0}", 0, 0, None),
        ("{255}", 255, 255, None),
    ],
)
def test_a_quantifier_has_bounds_and_a_preference(pattern, least, most, prefers):
    assert tokens(pattern) == [Token("quantifier", least=least, most=most, prefers=prefers)]


@pytest.mark.parametrize(
    ("pattern", "kind"),
    [
        ("^", "begin"),
        ("$", "end"),
        (r"\A", "begin"),
        (r"\Z", "end"),
        (r"\m", "word begin"),
        (r"\M", "word end"),
        (r"\y", "boundary"),
        (r"\Y", "no boundary"),
        ("[[:<:]]", "word begin"),
        ("[[:>:]]", "word end"),
    ],
)
def test_an_anchor(pattern, kind):
    assert tokens(pattern) == [Token("anchor", anchor=Anchor(kind))]


def test_parentheses_capture_look_around_or_neither():
    assert tokens("()") == [Token("(", captures=True), Token(")")]
    assert tokens("(?:") == [Token("(")]
    assert tokens("(?=") == [Token("look", ahead=True)]
    assert tokens("(?!") == [Token("look", ahead=True, negative=True)]
    assert tokens("(?<=") == [Token("look")]
    assert tokens("(?<!") == [Token("look", negative=True)]


def test_digits_are_a_back_reference_if_there_are_as_many_captures():
    assert tokens(r"\1") == [Token("reference", number=1)]
    scanner = Scanner(r"\12\12", Options())
    assert scanner.token().characters == characters("\n")
    scanner.captures = 12
    assert scanner.token() == Token("reference", number=12)


def test_options_change_what_a_dot_and_the_ends_of_lines_mean():
    assert one(".", newline_stops=True) == complement(characters("\n"))
    assert one("[^a]", newline_stops=True) == complement(characters("a\n"))
    assert tokens("^$", newline_anchors=True) == [
        Token("anchor", anchor=Anchor("line begin")),
        Token("anchor", anchor=Anchor("line end")),
    ]
    assert one("[[:upper:]]", ignore_case=True) == CLASSES["alpha"]
    assert one("a", ignore_case=True) == characters("aA")


def test_expanded_syntax_ignores_white_space_and_comments():
    assert kinds("a b # comment\n*", expanded=True) == ["characters", "characters", "quantifier"]
    assert kinds("a {1 , 2 }", expanded=True) == ["characters", "quantifier"]
    assert kinds("a(?#comment)b") == ["characters", "characters"]


def test_a_quoted_pattern_has_no_special_characters():
    assert [token.characters for token in tokens("(.", quoted=True)] == [characters("("), characters(".")]
    assert [token.characters for token in tokens("***=(.")] == [characters("("), characters(".")]
    assert kinds("***:(") == ["("]


@pytest.mark.parametrize(
    ("letters", "options"),
    [
        ("i", Options(ignore_case=True)),
        ("ic", Options()),
        ("n", Options(newline_stops=True, newline_anchors=True)),
        ("m", Options(newline_stops=True, newline_anchors=True)),
        ("p", Options(newline_stops=True)),
        ("w", Options(newline_anchors=True)),
        ("ns", Options()),
        ("x", Options(expanded=True)),
        ("xt", Options()),
        ("q", Options(quoted=True)),
    ],
)
def test_the_letters_in_front_are_options(letters, options):
    assert Scanner(f"(?{letters})a", Options()).options == options
    changed: Options | None = Options()
    for letter in letters:
        assert changed is not None
        changed = changed.changed_by(letter)
    assert changed == options


def test_a_letter_that_is_no_option_changes_nothing():
    assert Options().changed_by("g") is None
    for letter in "be":
        with pytest.raises(NotSupportedError, match="POSIX"):
            Options().changed_by(letter)


@pytest.mark.parametrize(
    ("pattern", "knows"),
    [("abc", False), ("[a-z]", False), (r"\d", True), ("[[:alpha:]]", True), ("[[:xdigit:]]", False), (r"\m", True)],
)
def test_classes_and_words_depend_on_the_collation(pattern, knows):
    scanner = Scanner(pattern, Options())
    while scanner.token().kind != "end":
        pass
    assert scanner.knows_letters is knows


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("[a", "brackets [] not balanced"),
        ("[", "brackets [] not balanced"),
        ("[[:digit:]", "brackets [] not balanced"),
        ("[b-a]", "invalid character range"),
        ("[a-b-c]", "invalid character range"),
        ("[a-[:digit:]]", "invalid character range"),
        (r"[a-\d]", "invalid character range"),
        ("[[:letter:]]", "invalid character class"),
        ("[[::]]", "invalid character class"),
        ("[[.nothing.]]", "invalid collating element"),
        ("[[==]]", "invalid collating element"),
        ("a{256}", "invalid repetition count(s)"),
        ("a{2,1}", "invalid repetition count(s)"),
        ("a{2x", "invalid repetition count(s)"),
        ("a{2", "braces {} not balanced"),
        ("\\", "invalid escape \\ sequence"),
        (r"\q", "invalid escape \\ sequence"),
        (r"\u12", "invalid escape \\ sequence"),
        (r"\U7FFFFFFF", "invalid escape \\ sequence"),
        (r"[\m]", "invalid escape \\ sequence"),
        ("(?<a", "quantifier operand invalid"),
        ("(?z)", "invalid embedded option"),
        ("(?i", "invalid embedded option"),
        ("***?a", "invalid regexp (reg version 0.8)"),
        ("***a", "quantifier operand invalid"),
    ],
)
def test_what_is_no_token_has_the_reason_of_the_server(pattern, reason):
    with pytest.raises(RowFilterError) as caught:
        tokens(pattern)
    assert (caught.value.sqlstate, caught.value.message) == ("2201B", f"invalid regular expression: {reason}")
