"""How errors show the columns of a publisher's relation and of the target's table."""

from __future__ import annotations

from collections.abc import Iterable

from subscriber.protocol.messages import Relation, RelationColumn
from subscriber.targets import TargetColumn, TargetTable
from subscriber.types import declared_type


def side_by_side(remote: Relation, table: TargetTable) -> str:
    """The two shapes, for DETAIL: names and types of columns.

    Args:
        remote: the publisher's relation.
        table: the target's table.
    """
    at_publisher = ", ".join(
        f"{column.name} {declared_type(column.type_oid, column.type_modifier)}" for column in remote.columns
    )
    in_target = ", ".join(f"{column.name} {column.declared_type}".rstrip() for column in table.columns)
    return f"The publisher has ({at_publisher}), the target ({in_target})."


def named(columns: Iterable[RelationColumn | TargetColumn]) -> str:
    """The columns, for a message: ``column: "a"``, or ``columns: "a", "b"``."""
    each = [f'"{column.name}"' for column in columns]
    return f"{'column' if len(each) == 1 else 'columns'}: {', '.join(each)}"


def quoted(names: Iterable[str]) -> str:
    """The names, for a message: ``"a", "b"``."""
    return ", ".join(f'"{name}"' for name in names)


def joined(*parts: str | None) -> str:
    """The sentences that are not None, as one text."""
    return " ".join(part for part in parts if part)
