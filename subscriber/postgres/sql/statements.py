r"""Splitting a text into statements where psql does (``psqlscan.l``), which does not parse SQL.

A semicolon ends a statement unless it is

- in a string constant, a quoted identifier, a dollar quote or a comment, which the lexer
  recognizes;
- in parentheses (``CREATE RULE … DO (a; b)``), or between BEGIN and END of a function's body;
- after a backslash: ``\;`` separates statements that are sent together.

Any other backslash begins a psql command, which extends to the end of its line and ends the
statement before it: ``SELECT 1 \gexec``. Comments before a statement are not sent. A statement
keeps its semicolon, so that error texts and positions are those that psql would show.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from subscriber.postgres.sql.lexer import Kind, Lexed, Lexeme, error_of, scan_from, with_escape_characters

NOTHING_OPEN: Final = "="
""":attr:`Statement.open` of what has ended, and of a text without a statement."""

_OPEN_LEXEMES: Final = {Kind.IDENTIFIER: '"', Kind.COMMENT: "*"}
_ROUTINES: Final = frozenset({"function", "procedure"})
_FIRST_WORDS: Final = 4
"""The number of words in CREATE OR REPLACE FUNCTION."""


@dataclass(frozen=True, slots=True)
class Statement(Lexed):
    r"""A text that psql sends in one message, and what ended it.

    Attributes:
        sql: from the first lexeme to the semicolon, as typed, but with a semicolon for every
            ``\;``; empty where a backslash command stands alone.
        line: the line of its first lexeme in the whole text, from 1.
        open: what is not closed at its end, as ``%R`` of psql's prompt shows it: ``=`` nothing,
            ``-`` the statement, ``(`` parentheses, ``'`` a string constant, ``"`` a quoted
            identifier, ``$`` a dollar quote, ``*`` a comment.
        joints: the character indexes in ``sql`` of the semicolons that were written as ``\;``.
        command: the backslash command that ended it, up to the end of the line; empty for none.
    """

    line: int
    open: str = NOTHING_OPEN
    joints: tuple[int, ...] = ()
    command: str = ""


def is_backslash_command(text: str) -> bool:
    r"""Whether the text is a command of psql (``\d``) and not of the server."""
    return text.lstrip().startswith("\\")


def cut(text: str) -> list[Statement]:
    """The statements of ``text`` in order, without empty ones (a lone semicolon, a comment).

    A constant or comment that is not terminated is a SQLSyntaxError. No statement has been run
    then: a text is read completely before its first statement runs (refuse_not_guess).
    """
    statements, last = _cut(text)
    if last is not None and not last.terminated and last.fault is not None:
        raise error_of(text, last.fault)
    return statements


def open_in(text: str) -> str:
    """What is not closed at the end of a text, as in :attr:`Statement.open`.

    >>> open_in("SELECT 1; SELECT"), open_in("SELECT 'it")
    ('-', "'")
    """
    statements, _ = _cut(text)
    return statements[-1].open if statements else NOTHING_OPEN


def _cut(text: str) -> tuple[list[Statement], Lexeme | None]:
    statements: list[Statement] = []
    gathered = _Gathered(text, 0, 1)
    last: Lexeme | None = None
    lexemes = scan_from(text, 0)
    while (lexeme := next(lexemes, None)) is not None:
        last = lexeme
        if _is(lexeme, "\\") and text[lexeme.end : lexeme.end + 1] not in _ESCAPED:
            statement = gathered.statement(NOTHING_OPEN, before=lexeme)
            lexemes = scan_from(text, lexeme.start + len(statement.command))
        elif gathered.ends_with(lexeme):
            statement = gathered.statement(NOTHING_OPEN)
        else:
            continue
        statements.append(statement)
        gathered = _Gathered(text, gathered.start, statement.line)
    if gathered.lexemes:
        statements.append(gathered.statement(gathered.open()))
    return statements, last


_ESCAPED: Final = frozenset(";:")
"""The characters before which a backslash does not begin a command."""


def _is(lexeme: Lexeme, symbol: str) -> bool:
    return lexeme.kind is Kind.SYMBOL and lexeme.value == symbol


class _Gathered:
    r"""The lexemes of one statement so far, without the backslash of ``\;``."""

    def __init__(self, text: str, start: int, line: int) -> None:
        self._text = text
        self.start = start
        self._line = line
        self.lexemes: list[Lexeme] = []
        self._end = start
        self._backslashes: list[int] = []
        self._joints: list[int] = []
        self._parentheses = 0
        self._begins = 0
        self._words: list[str] = []
        # The first words of the statement: psql decides by them whether it has a body.

    def ends_with(self, lexeme: Lexeme) -> bool:
        """Add one lexeme; returns whether it ends the statement."""
        if not self.lexemes and _is(lexeme, ";") and not self._backslashes:
            return False  # an empty statement is not sent
        if not self.lexemes and not self._backslashes:
            self._begin(lexeme.start)
        if _is(lexeme, "\\"):
            self._backslashes.append(lexeme.start)
            return False
        is_escaped = bool(self._backslashes) and self._backslashes[-1] == lexeme.start - 1
        self._end = lexeme.end
        self.lexemes.append(lexeme.moved(-self.start - len(self._backslashes)))
        if is_escaped and _is(lexeme, ";"):
            self._joints.append(self.lexemes[-1].start)
            self._words = []
        elif _is(lexeme, ";"):
            return not self._parentheses and not self._begins
        elif _is(lexeme, "("):
            self._parentheses += 1
        elif _is(lexeme, ")"):
            self._parentheses = max(0, self._parentheses - 1)
        elif lexeme.kind is Kind.WORD:
            self._take_word(lexeme.value)
        return False

    def _begin(self, start: int) -> None:
        self._line += self._text.count("\n", self.start, start)
        self.start = self._end = start

    def _take_word(self, word: str) -> None:
        if len(self._words) < _FIRST_WORDS:
            self._words.append(word)
        if self._parentheses or not self._has_body():
            return
        if word == "begin":
            self._begins += 1
        elif word == "case":
            self._begins += 1 if self._begins else 0
        elif word == "end":
            self._begins = max(0, self._begins - 1)

    def _has_body(self) -> bool:
        first, *rest = self._words
        rest = rest[2:] if rest[:2] == ["or", "replace"] else rest
        return first == "create" and bool(rest) and rest[0] in _ROUTINES

    def open(self) -> str:
        last = self.lexemes[-1]
        if last.terminated:
            return "(" if self._parentheses else "-"
        if last.kind in _OPEN_LEXEMES:
            return _OPEN_LEXEMES[last.kind]
        return "$" if self._text[self.start + last.start + len(self._backslashes)] == "$" else "'"

    def statement(self, open_: str, *, before: Lexeme | None = None) -> Statement:
        """The statement; ``before`` is where a backslash command begins that ends it."""
        command = ""
        if before is not None:
            if not self.lexemes:
                self._begin(before.start)
            (command, *_) = self._text[before.start :].split("\n", 1)
        pieces = []
        done = self.start
        for place in self._backslashes:
            pieces.append(self._text[done:place])
            done = place + 1
        sql = "".join([*pieces, self._text[done : self._end]])
        lexemes = tuple(with_escape_characters(sql, self.lexemes))
        return Statement(sql, lexemes, self._line, open_, tuple(self._joints), command)
