"""The missing objects as a script of the target's SQL."""

from __future__ import annotations

from collections.abc import Iterator

from subscriber.migration.schema.schema_object import SchemaDifference, SchemaObject

_PARTS = (("before", "Before the copy"), ("after", "After the copy"))


def ddl_script(difference: SchemaDifference) -> str:
    """The script, which ends with a newline. Objects that are left out are comments with their
    reason and the publisher's DDL.
    """
    lines = [f"-- What {difference.database} lacks of the publisher's schema, for {_line(difference.subscription)}."]
    for phase, title in _PARTS:
        lines += ["", f"-- {title}", ""]
        lines += [line for one in difference.objects if one.phase == phase for line in _built(one)]
    lines += ["", "-- Left out", ""]
    lines += [line for one in difference.missing("manual") for line in _left_out(one)]
    return "\n".join(lines) + "\n"


def _built(one: SchemaObject) -> Iterator[str]:
    if one.reason:
        yield f"-- {one.kind} {_line(one.name)}: {_line(one.reason)}"
    yield f"{one.ddl};"


def _left_out(one: SchemaObject) -> Iterator[str]:
    yield f"-- {one.kind} {_line(one.name)}: {_line(one.reason)}"
    for line in one.publisher_ddl.splitlines():
        yield f"--     {line}"


def _line(text: str) -> str:
    """A text on one line: a comment ends at the end of its line."""
    return " ".join(text.split())
