r"""Lexemes of expressions, by the rules of ``scan.l``.

The commands' lexer (:mod:`subscriber.sql.lexer`) is for option lists and names; expressions need PostgreSQL's operators (``a@-1``
is ``a @ -1``, and ``a<-1`` is ``a < -1``), bit strings, the many forms of numbers and ``U&'\0061' UESCAPE '!'``. What a string
constant means is still read by the commands' lexer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from subscriber.digits import digits_of
from subscriber.errors import SQLSyntaxError
from subscriber.sql.lexer import fold, lex, syntax_error


class Kind(Enum):
    """What a lexeme is."""

    WORD = "word"
    """A bare identifier or keyword, folded."""
    IDENTIFIER = "identifier"
    """A quoted identifier."""
    STRING = "string"
    INTEGER = "integer"
    """A decimal number without point; of another base, it has been made decimal."""
    FLOAT = "float"
    BITS = "bits"
    """A bit string; the value begins with b or x."""
    PARAMETER = "parameter"
    OPERATOR = "operator"
    """An operator that the grammar has no rule of its own for."""
    SYMBOL = "symbol"
    """Punctuation, and the operators of the grammar, such as ``<=`` and ``::``."""
    END = "end"


@dataclass(frozen=True, slots=True)
class Lexeme:
    """One lexeme: its kind, what it means, and where it begins and ends in the text."""

    kind: Kind
    value: str
    start: int
    end: int


_BLANK: Final = re.compile(r"(?:[ \t\n\r\f\v]|--[^\n\r]*)+")
_QUOTE_CONTINUES: Final = re.compile(r"[ \t\f\v]*(?:--[^\n\r]*)?[\n\r](?:[ \t\n\r\f\v]|--[^\n\r]*[\n\r])*'")
_WORD: Final = re.compile(r"[A-Za-z_\u0080-\U0010ffff][A-Za-z0-9_$\u0080-\U0010ffff]*")
_QUOTED_WORD: Final = re.compile(r'"(?:[^"]|"")*"')
_PLAIN: Final = re.compile(r"'(?:[^']|'')*'")
_ESCAPED: Final = re.compile(r"'(?:[^'\\]|''|\\.)*'", re.DOTALL)
_DOLLAR: Final = re.compile(r"\$([A-Za-z_\u0080-\U0010ffff][A-Za-z0-9_\u0080-\U0010ffff]*)?\$")
_OPERATOR: Final = re.compile(r"[~!@#^&|`?+\-*/%<>=]+")
_PARAMETER: Final = re.compile(r"\$[0-9]+")
_BASED: Final = re.compile(r"0[xX](?:_?[0-9A-Fa-f])+|0[oO](?:_?[0-7])+|0[bB](?:_?[01])+")
_DECIMAL: Final = r"[0-9](?:_?[0-9])*"
_NUMBER: Final = re.compile(
    rf"(?:(?P<whole>{_DECIMAL})(?P<point>\.(?!\.)(?:{_DECIMAL})?)?|(?P<fraction>\.{_DECIMAL}))(?P<exponent>[eE][-+]?{_DECIMAL})?"
)
_BASES: Final = {"x": "hexadecimal", "o": "octal", "b": "binary"}
_SYMBOLS: Final = frozenset(",()[].;:+-*/%^<>=")
_PAIRS: Final = {"<=", ">=", "<>", "=>"}
_NAME_LENGTH: Final = 64


def lex_expression(text: str, major: int) -> tuple[Lexeme, ...]:
    """The lexemes of an expression, with one of kind END after the last.

    Args:
        text: the expression.
        major: PostgreSQL's version; 16 knows more forms of numbers than 15.

    Raises:
        SQLSyntaxError: what is no lexeme, or a wrong escape.
    """
    lexemes: list[Lexeme] = []
    position = _skip(text, 0)
    while position < len(text):
        lexeme = _lexeme(text, position, major)
        if major < 16 and lexeme.kind in (Kind.INTEGER, Kind.FLOAT):
            _check_old_number(text, lexeme)
        if lexeme.kind in (Kind.STRING, Kind.IDENTIFIER) and text[position] in "uU":
            lexeme = _without_unicode_escapes(text, lexeme)
        lexemes.append(lexeme)
        position = _skip(text, lexeme.end)
    return (*lexemes, Lexeme(Kind.END, "", len(text), len(text)))


def _skip(text: str, position: int) -> int:
    """Past whitespace and comments."""
    while position < len(text):
        if blank := _BLANK.match(text, position):
            position = blank.end()
        elif text.startswith("/*", position):
            position = _skip_comment(text, position)
        else:
            break
    return position


def _skip_comment(text: str, start: int) -> int:
    depth = 0
    for mark in re.compile(r"/\*|\*/").finditer(text, start):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    raise syntax_error(text, start, 'unterminated /* comment at or near "/*…"')


def _lexeme(text: str, start: int, major: int) -> Lexeme:
    first, second = text[start], text[start : start + 2].lower()
    if second in {"e'", "b'", "x'", "n'"} or text[start : start + 3].lower() == "u&'":
        return _prefixed_string(text, start)
    if text[start : start + 3].lower() == 'u&"':
        return _quoted_identifier(text, start, start + 2)
    if first == "'":
        return _string(text, start, start, _PLAIN)
    if first == '"':
        return _quoted_identifier(text, start, start)
    if first == "$":
        return _dollar(text, start)
    if word := _WORD.match(text, start):
        return Lexeme(Kind.WORD, _truncated(fold(word[0])), start, word.end())
    if first.isascii() and (first.isdigit() or (first == "." and text[start + 1 : start + 2].isdigit())):
        return _number(text, start, major)
    if operator := _OPERATOR.match(text, start):
        return _operator(start, operator[0])
    if text[start : start + 2] in {"::", "..", ":="}:
        return Lexeme(Kind.SYMBOL, text[start : start + 2], start, start + 2)
    if first in _SYMBOLS:
        return Lexeme(Kind.SYMBOL, first, start, start + 1)
    raise syntax_error(text, start, f'syntax error at or near "{first}"')


def _truncated(name: str) -> str:
    return name.encode()[: _NAME_LENGTH - 1].decode(errors="ignore")


def _operator(start: int, characters: str) -> Lexeme:
    """As many characters as belong to it: no comment, and no sign at its end unless it has a character that SQL's operators have not."""
    ends = [at for mark in ("/*", "--") if (at := characters.find(mark)) >= 0]
    characters = characters[: min(ends, default=len(characters))]
    if not set(characters) & set("~!@#^&|`?%"):
        characters = characters[0] + characters[1:].rstrip("+-")
    end = start + len(characters)
    if characters == "!=":
        return Lexeme(Kind.SYMBOL, "<>", start, end)
    kind = Kind.SYMBOL if characters in _SYMBOLS or characters in _PAIRS else Kind.OPERATOR
    return Lexeme(kind, characters, start, end)


def _number(text: str, start: int, major: int) -> Lexeme:
    if based := _BASED.match(text, start):
        found, kind, value = based, Kind.INTEGER, digits_of(int(based[0].replace("_", ""), 0))
    else:
        number = _NUMBER.match(text, start)
        assert number is not None
        found, value = number, number[0].replace("_", "")
        kind = Kind.INTEGER if number[0] == number["whole"] else Kind.FLOAT
    if major >= 16 and value == "0" and text[found.end() : found.end() + 1].lower() in _BASES and len(found[0]) == 1:
        base = text[found.end()]
        message = f'invalid {_BASES[base.lower()]} integer at or near "0{base}"'
        raise syntax_error(text, start, message)
    if junk := _WORD.match(text, found.end()):
        message = f'trailing junk after numeric literal at or near "{text[start : junk.end()]}"'
        raise syntax_error(text, start, message)
    return Lexeme(kind, value, start, found.end())


def _check_old_number(text: str, lexeme: Lexeme) -> None:
    """Before 16, numbers are decimal and have no underscores."""
    number = text[lexeme.start : lexeme.end]
    if re.search("[A-Za-z_]", re.sub("[eE][-+]?[0-9]", "0", number)):
        raise syntax_error(text, lexeme.start, f'trailing junk after numeric literal at or near "{number}"')


def _dollar(text: str, start: int) -> Lexeme:
    if parameter := _PARAMETER.match(text, start):
        return Lexeme(Kind.PARAMETER, parameter[0], start, parameter.end())
    opening = _DOLLAR.match(text, start)
    if opening is None:
        raise syntax_error(text, start, 'syntax error at or near "$"')
    end = text.find(opening[0], opening.end())
    if end < 0:
        raise syntax_error(text, start, 'unterminated dollar-quoted string at or near "$…"')
    return Lexeme(Kind.STRING, text[opening.end() : end], start, end + len(opening[0]))


def _prefixed_string(text: str, start: int) -> Lexeme:
    letter = text[start].lower()
    quote = start + (2 if letter == "u" else 1)
    if letter == "n":  # N'…' is the word NCHAR before a string
        return Lexeme(Kind.WORD, "nchar", start, start + 1)
    if letter == "e":
        return _string(text, start, quote, _ESCAPED)
    string = _string(text, start, quote, _PLAIN)
    if letter in "bx":
        return Lexeme(Kind.BITS, letter + string.value, start, string.end)
    return string


def _string(text: str, start: int, quote: int, pattern: re.Pattern[str]) -> Lexeme:
    found = pattern.match(text, quote)
    if found is None:
        raise syntax_error(text, start, 'unterminated quoted string at or near "\'…"')
    end = found.end()
    pieces = [found[0]]
    while more := _QUOTE_CONTINUES.match(text, end):
        piece = pattern.match(text, more.end() - 1)
        if piece is None:
            raise syntax_error(text, start, 'unterminated quoted string at or near "\'…"')
        pieces.append(piece[0])
        end = piece.end()
    whole = "'" + "".join(piece[1:-1] for piece in pieces) + "'"
    if pattern is _ESCAPED:
        return Lexeme(Kind.STRING, _meaning(text, start, "e" + whole), start, end)
    return Lexeme(Kind.STRING, whole[1:-1].replace("''", "'"), start, end)


def _meaning(text: str, start: int, constant: str) -> str:
    """What a string constant with escapes means; an error is about its place in the whole text."""
    try:
        (lexeme,) = lex(constant)
    except SQLSyntaxError as error:
        raise syntax_error(text, start, error.message, error.sqlstate) from None
    return lexeme.value


def _quoted_identifier(text: str, start: int, quote: int) -> Lexeme:
    found = _QUOTED_WORD.match(text, quote)
    if found is None:
        raise syntax_error(text, start, 'unterminated quoted identifier at or near ""…"')
    value = found[0][1:-1].replace('""', '"')
    if not value:
        raise syntax_error(text, start, 'zero-length delimited identifier at or near """"')
    value = value if quote > start else _truncated(value)
    return Lexeme(Kind.IDENTIFIER, value, start, found.end())


# Unicode escapes ------------------------------------------------------------------------------------


def _without_unicode_escapes(text: str, lexeme: Lexeme) -> Lexeme:
    """A ``U&`` constant or identifier as it is meant, with the UESCAPE behind it if there is one."""
    place = _skip(text, lexeme.end)
    word = _WORD.match(text, place)
    if word is None or word[0].lower() != "uescape":
        return _unescaped(text, lexeme, "\\")
    place = _skip(text, word.end())
    if not text.startswith("'", place):
        raise syntax_error(text, place, "UESCAPE must be followed by a simple string literal")
    character = _string(text, place, place, _PLAIN)
    escape = character.value
    if len(escape.encode()) != 1 or escape in "+'\" \t\n\r\f\v" or re.fullmatch("[0-9A-Fa-f]", escape):
        raise syntax_error(text, place, "invalid Unicode escape character")
    return replace(_unescaped(text, lexeme, escape), end=character.end)


def _unescaped(text: str, lexeme: Lexeme, escape: str) -> Lexeme:
    mark = re.escape(escape)
    pattern = re.compile(rf"{mark}{mark}|{mark}([0-9A-Fa-f]{{4}})|{mark}\+([0-9A-Fa-f]{{6}})|{mark}", re.DOTALL)
    units: list[str] = []
    end = 0
    for found in pattern.finditer(lexeme.value):
        units.append(lexeme.value[end : found.start()])
        code = found[1] or found[2]
        if code is None and len(found[0]) == 1:
            raise syntax_error(text, lexeme.start, "invalid Unicode escape", "42601")
        if code is not None and not 0 < int(code, 16) <= 0x10FFFF:
            raise syntax_error(text, lexeme.start, "invalid Unicode escape value")
        units.append(escape if code is None else chr(int(code, 16)))
        end = found.end()
    value = "".join([*units, lexeme.value[end:]])
    try:
        value = value.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise syntax_error(text, lexeme.start, "invalid Unicode surrogate pair") from None
    value = _truncated(value) if lexeme.kind is Kind.IDENTIFIER else value
    return Lexeme(lexeme.kind, value, lexeme.start, lexeme.end)
