"""What was typed, without its secrets, so that it can be shown or kept (names_are_data)."""

from __future__ import annotations

import re
from typing import Final

from subscriber.base.errors import SQLSyntaxError
from subscriber.base.settings import UNREADABLE_CONNINFO, redact_conninfo
from subscriber.postgres.sql.lexer import Kind, Lexed, scan
from subscriber.postgres.sql.quoting import quote_literal
from subscriber.testing.session.aligned import display_width

_SECRET: Final = re.compile(r"passw(or)?d(?!_required)|secret|_key\b|://\S*:\S*@", re.IGNORECASE)
"""Text around a secret, for connection strings without quotes or that cannot be parsed."""

_CONSTANT: Final = re.compile(r"(?:[bexn]|u&)?'|\$|\".*=", re.IGNORECASE | re.DOTALL)
"""The beginning of a string constant, or of an identifier that was meant as one."""
_MASK: Final = "'…'"


def without_secrets(text: str) -> str | None:
    """What was typed, with every connection string redacted; None if it may still contain a secret.

    A misspelled command may contain a password too, so all its constants are redacted.

    >>> without_secrets("CREATE SUBSCRIPTION s CONNECTION 'host=h password=x' PUBLICATION p;")
    "CREATE SUBSCRIPTION s CONNECTION 'host=h' PUBLICATION p;"
    """
    kept = text
    for lexeme in reversed(scan(text).lexemes):
        if lexeme.kind not in (Kind.STRING, Kind.IDENTIFIER):
            continue
        if lexeme.fault is not None:
            return None
        shown = redact_conninfo(lexeme.value)
        if shown == lexeme.value or (shown == UNREADABLE_CONNINFO and not _SECRET.search(lexeme.value)):
            continue
        kept = f"{kept[: lexeme.start]}{quote_literal(shown)}{kept[lexeme.end :]}"
    return None if _SECRET.search(kept) else kept


def point_at(error: SQLSyntaxError, command: Lexed) -> SQLSyntaxError:
    """The error with its line and a caret, as psql prints them, and constants masked.

    If the line may still contain a secret, the error is returned unchanged.
    """
    if error.position is None or (excerpt := _excerpt(command, error.position - 1)) is None:
        return error
    has_caret = (error.detail or "").startswith("At character ")
    pointing = SQLSyntaxError(
        f"{error.message}\n{excerpt}",
        sqlstate=error.sqlstate,
        detail=None if has_caret else error.detail,
        hint=error.hint,
        context=error.context,
    )
    pointing.position = error.position
    return pointing


def _excerpt(command: Lexed, position: int) -> str | None:
    sql = command.sql
    masked, place, done = "", position, 0
    for start, end in _constants(command):
        masked += sql[done:start] + _MASK
        done = end
        if end <= position:
            place -= end - start - len(_MASK)
        elif start <= position:
            place -= position - start
    masked += sql[done:]
    start, end = masked.rfind("\n", 0, place) + 1, masked.find("\n", place)
    line = (masked[start:] if end < 0 else masked[start:end]).expandtabs(1)
    if _SECRET.search(line):
        return None
    label = f"LINE {sql.count(chr(10), 0, position) + 1}: "
    return f"{label}{line}\n{' ' * (len(label) + display_width(line[: place - start]))}^"


def _constants(command: Lexed) -> list[tuple[int, int]]:
    spans = [(lexeme.start, lexeme.end) for lexeme in command.lexemes]
    return [(start, end) for start, end in spans if _CONSTANT.match(command.sql[start:end])]
