"""What is added to a table of the target that exists, and what such a table has already.

The role :class:`~subscriber.targets.roles.objects.Objects` reads :class:`FoundObjects`, and writes
a :data:`TableChange` as statements of the target's SQL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from subscriber.schema.shape import ForeignKey
from subscriber.schema.table_objects import IndexShape, Partition
from subscriber.targets.target_table import TargetTable


class CannotBuild(Exception):
    """The target cannot have this, or not with the same meaning.

    Args:
        reason: the reason, as a sentence without a full stop.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Statements:
    """How a change is made.

    Attributes:
        sql: the statements, which are executed in one transaction.
        note: what differs from the publisher's object without changing a result; empty for nothing.
        rebuilds: the whole table is written again, so no run may write to it, unless it is empty.
        needs_empty: the table is replaced, and must have no rows.
    """

    sql: tuple[str, ...]
    note: str = ""
    rebuilds: bool = False
    needs_empty: bool = False


@dataclass(frozen=True, slots=True)
class NewIndex:
    """An index, a unique key, the primary key, or an exclusion constraint.

    Attributes:
        index: the publisher's index.
        name: its name in the target.
        keys: its keys in the target's SQL: quoted columns, or expressions.
        predicate: its condition in the target's SQL; None for none.
    """

    index: IndexShape
    name: str
    keys: tuple[str, ...]
    predicate: str | None = None


@dataclass(frozen=True, slots=True)
class NewForeignKey:
    """A foreign key.

    Attributes:
        key: the publisher's foreign key.
        name: its name in the target.
        references: the referenced table in the target.
    """

    key: ForeignKey
    name: str
    references: TargetTable


@dataclass(frozen=True, slots=True)
class NewCheck:
    """A CHECK constraint.

    Attributes:
        name: its name.
        expression: what it checks, in the target's SQL.
        unmet: NOT VALID or NOT ENFORCED, if rows may violate it; only in PostgreSQL.
    """

    name: str
    expression: str
    unmet: str = ""


@dataclass(frozen=True, slots=True)
class NewDefault:
    """The default of a column; ``expression`` is the target's SQL."""

    column: str
    expression: str


@dataclass(frozen=True, slots=True)
class NewGenerated:
    """A generated column that the target's table does not have.

    Attributes:
        column: its name.
        declared: its type in the target.
        expression: what it is generated from, in the target's SQL.
    """

    column: str
    declared: str
    expression: str


@dataclass(frozen=True, slots=True)
class NewIdentity:
    """The values of a column are generated, if an INSERT has none."""

    column: str


@dataclass(frozen=True, slots=True)
class NewComment:
    """A comment on the table, or on a column of it."""

    text: str
    column: str | None = None


@dataclass(frozen=True, slots=True)
class NewType:
    """The type of a column becomes a user-defined type, and its default the publisher's. Only a
    target that has PostgreSQL's types can do this.
    """

    column: str
    type_name: str
    default: str | None = None


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """A table that has no rows becomes a partitioned one. Only PostgreSQL can do this.

    Attributes:
        key: the partition key, as ``pg_get_partkeydef`` prints it.
        partitions: the partitions, with the target's names; each comes after its parent.
    """

    key: str
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class NewSequence:
    """A sequence that no column owns, in a target that has PostgreSQL's types.

    Attributes:
        schema: its schema in the target.
        name: its name there.
        options: its options, as in CREATE SEQUENCE.
    """

    schema: str
    name: str
    options: str


@dataclass(frozen=True, slots=True)
class NewUserType:
    """A user-defined type, in a target that has PostgreSQL's types.

    Attributes:
        schema: its schema.
        ddl: the publisher's statement that creates it.
    """

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
    | NewSequence
    | NewUserType
)

Definition = NewIndex | NewCheck | NewDefault | NewGenerated
"""The changes whose definition can be compared with what the target has."""


NO_TABLE: Final = TargetTable(None, "", (), None, "other")
"""Stands for the table of a change that concerns none."""


@dataclass(frozen=True, slots=True)
class FoundIndex:
    """An index of the target's table.

    Attributes:
        name: its name.
        keys: its keys: column names, and None for an expression or a part of a column.
        unique: whether it is unique.
        partial: whether it has a condition.
        method: the access method; empty if it is not known.
        definition: its keys and its condition, as :meth:`Objects.shown` writes them; empty if the
            target does not show them.
        constraint: whether it belongs to a constraint, as far as the target says so.
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
    """A foreign key of the target's table.

    Attributes:
        columns: its columns.
        table: the referenced table.
        referenced: the referenced columns; empty for the primary key.
        on_delete: the action of ON DELETE.
        on_update: the action of ON UPDATE.
    """

    columns: tuple[str, ...]
    table: str
    referenced: tuple[str, ...]
    on_delete: str = "NO ACTION"
    on_update: str = "NO ACTION"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundObjects:
    """What a table of the target has.

    Attributes:
        indexes: the indexes, with those of keys.
        foreign_keys: the foreign keys.
        checks: name and expression of each CHECK constraint.
        defaults: the default of each column that has one, in the target's SQL.
        generated: the expression of each generated column, in the target's SQL.
        counted: the columns whose values are generated.
        inexact: the columns of texts that do not compare exactly.
        comment: the table's comment.
        column_comments: the comments of columns.
        partitioned: whether the table is partitioned.
    """

    indexes: tuple[FoundIndex, ...] = ()
    foreign_keys: tuple[FoundForeignKey, ...] = ()
    checks: tuple[tuple[str, str], ...] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)
    generated: Mapping[str, str] = field(default_factory=dict)
    counted: frozenset[str] = frozenset()
    inexact: frozenset[str] = frozenset()
    comment: str | None = None
    column_comments: Mapping[str, str] = field(default_factory=dict)
    partitioned: bool = False
