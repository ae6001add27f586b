"""The properties of a target's tables on which replication depends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import sqlalchemy as sa
from sqlalchemy.schema import ExecutableDDLElement

from subscriber.schema.shape import SequencePosition

TableKind = Literal["table", "partitioned table", "view", "virtual table", "non-transactional table", "other"]


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """A column of a target's table.

    Attributes:
        name: the name exactly as the target spells it.
        declared_type: the type as declared, for messages.
        storage: how the target stores values: the affinity in SQLite, the type's name in other
            databases.
        nullable: NULL is allowed.
        generated: the column is computed from other columns and cannot be written (rule C3).
        identity_always: the column is an identity column that UPDATE may not set (GENERATED
            ALWAYS).
        null_is_generated: the target replaces a NULL that is written with a value that it generates
            (a rowid, an auto-increment). Therefore NULL must be refused before it is written.
        required: an INSERT without this column fails, because the column is NOT NULL and nothing
            generates a value for it.
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
    """How to find the partition of a row, where only the partitions have keys.

    Such a key is unique only within one partition (rule C26).

    Attributes:
        partition: the pseudo-column that identifies the partition of a stored row.
        expression: SQL of the target over a row's ``columns`` that computes the partition in which
            a row must be. NULL means that no partition accepts the row.
        columns: the columns on which the partition bounds depend.
    """

    partition: str
    expression: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TargetTable:
    """A table of the target, as it was when it was looked up.

    Attributes:
        schema: the schema that qualifies the table in SQL, or None.
        name: the table's name in SQL.
        columns: the columns in the target's order.
        key: the columns that identify a row: those of a local replica identity index, else those of
            the primary key (rule C11), else the key columns that all its partitions have in common.
            None if there is no such key.
        kind: what the table is. Only the first two kinds of :data:`TableKind` can be replicated
            into.
        locators: the pseudo-columns that together address exactly one row (rowid; tableoid and
            ctid); empty if there are none.
        has_identity_always: some column is ``identity_always``, so INSERT must override it.
    """

    schema: str | None
    name: str
    columns: tuple[TargetColumn, ...]
    key: tuple[str, ...] | None
    kind: TableKind = "table"
    locators: tuple[str, ...] = ()

    @property
    def has_identity_always(self) -> bool:
        """Whether an INSERT has to override an identity column."""
        return any(column.identity_always for column in self.columns)

    def column(self, name: str) -> TargetColumn | None:
        """The column that has exactly this name (rule C2)."""
        return next((column for column in self.columns if column.name == name), None)

    def has_rows(self, connection: sa.Connection) -> bool:
        """Whether the table has any rows."""
        return connection.execute(sa.select(sa.literal(1)).select_from(self.clause()).limit(1)).first() is not None

    def clause(self) -> sa.TableClause:
        """The table for SQLAlchemy Core. It has names to quote, but no defaults and no types."""
        names = [*(column.name for column in self.columns), *self.locators]
        return sa.table(self.name, *(sa.column(name) for name in names), schema=self.schema)


@dataclass(frozen=True, slots=True)
class UniqueIndex:
    """A unique index or constraint that the target checks immediately.

    Deferrable constraints are not included (rule C22).

    Attributes:
        name: the target's name of the index; if the target has no name, the name that PostgreSQL
            would have chosen.
        keys: column names, exactly as the target spells them, or expressions.
        expressions: the elements of ``keys`` that are SQL expressions of the target and not
            columns.
        predicate: the SQL condition of a partial index; None if the index covers all rows.
        nulls_distinct: NULL is not equal to NULL.
    """

    name: str
    keys: tuple[str, ...]
    expressions: frozenset[str] = frozenset()
    predicate: str | None = None
    nulls_distinct: bool = True


@dataclass(frozen=True, slots=True)
class RowVersion:
    """The last writer of a row, as far as the target records it (rule C20).

    Attributes:
        transaction: the target's transaction that wrote the row.
        at: the commit time of this transaction, as PostgreSQL writes it; None if the target does
            not record commit times.
        origin: the replication origin of the change. None if the change was made in the target
            itself; empty if the origin no longer exists.
        leaf: schema and name of the partition that contains the row; None if this is the table
            itself.
    """

    transaction: int
    at: str | None = None
    origin: str | None = None
    leaf: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class AutoIncrement:
    """How a column of a new table generates values.

    Attributes:
        declared: the column's declaration, with its type but without NOT NULL.
        is_key: the declaration makes the column the primary key, so the table must not declare the
            key again.
        before: statements to execute before the table is created.
    """

    declared: str
    is_key: bool = False
    before: tuple[ExecutableDDLElement, ...] = ()


@dataclass(frozen=True, slots=True)
class TargetSequence:
    """A generator of values in the target: a sequence, or the counter of a table's column.

    Attributes:
        name: the name that identifies the sequence or counter in the target; several columns may
            share it.
        position: the current position.
        least: the smallest value that it can generate.
        greatest: the largest value that it can generate.
        table: the table of a counter; None for a sequence.
    """

    name: str
    position: SequencePosition
    least: int
    greatest: int
    table: TargetTable | None = None

    def obstacle(self, position: SequencePosition) -> str | None:
        """The reason why this cannot continue from a position of the publisher's sequence, for a
        message.

        None if it can continue.
        """
        if position.increment * self.position.increment < 0:
            down, up = "downwards", "upwards"
            here, there = (down, up) if position.increment < 0 else (up, down)
            return f"it counts {here} at the publisher and {there} in the target"
        # A sequence stores its last value; a counter stores only the next value.
        value = position.next_value if self.table is not None else position.last_value
        if not self.least <= value <= self.greatest:
            return f"{value} is out of its range in the target ({self.least} .. {self.greatest})"
        return None
