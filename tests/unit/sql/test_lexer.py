"""subscription.lexer: what a constant means, and what is said about one that does not end."""

import pytest

from subscriber.errors import NotSupportedError, SQLSyntaxError
from subscriber.sql.lexer import Kind, lex, skip_blank

SECRET = "hunter2"


def kinds(sql: str) -> list[tuple[Kind, str]]:
    return [(lexeme.kind, lexeme.value) for lexeme in lex(sql)]


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("'a'", "a"),
        ("''", ""),
        ("'it''s'", "it's"),
        (r"'a\nb\'", r"a\nb" + "\\"),
        ("''''", "'"),
        ("$$a'b$$", "a'b"),
        ("$$$$", ""),
        ("$t$a $$ b$t$", "a $$ b"),
        (r"E'a\nb'", "a\nb"),
        (r"e'\b\f\n\r\t\\\'\z'", "\b\f\n\r\t\\'z"),
        ("E'it''s'", "it's"),
        (r"E'\x41\x4a4\101\7'", "AJ4A\x07"),
        (r"E'\xc3\xa9'", "é"),
        (r"E'\u00e9\U0001F600'", "é\U0001f600"),
        (r"E'\xg'", "xg"),
        ("U&'plain'", "plain"),
        ("'a'\n'b'", "ab"),
        ("'a' -- one\n  'b''' \n 'c'", "ab'c"),
        ("E'a\\n'\n'\\t'", "a\n\t"),
        ("'é😀'", "é😀"),
    ],
)
def test_a_string_constant_means_what_it_means_in_postgresql(sql, value):
    assert kinds(sql) == [(Kind.STRING, value)]


@pytest.mark.parametrize("sql", ["'a' 'b'", "'a' /* \n */ 'b'", "$$a$$\n'b'", "'a'\n$$b$$"])
def test_constants_on_one_line_are_not_joined(sql):
    assert kinds(sql) == [(Kind.STRING, "a"), (Kind.STRING, "b")]


@pytest.mark.parametrize(
    ("sql", "message", "sqlstate"),
    [
        (r"E'\u12'", "invalid Unicode escape", "22025"),
        (r"E'\U0001F60'", "invalid Unicode escape", "22025"),
        (r"E'\U00110000'", r'invalid Unicode escape value at or near "\U00110000"', "42601"),
        (r"E'\xff'", 'invalid byte sequence for encoding "UTF8": 0xff', "22021"),
        (r"E'a\0'", 'invalid byte sequence for encoding "UTF8": 0x00', "22021"),
    ],
)
def test_an_escape_that_means_nothing_is_refused(sql, message, sqlstate):
    with pytest.raises(SQLSyntaxError) as caught:
        lex(sql)
    assert (caught.value.message, caught.value.sqlstate) == (message, sqlstate)


@pytest.mark.parametrize("sql", [r"U&'\0041'", r"E'\ud83d\ude00'"])
def test_escapes_that_are_not_understood_are_refused_and_not_misread(sql):
    with pytest.raises(NotSupportedError, match="not supported yet"):
        lex(sql)


@pytest.mark.parametrize(
    ("sql", "kind", "value"),
    [
        ("Foo", Kind.WORD, "foo"),
        ("ÄB", Kind.WORD, "Äb"),
        ("a$1_é", Kind.WORD, "a$1_é"),
        ("a$$b", Kind.WORD, "a$$b"),
        ('"Foo"', Kind.IDENTIFIER, "Foo"),
        ('"a""b"', Kind.IDENTIFIER, 'a"b'),
        ("a\x01b", Kind.SYMBOL, "a\x01b"),
        ("12", Kind.NUMBER, "12"),
        ("1.50", Kind.NUMBER, "1.50"),
        ("0x1F", Kind.NUMBER, "0x1F"),
        ("x'1f'", Kind.SYMBOL, "x'1f'"),
        (";", Kind.SYMBOL, ";"),
    ],
)
def test_words_are_folded_and_quoted_identifiers_are_not(sql, kind, value):
    assert kinds(sql) == [(kind, value)]


def test_no_word_is_special_to_the_tokenizer():
    """sqlglot takes the rest of some commands as one string; a semicolon in a string of theirs must not show."""
    assert [value for _, value in kinds("CALL f(';'); EXPLAIN group by")] == [
        *("call", "f", "(", ";", ")", ";"),
        *("explain", "group", "by"),
    ]


def test_comments_are_left_out_nested_ones_too():
    assert kinds("/*+ a /* ; ' */ ; */ x -- y ' ;\n--\nz") == [(Kind.WORD, "x"), (Kind.WORD, "z")]


@pytest.mark.parametrize(
    ("sql", "message", "character"),
    [
        (f"a '{SECRET}", 'unterminated quoted string at or near "\'…"', 3),
        (f"a E'{SECRET}\\'", 'unterminated quoted string at or near "\'…"', 3),
        (f'a "{SECRET}', 'unterminated quoted identifier at or near ""…"', 3),
        (f"a $${SECRET}", 'unterminated dollar-quoted string at or near "$…"', 3),
        (f"a $t${SECRET}$$", 'unterminated dollar-quoted string at or near "$…"', 3),
        (f"a -- x\n /* y */ /* /* {SECRET} */", 'unterminated /* comment at or near "/*…"', 17),
        ("a {#", 'syntax error at or near "{"', 3),
        ("1a", 'trailing junk after numeric literal at or near "1a"', 1),
    ],
)
def test_what_does_not_end_is_named_without_its_text(sql, message, character):
    """Invariant names_are_data: the text may be a connection string."""
    with pytest.raises(SQLSyntaxError) as caught:
        lex(sql)
    assert caught.value.message == message
    assert caught.value.sqlstate == "42601"
    assert f"At character {character} (" in caught.value.report()
    assert SECRET not in caught.value.report()


def test_a_position_counts_characters_and_names_the_line():
    with pytest.raises(SQLSyntaxError) as caught:
        lex("é\n😀 'x")
    assert caught.value.detail == "At character 5 (line 2)."


def test_a_lexeme_does_not_show_its_value():
    assert SECRET not in repr(lex(f"'{SECRET}'"))


@pytest.mark.parametrize(
    ("sql", "position"),
    [("", 0), ("  ", 2), (" \n--x\ry", 6), ("--x", 3), ("/* /* */ */a", 11), ("/* /* */", 0), ("-a", 0)],
)
def test_blanks_and_complete_comments_are_skipped(sql, position):
    assert skip_blank(sql, 0) == position
