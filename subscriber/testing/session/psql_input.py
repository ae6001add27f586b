r"""What is typed in a session: queries and backslash commands, split as psql splits them, and
whether a statement reads rows, so that the session waits until its subscriptions have caught up.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Flag, auto
from itertools import islice, pairwise
from typing import Final

from psycopg import sql

from subscriber.base.errors import NotSupportedError, SubscriberError
from subscriber.postgres.sql.lexer import Kind, Lexed, Lexeme, scan
from subscriber.postgres.sql.statements import NOTHING_OPEN, Statement, is_backslash_command
from subscriber.postgres.sql.statements import cut as cut_statements

__all__ = ["PsqlQuery", "check_backslash_command", "cut", "is_backslash_command", "query_of"]

_READING: Final = re.compile(r"\\(d\S*|l\+?|list\+?|z|sf\+?|sv\+?)(\s|$)")
"""Backslash commands that describe the objects of the database."""


@dataclass(frozen=True, slots=True)
class PsqlQuery(Lexed):
    r"""What psql sends to the server in one message. In ``sql`` a semicolon replaces every ``\;``.
    Only the last query may not have ``ended`` (by a semicolon or ``\gexec``). ``ordered``: for each
    statement, whether it has ORDER BY at its outermost level; False for ``\gexec``. ``copies_out``:
    COPY … TO STDOUT prints data and no table. ``executes``: ``\gexec`` runs every value.
    """

    ended: bool
    ordered: tuple[bool, ...]
    copies_out: bool
    executes: bool = False

    @property
    def text(self) -> str:
        return self.sql

    @property
    def words(self) -> list[str]:
        """The unquoted words, in lower case. Empty if the server will report a syntax error."""
        if any(lexeme.fault for lexeme in self.lexemes):
            return []
        return [lexeme.value for lexeme in self.lexemes if lexeme.kind is Kind.WORD]


def check_backslash_command(text: str) -> None:
    r"""Refuse one that does more than describe objects. It runs in a separate psql, so ``\c``,
    ``\x`` or ``\set`` has no effect; running programs or writing files must not come from a
    stranger's file.
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


def cut(text: str) -> list[PsqlQuery]:
    r"""The queries that psql sends, without empty ones. SQLSyntaxError: a quote or comment has no
    end. NotSupportedError: a backslash command after a statement (``\gx``), or text after
    ``\gexec``.
    """
    return [_query(statement) for statement in cut_statements(text)]


def query_of(text: str) -> PsqlQuery:
    """A query of one statement that is sent unchanged, and whose result has no defined order."""
    return PsqlQuery(text, scan(text).lexemes, ended=True, ordered=(False,), copies_out=False)


def _query(statement: Statement) -> PsqlQuery:
    executes = bool(statement.command)
    if executes and (not statement.sql or statement.command.rstrip() != r"\gexec"):
        raise NotSupportedError(
            "a backslash command after a statement is not supported in a scenario",
            hint="Write it at a separate prompt; statements end with a semicolon.",
        )
    parts = _parts(statement)
    return PsqlQuery(
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


class Effect(Flag):
    """For ROWS, the node's subscriptions settle before the statement, for SUBSCRIPTION after it."""

    OTHER = 0
    ROWS = auto()
    SUBSCRIPTION = auto()


_ROWS: Final = frozenset(
    {
        "select",
        "values",
        "table",
        "with",
        "insert",
        "update",
        "delete",
        "merge",
        "truncate",
        "copy",
        "execute",
        "fetch",
        "do",
    }
)


def effect_of(text: str) -> Effect:
    r"""The effects of the statements in ``text``. A backslash command only shows definitions.

    The statements that ``\gexec`` runs are not known in advance, and may have any effect.

    >>> effect_of("SELECT 1"), effect_of("ALTER SUBSCRIPTION s DISABLE"), effect_of("DROP TABLE t")
    (<Effect.ROWS: 1>, <Effect.SUBSCRIPTION: 2>, <Effect.OTHER: 0>)
    """
    if is_backslash_command(text):
        return Effect.OTHER
    effects = Effect.OTHER
    for query in cut(text):
        anything = Effect.ROWS | Effect.SUBSCRIPTION
        effects |= anything if query.executes else _effect(*_first_words(query))
    return effects


def publication_command(text: str) -> str | None:
    """The CREATE, ALTER or DROP PUBLICATION command that ``text`` is, or None."""
    queries = _cut(text)
    if len(queries) != 1 or queries[0].executes or not _names_publication(queries[0]):
        return None
    return queries[0].text


def may_change_publications(text: str) -> bool:
    """Whether ``text`` may change a publication, also by a change of a published table.

    >>> may_change_publications("ALTER TABLE t RENAME TO u"), may_change_publications("CREATE TABLE t (a int)")
    (True, False)
    >>> may_change_publications("ALTER TABLE t DETACH PARTITION u")
    False
    """
    return any(
        query.executes or _names_publication(query) or (_first_words(query)[0] in _CHANGING and not _moves(query))
        for query in _cut(text)
    )


def _moves(query: PsqlQuery) -> bool:
    """Whether a query attaches or detaches a partition, which leaves publications as they are."""
    words = [lexeme.value for lexeme in query.lexemes if lexeme.kind is Kind.WORD]
    return any(pair in _MOVES for pair in pairwise(words))


def may_commit(text: str) -> bool:
    return any(query.executes or _first_words(query)[0] in ("commit", "end") for query in _cut(text))


def reads_publications(text: str) -> bool:
    """Whether ``text`` is one query that reads the catalogs of publications."""
    queries = _cut(text)
    if len(queries) != 1 or queries[0].executes or _first_words(queries[0])[0] not in READING:
        return False
    return any(_PUBLICATIONS.match(name) for name in names_in(text))


def names_in(text: str) -> frozenset[str]:
    """The words and identifiers of ``text``.

    >>> sorted(names_in('SELECT a FROM "T"'))
    ['T', 'a', 'from', 'select']
    """
    lexemes = (lexeme for query in _cut(text) for lexeme in query.lexemes)
    return frozenset(lexeme.value for lexeme in lexemes if lexeme.kind in (Kind.WORD, Kind.IDENTIFIER))


def _cut(text: str) -> list[PsqlQuery]:
    """No queries for a backslash command, and if the server will report a syntax error."""
    try:
        return [] if is_backslash_command(text) else cut(text)
    except SubscriberError:
        return []


def _names_publication(query: PsqlQuery) -> bool:
    first, second = _first_words(query)
    return first in ("create", "alter", "drop") and second == "publication"


_CHANGING: Final = frozenset({"alter", "drop", "do", "call"})
_MOVES: Final = frozenset({("attach", "partition"), ("detach", "partition")})
READING: Final = frozenset({"select", "values", "table"})
_PUBLICATIONS: Final = re.compile(r"pg_publication|pg_get_publication_")


def replace_conninfo(text: str, resolve: Callable[[str], str]) -> str:
    """Replace the string after each CONNECTION; what PostgreSQL cannot parse is kept as it is."""
    try:
        if Effect.SUBSCRIPTION not in effect_of(text):
            return text
    except SubscriberError:
        return text
    lexemes = scan(text).lexemes
    if any(lexeme.fault for lexeme in lexemes):
        return text
    pieces = []
    done = 0
    for word, string in pairwise(lexemes):
        if word.kind is Kind.WORD and word.value == "connection" and string.kind is Kind.STRING:
            pieces += [text[done : string.start], sql.Literal(resolve(string.value)).as_string(None)]
            done = string.end
    return "".join([*pieces, text[done:]])


def _effect(first: str, second: str) -> Effect:
    if first in ("create", "alter") and second == "subscription":
        return Effect.SUBSCRIPTION
    return Effect.ROWS if first in _ROWS else Effect.OTHER


def _first_words(query: PsqlQuery) -> tuple[str, str]:
    pieces = (query.sql[lexeme.start : lexeme.end].lower() for lexeme in query.lexemes)
    words = islice((piece for piece in pieces if piece != "("), 2)
    return next(words, ""), next(words, "")
