"""What was typed, without its secrets, so that it can be shown or kept.

Commands contain connection strings, and these contain passwords (names_are_data).
"""

from __future__ import annotations

import re
from typing import Final

from subscriber.errors import SQLSyntaxError
from subscriber.scenario.session.aligned import display_width
from subscriber.settings import UNREADABLE_CONNINFO, redact_conninfo
from subscriber.sql.lexer import Kind, Lexed, scan

_SECRET: Final = re.compile(r"passw(or)?d(?!_required)|secret|_key\b|://\S*:\S*@", re.IGNORECASE)
"""Text that may precede or contain a secret.

It is needed if a connection string has no quotes or cannot be parsed.
"""

_CONSTANT: Final = re.compile(r"(?:[bexn]|u&)?'|\$|\".*=", re.IGNORECASE | re.DOTALL)
"""The beginning of a token that may be a connection string: a string constant, or an identifier
that was meant as a string constant.
"""
_MASK: Final = "'…'"


def without_secrets(text: str) -> str | None:
    """What was typed, with every connection string redacted by :func:`redact_conninfo`.

    The result is None if it may still contain a secret. A misspelled command may contain a password
    too, so the constants at all places of a command are redacted.

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
        escaped = shown.replace("'", "''")
        kept = f"{kept[: lexeme.start]}'{escaped}'{kept[lexeme.end :]}"
    return None if _SECRET.search(kept) else kept


def point_at(error: SQLSyntaxError, command: Lexed) -> SQLSyntaxError:
    """The error with its line and a caret below its position, as psql prints them.

    Constants in the line are masked. If the line may still contain a secret, the error is returned
    unchanged, with the position as a number.
    """
    if error.position is None or (excerpt := _excerpt(command, error.position - 1)) is None:
        return error
    told_by_the_caret = (error.detail or "").startswith("At character ")
    pointing = SQLSyntaxError(
        f"{error.message}\n{excerpt}",
        sqlstate=error.sqlstate,
        detail=None if told_by_the_caret else error.detail,
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
