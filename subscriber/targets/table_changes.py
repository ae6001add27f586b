"""What is added to a table of the target that exists, and what it has: the role
:class:`~subscriber.targets.base.objects.Objects` writes a :data:`TableChange`, and reads
:class:`FoundObjects`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from subscriber.postgres.schema.publisher_tables import Identity
from subscriber.postgres.schema.shape import ForeignKey, IndexShape, Partition
from subscriber.targets.target_table import TargetTable


class CannotBuild(Exception):
    """The target cannot have this with the same meaning; a user can with statements ``by_hand``."""

    def __init__(self, reason: str, by_hand: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.by_hand = by_hand


@dataclass(frozen=True, slots=True)
class Statements:
    """How a change is made: statements of one transaction. ``note`` is what differs from the
    publisher's object without changing a result. If it ``rebuilds``, the whole table is written
    again, so no run may write to it, unless it is empty. If it ``needs_empty``, the table is
    replaced, and must have no rows.
    """

    sql: tuple[str, ...]
    note: str = ""
    rebuilds: bool = False
    needs_empty: bool = False


@dataclass(frozen=True, slots=True)
class NewIndex:
    """An index, key or exclusion constraint; ``keys`` are quoted columns or expressions in SQL."""

    index: IndexShape
    name: str
    keys: tuple[str, ...]
    predicate: str | None = None


@dataclass(frozen=True, slots=True)
class NewForeignKey:
    key: ForeignKey
    name: str
    references: TargetTable


@dataclass(frozen=True, slots=True)
class NewCheck:
    """``unmet`` is PostgreSQL's NOT VALID or NOT ENFORCED, if rows may violate it."""

    name: str
    expression: str
    unmet: str = ""


@dataclass(frozen=True, slots=True)
class NewDefault:
    column: str
    expression: str


@dataclass(frozen=True, slots=True)
class NewGenerated:
    """A generated column that the target's table lacks, VIRTUAL or STORED at the publisher."""

    column: str
    declared: str
    expression: str
    virtual: bool = False


@dataclass(frozen=True, slots=True)
class NewIdentity:
    """The values of a column are generated, if an INSERT has none."""

    column: str


@dataclass(frozen=True, slots=True)
class NewComment:
    text: str
    column: str | None = None


@dataclass(frozen=True, slots=True)
class NewType:
    """A user-defined type and a default for a column, in a target with PostgreSQL's types."""

    column: str
    type_name: str
    default: str | None = None


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """An empty table becomes partitioned; partitions come after parents. Only in PostgreSQL."""

    key: str
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class NewPartitionedTable:
    """Above tables that exist, with the ``model``'s columns, of which some become ``nullable``."""

    table: TargetTable
    key: str
    model: TargetTable
    nullable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NewPartition:
    """``FOR VALUES …`` or ``DEFAULT``; the root generates the values of ``counted`` columns."""

    table: TargetTable
    parent: TargetTable
    bound: str
    counted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NewParent:
    """A table inherits from another one, only in PostgreSQL."""

    parent: TargetTable


@dataclass(frozen=True, slots=True)
class NewView:
    """A view of the rows of several tables, all of which have its columns."""

    schema: str | None
    name: str
    columns: tuple[str, ...]
    tables: tuple[TargetTable, ...]


@dataclass(frozen=True, slots=True)
class NewReplicaIdentity:
    """The replica identity, in a target that can publish changes; ``index`` for USING INDEX."""

    identity: Identity
    index: str = ""


@dataclass(frozen=True, slots=True)
class NewSequence:
    """A sequence that no column owns, in a target that has PostgreSQL's types."""

    schema: str
    name: str
    options: str


@dataclass(frozen=True, slots=True)
class NewUserType:
    schema: str
    ddl: str


TableChange = (
    NewIndex
    | NewForeignKey
    | NewCheck
    | NewDefault
    | NewGenerated
    | NewIdentity
    | NewComment
    | NewType
    | NewPartitions
    | NewPartitionedTable
    | NewPartition
    | NewParent
    | NewView
    | NewReplicaIdentity
    | NewSequence
    | NewUserType
)

Definition = NewIndex | NewCheck | NewDefault | NewGenerated
"""The changes whose definition can be compared with what the target has."""


NO_TABLE: Final = TargetTable(None, "", (), None, "other")
"""Stands for the table of a change that concerns none."""


@dataclass(frozen=True, slots=True)
class FoundIndex:
    """An index of the target's table. ``keys`` are column names, and None for an expression or a
    part of a column; ``definition`` has keys and condition, as :meth:`Objects.shown` writes them.
    What the target does not show is empty.
    """

    name: str
    keys: tuple[str | None, ...]
    unique: bool = False
    partial: bool = False
    method: str = ""
    definition: str = ""
    constraint: bool = False


@dataclass(frozen=True, slots=True)
class FoundForeignKey:
    """A foreign key of the target's table; no referenced columns stand for the primary key."""

    columns: tuple[str, ...]
    table: str
    referenced: tuple[str, ...]
    on_delete: str = "NO ACTION"
    on_update: str = "NO ACTION"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundObjects:
    """What a table of the target has, in the target's SQL: each CHECK constraint has a name and an
    expression; the values of ``counted`` columns are generated; ``inexact`` columns are texts that
    do not compare exactly; ``identity`` is the replica identity, in a target that can publish its
    changes; ``parents`` are the tables from which it inherits, or whose partition it is.
    """

    indexes: tuple[FoundIndex, ...] = ()
    foreign_keys: tuple[FoundForeignKey, ...] = ()
    checks: tuple[tuple[str, str], ...] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)
    generated: Mapping[str, str] = field(default_factory=dict)
    virtual: frozenset[str] = frozenset()
    counted: frozenset[str] = frozenset()
    inexact: frozenset[str] = frozenset()
    comment: str | None = None
    column_comments: Mapping[str, str] = field(default_factory=dict)
    partitioned: bool = False
    identity: Identity = "default"
    triggers: frozenset[str] = frozenset()
    parents: frozenset[tuple[str, str]] = frozenset()
