"""Lexemes of PostgreSQL's SQL, on top of sqlglot's tokenizer.

sqlglot finds where tokens begin and end (strings, dollar quotes, nested comments); what a constant
means is read here, from PostgreSQL's rules, so that no escape is passed on half understood.

Error texts are PostgreSQL's with one exception: a string constant is shown as ``'…'``, because in
these commands it is usually a connection string (invariant names_are_data), in the wrong quotes too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Final

from sqlglot import Token, TokenType
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import TokenError

from subscriber.errors import NotSupportedError, SQLSyntaxError


class _Tokenizer(Postgres.Tokenizer):
    """PostgreSQL's tokens without sqlglot's keywords: every word is a word, and no command swallows its tail."""

    KEYWORDS: ClassVar[dict[str, TokenType]] = {}
    COMMANDS: ClassVar[set[TokenType]] = set()


class Kind(Enum):
    """What a lexeme is."""

    WORD = "word"
    """A bare identifier or keyword; ``value`` is folded to lower case."""
    IDENTIFIER = "identifier"
    """A quoted identifier."""
    STRING = "string"
    """A string constant in any of PostgreSQL's forms."""
    NUMBER = "number"
    """An unsigned numeric constant."""
    SYMBOL = "symbol"
    """Punctuation, operators, and whatever these commands have no use for."""


@dataclass(frozen=True, slots=True)
class Lexeme:
    """One lexeme: its kind, what it means (``value``), and where it was written."""

    kind: Kind
    value: str = field(repr=False)  # may be a connection string
    start: int
    """Index of the first character."""
    end: int
    """Index after the last character."""


_WHITESPACE: Final = " \t\n\r\f\v"
_STRINGS: Final = frozenset({TokenType.STRING, TokenType.BYTE_STRING, TokenType.UNICODE_STRING})
_NUMBERS: Final = frozenset({TokenType.NUMBER, TokenType.HEX_STRING, TokenType.BIT_STRING})
_UNTERMINATED: Final = (
    ("'", "unterminated quoted string", "'…"),
    ("e'", "unterminated quoted string", "'…"),
    ('"', "unterminated quoted identifier", '"…'),
    ("/*", "unterminated /* comment", "/*…"),
    ("$", "unterminated dollar-quoted string", "$…"),
)


def lex(sql: str) -> tuple[Lexeme, ...]:
    """The lexemes of ``sql``, comments left out and continued string constants joined.

    Raises:
        SQLSyntaxError: 42601 for what is not terminated, 22025 and 22021 for a wrong escape.
        NotSupportedError: a ``U&''`` constant with escapes.
    """
    lexemes: list[Lexeme] = []
    for token in tokenize(sql):
        raw = sql[token.start : token.end + 1]
        last = lexemes[-1] if lexemes else None
        if last and raw[0] == "'" and _continues(sql, last, token):
            escapes = sql[last.start] in "eE"
            value = last.value + (_unescape(sql, token.start, raw[1:-1]) if escapes else _string(sql, token, raw))
            lexemes[-1] = Lexeme(Kind.STRING, value, last.start, token.end + 1)
        else:
            lexemes.append(_lexeme(sql, token, raw))
    return tuple(lexemes)


def tokenize(sql: str) -> list[Token]:
    """Cut ``sql`` into sqlglot's tokens; their ``start`` and ``end`` (inclusive) are what is reliable.

    Raises:
        SQLSyntaxError: PostgreSQL's text for a string, identifier or comment that is not terminated.
    """
    tokens, start = tokenize_open(sql)
    if start is None:
        return tokens
    rest = sql[start : start + 2].lower()
    for opening, message, near in _UNTERMINATED:
        if rest.startswith(opening):
            raise syntax_error(sql, start, f'{message} at or near "{near}"')
    raise syntax_error(sql, start, f'syntax error at or near "{sql[start : start + 1]}"')


def tokenize_open(sql: str) -> tuple[list[Token], int | None]:
    """The tokens of a text that may go on: those that end, and the index where one begins that does not (None: all do)."""
    tokenizer = _Tokenizer(dialect="postgres")
    try:
        return tokenizer.tokenize(sql), None
    except TokenError:
        done = tokenizer.tokens
        return done, skip_blank(sql, done[-1].end + 1 if done else 0)


def syntax_error(sql: str, position: int, message: str, sqlstate: str = "42601") -> SQLSyntaxError:
    """``message`` about the character at index ``position``; the detail counts from 1, as PostgreSQL's position."""
    line = sql.count("\n", 0, position) + 1
    error = SQLSyntaxError(message, sqlstate=sqlstate, detail=f"At character {position + 1} (line {line}).")
    error.position = position + 1
    return error


def unexpected(sql: str, lexeme: Lexeme | None) -> SQLSyntaxError:
    """``syntax error at or near "…"``, or ``at end of input`` where there is no lexeme left."""
    if lexeme is None:
        return syntax_error(sql, len(sql.rstrip()), "syntax error at end of input")
    near = sql[lexeme.start : lexeme.end]
    if lexeme.kind is Kind.STRING:
        near = "'…'"
    elif lexeme.kind is Kind.IDENTIFIER and "=" in lexeme.value:
        near = '"…"'  # a connection string in the wrong quotes
    return syntax_error(sql, lexeme.start, f'syntax error at or near "{near}"')


def skip_blank(sql: str, position: int) -> int:
    """The index of the first character from ``position`` on that is neither whitespace nor in a complete comment."""
    while position < len(sql):
        if sql[position] in _WHITESPACE:
            position += 1
        elif sql.startswith("--", position):
            ends = [end for end in (sql.find("\n", position), sql.find("\r", position)) if end >= 0]
            position = min(ends, default=len(sql))
        elif sql.startswith("/*", position) and (end := _comment_end(sql, position)):
            position = end
        else:
            break
    return position


def _comment_end(sql: str, position: int) -> int:
    """Where the (nested) comment that starts at ``position`` ends; 0 when it does not."""
    depth = 0
    while position < len(sql):
        pair = sql[position : position + 2]
        depth += (pair == "/*") - (pair == "*/")
        position += 2 if pair in ("/*", "*/") else 1
        if depth == 0:
            return position
    return 0


def _lexeme(sql: str, token: Token, raw: str) -> Lexeme:
    kind, value = Kind.SYMBOL, raw
    if token.token_type in _STRINGS or token.token_type is TokenType.HEREDOC_STRING:
        kind, value = Kind.STRING, _string(sql, token, raw)
    elif raw[0] == '"':
        kind, value = Kind.IDENTIFIER, raw[1:-1].replace('""', '"')
    elif token.token_type in _NUMBERS and raw[0] in "0123456789":
        kind = Kind.NUMBER
        if sql[token.end + 1 : token.end + 2].isidentifier():
            junk = sql[token.start : token.end + 2]
            raise syntax_error(sql, token.start, f'trailing junk after numeric literal at or near "{junk}"')
    elif token.token_type is TokenType.VAR and _is_identifier(raw):
        kind, value = Kind.WORD, fold(raw)
    return Lexeme(kind, value, token.start, token.end + 1)


def _is_identifier(raw: str) -> bool:
    """Whether ``raw`` is an identifier to PostgreSQL: letters, underscores and non-ASCII; digits and $ not first."""
    letters = raw.replace("_", "a")
    return all(not c.isascii() or c.isalpha() or (i > 0 and (c.isdigit() or c == "$")) for i, c in enumerate(letters))


def fold(word: str) -> str:
    """``word`` in lower case as PostgreSQL folds it in a multi-byte encoding: ASCII letters only."""
    return "".join(c.lower() if c.isascii() else c for c in word)


# String constants -----------------------------------------------------------------------------------


def _string(sql: str, token: Token, raw: str) -> str:
    if raw[0] == "'":
        return raw[1:-1].replace("''", "'")
    if raw[0] == "$":
        tag = raw[: raw.index("$", 1) + 1]
        return raw[len(tag) : -len(tag)]
    if token.token_type is TokenType.UNICODE_STRING:
        if "\\" in raw:
            raise NotSupportedError(
                "string constants with Unicode escapes (U&'…') are not supported yet",
                hint=r"Write the characters themselves, or E'\uXXXX'.",
            )
        return raw[3:-1].replace("''", "'")
    return _unescape(sql, token.start, raw[2:-1])


def _continues(sql: str, last: Lexeme, token: Token) -> bool:
    """Whether ``token`` continues the constant before it: only whitespace with a newline, and no /* */, between them."""
    gap = sql[last.end : token.start]
    quoted = last.kind is Kind.STRING and sql[last.start] != "$"
    return quoted and "\n" in gap and "/*" not in gap


_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def _unescape(sql: str, position: int, body: str) -> str:
    r"""The meaning of ``E'body'``: ``\b \f \n \r \t``, ``\ooo``, ``\xhh``, ``\uXXXX``, ``\UXXXXXXXX``; ``''`` is one quote."""
    out = bytearray()
    index = 0
    while index < len(body):
        character = body[index]
        if character == "'":
            index += 1
        if character != "\\":
            out += character.encode()
            index += 1
            continue
        code, index = _escape(sql, position, body, index + 1)
        out += code
    try:
        text = out.decode()
    except UnicodeDecodeError as error:
        bad = " ".join(f"0x{byte:02x}" for byte in out[error.start : error.end])
        message = f'invalid byte sequence for encoding "UTF8": {bad}'
        raise syntax_error(sql, position, message, "22021") from None
    if "\0" in text:
        raise syntax_error(sql, position, 'invalid byte sequence for encoding "UTF8": 0x00', "22021")
    return text


def _escape(sql: str, position: int, body: str, index: int) -> tuple[bytes, int]:
    """The bytes of the escape whose letter is at ``index``, and the index after it."""
    letter = body[index]
    if letter in "uU":
        end = index + (5 if letter == "u" else 9)
        digits = body[index + 1 : end]
        if len(digits) < end - index - 1 or not _is_number(digits, 16):
            raise syntax_error(sql, position, "invalid Unicode escape", "22025")
        return _code_point(sql, position, body[index - 1 : end], int(digits, 16)), end
    start, base, most = (index + 1, 16, 2) if letter == "x" else (index, 8, 3)
    end = start
    while end < len(body) and end - start < most and _is_number(body[end], base):
        end += 1
    if end > start:
        return bytes([int(body[start:end], base) & 0xFF]), end
    return _ESCAPES.get(letter, letter).encode(), index + 1


def _code_point(sql: str, position: int, escape: str, code: int) -> bytes:
    if code > 0x10FFFF:
        raise syntax_error(sql, position, f'invalid Unicode escape value at or near "{escape}"')
    if 0xD800 <= code <= 0xDFFF:
        raise NotSupportedError(
            "Unicode surrogate pairs in string constants are not supported yet",
            hint=r"Write the character itself, or \UXXXXXXXX.",
        )
    return chr(code).encode()


def _is_number(text: str, base: int) -> bool:
    return all(character in "0123456789abcdefABCDEF"[: base if base == 8 else None] for character in text)
