"""Reading lexemes in order: the common part of the grammars of commands and of expressions.

What a grammar does not accept is PostgreSQL's syntax error (SQLSyntaxError, 42601). Two kinds of
option values are errors here only, since no option accepts them: a type that is more than a name
(``numeric(10,2)``, ``a.b``, ``int``, ``x[]``), and an operator.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from subscriber.base.digits import parse_int
from subscriber.base.errors import SQLSyntaxError
from subscriber.base.suggestions import perhaps
from subscriber.postgres.sql.keywords import COLUMN_NAMES, NOT_COLUMN_ID, RESERVED
from subscriber.postgres.sql.lexer import NEWEST, Kind, Lexed, Lexeme, error_of, scan, syntax_error, unexpected
from subscriber.postgres.sql.option_list import Option, OptionList, OptionValue

logger = logging.getLogger(__name__)

_NAME_BYTES: Final = 63
_NUMBERS: Final = (Kind.INTEGER, Kind.FLOAT)


class Cursor:
    """The lexemes of a text, and the index ``place`` of the next one, which a grammar may set back.

    A text without lexemes is scanned by the rules of the version ``major``. ``in_parentheses`` says
    that the closing parenthesis follows the text. A lexeme that PostgreSQL's scanner refuses is an
    error as soon as it is the next one.
    """

    def __init__(self, text: str | Lexed, major: int = NEWEST, *, in_parentheses: bool = False) -> None:
        lexed = scan(text, major) if isinstance(text, str) else text
        self.sql = lexed.sql
        self.major = major
        self.place = 0
        self._lexemes = lexed.lexemes
        self._end = Lexeme(Kind.END, "", len(self.sql), len(self.sql))
        self._in_parentheses = in_parentheses
        self._refused: dict[int, set[str]] = {}

    def peek(self, ahead: int = 0) -> Lexeme:
        """The next lexeme, or the one ``ahead`` places after it; END after the last lexeme."""
        place = self.place + ahead
        lexeme = self._lexemes[place] if place < len(self._lexemes) else self._end
        if lexeme.fault is not None and not ahead:
            raise error_of(self.sql, lexeme.fault)
        return lexeme

    @property
    def position(self) -> int:
        """The character index at which the next lexeme begins."""
        return self.peek().start

    def text_from(self, place: int) -> str:
        """The text from the lexeme with that index to the lexeme that was read last."""
        read = self._lexemes[place : self.place]
        return self.sql[read[0].start : read[-1].end] if read else ""

    def error(self) -> SQLSyntaxError:
        """The syntax error for the next lexeme, or the scanner's own, which is raised."""
        lexeme = self.peek()
        if lexeme.kind is Kind.END and self._in_parentheses:
            return syntax_error(self.sql, len(self.sql), 'syntax error at or near ")"')
        return unexpected(self.sql, lexeme, self.suggestion())

    def suggestion(self) -> str | None:
        """The hint with that keyword of those looked for here that is most like the lexeme."""
        lexeme = self.peek()
        if lexeme.kind is not Kind.WORD:
            return None
        keywords = [word.upper() for word in sorted(self._refused.get(self.place, ())) if word.isalpha()]
        return perhaps("keyword", lexeme.value, keywords)

    def take(self, *kinds: Kind) -> Lexeme:
        """Read a lexeme that must be of one of these kinds."""
        lexeme = self.peek()
        if lexeme.kind not in kinds:
            raise self.error()
        self.place += 1
        return lexeme

    def at(self, *words: str) -> bool:
        """Whether these words and symbols come next."""
        return self._read_of(words) == len(words)

    def _read_of(self, words: Sequence[str]) -> int:
        """How many of the words and symbols come next, up to the first one that does not."""
        for ahead, word in enumerate(words):
            lexeme = self.peek(ahead)
            if lexeme.value != word or lexeme.kind not in (Kind.WORD, Kind.SYMBOL):
                return ahead
        return len(words)

    def at_any(self, *words: str) -> bool:
        return any(self.at(word) for word in words)

    def at_end(self) -> bool:
        return self.peek().kind is Kind.END

    def accept(self, *words: str) -> bool:
        """Read these words and symbols if they come next."""
        there = self._read_of(words)
        if there < len(words):
            self._refused.setdefault(self.place + there, set()).add(words[there])
            return False
        self.place += there
        return True

    def accept_any(self, *words: str) -> str | None:
        return next((word for word in words if self.accept(word)), None)

    def expect(self, *words: str) -> None:
        """Read words or symbols that must come next."""
        for word in words:
            if not self.accept(word):
                raise self.error()

    def skip_parentheses(self) -> None:
        """Read from after an opening parenthesis to after the matching closing one."""
        depth = 1
        while depth:
            if self.at_end() or self.at(";"):
                raise self.error()
            depth += self.at("(") - self.at(")")
            self.place += 1

    def end(self) -> None:
        """Check that only semicolons follow."""
        if not self.at_end() and not self.at(";"):
            raise self.error()
        while self.accept(";"):
            pass
        if not self.at_end():
            raise second_command()

    # Names and numbers ----------------------------------------------------------------------------

    def at_name(self, excluded: frozenset[str]) -> bool:
        lexeme = self.peek()
        return lexeme.kind is Kind.IDENTIFIER or (lexeme.kind is Kind.WORD and lexeme.value not in excluded)

    def name(self, excluded: frozenset[str] = frozenset()) -> str:
        """Read a name, truncated to 63 bytes. Without exclusions it is a ColLabel."""
        if not self.at_name(excluded):
            raise self.error()
        return truncated(self.take(Kind.WORD, Kind.IDENTIFIER).value)

    def names(self, excluded: frozenset[str]) -> tuple[str, ...]:
        """any_name: names with dots between them."""
        found = [self.name(excluded)]
        while self.accept("."):
            found.append(self.name())
        return tuple(found)

    def integer(self) -> int:
        """Iconst: an integer of four bytes. A larger number is another kind of constant."""
        lexeme = self.peek()
        number = parse_int(lexeme.value) if lexeme.kind is Kind.INTEGER else None
        if number is None or number >= 2**31:
            raise self.error()
        self.place += 1
        return number


def truncated(name: str) -> str:
    """``truncate_identifier``: the first 63 bytes, but no part of a character."""
    return name.encode()[:_NAME_BYTES].decode(errors="ignore")


def second_command() -> SQLSyntaxError:
    message = "cannot insert multiple commands into a prepared statement"
    return SQLSyntaxError(message, hint="Give one command at a time.")


# Names of commands --------------------------------------------------------------------------------


def read_name(cursor: Cursor) -> str:
    """ColId: a quoted identifier, or a word neither reserved nor a type or function name."""
    return _read(cursor, NOT_COLUMN_ID)


def read_names(cursor: Cursor) -> tuple[str, ...]:
    names = [read_name(cursor)]
    while cursor.accept(","):
        names.append(read_name(cursor))
    return tuple(names)


def read_role(cursor: Cursor) -> str | None:
    """RoleSpec: a word not reserved, nor ``none`` (42939); None for the current role."""
    if cursor.accept_any("current_role", "current_user", "session_user"):
        return None
    position = cursor.position
    role = _read(cursor, RESERVED)
    if role == "none":
        raise syntax_error(cursor.sql, position, 'role name "none" is reserved', "42939")
    return role


def read_label(cursor: Cursor) -> str:
    """ColLabel: any word or quoted identifier."""
    return _read(cursor, frozenset())


def _read(cursor: Cursor, excluded: frozenset[str]) -> str:
    """Read a name; a NOTICE reports that a name was truncated, as in PostgreSQL."""
    written = cursor.peek().value
    name = cursor.name(excluded)
    if name != written:
        logger.warning('identifier "%s" will be truncated to "%s"', written, name)
    return name


# Options ------------------------------------------------------------------------------------------


def read_with(cursor: Cursor) -> OptionList:
    """Read ``WITH (…)`` if it comes next."""
    return read_options(cursor) if cursor.accept("with") else OptionList(sql=cursor.sql)


def read_options(cursor: Cursor) -> OptionList:
    """Read ``(name [= value], …)``, with the values as they were written."""
    cursor.expect("(")
    options = [_option(cursor)]
    while cursor.accept(","):
        options.append(_option(cursor))
    cursor.expect(")")
    return OptionList(tuple(options), cursor.sql)


def _option(cursor: Cursor) -> Option:
    position = cursor.position
    name = read_label(cursor)
    value = _option_value(cursor) if cursor.accept("=") else None
    return Option(name, value, position)


def _option_value(cursor: Cursor) -> OptionValue:
    """Read a def_arg: a word, a quoted identifier, a string or a signed number."""
    if cursor.peek().kind is Kind.STRING:
        return cursor.take(Kind.STRING).value
    if cursor.peek().kind in (Kind.WORD, Kind.IDENTIFIER):
        return _read(cursor, COLUMN_NAMES - {"none"})
    sign = "-" if cursor.accept("-") else ""
    if not sign:
        cursor.accept("+")
    return _number(cursor, sign)


def _number(cursor: Cursor, sign: str) -> OptionValue:
    """An integer of 32 bits as ``int``, any other number as it was written (Float)."""
    lexeme = cursor.take(*_NUMBERS)
    number = parse_int(lexeme.value) if lexeme.kind is Kind.INTEGER else 2**31
    if number < 2**31:
        return -number if sign else number
    return sign + cursor.sql[lexeme.start : lexeme.end]
