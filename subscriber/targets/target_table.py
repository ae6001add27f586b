"""The properties of a target's tables on which replication depends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import sqlalchemy as sa
from sqlalchemy.schema import ExecutableDDLElement

from subscriber.postgres.schema.shape import SchemaDifference, SequenceDefinition, SequencePosition

TableKind = Literal[
    "table", "partitioned table", "view", "sequence", "virtual table", "non-transactional table", "other"
]


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """A column with its name exactly as the target spells it. ``storage`` is the affinity in
    SQLite, the type's name elsewhere. A ``generated`` column cannot be written (rule C3), and
    UPDATE may not set one that is ``identity_always``. ``null_is_generated``: the target replaces
    NULL by a value that it generates (a rowid, an auto-increment), so NULL must be refused.
    ``required``: an INSERT without it fails: it is NOT NULL and nothing generates its value.
    """

    name: str
    declared_type: str
    storage: str
    nullable: bool = True
    generated: bool = False
    identity_always: bool = False
    null_is_generated: bool = False
    required: bool = False


@dataclass(frozen=True, slots=True)
class LeafRouting:
    """How to find the partition of a row, where only the partitions have keys, which are unique
    only within one partition (rule C26). ``partition`` is the pseudo-column that identifies it;
    ``expression`` is SQL over a row's ``columns`` that computes it, and is NULL if no partition
    accepts the row.
    """

    partition: str
    expression: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TargetTable:
    """A table of the target, as it was when it was looked up. The ``key`` has the columns that
    identify a row: of a local replica identity index, else of the primary key (rule C11), else
    those that all partitions' keys have in common; None without any. Only the first two kinds of
    :data:`TableKind` can be replicated into. ``locators`` are the pseudo-columns that together
    address exactly one row (rowid; tableoid and ctid), if any. ``root`` is the partitioned table of
    which it is a partition, and with which it has its columns in common. A reader reads ``only``
    rows in which these columns have these values, or the rows of ``read_from`` in place of the
    table.
    """

    schema: str | None
    name: str
    columns: tuple[TargetColumn, ...]
    key: tuple[str, ...] | None
    kind: TableKind = "table"
    locators: tuple[str, ...] = ()
    root: tuple[str, str] | None = None
    only: tuple[tuple[str, int], ...] = ()
    read_from: sa.FromClause | None = None

    @property
    def has_identity_always(self) -> bool:
        return any(column.identity_always for column in self.columns)

    def column(self, name: str) -> TargetColumn | None:
        """The column that has exactly this name (rule C2)."""
        return next((column for column in self.columns if column.name == name), None)

    def has_rows(self, connection: sa.Connection) -> bool:
        """Whether the table has any rows, without those of tables that inherit from it."""
        clause = self.clause()
        query = sa.select(sa.literal(1)).select_from(clause).limit(1)
        if self.kind == "table":
            query = query.with_hint(clause, "ONLY", "postgresql")
        return connection.execute(query).first() is not None

    @property
    def altered(self) -> tuple[str | None, str]:
        """Schema and name of the table whose columns are altered: the root of a partition."""
        return self.root or (self.schema, self.name)

    def clause(self) -> sa.TableClause:
        """The table for SQLAlchemy Core. It has names to quote, but no defaults and no types."""
        names = [*(column.name for column in self.columns), *self.locators]
        return sa.table(self.name, *(sa.column(name) for name in names), schema=self.schema)


@dataclass(frozen=True, slots=True)
class UniqueIndex:
    """A unique index or constraint that the target checks immediately. Deferrable constraints are
    not included (rule C22). Without a name in the target, it has the one that PostgreSQL would have
    chosen. ``keys`` are column names, exactly as the target spells them, or ``expressions`` of its
    SQL; a partial index has a ``predicate``.
    """

    name: str
    keys: tuple[str, ...]
    expressions: frozenset[str] = frozenset()
    predicate: str | None = None
    nulls_distinct: bool = True


@dataclass(frozen=True, slots=True)
class RowVersion:
    """The last writer of a row, as far as the target records it (rule C20): the ``transaction`` and
    its commit time ``at``, as PostgreSQL writes it; the replication ``origin``, which is None if
    the change was made in the target itself, and empty if the origin no longer exists; and the
    partition (``leaf``) that contains the row.
    """

    transaction: int
    at: str | None = None
    origin: str | None = None
    leaf: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class AutoIncrement:
    """How a column of a new table generates values: its declaration without NOT NULL, and
    statements to execute before. If ``is_key``, it declares the primary key, and the table must not
    do so again.
    """

    declared: str
    is_key: bool = False
    before: tuple[ExecutableDDLElement, ...] = ()


@dataclass(frozen=True, slots=True)
class Declarations:
    """The declarations of a new table's columns. ``differences`` are columns that do not hold every
    value of the publisher's type, or have another length. ``obstacle`` says why a row is too large
    whatever the declarations are, as a sentence without a full stop.
    """

    declared: Mapping[str, str]
    differences: tuple[SchemaDifference, ...] = ()
    obstacle: str | None = None


@dataclass(frozen=True, slots=True)
class TargetSequence:
    """A sequence, or the counter of a ``table``'s column. Several columns may share a ``name``.
    ``definition`` is None in targets whose sequences cannot be defined as PostgreSQL's.
    """

    name: str
    position: SequencePosition
    least: int
    greatest: int
    table: TargetTable | None = None
    definition: SequenceDefinition | None = None

    def obstacle(self, position: SequencePosition) -> str | None:
        """Why it cannot continue from the publisher's position, for a message; None if it can."""
        if position.increment * self.position.increment < 0:
            down, up = "downwards", "upwards"
            here, there = (down, up) if position.increment < 0 else (up, down)
            return f"it counts {here} at the publisher and {there} in the target"
        # A sequence stores its last value; a counter stores only the next value.
        value = position.next_value if self.table is not None else position.last_value
        if not self.least <= value <= self.greatest:
            return f"{value} is out of its range in the target ({self.least} .. {self.greatest})"
        return None
