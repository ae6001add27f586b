"""The lexer compared with the server's: how its scanner cuts a text, lexeme by lexeme.

Behind ``DROP TABLE a CASCADE`` the grammar takes nothing but a semicolon, so the server's syntax
error shows the first lexeme of whatever is written there; then that of the rest, until nothing is
left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from subscriber.postgres.sql.lexer import scan

pytestmark = pytest.mark.server

BEFORE = "DROP TABLE a CASCADE "
NEAR = re.compile(r'(?s)syntax error at or near "(.*)"')
SHOWS_TEXT = re.compile(
    r"(?s)((unterminated .*|invalid Unicode escape character|UESCAPE .*) at or near )\"(?:[bexBEX]|[uU]&)?['\"$/].*"
)
"""Messages of the server that quote a constant; those of this program do not (names_are_data)."""


@pytest.fixture(scope="module", params=["postgresql15", "postgresql16", "postgresql18"])
def server(request):
    postgresql = request.getfixturevalue(request.param)
    with psycopg.connect(postgresql.conninfo(), autocommit=True) as connection:
        yield connection


def server_lexemes(server: psycopg.Connection[Any], text: str) -> Iterator[tuple[int, str]]:
    """The positions and texts of the server's lexemes; the last is the error if its scanner refuses
    a lexeme.
    """
    position = 0
    while True:
        with pytest.raises(psycopg.Error) as caught:
            server.execute((BEFORE + text[position:]).encode())
        message = caught.value.diag.message_primary or ""
        if caught.value.sqlstate == "42P01":  # only blanks were left
            return
        start = position + int(caught.value.diag.statement_position or 0) - 1 - len(BEFORE)
        if (found := NEAR.fullmatch(message)) is None:
            yield start, message
            return
        yield start, found[1]
        position = start + len(found[1])


def our_lexemes(text: str, major: int) -> Iterator[tuple[int, str]]:
    for lexeme in scan(text, major).lexemes:
        if lexeme.fault is not None and not lexeme.fault.message.startswith("syntax error"):
            yield lexeme.fault.position, lexeme.fault.message
            return
        yield lexeme.start, text[lexeme.start : lexeme.end]


def shown(lexemes: Iterator[tuple[int, str]]) -> list[tuple[int, str]]:
    return [(start, SHOWS_TEXT.sub(r"\1", text)) for start, text in lexemes]


def same(server: psycopg.Connection[Any], text: str) -> None:
    major = server.info.server_version // 10000
    assert shown(our_lexemes(text, major)) == shown(server_lexemes(server, text))


WHOLE = [
    "a<-1 a@-1 a*-+1 a!=b a+--c\n1 a+/*c /* d */*/1 a->>'x' a::int 1..2 1.5..2 .5 1. a:=b a=>b @#$ %% ^ ~~* ||/ - + <>",
    "1 1.50 0x1F 0o17 0b101 1_000 1_0.5e1_0 1e10 1e-5 1.e5 .5e+3",
    *("1a", "1abc", "1_", "1__0", "1.5x", "1e", "1e+", "1ex", "1e+x", "1.5e-", "0x", "0x_", "0xg", "0b2", "0b", "0o8", "0x0y"),
    *("0b0x", "1.5_", "1._5", "0_1", "00x1", "0x1.5", "1..", "1x..2", "1_0$", "1.5_0$x", "0x1$", "$1a", "$1 $2", "$12345678901", "$a", "$", "0xé", "1é"),
    "'it''s' E'a\\'b' e'' B'10' x'1f' $$a'b$$ $t$ $$ $t$ U&'\\0041' U&\"a\" \"a\"\"b\" N'x' nchar 'a'\n'b' U & 'a'",
    "'a' -- c\n 'b' 'c' /* \n */ 'd' E'e'\n'f\\'' B'1'\n'0' $$g$$\n'h'",
    *("'x", "E'x\\'", "b'1", "x'1", "$$x", "$t$ $$", '"x', "/* /* */", "U&'x", 'U&"x', "'x'\n'y", '""', 'U&""'),
    *(r"E'\u12'", r"E'\U00110000'", r"E'\ud83d'", r"E'\ude00'", r"E'\ud83dx'", r"E'\ud83d\n'", r"E'\ud83d\u0041'", r"E'\u0000'"),
    *("U&'\\00'", "U&'\\D83D'", "U&'\\DE00'", "U&'ab\\D83Dx'", "U&'\\0000'", "U&'\\+110000'", "U&'x' UESCAPE 'a'", "U&'\\\\'"),
    *("U&'x' UESCAPE 1", "U&'x' UESCAPE", "U&'x' UESCAPE '!!'", "U&'!0041' UESCAPE '!'", "U&\"!0041\" UESCAPE E'!' x"),
    *("{", "a \\ b", "\x01", "é\u00a0ü", "a$$b", "a$1", "é$é$é", "$é$x$é$"),
]  # fmt: skip


@pytest.mark.parametrize("text", WHOLE)
def test_the_lexemes_are_the_servers(server, text):
    same(server, text)


PIECES = st.sampled_from(
    [
        *("a", "é", "_", "$", "1", "0", "x", "e", "E", "b", "U&", "'", '"', "''", "\\", ".", "..", "-", "--", "+", "*", "/"),
        *("/*", "*/", "\n", " ", "$$", "$t$", "<", ">", "=", "!", "@", "~", "|", "?", "%", ":", "::", "(", "]", ",", "{"),
        *("\\u0041", "\\n", "0x1f", "1_0", "UESCAPE", "select", "\u00a0", "😀", "\r", "\t"),
    ]
)  # fmt: skip


@given(st.lists(PIECES, max_size=12).map("".join))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_texts_lexemes_are_the_servers(server, text):
    same(server, text)


@pytest.mark.parametrize(
    "constant",
    [
        *("'it''s'", r"'a\nb\'", "$$a'b$$", "$t$a $$ b$t$", "'a'\n'b'", "'a' -- one\n  'b''' \n 'c'", "'é😀'"),
        *(r"E'\b\f\n\r\t\\\'\z'", r"E'\x41\x4a4\101\7\541'", r"E'\xc3\xa9\u00e9\U0001F600'", r"E'\xg\8'", "E'a\\n'\n'\\t'"),
        *(r"E'\ud83d\ude00\U0000D83D\uDE00'", "U&'plain'", r"U&'d\0061\+01F600\\'", r"U&'\D83D\DE00'", "U&'!0041' UESCAPE '!'"),
        "U&'!0041'\n'!!' UESCAPE $$!$$",
    ],
)  # fmt: skip
def test_a_string_constant_means_what_the_server_reads(server, constant):
    (text,) = server.execute(f"SELECT {constant}::text".encode()).fetchone()
    assert [lexeme.value for lexeme in scan(constant).lexemes] == [text]


@pytest.mark.parametrize("constant", [r"E'\xff'", r"E'a\0'"])
def test_bytes_that_are_no_text_are_refused_as_the_server_does(server, constant):
    (lexeme,) = scan(constant).lexemes
    with pytest.raises(psycopg.errors.CharacterNotInRepertoire) as caught:
        server.execute(f"SELECT {constant}".encode())
    assert lexeme.fault is not None
    assert (lexeme.fault.message, lexeme.fault.sqlstate) == (caught.value.diag.message_primary, "22021")
