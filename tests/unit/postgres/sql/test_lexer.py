"""The lexemes of a text, as in scan.l. The escapes of string constants are tested in
tests/unit/postgres/sql/test_string_constants.py.
"""

import pytest

from subscriber.base.errors import SQLSyntaxError
from subscriber.postgres.sql.lexer import Kind, lex, scan, unexpected

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
        ("E'it''s'", "it's"),
        ("U&'plain'", "plain"),
        (r"U&'d\0061\+01F600'", "da😀"),
        (r"U&'!0041\!!' UESCAPE '!'", "A\\!"),
        ("U&'a' -- c\n '!0041' /* c */ uescape E'!'", "aA"),
        ("'a'\n'b'", "ab"),
        ("'a' -- one\n  'b''' \n 'c'", "ab'c"),
        ("E'a\\n'\n'\\t'", "a\n\t"),
        ("'é😀'", "é😀"),
    ],
)
def test_a_string_constant_has_the_value_that_postgresql_gives_it(sql, value):
    assert kinds(sql) == [(Kind.STRING, value)]


@pytest.mark.parametrize("sql", ["'a' 'b'", "'a' /* \n */ 'b'", "$$a$$\n'b'", "'a'\n$$b$$"])
def test_constants_on_one_line_are_not_joined(sql):
    assert kinds(sql) == [(Kind.STRING, "a"), (Kind.STRING, "b")]


@pytest.mark.parametrize(
    ("sql", "message", "sqlstate"),
    [
        (r"E'\U00110000'", r'invalid Unicode escape value at or near "\U00110000"', "42601"),
        (r"E'a\0'", 'invalid byte sequence for encoding "UTF8": 0x00', "22021"),
    ],
)
def test_a_wrong_escape_is_refused(sql, message, sqlstate):
    with pytest.raises(SQLSyntaxError) as caught:
        lex(sql)
    assert (caught.value.message, caught.value.sqlstate) == (message, sqlstate)


@pytest.mark.parametrize(
    ("sql", "kind", "value"),
    [
        ("Foo", Kind.WORD, "foo"),
        ("ÄB", Kind.WORD, "Äb"),
        ("a$1_é", Kind.WORD, "a$1_é"),
        ("a$$b", Kind.WORD, "a$$b"),
        ('"Foo"', Kind.IDENTIFIER, "Foo"),
        ('"a""b"', Kind.IDENTIFIER, 'a"b'),
        ("a\u00a0b", Kind.WORD, "a\u00a0b"),
        ('U&"\\0041"', Kind.IDENTIFIER, "A"),
        ("12", Kind.INTEGER, "12"),
        ("1.50", Kind.FLOAT, "1.50"),
        (".5e-3", Kind.FLOAT, ".5e-3"),
        ("0x1F", Kind.INTEGER, "31"),
        ("x'1f'", Kind.BITS, "x1f"),
        ("B'1'\n'0'", Kind.BITS, "b10"),
        ("$12", Kind.PARAMETER, "$12"),
        ("@>", Kind.OPERATOR, "@>"),
        (";", Kind.SYMBOL, ";"),
        ("U&\"d!0061\" UESCAPE '!'", Kind.IDENTIFIER, "da"),
    ],
)
def test_words_are_folded_and_quoted_identifiers_are_not(sql, kind, value):
    assert kinds(sql) == [(kind, value)]


def test_a_national_string_is_the_word_nchar_before_a_string():
    assert kinds("N'a'") == [(Kind.WORD, "nchar"), (Kind.STRING, "a")]


def test_every_word_is_a_word_or_symbol_to_the_scanner():
    assert [value for _, value in kinds("CALL f(';'); EXPLAIN group by")] == [
        *("call", "f", "(", ";", ")", ";"),
        *("explain", "group", "by"),
    ]


def test_comments_and_nested_comments_are_omitted():
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
        ("a '''", 'unterminated quoted string at or near "\'…"', 3),
        ('a """', 'unterminated quoted identifier at or near ""…"', 3),
        ("a {#", 'syntax error at or near "{"', 3),
        ("a \x01b", 'syntax error at or near "\x01"', 3),
        (f"a b'{SECRET}", 'unterminated bit string literal at or near "\'…"', 3),
        (f"a U&'{SECRET}", 'unterminated quoted string at or near "\'…"', 3),
    ],
)
def test_an_unterminated_lexeme_is_reported_without_its_text(sql, message, character):
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


def values(text: str, major: int = 18) -> list[str]:
    return [lexeme.value for lexeme in lex(text, major)]


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
    assert values(text) == expected


def test_a_number_of_another_base_is_made_decimal():
    assert values("0x1F 0o17 0b101 1_000 1_0.5e1_0") == ["31", "15", "5", "1000", "10.5e10"]


@pytest.mark.parametrize("text", ["0x1F", "1_000", "1_0.5"])
def test_before_version_16_numbers_are_decimal_and_without_underscores(text):
    with pytest.raises(SQLSyntaxError, match="trailing junk after numeric literal"):
        lex(text, 15)


def test_before_version_15_a_word_may_follow_a_number_without_a_blank():
    assert values("1AND 1_0 0x1 1e 1.5e+ $1a", 14) == [
        *("1", "and", "1", "_0", "0", "x1", "1", "e", "1.5", "e", "+", "$1", "a"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('""', 'zero-length delimited identifier at or near """"'),
        ("1x", 'trailing junk after numeric literal at or near "1x"'),
        ("1e+", 'trailing junk after numeric literal at or near "1e+"'),
        ("0x", 'invalid hexadecimal integer at or near "0x"'),
        ("0b_", 'invalid binary integer at or near "0b_"'),
        ("$1a", 'trailing junk after parameter at or near "$1a"'),
        ("$99999999999", 'parameter number too large at or near "$99999999999"'),
        (r"U&'\D83D'", "invalid Unicode surrogate pair"),
        ("U&'x' UESCAPE 'a'", "invalid Unicode escape character at or near \"'…'\""),
        ("U&'x' UESCAPE 1", 'UESCAPE must be followed by a simple string literal at or near "1"'),
        ("U&'x' UESCAPE", "UESCAPE must be followed by a simple string literal at end of input"),
        ("a $ b", 'syntax error at or near "$"'),
        ("a \\ b", 'syntax error at or near "\\"'),
    ],
)
def test_a_text_that_is_not_a_lexeme_is_refused_with_postgresqls_message(text, message):
    with pytest.raises(SQLSyntaxError) as caught:
        lex(text)
    assert caught.value.message == message


def test_scanning_itself_never_fails():
    """A fault is an error where somebody reads the lexeme."""
    lexemes = scan("SELECT 1a, E'\\u12', { 'x").lexemes
    assert [lexeme.fault is None for lexeme in lexemes] == [True, False, True, False, True, False, False]
    assert [lexeme.terminated for lexeme in lexemes] == [True] * 6 + [False]


@pytest.mark.parametrize(
    ("text", "near"),
    [("'hunter2'", "'…'"), ('"password=hunter2"', '"…"'), ('"a"', '"a"'), ("a", "a"), ("1.50", "1.50")],
)
def test_a_syntax_error_does_not_show_a_string_or_a_connection_string_in_double_quotes(text, near):
    """Invariant names_are_data."""
    assert unexpected(text, lex(text)[0]).message == f'syntax error at or near "{near}"'
