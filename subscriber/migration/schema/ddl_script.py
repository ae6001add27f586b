"""The missing objects as a script of the target's SQL.

::

    First, by hand     functions that objects below call, as comments
    Before the copy    statements
    After the copy     statements
    Left out           everything else, as comments, with what the user can do

A line of the script is a statement of the target, or a comment that begins with two hyphens. So the
whole script runs as it is printed. The publisher's statements in comments end with semicolons and
come in the order in which they can be run in PostgreSQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from subscriber.migration.schema.schema_object import SchemaDifference, SchemaObject

_PARTS: Final = (("before", "Before the copy"), ("after", "After the copy"))
_STATEMENT: Final = re.compile(r"(?:CREATE|ALTER|COMMENT)\s")
"""How a definition begins that is a whole statement."""
_READ_ME: Final = (
    "Statements are to be run; stop at the first error. Comments show what is left out:",
    "the reason, and the publisher's definition or the statements with which you can build it.",
)


def ddl_script(difference: SchemaDifference) -> str:
    """The script, which ends with a newline. Objects that are left out are comments with their
    reason and the publisher's DDL.
    """
    left_out = difference.missing("manual")
    first = [one for one in left_out if one.needed_by]
    lines = [f"-- What {difference.database} lacks of the publisher's schema, for {_line(difference.subscription)}."]
    lines += [f"-- {line}" for line in _READ_ME]
    if first:
        lines += ["", "-- First, by hand", ""]
        lines += [line for one in first for line in _left_out(one)]
    for phase, title in _PARTS:
        lines += ["", f"-- {title}", ""]
        lines += [line for one in difference.objects if one.phase == phase for line in _built(one)]
    lines += ["", "-- Left out", ""]
    lines += [line for one in left_out if not one.needed_by for line in _left_out(one)]
    return "\n".join(lines) + "\n"


def _built(one: SchemaObject) -> Iterator[str]:
    if one.reason:
        yield f"-- {one.kind} {_line(one.name)}: {_line(one.reason)}"
    if one.waits_for:
        yield from _commented(f"{one.ddl};")
    elif one.atomic:
        yield f"BEGIN TRANSACTION;\n{one.ddl};\nCOMMIT;"
    else:
        yield f"{one.ddl};"


def _left_out(one: SchemaObject) -> Iterator[str]:
    yield f"-- {one.kind} {_line(one.name)}: {_line(one.reason)}"
    if one.ddl:
        yield from _commented(f"{one.ddl};")
    text = one.publisher_ddl.rstrip()
    if not one.ddl and text:
        yield from _commented(f"{text};" if _STATEMENT.match(text) and not text.endswith(";") else text)


def _commented(text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield f"--     {line}".rstrip()


def _line(text: str) -> str:
    """A text on one line: a comment ends at the end of its line."""
    return " ".join(text.split())
