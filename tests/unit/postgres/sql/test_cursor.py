"""Reading lexemes in order: names, numbers and option lists of commands, as in gram.y."""

from __future__ import annotations

import logging

import pytest

from subscriber.base.errors import SQLSyntaxError
from subscriber.postgres.sql.cursor import (
    Cursor,
    read_label,
    read_name,
    read_names,
    read_options,
    read_role,
    read_with,
    second_command,
    truncated,
)
from subscriber.postgres.sql.keywords import COLUMN_NAMES, RESERVED, TYPE_OR_FUNCTION_NAMES
from subscriber.postgres.sql.lexer import Kind, scan


def refused(read, text: str) -> SQLSyntaxError:
    """The error of a function that reads from a cursor."""
    with pytest.raises(SQLSyntaxError) as caught:
        read(Cursor(text))
    return caught.value


# --- lexemes ------------------------------------------------------------------------------------


def test_lexemes_are_read_in_order():
    cursor = Cursor("ALTER x SET")
    assert cursor.accept("alter")
    assert not cursor.accept("set")
    assert (cursor.peek().value, cursor.peek(1).value, cursor.peek(2).kind) == ("x", "set", Kind.END)
    assert cursor.position == 6
    assert cursor.take(Kind.WORD).value == "x"
    assert cursor.accept_any("reset", "set") == "set"
    assert cursor.accept_any("reset", "set") is None
    assert cursor.at_end()
    assert cursor.position == 11


def test_a_text_with_its_lexemes_is_read_as_the_text():
    cursor = Cursor(scan("a b"))
    cursor.expect("a", "b")
    cursor.end()


def test_several_words_come_next_or_none_is_read():
    cursor = Cursor("a b c")
    assert cursor.at("a", "b")
    assert cursor.at_any("x", "a")
    assert not cursor.accept("a", "c")
    assert cursor.accept("a", "b")
    assert cursor.text_from(0) == "a b"


def test_a_quoted_identifier_and_a_string_are_no_words():
    assert not Cursor('"set"').at("set")
    assert not Cursor("'set'").at("set")
    assert Cursor("SET").at("set")


def test_the_place_may_be_set_back():
    cursor = Cursor("a b")
    cursor.expect("a", "b")
    cursor.place = 0
    cursor.expect("a")
    assert cursor.text_from(0) == "a"
    assert cursor.text_from(1) == ""


@pytest.mark.parametrize(
    ("text", "message", "character"),
    [
        ("a c", 'syntax error at or near "c"', 3),
        ("a", "syntax error at end of input", 2),
        ("a ;", 'syntax error at or near ";"', 3),
        ('a "B"', 'syntax error at or near ""B""', 3),
    ],
)
def test_a_word_that_must_come_next_is_missing(text, message, character):
    error = refused(lambda cursor: cursor.expect("a", "b"), text)
    assert (error.sqlstate, error.message) == ("42601", message)
    assert f"At character {character} (" in (error.detail or "")


def test_an_error_does_not_show_a_string():
    """Invariant names_are_data: it may be a connection string."""
    error = refused(lambda cursor: cursor.expect("a"), "'hunter2'")
    assert "hunter2" not in error.report()


def test_at_the_end_of_a_text_in_parentheses_the_parenthesis_comes_next():
    cursor = Cursor("a", in_parentheses=True)
    cursor.expect("a")
    assert cursor.error().message == 'syntax error at or near ")"'


def test_a_lexeme_that_the_scanner_refuses_is_an_error_when_it_is_read():
    cursor = Cursor("a 1x")
    assert cursor.peek(1).fault is not None
    cursor.expect("a")
    with pytest.raises(SQLSyntaxError, match="trailing junk after numeric literal"):
        cursor.peek()


def test_a_lexeme_of_another_kind_is_refused():
    assert refused(lambda cursor: cursor.take(Kind.STRING, Kind.INTEGER), "a").sqlstate == "42601"


@pytest.mark.parametrize(("text", "rest"), [(") a", "a"), ("x (y, (z)) w) a", "a"), ("'(') a", "a"), ('"(") a', "a")])
def test_parentheses_are_skipped_with_those_inside_of_them(text, rest):
    cursor = Cursor(text)
    cursor.skip_parentheses()
    assert cursor.peek().value == rest


@pytest.mark.parametrize("text", ["a", "(a)", "a ; )"])
def test_a_parenthesis_that_is_not_closed_is_refused(text):
    assert refused(Cursor.skip_parentheses, text).sqlstate == "42601"


@pytest.mark.parametrize("text", ["", ";", " ; ;; -- c"])
def test_a_command_ends_with_semicolons(text):
    Cursor(text).end()


def test_a_second_command_is_refused():
    error = refused(Cursor.end, "; a")
    assert error.message == second_command().message == "cannot insert multiple commands into a prepared statement"
    assert refused(Cursor.end, "a").message == 'syntax error at or near "a"'


# --- names and numbers --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name"),
    [("Foo", "foo"), ('"Foo"', "Foo"), ('"a""b"', 'a"b'), ("ÄB", "Äb"), ('U&"\\0041"', "A"), ("bigint", "bigint")],
)
def test_a_name_is_folded_unless_it_is_quoted(text, name):
    assert read_name(Cursor(text)) == name


@pytest.mark.parametrize("word", ["select", "left", "all", "'a'", "1", ".", ""])
def test_a_reserved_word_and_a_type_or_function_name_are_no_name(word):
    assert refused(read_name, word).sqlstate == "42601"


def test_every_word_is_a_label():
    for word in RESERVED | TYPE_OR_FUNCTION_NAMES | COLUMN_NAMES:
        assert read_label(Cursor(word)) == word
    assert refused(read_label, "'a'").sqlstate == "42601"


def test_names_are_separated_by_commas():
    cursor = Cursor('a, "B" , c d')
    assert read_names(cursor) == ("a", "B", "c")
    assert cursor.at("d")
    assert refused(read_names, "a,").message == "syntax error at end of input"


def test_a_name_with_dots_has_labels_after_the_first():
    cursor = Cursor('public."T".select x')
    assert cursor.names(RESERVED) == ("public", "T", "select")
    assert cursor.at("x")
    assert refused(lambda cursor: cursor.names(RESERVED), "select.a").sqlstate == "42601"
    assert refused(lambda cursor: cursor.names(RESERVED), "a.").sqlstate == "42601"


@pytest.mark.parametrize("word", ["CURRENT_ROLE", "current_user", "session_user"])
def test_a_role_may_be_the_current_one(word):
    assert read_role(Cursor(word)) is None


def test_a_role_is_any_word_that_is_not_reserved():
    assert [read_role(Cursor(text)) for text in ("alice", '"current_user"', "left", '"All"')] == [
        "alice",
        "current_user",
        "left",
        "All",
    ]
    assert refused(read_role, "select").sqlstate == "42601"


@pytest.mark.parametrize("text", ["none", "NONE", '"none"'])
def test_the_role_none_is_reserved(text):
    error = refused(read_role, text)
    assert (error.sqlstate, error.message) == ("42939", 'role name "none" is reserved')


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("0012", 12), ("2147483647", 2**31 - 1), ("0x1F", 31)])
def test_an_integer_has_four_bytes(text, number):
    assert Cursor(text).integer() == number


@pytest.mark.parametrize("text", ["2147483648", "1.0", "-1", "a", ""])
def test_a_larger_number_is_no_integer(text):
    assert refused(Cursor.integer, text).sqlstate == "42601"


def test_a_name_is_truncated_to_63_bytes_and_not_within_a_character(caplog):
    long = "n" * 62 + "éx"
    assert truncated(long) == "n" * 62
    assert truncated("é" * 40) == "é" * 31
    with caplog.at_level(logging.WARNING):
        assert read_name(Cursor(long)) == "n" * 62
        assert read_name(Cursor("short")) == "short"
    assert [record.getMessage() for record in caplog.records] == [
        f'identifier "{long}" will be truncated to "{"n" * 62}"'
    ]


# --- options ------------------------------------------------------------------------------------


def options(text: str) -> dict[str, object]:
    return {option.name: option.value for option in read_options(Cursor(text)).given}


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("a", None), ("a = on", "on"), ("a = TRUE", "true"), ('a = "On"', "On"), ("a = 'On'", "On"), ("a = 5", 5), ("a = -5", -5), ("a = +5", 5), ("a = 2147483647", 2**31 - 1),
        ("a = 2147483648", "2147483648"), ("a = -2147483648", "-2147483648"), ("a = 1.50", "1.50"), ("a = -.5e3", "-.5e3"), ("a = none", "none"), ("a = select", "select"), ("a = left", "left"),
    ],
)  # fmt: skip
def test_the_value_of_an_option_is_a_word_a_string_or_a_number(written, value):
    assert options(f"({written})") == {"a": value}


def test_options_are_listed_with_their_positions():
    found = read_options(Cursor("(slot_name = NONE, Binary, \"X\" = 'y')"))
    assert [(option.name, option.value, option.position) for option in found.given] == [
        ("slot_name", "none", 1),
        ("binary", None, 19),
        ("X", "y", 27),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "()",
        "(a",
        "(a,)",
        "(a =)",
        "(a = bigint)",
        "(a = - x)",
        "(a = x.y)",
        "(a = x[])",
        "(a = @)",
        "a = 1",
        "(1 = a)",
        "('a' = 1)",
        "(a b)",
    ],
)
def test_a_list_that_does_not_parse_is_refused(text):
    assert refused(read_options, text).sqlstate == "42601"


def test_a_list_follows_the_word_with_or_there_is_none():
    assert read_with(Cursor("; x")).given == ()
    assert [option.name for option in read_with(Cursor("WITH (a, b)")).given] == ["a", "b"]
    assert refused(read_with, "WITH a").sqlstate == "42601"
