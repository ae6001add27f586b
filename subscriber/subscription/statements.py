"""Cutting a text into statements, for ``subscriber sql -f`` and standard input.

A semicolon ends a statement unless it is inside a string constant, a quoted identifier, a dollar
quote or a comment - which is for the tokenizer to know. The text keeps its semicolon, as psql sends
it, so that error texts and positions are the ones that psql would show.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from subscriber.subscription.lexer import tokenize


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
    start: int | None = None
    line, counted = 1, 0
    tokens = tokenize(text)
    for number, token in enumerate(tokens):
        semicolon = text[token.start : token.end + 1] == ";"
        if start is None and not semicolon:
            start = token.start
            line += text.count("\n", counted, start)
            counted = start
        if start is not None and (semicolon or number == len(tokens) - 1):
            statements.append(Statement(text[start : token.end + 1], line))
            start = None
    return statements
