"""Cutting a text into statements, for ``subscriber sql -f``, standard input and the prompt.

A semicolon ends a statement unless it is in parentheses, a string constant, a quoted identifier, a dollar
quote or a comment - all but the parentheses is for the tokenizer to know. The text keeps its semicolon, as psql sends
it, so that error texts and positions are the ones that psql would show.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlglot import Token

from subscriber.sql.lexer import tokenize, tokenize_open

NOTHING_OPEN: Final = "="
"""What :func:`open_in` says of a text that is empty, or whose statements have all ended."""

_OPENING: Final = re.compile(r"""(?:[bexn]|u&)?(['"])|/(\*)|(\$)""", re.IGNORECASE)
"""How a token begins that may not end, and what psql's prompt shows of it."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement and where it starts."""

    text: str = field(repr=False)  # may hold a connection string
    """From its first to its last token, semicolon included; comments before it are left out."""
    line: int
    """The line of its first token in the whole text, from 1."""


def split_statements(text: str) -> list[Statement]:
    """The statements of ``text`` in order; empty ones (a lone semicolon, a comment) are left out.

    Raises:
        SQLSyntaxError: a string, quoted identifier or comment is not terminated. Nothing has been
            run then: a file is read as a whole or not at all (refuse_not_guess).
    """
    statements: list[Statement] = []
    line, counted = 1, 0
    for start, end, _ in _spans(text, tokenize(text)):
        line += text.count("\n", counted, start)
        counted = start
        statements.append(Statement(text[start:end], line))
    return statements


def open_in(text: str) -> str:
    """What a text is in the middle of, as ``%R`` of psql's prompt shows it.

    Gives:
        :data:`NOTHING_OPEN`, ``-`` a statement, ``(`` parentheses, ``'`` a string constant, ``"`` a quoted identifier,
        ``$`` a dollar quote, ``*`` a comment.

    >>> open_in("SELECT 1; SELECT"), open_in("SELECT 'it")
    ('-', "'")
    """
    tokens, start = tokenize_open(text)
    if start is not None:
        opening = _OPENING.match(text, start)
        return next(filter(None, opening.groups())) if opening else NOTHING_OPEN
    *_, (_, _, state) = [(0, 0, NOTHING_OPEN), *_spans(text, tokens)]
    return state


def _spans(text: str, tokens: Sequence[Token]) -> Iterator[tuple[int, int, str]]:
    """Where each statement starts and ends, and what it is in the middle of."""
    start: int | None = None
    depth = 0
    for number, token in enumerate(tokens):
        raw = text[token.start : token.end + 1]
        if start is None:
            if raw == ";":
                continue
            start = token.start
        depth = max(0, depth + (raw == "(") - (raw == ")"))
        ends = raw == ";" and not depth
        if ends or number == len(tokens) - 1:
            yield start, token.end + 1, NOTHING_OPEN if ends else "(" if depth else "-"
            start = None
