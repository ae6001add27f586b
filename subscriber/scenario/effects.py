"""What a statement of a session does, as far as the runner must know: does it read rows, or make a subscription?"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from itertools import pairwise
from typing import Final

from psycopg import sql

from subscriber.errors import SubscriberError
from subscriber.scenario.typed import cut, is_backslash_command
from subscriber.subscription.lexer import Kind, lex, tokenize


class Effect(Enum):
    """What makes a session wait.

    ROWS: it reads or writes rows: the node's subscriptions settle before it.
    SUBSCRIPTION: it makes or alters a subscription: they settle after it.
    OTHER: neither.
    """

    ROWS = "rows"
    SUBSCRIPTION = "subscription"
    OTHER = "other"


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
    """The strongest effect of the statements in ``text``; a backslash command shows definitions only.

    >>> effect_of("SELECT 1"), effect_of("ALTER SUBSCRIPTION s DISABLE"), effect_of("DROP TABLE t")
    (<Effect.ROWS: 'rows'>, <Effect.SUBSCRIPTION: 'subscription'>, <Effect.OTHER: 'other'>)
    """
    if is_backslash_command(text):
        return Effect.OTHER
    effects = {_effect(*_first_words(query.text)) for query in cut(text)}
    return next((effect for effect in (Effect.SUBSCRIPTION, Effect.ROWS) if effect in effects), Effect.OTHER)


def replace_conninfo(text: str, resolve: Callable[[str], str]) -> str:
    """``text`` with the string after every CONNECTION replaced by what ``resolve`` gives.

    A string that PostgreSQL would not read is left to the server to refuse.
    """
    try:
        lexemes = lex(text)
    except SubscriberError:
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


def _first_words(statement: str) -> tuple[str, str]:
    pieces = (statement[token.start : token.end + 1].lower() for token in tokenize(statement))
    words = (piece for piece in pieces if piece != "(")
    return next(words, ""), next(words, "")
