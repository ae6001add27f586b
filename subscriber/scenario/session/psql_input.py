r"""What is typed in a session: queries and backslash commands.

:mod:`subscriber.sql.statements` splits text into statements at the same places as psql. This module
adds what a session needs to know of each query. ``\gexec`` makes psql run every value of the result
as a statement.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from subscriber.errors import NotSupportedError
from subscriber.sql.lexer import Kind, Lexed, Lexeme, scan
from subscriber.sql.statements import NOTHING_OPEN, Statement, is_backslash_command
from subscriber.sql.statements import cut as cut_statements

__all__ = ["Query", "check_backslash_command", "cut", "is_backslash_command", "query_of"]

_READING: Final = re.compile(r"\\(d\S*|l\+?|list\+?|z|sf\+?|sv\+?)(\s|$)")
"""Backslash commands that describe the objects of the database."""


@dataclass(frozen=True, slots=True)
class Query(Lexed):
    r"""What psql sends to the server in one message.

    Attributes:
        sql: the text from the first lexeme to the semicolon, as typed. A semicolon replaces every
            ``\;``, and ``\gexec`` is removed.
        lexemes: the lexemes of ``sql``.
        ended: whether a semicolon or ``\gexec`` ended it. Only the last query of a text may lack
            both.
        ordered: for each statement in it, whether it has ORDER BY at its outermost level (for COPY,
            in its query). It is false for ``\gexec``, since the statements that this runs are not
            in the text.
        copies_out: whether it is COPY … TO STDOUT, which prints data and no table.
        executes: whether ``\gexec`` ended it, so that every value of its result is run as a
            statement.
    """

    ended: bool
    ordered: tuple[bool, ...]
    copies_out: bool
    executes: bool = False

    @property
    def text(self) -> str:
        """The text that is sent."""
        return self.sql

    @property
    def words(self) -> list[str]:
        """The unquoted words, in lower case. Empty if the server will report a syntax error."""
        if any(lexeme.fault for lexeme in self.lexemes):
            return []
        return [lexeme.value for lexeme in self.lexemes if lexeme.kind is Kind.WORD]


def check_backslash_command(text: str) -> None:
    r"""Refuse a backslash command that a session cannot run.

    A backslash command runs in a separate psql process. A command that changes its session (``\c``,
    ``\x``, ``\set``) would have no effect there. A command that runs programs or writes files must
    not be in a file that may come from somebody else.

    Raises:
        NotSupportedError: the command does more than describe objects, has more than one line, or
            contains a backquote.
    """
    command = text.strip()
    if not _READING.match(command):
        raise NotSupportedError(
            f"{command.split(maxsplit=1)[0]} is not supported in a scenario",
            hint=r"Backslash commands that describe are: \d…, \l, \z, \sf and \sv.",
        )
    if "\n" in command or "`" in command:
        raise NotSupportedError(
            f"{command.split(maxsplit=1)[0]} with a line break or a shell command in its arguments is not supported",
            hint="Write the arguments themselves, in one line.",
        )


def cut(text: str) -> list[Query]:
    r"""The queries of ``text`` in order, as psql sends them. Empty queries are left out.

    Raises:
        SQLSyntaxError: a string, quoted identifier or comment is not terminated.
        NotSupportedError: a backslash command follows a statement on its line (``\gx``), or
            something follows ``\gexec``.
    """
    return [_query(statement) for statement in cut_statements(text)]


def query_of(text: str) -> Query:
    """A query of one statement that is sent unchanged, and whose result has no defined order."""
    return Query(text, scan(text).lexemes, ended=True, ordered=(False,), copies_out=False)


def _query(statement: Statement) -> Query:
    executes = bool(statement.command)
    if executes and (not statement.sql or statement.command.rstrip() != r"\gexec"):
        raise NotSupportedError(
            "a backslash command after a statement is not supported in a scenario",
            hint="Write it at a separate prompt; statements end with a semicolon.",
        )
    parts = _parts(statement)
    return Query(
        statement.sql,
        statement.lexemes,
        ended=statement.open == NOTHING_OPEN,
        ordered=(False,) if executes else tuple(map(_is_ordered, parts)),
        copies_out=any(_is_copy(part) and any(_is_word(one, "stdout") for one in part) for part in parts),
        executes=executes,
    )


def _parts(statement: Statement) -> list[list[Lexeme]]:
    r"""The lexemes of each statement of a query. ``\;`` separates the statements."""
    parts: list[list[Lexeme]] = [[]]
    for lexeme in statement.lexemes:
        if lexeme.start in statement.joints:
            parts.append([])
        else:
            parts[-1].append(lexeme)
    return parts


def _is_ordered(part: list[Lexeme]) -> bool:
    outermost = int(_is_copy(part))
    depth = 0
    for lexeme, following in pairwise(part):
        if lexeme.kind is Kind.SYMBOL:
            depth = max(0, depth + (lexeme.value == "(") - (lexeme.value == ")"))
        elif depth <= outermost and _is_word(lexeme, "order") and _is_word(following, "by"):
            return True
    return False


def _is_copy(part: list[Lexeme]) -> bool:
    return bool(part) and _is_word(part[0], "copy")


def _is_word(lexeme: Lexeme, word: str) -> bool:
    return lexeme.kind is Kind.WORD and lexeme.value == word
