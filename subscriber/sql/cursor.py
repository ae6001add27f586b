"""Reading lexemes in order: what the grammars of commands and of expressions have in common.

A grammar asks what comes next and takes it; what it does not take is PostgreSQL's syntax error.
Names and option lists of commands are read here, too. Two forms that PostgreSQL parses are syntax
errors in an option list, since no option accepts what they mean: a value that is a type with more
to it than a name (``numeric(10,2)``, ``a.b``, ``int``, ``x[]``), and one that is an operator.
"""

from __future__ import annotations

import logging
from typing import Final

from subscriber.digits import integer_of
from subscriber.errors import SQLSyntaxError
from subscriber.sql.keywords import COLUMN_NAMES, NOT_COLUMN_ID, RESERVED
from subscriber.sql.lexer import NEWEST, Kind, Lexed, Lexeme, error_of, scan, syntax_error, unexpected
from subscriber.sql.option_list import Option, OptionList, OptionValue

logger = logging.getLogger(__name__)

_NAME_BYTES: Final = 63
_NUMBERS: Final = (Kind.INTEGER, Kind.FLOAT)


class Cursor:
    """The lexemes of a text and how far they have been read.

    Attributes:
        sql: the text.
        major: PostgreSQL's version, on which the grammar depends.
        place: the number of the lexeme that comes next; may be set back to where it was.
    """

    def __init__(self, text: str | Lexed, major: int = NEWEST, *, in_parentheses: bool = False) -> None:
        """A cursor before the first lexeme.

        Args:
            text: the text; its lexemes are found here unless it comes with them.
            major: PostgreSQL's version.
            in_parentheses: it stands between parentheses, of which the closing one follows it.
        """
        lexed = scan(text, major) if isinstance(text, str) else text
        self.sql = lexed.sql
        self.major = major
        self.place = 0
        self._lexemes = lexed.lexemes
        self._end = Lexeme(Kind.END, "", len(self.sql), len(self.sql))
        self._in_parentheses = in_parentheses

    def peek(self, ahead: int = 0) -> Lexeme:
        """The lexeme that comes next, or one behind it; behind the last, one of kind END.

        Raises:
            SQLSyntaxError: the lexeme that comes next is one that PostgreSQL's scanner refuses.
        """
        place = self.place + ahead
        lexeme = self._lexemes[place] if place < len(self._lexemes) else self._end
        if lexeme.fault is not None and not ahead:
            raise error_of(self.sql, lexeme.fault)
        return lexeme

    @property
    def position(self) -> int:
        """Where the next lexeme begins in the text."""
        return self.peek().start

    def text_from(self, place: int) -> str:
        """The text from the lexeme of that number to the one that was read last; empty where there
        is none.
        """
        read = self._lexemes[place : self.place]
        return self.sql[read[0].start : read[-1].end] if read else ""

    def error(self) -> SQLSyntaxError:
        """The error for what comes next, which cannot stand here; a string constant is not shown.

        Raises:
            SQLSyntaxError: what comes next is no lexeme, which is another error.
        """
        lexeme = self.peek()
        if lexeme.kind is Kind.END and self._in_parentheses:
            return syntax_error(self.sql, len(self.sql), 'syntax error at or near ")"')
        return unexpected(self.sql, lexeme)

    def take(self, *kinds: Kind) -> Lexeme:
        """Read a lexeme that must be of one of these kinds.

        Raises:
            SQLSyntaxError: 42601, it is not.
        """
        lexeme = self.peek()
        if lexeme.kind not in kinds:
            raise self.error()
        self.place += 1
        return lexeme

    def at(self, *words: str) -> bool:
        """Whether these words and symbols come next."""
        return all(
            (lexeme := self.peek(ahead)).kind in (Kind.WORD, Kind.SYMBOL) and lexeme.value == word
            for ahead, word in enumerate(words)
        )

    def at_any(self, *words: str) -> bool:
        """Whether one of these comes next."""
        return any(self.at(word) for word in words)

    def at_end(self) -> bool:
        """Whether everything has been read."""
        return self.peek().kind is Kind.END

    def accept(self, *words: str) -> bool:
        """Read these words and symbols if they come next."""
        found = self.at(*words)
        self.place += len(words) if found else 0
        return found

    def accept_any(self, *words: str) -> str | None:
        """Read one of these words if it comes next, and give it back."""
        return next((word for word in words if self.accept(word)), None)

    def expect(self, *words: str) -> None:
        """Read words or symbols that must come next.

        Raises:
            SQLSyntaxError: 42601, something else comes next.
        """
        for word in words:
            if not self.accept(word):
                raise self.error()

    def skip_parentheses(self) -> None:
        """Read from behind an opening parenthesis to behind its closing one.

        Raises:
            SQLSyntaxError: 42601, it is not closed.
        """
        depth = 1
        while depth:
            if self.at_end() or self.at(";"):
                raise self.error()
            depth += self.at("(") - self.at(")")
            self.place += 1

    def end(self) -> None:
        """Nothing but semicolons may follow.

        Raises:
            SQLSyntaxError: 42601, more of this command, or a second one.
        """
        if not self.at_end() and not self.at(";"):
            raise self.error()
        while self.accept(";"):
            pass
        if not self.at_end():
            raise second_command()

    # Names and numbers ----------------------------------------------------------------------------

    def at_name(self, excluded: frozenset[str]) -> bool:
        """Whether a quoted identifier comes next, or a word that is not among these."""
        lexeme = self.peek()
        return lexeme.kind is Kind.IDENTIFIER or (lexeme.kind is Kind.WORD and lexeme.value not in excluded)

    def name(self, excluded: frozenset[str] = frozenset()) -> str:
        """Read a name, cut to 63 bytes as PostgreSQL does; without exclusions it is a ColLabel.

        Raises:
            SQLSyntaxError: 42601, what comes next is no name, or one of these words.
        """
        if not self.at_name(excluded):
            raise self.error()
        return truncated(self.take(Kind.WORD, Kind.IDENTIFIER).value)

    def names(self, excluded: frozenset[str]) -> tuple[str, ...]:
        """any_name: names with dots between them.

        Raises:
            SQLSyntaxError: as :meth:`name`.
        """
        found = [self.name(excluded)]
        while self.accept("."):
            found.append(self.name())
        return tuple(found)

    def integer(self) -> int:
        """Iconst: an integer of four bytes; a longer one is a number of another kind.

        Raises:
            SQLSyntaxError: 42601, something else comes next.
        """
        lexeme = self.peek()
        number = integer_of(lexeme.value) if lexeme.kind is Kind.INTEGER else None
        if number is None or number >= 2**31:
            raise self.error()
        self.place += 1
        return number


def truncated(name: str) -> str:
    """``truncate_identifier``: at most 63 bytes of a name."""
    return name.encode()[:_NAME_BYTES].decode(errors="ignore")


def second_command() -> SQLSyntaxError:
    """A text that holds more than one command."""
    message = "cannot insert multiple commands into a prepared statement"
    return SQLSyntaxError(message, hint="Give one command at a time.")


# Names of commands --------------------------------------------------------------------------------


def read_name(cursor: Cursor) -> str:
    """ColId: a quoted identifier, or a word that is neither reserved nor a type or function name.

    Raises:
        SQLSyntaxError: 42601, something else comes next.
    """
    return _read(cursor, NOT_COLUMN_ID)


def read_names(cursor: Cursor) -> tuple[str, ...]:
    """One name, or several with commas between them.

    Raises:
        SQLSyntaxError: as :func:`read_name`.
    """
    names = [read_name(cursor)]
    while cursor.accept(","):
        names.append(read_name(cursor))
    return tuple(names)


def read_role(cursor: Cursor) -> str | None:
    """RoleSpec: any word that is not reserved, or None for the current role.

    Raises:
        SQLSyntaxError: 42601 something else comes next, 42939 it is the name ``none``.
    """
    if cursor.accept_any("current_role", "current_user", "session_user"):
        return None
    position = cursor.position
    role = _read(cursor, RESERVED)
    if role == "none":
        raise syntax_error(cursor.sql, position, 'role name "none" is reserved', "42939")
    return role


def read_label(cursor: Cursor) -> str:
    """ColLabel: any word or quoted identifier.

    Raises:
        SQLSyntaxError: 42601, something else comes next.
    """
    return _read(cursor, frozenset())


def _read(cursor: Cursor, excluded: frozenset[str]) -> str:
    """A name; that it is cut is said in a NOTICE, as PostgreSQL does."""
    written = cursor.peek().value
    name = cursor.name(excluded)
    if name != written:
        logger.warning('identifier "%s" will be truncated to "%s"', written, name)
    return name


# Options ------------------------------------------------------------------------------------------


def read_with(cursor: Cursor) -> OptionList:
    """``WITH (…)``, or nothing.

    Raises:
        SQLSyntaxError: as :func:`read_options`.
    """
    return read_options(cursor) if cursor.accept("with") else OptionList(sql=cursor.sql)


def read_options(cursor: Cursor) -> OptionList:
    """``(name [= value], …)``, as written.

    Raises:
        SQLSyntaxError: 42601, it does not parse.
    """
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
    """def_arg: a word, a quoted identifier, a string, a signed number."""
    if cursor.peek().kind is Kind.STRING:
        return cursor.take(Kind.STRING).value
    if cursor.peek().kind in (Kind.WORD, Kind.IDENTIFIER):
        return _read(cursor, COLUMN_NAMES - {"none"})
    sign = "-" if cursor.accept("-") else ""
    if not sign:
        cursor.accept("+")
    return _number(cursor, sign)


def _number(cursor: Cursor, sign: str) -> OptionValue:
    """An integer of 32 bits as one, any other number as it was written (Float)."""
    lexeme = cursor.take(*_NUMBERS)
    number = integer_of(lexeme.value) if lexeme.kind is Kind.INTEGER else 2**31
    if number < 2**31:
        return -number if sign else number
    return sign + cursor.sql[lexeme.start : lexeme.end]
