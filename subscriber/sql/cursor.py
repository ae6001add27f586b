"""Reading lexemes in order, and the pieces that the commands' grammar is made of: names, option lists, values.

Two forms that PostgreSQL parses are syntax errors here, since no option accepts what they mean: an
option's value that is a type with more to it than a name (``numeric(10,2)``, ``a.b``, ``int``, ``x[]``),
and one that is an operator.
"""

from __future__ import annotations

import logging

from subscriber.digits import integer_of
from subscriber.errors import SQLSyntaxError
from subscriber.sql.keywords import COLUMN_NAMES, RESERVED, TYPE_OR_FUNCTION_NAMES
from subscriber.sql.lexer import Kind, Lexeme, lex, syntax_error, unexpected
from subscriber.sql.option_list import Option, OptionList, OptionValue

logger = logging.getLogger(__name__)


class Cursor:
    """The lexemes of a command and how far it has been read."""

    def __init__(self, sql: str) -> None:
        self.sql = sql
        self._lexemes = lex(sql)
        self._next = 0

    def peek(self, ahead: int = 0) -> Lexeme | None:
        """The lexeme that comes next, or one behind it."""
        place = self._next + ahead
        return self._lexemes[place] if place < len(self._lexemes) else None

    def error(self) -> SQLSyntaxError:
        """What comes next has no place here."""
        return unexpected(self.sql, self.peek())

    def take(self, *kinds: Kind) -> Lexeme:
        """Read a lexeme that must be of one of these kinds."""
        lexeme = self.peek()
        if lexeme is None or lexeme.kind not in kinds:
            raise self.error()
        self._next += 1
        return lexeme

    def at(self, *words: str) -> bool:
        """Whether these words and symbols come next."""
        for ahead, word in enumerate(words):
            lexeme = self.peek(ahead)
            if lexeme is None or lexeme.kind not in (Kind.WORD, Kind.SYMBOL) or lexeme.value != word:
                return False
        return True

    def accept(self, *words: str) -> bool:
        """Read these words and symbols if they come next."""
        found = self.at(*words)
        self._next += len(words) if found else 0
        return found

    def expect(self, word: str) -> None:
        """Read a word or symbol that must come next."""
        if not self.accept(word):
            raise self.error()

    def end(self) -> None:
        """Nothing but semicolons may follow.

        Raises:
            SQLSyntaxError: more of this command, or a second one.
        """
        if self.peek() is not None and not self.at(";"):
            raise self.error()
        while self.accept(";"):
            pass
        if self.peek() is not None:
            raise second_command()


def second_command() -> SQLSyntaxError:
    """A text that holds more than one command."""
    message = "cannot insert multiple commands into a prepared statement"
    return SQLSyntaxError(message, hint="Give one command at a time.")


# Names ----------------------------------------------------------------------------------------------


def read_name(cursor: Cursor) -> str:
    """ColId: a quoted identifier, or a word that is neither reserved nor a type or function name."""
    return _word_but(cursor, RESERVED | TYPE_OR_FUNCTION_NAMES)


def read_names(cursor: Cursor) -> tuple[str, ...]:
    """One name, or several with commas between them."""
    names = [read_name(cursor)]
    while cursor.accept(","):
        names.append(read_name(cursor))
    return tuple(names)


def read_role(cursor: Cursor) -> str | None:
    """RoleSpec: any word that is not reserved, or None for the current role."""
    if any(cursor.accept(word) for word in ("current_role", "current_user", "session_user")):
        return None
    place = cursor.peek()
    role = _word_but(cursor, RESERVED)
    if role == "none":
        raise syntax_error(cursor.sql, place.start if place else 0, 'role name "none" is reserved', "42939")
    return role


def _word_but(cursor: Cursor, excluded: frozenset[str]) -> str:
    lexeme = cursor.peek()
    if lexeme and lexeme.kind is Kind.WORD and lexeme.value in excluded:
        raise cursor.error()
    return read_label(cursor)


def read_label(cursor: Cursor) -> str:
    """ColLabel: any word or quoted identifier, cut to 63 bytes as PostgreSQL does (it says so in a NOTICE)."""
    lexeme = cursor.take(Kind.WORD, Kind.IDENTIFIER)
    if not lexeme.value:
        raise syntax_error(cursor.sql, lexeme.start, 'zero-length delimited identifier at or near """"')
    identifier = lexeme.value.encode()[:63].decode(errors="ignore")
    if identifier != lexeme.value:
        logger.warning('identifier "%s" will be truncated to "%s"', lexeme.value, identifier)
    return identifier


# Options --------------------------------------------------------------------------------------------


def read_with(cursor: Cursor) -> OptionList:
    """``WITH (…)``, or nothing."""
    return read_options(cursor) if cursor.accept("with") else OptionList(sql=cursor.sql)


def read_options(cursor: Cursor) -> OptionList:
    """``(name [= value], …)``, as written."""
    cursor.expect("(")
    options = [_option(cursor)]
    while cursor.accept(","):
        options.append(_option(cursor))
    cursor.expect(")")
    return OptionList(tuple(options), cursor.sql)


def _option(cursor: Cursor) -> Option:
    place = cursor.peek()
    name = read_label(cursor)
    value = _option_value(cursor) if cursor.accept("=") else None
    return Option(name, value, place.start if place else 0)


def _option_value(cursor: Cursor) -> OptionValue:
    """def_arg: a word, a quoted identifier, a string, a signed number."""
    lexeme = cursor.peek()
    if lexeme and lexeme.kind is Kind.STRING:
        return cursor.take(Kind.STRING).value
    if lexeme and lexeme.kind in (Kind.WORD, Kind.IDENTIFIER):
        if lexeme.kind is Kind.WORD and lexeme.value in COLUMN_NAMES - {"none"}:
            raise cursor.error()
        return read_label(cursor)
    sign = "-" if cursor.accept("-") else ""
    if not sign:
        cursor.accept("+")
    return _number(sign + cursor.take(Kind.NUMBER).value)


def _number(text: str) -> OptionValue:
    """An integer of 32 bits as one, any other number as it was written (Float)."""
    digits = text.removeprefix("-")
    if not (digits.isdigit() or digits[:2].lower() in ("0x", "0b")):
        return text
    number = integer_of(text) if digits.isdigit() else int(text, 0)
    return number if abs(number) < 2**31 else text
