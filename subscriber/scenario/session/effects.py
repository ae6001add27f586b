"""The effects of a statement that the runner of a session must know.

For instance, a statement reads rows, or creates a subscription.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Flag, auto
from itertools import islice, pairwise
from typing import Final

from psycopg import sql

from subscriber.errors import SubscriberError
from subscriber.scenario.session.psql_input import Query, cut, is_backslash_command
from subscriber.sql.lexer import Kind, scan


class Effect(Flag):
    """The effects for which a session waits.

    ROWS: the statement reads or writes rows. The node's subscriptions settle before it.

    SUBSCRIPTION: it creates or alters a subscription. The node's subscriptions settle after it.

    OTHER: neither.
    """

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
    """Whether ``text`` may change a publication. A change of a published table is such a change
    too.

    >>> may_change_publications("ALTER TABLE t RENAME TO u"), may_change_publications("CREATE TABLE t (a int)")
    (True, False)
    """
    return any(
        query.executes or _names_publication(query) or _first_words(query)[0] in _CHANGING for query in _cut(text)
    )


def may_commit(text: str) -> bool:
    """Whether ``text`` may commit an open transaction."""
    return any(query.executes or _first_words(query)[0] in ("commit", "end") for query in _cut(text))


def reads_publications(text: str) -> bool:
    """Whether ``text`` is one query that reads the catalogs of publications."""
    queries = _cut(text)
    if len(queries) != 1 or queries[0].executes or _first_words(queries[0])[0] not in _READING:
        return False
    names = (lexeme for lexeme in queries[0].lexemes if lexeme.kind in (Kind.WORD, Kind.IDENTIFIER))
    return any(_PUBLICATIONS.match(lexeme.value) for lexeme in names)


def _cut(text: str) -> list[Query]:
    """The queries of ``text``.

    Empty for a backslash command, and if the server will report a syntax error.
    """
    try:
        return [] if is_backslash_command(text) else cut(text)
    except SubscriberError:
        return []


def _names_publication(query: Query) -> bool:
    first, second = _first_words(query)
    return first in ("create", "alter", "drop") and second == "publication"


_CHANGING: Final = frozenset({"alter", "drop", "do", "call"})
_READING: Final = frozenset({"select", "values", "table"})
_PUBLICATIONS: Final = re.compile(r"pg_publication|pg_get_publication_")


def replace_conninfo(text: str, resolve: Callable[[str], str]) -> str:
    """Replace the connection strings of subscriptions in ``text``.

    The string after each CONNECTION is replaced by the result of ``resolve``. Text that PostgreSQL
    cannot parse is returned unchanged, so that the server reports the error.
    """
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


def _first_words(query: Query) -> tuple[str, str]:
    pieces = (query.sql[lexeme.start : lexeme.end].lower() for lexeme in query.lexemes)
    words = islice((piece for piece in pieces if piece != "("), 2)
    return next(words, ""), next(words, "")
