"""An object of the publisher's schema that the target lacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

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
    "different default",
    "generated column",
    "different generated column",
    "check constraint",
    "check of enum",
    "check of domain",
    "different check",
    "partitions",
    "unique key",
    "unique index",
    "index",
    "exclusion constraint",
    "different index",
    "unmet check",
    "foreign key",
    "comment",
    "missing column",
    "surplus not null",
    "surplus unique key",
    "inexact unique key",
    "surplus check",
    "column",
    "collation",
    "inheritance",
    "partitioned table",
    "shared sequence",
    "function",
    "view",
    "materialized view",
    "trigger",
    "rule",
    "policy",
)
"""The kinds, in the order in which objects are built and shown."""
_VIEWS: Final = frozenset({"view", "materialized view"})
"""Kinds whose objects depend on each other, so they are shown together."""
AFTER: Final = frozenset(
    {"unique key", "unique index", "index", "exclusion constraint", "unmet check", "foreign key", "comment"}
)
"""The kinds that are built after the copy."""


WITHOUT_ROWS: Final = frozenset({"table", "missing column"})
"""The kinds without which values of rows are missing. They are in phase manual, because a copy
must follow.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaObject:
    """An object that the target lacks.

    Attributes:
        kind: the kind, one of :data:`KINDS`.
        name: the object's name, with that of its table.
        phase: when it is built.
        ddl: the statements in the target's dialect, separated by semicolons; empty if there are
            none. Those of an object that is left out are for the user to run.
        reason: why it is left out; for an object that is built, what differs from the publisher's.
        publisher_ddl: the publisher's definition; empty if it is not known.
        relation: the publisher's table that it belongs to; empty for none.
        waits_for: the functions that must be created first, as ``regprocedure`` writes them.
        needed_by: for a function, the objects that wait for it.
        table: the target's table; None for an object without a table.
        change: what builds it; None if it is left out.
        needs_stop: whether it is left out only because `subscriber run` is running.
        atomic: whether the statements must run in one transaction, because they begin with a check.
        order: the place among the objects of its kind and table that depend on each other.
    """

    kind: str
    name: str
    phase: Phase
    ddl: str = ""
    reason: str = ""
    publisher_ddl: str = ""
    relation: str = ""
    waits_for: tuple[str, ...] = ()
    needed_by: tuple[str, ...] = ()
    needs_stop: bool = False
    atomic: bool = field(default=False, repr=False)
    table: TargetTable | None = field(default=None, repr=False, compare=False)
    change: TableChange | None = field(default=None, repr=False, compare=False)
    order: int = field(default=0, repr=False, compare=False)

    def as_json(self) -> Mapping[str, Any]:
        """The object for ``--json``."""
        names = ("phase", "kind", "name", "ddl", "reason", "publisher_ddl")
        return {**{name: getattr(self, name) for name in names}, "waits_for": list(self.waits_for)}


def sort_objects(objects: list[SchemaObject]) -> tuple[SchemaObject, ...]:
    """The objects in the order in which they are built and shown."""
    phases = ("before", "after", "manual")

    def place(one: SchemaObject) -> tuple[int, int, str, int, str]:
        is_view = one.kind in _VIEWS
        relation = "" if is_view else one.relation  # a view of several tables has the first of them
        return phases.index(one.phase), KINDS.index("view" if is_view else one.kind), relation, one.order, one.name

    return tuple(sorted(objects, key=place))


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

    def lacking(self) -> list[SchemaObject]:
        """What the target could have: tables and columns, and all that ``subscriber schema apply``
        builds, now or while no run works.
        """
        named = [one for one in self.objects if one.kind in WITHOUT_ROWS]
        stopped = [one for one in self.objects if one.needs_stop]
        return [*named, *self.missing("before"), *self.missing("after"), *stopped]
