"""The shape of a target's table, as far as replication has to know it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import sqlalchemy as sa
from sqlalchemy.schema import ExecutableDDLElement

from subscriber.schema.shape import SequencePosition

TableKind = Literal["table", "partitioned table", "view", "virtual table", "non-transactional table", "other"]


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """One column.

    Attributes:
        name: exactly as the target spells it.
        declared_type: as declared, for messages.
        storage: how the target keeps values: the affinity in SQLite, the type's name elsewhere.
        nullable: NULL is allowed.
        generated: computed from other columns; cannot be written (rule C3).
        identity_always: an identity column that UPDATE may not set (GENERATED ALWAYS).
        null_is_generated: a NULL that is written becomes a value of the target's own (a rowid, an
            auto-increment), so NULL must be refused here rather than written.
        required: an INSERT that does not name it fails: it is NOT NULL, and nothing makes a value
            for it.
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
    """Which partition a row belongs to, where only the partitions have keys: a key is unique in one
    of them alone (rule C26).

    Attributes:
        partition: the pseudo-column that tells the partition of a stored row.
        expression: SQL of the target over a row's ``columns`` that gives the same for a row that is
            looked for; NULL is no partition.
        columns: what the bounds are about.
    """

    partition: str
    expression: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TargetTable:
    """One table, frozen at the time it was looked up.

    Attributes:
        schema: the schema to qualify it with in SQL, or None.
        name: its name in SQL.
        columns: in the target's order.
        key: the columns that identify a row: a local replica identity index's, else the primary
            key's (rule C11), else what all its partitions have as theirs; None where there is none
            of them.
        kind: only the first two can be replicated into.
        locators: the pseudo-columns that together address exactly one row (rowid; tableoid and
            ctid); empty where there are none.
        has_identity_always: some column is ``identity_always`` (INSERT must override it).
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
        """The column of exactly this name (rule C2)."""
        return next((column for column in self.columns if column.name == name), None)

    def has_rows(self, connection: sa.Connection) -> bool:
        """Whether anything is in it."""
        return connection.execute(sa.select(sa.literal(1)).select_from(self.clause()).limit(1)).first() is not None

    def clause(self) -> sa.TableClause:
        """The table for SQLAlchemy Core: names to quote, nothing that adds defaults or types."""
        names = [*(column.name for column in self.columns), *self.locators]
        return sa.table(self.name, *(sa.column(name) for name in names), schema=self.schema)


@dataclass(frozen=True, slots=True)
class UniqueIndex:
    """What no two rows of a table may share, asked at once: a constraint that can be deferred is
    none of these (rule C22).

    Attributes:
        name: the target's own, or the one that PostgreSQL would have given where the target has
            none to tell.
        keys: column names, exactly as the target spells them.
        expressions: those of ``keys`` that are SQL of the target's instead of columns.
        predicate: SQL that says which rows it is about; None is all of them.
        nulls_distinct: NULL is not equal to NULL.
    """

    name: str
    keys: tuple[str, ...]
    expressions: frozenset[str] = frozenset()
    predicate: str | None = None
    nulls_distinct: bool = True


@dataclass(frozen=True, slots=True)
class RowVersion:
    """Who wrote a row last, as far as the target remembers (rule C20).

    Attributes:
        transaction: the target's transaction that did.
        at: when that committed, as PostgreSQL writes it; None where commit times are not kept.
        origin: the replication origin that it came from; None is a change made here, an empty one
            exists no more.
        leaf: schema and name of the partition that the row is in; None where that is the table
            itself.
    """

    transaction: int
    at: str | None = None
    origin: str | None = None
    leaf: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class AutoIncrement:
    """How a column of a new table makes values of its own.

    Attributes:
        declared: its declaration, the type included, without NOT NULL.
        is_key: the declaration makes it the primary key, so the table must not do so again.
        before: what has to be there before the table.
    """

    declared: str
    is_key: bool = False
    before: tuple[ExecutableDDLElement, ...] = ()


@dataclass(frozen=True, slots=True)
class TargetSequence:
    """What makes values in the target: a sequence, or the counter of a table's column.

    Attributes:
        name: tells it from every other of the target; columns may share one.
        position: where it stands.
        least: the smallest value that it can give.
        greatest: the largest value that it can give.
        table: of a counter, its table; None for a sequence.
    """

    name: str
    position: SequencePosition
    least: int
    greatest: int
    table: TargetTable | None = None

    def obstacle(self, position: SequencePosition) -> str | None:
        """Why it cannot go on from a position of the publisher's, for a message; None where
        it can.
        """
        if position.increment * self.position.increment < 0:
            down, up = "downwards", "upwards"
            here, there = (down, up) if position.increment < 0 else (up, down)
            return f"it counts {here} at the publisher and {there} in the target"
        # A sequence keeps its last value; a counter the next one alone.
        value = position.next_value if self.table is not None else position.last_value
        if not self.least <= value <= self.greatest:
            return (
                f"{value} is not among the values from {self.least} to {self.greatest} that it can have in the target"
            )
        return None
