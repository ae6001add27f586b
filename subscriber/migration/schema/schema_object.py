"""An object of the publisher's schema that the target lacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from subscriber.targets import TargetTable
from subscriber.targets.table_changes import TableChange

Phase = Literal["before", "after", "manual"]
"""Before the initial copy, after it, or not at all by this program."""

KINDS: Final[tuple[str, ...]] = (
    "table",
    "type",
    "sequence",
    "column type",
    "primary key",
    "identity",
    "default",
    "generated column",
    "check constraint",
    "check of enum",
    "check of domain",
    "partitions",
    "unique key",
    "unique index",
    "index",
    "exclusion constraint",
    "foreign key",
    "comment",
    "missing column",
    "column",
    "collation",
    "inheritance",
    "partitioned table",
    "shared sequence",
    "view",
    "materialized view",
    "trigger",
    "rule",
    "policy",
    "function",
)
"""The kinds, in the order in which objects are built and shown."""
AFTER: Final = frozenset({"unique key", "unique index", "index", "exclusion constraint", "foreign key", "comment"})
"""The kinds that are built after the copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaObject:
    """An object that the target lacks.

    Attributes:
        kind: the kind, one of :data:`KINDS`.
        name: the object's name, with that of its table.
        phase: when it is built.
        ddl: the statements in the target's dialect, separated by semicolons; empty if there are
            none.
        reason: why it is left out; for an object that is built, what differs from the publisher's.
        publisher_ddl: the publisher's definition; empty if it is not known.
        relation: the publisher's table that it belongs to; empty for none.
        table: the target's table; None for an object without a table.
        change: what builds it; None if it is left out.
        order: the place among the objects of its kind that depend on each other.
    """

    kind: str
    name: str
    phase: Phase
    ddl: str = ""
    reason: str = ""
    publisher_ddl: str = ""
    relation: str = ""
    table: TargetTable | None = field(default=None, repr=False, compare=False)
    change: TableChange | None = field(default=None, repr=False, compare=False)
    order: int = field(default=0, repr=False, compare=False)

    def as_json(self) -> Mapping[str, str]:
        """The object for ``--json``."""
        names = ("phase", "kind", "name", "ddl", "reason", "publisher_ddl")
        return {name: getattr(self, name) for name in names}


def sort_objects(objects: list[SchemaObject]) -> tuple[SchemaObject, ...]:
    """The objects in the order in which they are built and shown."""
    phases = ("before", "after", "manual")
    return tuple(sorted(objects, key=lambda one: (phases.index(one.phase), KINDS.index(one.kind), one.order, one.name)))


@dataclass(frozen=True, slots=True)
class SchemaDifference:
    """What the target of a subscription lacks.

    Attributes:
        subscription: the subscription's name.
        database: the name of the target's database, such as SQLite.
        objects: the missing objects, in the order in which they are built.
    """

    subscription: str
    database: str
    objects: tuple[SchemaObject, ...]

    def missing(self, phase: Phase) -> list[SchemaObject]:
        """The objects of one phase."""
        return [one for one in self.objects if one.phase == phase]
