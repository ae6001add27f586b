"""Lexemes of PostgreSQL's SQL, by the rules of ``scan.l``.

::

    CREATE PUBLICATION p FOR TABLE t WHERE (a@-1 < 'it''s')
    word   word        w w   w     w w     ^^^^^
                                           symbol, word, operator @-, integer, symbol, string, symbol

A text is scanned once, and its lexemes are passed on (:class:`Lexed`).

- Scanning never fails. A lexeme that PostgreSQL's scanner refuses has a :class:`Fault`, which
  becomes an error when a grammar reads it. So a file is cut into statements although its third one
  is wrong, an error of the grammar comes before that of a later constant, as on the server, and a
  prompt sees which constant is not terminated.
- The server's version matters only for numbers and parameters (``1_000``, ``0x1F``, ``$1a``).
- Error texts are PostgreSQL's, but a string constant is shown as ``'…'``, also in the wrong quotes:
  in these commands it is usually a connection string (names_are_data).

*Rejected:* sqlglot's tokenizer, which reads numbers, operators and identifiers by other rules: it
splits ``a@-1`` and ``1..2`` differently, a Unicode space separates words, and ``{#`` begins a
comment of another language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from subscriber.base.digits import digits_of, parse_int
from subscriber.base.errors import SQLSyntaxError
from subscriber.postgres.sql.string_constants import Fault, is_escape_character, with_escapes, with_unicode_escapes

NEWEST: Final = 18
"""The version whose rules are used where the server's version is not known."""


class Kind(Enum):
    WORD = "word"
    """An unquoted identifier or a keyword; ``value`` is folded to lower case."""
    IDENTIFIER = "identifier"
    """A quoted identifier."""
    STRING = "string"
    """A string constant in any of PostgreSQL's forms; continued constants are joined."""
    INTEGER = "integer"
    """A number without a point or an exponent; ``value`` is decimal, whatever base was written."""
    FLOAT = "float"
    BITS = "bits"
    """A bit string; ``value`` begins with b or x."""
    PARAMETER = "parameter"
    OPERATOR = "operator"
    """An operator for which the grammar has no separate rule."""
    SYMBOL = "symbol"
    """Punctuation, and the operators that the grammar names, such as ``<=`` and ``::``."""
    COMMENT = "comment"
    """A comment that is not terminated; other comments are left out."""
    END = "end"
    """The end of the text, after the last lexeme."""


@dataclass(frozen=True, slots=True)
class Lexeme:
    """One lexeme, from ``start`` up to ``end``; its ``value`` is empty with a ``fault``."""

    kind: Kind
    value: str = field(repr=False)  # may be a connection string
    start: int
    end: int
    fault: Fault | None = field(default=None, compare=False)
    terminated: bool = True

    def moved(self, by: int) -> Lexeme:
        """The same lexeme in a text with another beginning."""
        fault = self.fault and replace(self.fault, position=self.fault.position + by)
        return replace(self, start=self.start + by, end=self.end + by, fault=fault)


@dataclass(frozen=True, slots=True)
class Lexed:
    """A text and its lexemes, without comments."""

    sql: str = field(repr=False)  # may hold a connection string
    lexemes: tuple[Lexeme, ...]


_BLANK: Final = re.compile(r"(?:[ \t\n\r\f\v]|--[^\n\r]*)+")
_COMMENT_MARK: Final = re.compile(r"/\*|\*/")
_CONTINUES: Final = re.compile(r"[ \t\f\v]*(?:--[^\n\r]*)?[\n\r](?:[ \t\n\r\f\v]|--[^\n\r]*[\n\r])*'")
_WORD: Final = re.compile(r"[A-Za-z_\u0080-\U0010ffff][A-Za-z0-9_$\u0080-\U0010ffff]*")
_QUOTED_WORD: Final = re.compile(r'"[^"]*+(?:""[^"]*+)*+"')
_PLAIN: Final = re.compile(r"'[^']*+(?:''[^']*+)*+'")
_ESCAPED: Final = re.compile(r"'[^'\\]*+(?:(?:''|\\.)[^'\\]*+)*+'", re.DOTALL)
_BITS: Final = re.compile(r"'[^']*'")
_DOLLAR: Final = re.compile(r"\$(?:[A-Za-z_\u0080-\U0010ffff][A-Za-z0-9_\u0080-\U0010ffff]*)?\$")
_OPERATOR: Final = re.compile(r"[~!@#^&|`?+\-*/%<>=]+")
_PARAMETER: Final = re.compile(r"\$[0-9]+")
_MORE_THAN_SQL: Final = frozenset("~!@#^&|`?%")
"""An operator that contains one of these characters may end with ``+`` or ``-``."""
_SYMBOLS: Final = frozenset(",()[].;:+-*/%^<>=")
_PAIRS: Final = frozenset({"<=", ">=", "<>", "=>", "::", "..", ":="})
_FORMS: Final = {"e'": _ESCAPED, "b'": _BITS, "x'": _BITS}
_MAXIMUM_PARAMETER: Final = 2**31 - 1


def lex(sql: str, major: int = NEWEST) -> tuple[Lexeme, ...]:
    """The lexemes of ``sql``, without comments.

    SQLSyntaxError is PostgreSQL's for the first lexeme that its scanner refuses: 42601 for an
    unterminated lexeme and for trailing junk, 22025 and 22021 for an invalid escape.
    """
    lexemes = scan(sql, major).lexemes
    for lexeme in lexemes:
        if lexeme.fault is not None:
            raise error_of(sql, lexeme.fault)
    return lexemes


def scan(sql: str, major: int = NEWEST) -> Lexed:
    """``sql`` with its lexemes, including those that PostgreSQL would refuse."""
    return Lexed(sql, with_escape_characters(sql, tuple(scan_from(sql, 0, major))))


def error_of(sql: str, fault: Fault) -> SQLSyntaxError:
    return syntax_error(sql, fault.position, fault.message, fault.sqlstate)


def syntax_error(
    sql: str, position: int, message: str, sqlstate: str = "42601", hint: str | None = None
) -> SQLSyntaxError:
    """An error about the character at an index; the detail counts from 1, as in PostgreSQL."""
    line = sql.count("\n", 0, position) + 1
    error = SQLSyntaxError(message, sqlstate=sqlstate, detail=f"At character {position + 1} (line {line}).", hint=hint)
    error.position = position + 1
    return error


def unexpected(sql: str, lexeme: Lexeme, hint: str | None = None) -> SQLSyntaxError:
    """``syntax error at or near "…"``, or ``at end of input`` after the last lexeme."""
    if lexeme.kind is Kind.END:
        return syntax_error(sql, len(sql.rstrip()), "syntax error at end of input")
    near = sql[lexeme.start : lexeme.end]
    if lexeme.kind is Kind.STRING:
        near = "'…'"
    elif lexeme.kind is Kind.IDENTIFIER and "=" in lexeme.value:
        near = '"…"'  # it may be a connection string in the wrong quotes
    return syntax_error(sql, lexeme.start, f'syntax error at or near "{near}"', hint=hint)


def fold(word: str) -> str:
    """``word`` in lower case. In a multi-byte encoding PostgreSQL folds only ASCII letters."""
    return word.lower() if word.isascii() else "".join(c.lower() if c.isascii() else c for c in word)


def scan_from(sql: str, position: int, major: int = NEWEST) -> Iterator[Lexeme]:
    """The lexemes from ``position`` on, one by one, with UESCAPE as a separate lexeme."""
    while True:
        while blank := _BLANK.match(sql, position):
            position = blank.end()
        if position == len(sql):
            return
        if sql.startswith("/*", position):
            end = _comment_end(sql, position)
            if end is None:
                yield _unterminated(sql, Kind.COMMENT, position, "/* comment", "/*…")
                return
            position = end
            continue
        lexeme = _lexeme(sql, position, major)
        yield lexeme
        position = lexeme.end


def _comment_end(sql: str, start: int) -> int | None:
    """The end of the comment that begins at ``start``; None if it has none. Comments nest."""
    depth = 0
    for mark in _COMMENT_MARK.finditer(sql, start):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return None


def _lexeme(sql: str, start: int, major: int) -> Lexeme:
    first, second = sql[start], sql[start : start + 2].lower()
    if first == "'":
        return _string(sql, start, start, _PLAIN)
    if first == '"':
        return _quoted_identifier(sql, start, start)
    if second in _FORMS:
        return _string(sql, start, start + 1, _FORMS[second])
    if second == "u&" and sql.startswith("'", start + 2):
        return _string(sql, start, start + 2, _PLAIN)
    if second == "u&" and sql.startswith('"', start + 2):
        return _quoted_identifier(sql, start, start + 2)
    if second == "n'":  # N'…' is the word NCHAR before a string constant
        return Lexeme(Kind.WORD, "nchar", start, start + 1)
    if word := _WORD.match(sql, start):
        return Lexeme(Kind.WORD, fold(word[0]), start, word.end())
    if first == "$":
        return _dollar(sql, start, major)
    if first in "0123456789" or (first == "." and sql[start + 1 : start + 2] in _DIGITS):
        return _number(sql, start, major)
    if operator := _OPERATOR.match(sql, start):
        return _operator(start, operator[0])
    if second in _PAIRS:
        return Lexeme(Kind.SYMBOL, second, start, start + 2)
    fault = None if first in _SYMBOLS else Fault(f'syntax error at or near "{first}"', start)
    return Lexeme(Kind.SYMBOL, first, start, start + 1, fault)


def _unterminated(sql: str, kind: Kind, start: int, what: str, near: str) -> Lexeme:
    fault = Fault(f'unterminated {what} at or near "{near}"', start)
    return Lexeme(kind, "", start, len(sql), fault, terminated=False)


# Operators and parameters -------------------------------------------------------------------------


def _operator(start: int, characters: str) -> Lexeme:
    """The longest operator. A comment ends it; SQL's own do not end with ``+`` or ``-``."""
    ends = [at for mark in ("/*", "--") if (at := characters.find(mark)) >= 0]
    characters = characters[: min(ends, default=len(characters))]
    if _MORE_THAN_SQL.isdisjoint(characters):
        characters = characters[0] + characters[1:].rstrip("+-")
    end = start + len(characters)
    if characters == "!=":
        return Lexeme(Kind.SYMBOL, "<>", start, end)
    kind = Kind.SYMBOL if characters in _SYMBOLS or characters in _PAIRS else Kind.OPERATOR
    fault = Fault("operator too long", start) if len(characters) > 63 else None
    return Lexeme(kind, characters, start, end, fault)


def _dollar(sql: str, start: int, major: int) -> Lexeme:
    if parameter := _PARAMETER.match(sql, start):
        end, fault = parameter.end(), None
        junk = _WORD.match(sql, end)
        if junk and major >= 15:
            end = junk.end()
            fault = Fault(f'trailing junk after parameter at or near "{sql[start:end]}"', start)
        elif major >= 18 and parse_int(parameter[0][1:]) > _MAXIMUM_PARAMETER:
            fault = Fault(f'parameter number too large at or near "{parameter[0]}"', start)
        return Lexeme(Kind.PARAMETER, parameter[0], start, end, fault)
    opening = _DOLLAR.match(sql, start)
    if opening is None:
        return Lexeme(Kind.SYMBOL, "$", start, start + 1, Fault('syntax error at or near "$"', start))
    end = sql.find(opening[0], opening.end())
    if end < 0:
        return _unterminated(sql, Kind.STRING, start, "dollar-quoted string", "$…")
    return Lexeme(Kind.STRING, sql[opening.end() : end], start, end + len(opening[0]))


# Numbers ------------------------------------------------------------------------------------------

_DIGITS: Final = frozenset("0123456789")
_BASES: Final = {"x": "hexadecimal", "o": "octal", "b": "binary"}
_BASED: Final = re.compile(r"0[xX](?:_?[0-9A-Fa-f])+|0[oO](?:_?[0-7])+|0[bB](?:_?[01])+")
_BASE_ALONE: Final = re.compile(r"0[xXoObB]_?")
_PREFIX_ENDS: Final = _DIGITS | {"."}
_EXPONENT_ALONE: Final = re.compile(r"[eE][-+]")


def _decimal(digits: str) -> re.Pattern[str]:
    whole = rf"(?P<whole>{digits})(?:\.(?!\.)(?:{digits})?)?"
    return re.compile(rf"(?:{whole}|\.{digits})(?:[eE][-+]?{digits})?")


_DECIMAL: Final = _decimal(r"[0-9](?:_?[0-9])*")
_PLAIN_DECIMAL: Final = _decimal(r"[0-9]+")


def _number(sql: str, start: int, major: int) -> Lexeme:
    """Other bases and underscores are read since 16, a letter right after a number until 14."""
    based = _BASED.match(sql, start) if major >= 16 else None
    number = based or (_DECIMAL if major >= 16 else _PLAIN_DECIMAL).match(sql, start)
    assert number is not None
    end = number.end()
    if major >= 15 and (found := _fault_behind(sql, start, end, major, is_based=based is not None)):
        end, fault = found
        return Lexeme(Kind.FLOAT, "", start, end, fault)
    value = number[0].replace("_", "")
    if based:
        return Lexeme(Kind.INTEGER, digits_of(int(value, 0)), start, end)
    kind = Kind.INTEGER if number[0] == number["whole"] else Kind.FLOAT
    return Lexeme(kind, value, start, end)


def _fault_behind(sql: str, start: int, end: int, major: int, *, is_based: bool) -> tuple[int, Fault] | None:
    """A number's fault, and where the wrong part ends: flex takes the longest match (``1_0$``)."""
    words = (_WORD.match(sql, place) for place in range(start + 1, end + 1) if sql[place - 1] in _PREFIX_ENDS)
    junk = max((word.end() for word in words if word), default=0)
    junk = junk if junk > end else 0
    if major >= 16 and not is_based and (base := _BASE_ALONE.match(sql, start)) and base.end() >= max(junk, end):
        message = f'invalid {_BASES[base[0][1].lower()]} integer at or near "{base[0]}"'
        return base.end(), Fault(message, start)
    if not is_based and (exponent := _EXPONENT_ALONE.match(sql, end)):
        junk = max(junk, exponent.end())
    if not junk:
        return None
    return junk, Fault(f'trailing junk after numeric literal at or near "{sql[start:junk]}"', start)


# Quotes -------------------------------------------------------------------------------------------


def _string(sql: str, start: int, quote: int, pattern: re.Pattern[str]) -> Lexeme:
    kind = Kind.BITS if pattern is _BITS else Kind.STRING
    pieces: list[tuple[int, int]] = []
    while True:
        piece = pattern.match(sql, quote)
        if piece is None:
            what = "quoted string" if kind is Kind.STRING else f"{_BIT_STRINGS[sql[start].lower()]} string literal"
            return _unterminated(sql, kind, start, what, "'…")
        pieces.append((quote + 1, piece.end() - 1))
        more = _CONTINUES.match(sql, piece.end())
        if more is None:
            break
        quote = more.end() - 1
    end = piece.end()
    value: str | Fault
    if pattern is _ESCAPED:
        value = with_escapes(sql, pieces)
    elif kind is Kind.BITS:
        value = sql[start].lower() + "".join(sql[first:last] for first, last in pieces)
    else:
        value = "".join(sql[first:last].replace("''", "'") for first, last in pieces)
        if sql[start] in "uU":
            value = with_unicode_escapes(value, start)
    if isinstance(value, Fault):
        return Lexeme(kind, "", start, end, value)
    return Lexeme(kind, value, start, end)


_BIT_STRINGS: Final = {"b": "bit", "x": "hexadecimal"}


def _quoted_identifier(sql: str, start: int, quote: int) -> Lexeme:
    found = _QUOTED_WORD.match(sql, quote)
    if found is None:
        return _unterminated(sql, Kind.IDENTIFIER, start, "quoted identifier", '"…')
    value: str | Fault = found[0][1:-1].replace('""', '"')
    if not value:
        near = sql[start : found.end()]
        value = Fault(f'zero-length delimited identifier at or near "{near}"', start)
    elif quote > start:
        value = with_unicode_escapes(str(value), start)
    if isinstance(value, Fault):
        return Lexeme(Kind.IDENTIFIER, "", start, found.end(), value)
    return Lexeme(Kind.IDENTIFIER, value, start, found.end())


def with_escape_characters(sql: str, lexemes: Sequence[Lexeme]) -> tuple[Lexeme, ...]:
    """``lexemes`` with each ``U&'…' UESCAPE '!'`` joined into one lexeme, as in ``base_yylex``."""
    joined: list[Lexeme] = []
    place = 0
    while place < len(lexemes):
        lexeme, following = lexemes[place], lexemes[place + 1 : place + 3]
        is_unicode = lexeme.kind in (Kind.STRING, Kind.IDENTIFIER) and sql[lexeme.start : lexeme.start + 2] in _UNICODE
        if is_unicode and following and following[0].kind is Kind.WORD and following[0].value == "uescape":
            joined.append(_with_escape_character(sql, lexeme, following))
            place += 1 + len(following)
        else:
            joined.append(lexeme)
            place += 1
    return tuple(joined)


_UNICODE: Final = frozenset({"u&", "U&"})


def _with_escape_character(sql: str, lexeme: Lexeme, following: Sequence[Lexeme]) -> Lexeme:
    end = following[-1].end
    message = "UESCAPE must be followed by a simple string literal"
    if len(following) < 2:
        return replace(lexeme, value="", end=end, fault=Fault(f"{message} at end of input", len(sql)))
    character = following[1]
    if character.kind is not Kind.STRING or sql[character.start] in "uU":
        near = "'…'" if character.kind is Kind.STRING else sql[character.start : character.end]
        fault = Fault(f'{message} at or near "{near}"', character.start)
        return replace(lexeme, value="", end=end, fault=fault)
    if not is_escape_character(character.value):
        fault = Fault("invalid Unicode escape character at or near \"'…'\"", character.start)
        return replace(lexeme, value="", end=end, fault=fault)
    written = _written(sql, lexeme)
    value = with_unicode_escapes(written, lexeme.start, character.value)
    if isinstance(value, Fault):
        return replace(lexeme, value="", end=end, fault=value)
    return replace(lexeme, value=value, end=end, fault=lexeme.fault if not written else None)


def _written(sql: str, lexeme: Lexeme) -> str:
    """The text between the quotes of a ``U&`` constant or identifier, with its escapes unread."""
    plain = sql[lexeme.start + 2 : lexeme.end]
    return plain[1:-1].replace('""', '"') if lexeme.kind is Kind.IDENTIFIER else _lexeme(plain, 0, NEWEST).value
