"""The shape of a target's table, as far as replication has to know it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import sqlalchemy as sa
from sqlalchemy.schema import ExecutableDDLElement

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
        identity_always: an identity column that UPDATE may not set (PostgreSQL's GENERATED ALWAYS).
        null_is_generated: a NULL that is written becomes a value of the target's own (a rowid, an
            auto-increment), so NULL must be refused here rather than written.
    """

    name: str
    declared_type: str
    storage: str
    nullable: bool = True
    generated: bool = False
    identity_always: bool = False
    null_is_generated: bool = False


@dataclass(frozen=True, slots=True)
class TargetTable:
    """One table, frozen at the time it was looked up.

    Attributes:
        schema: the schema to qualify it with in SQL, or None.
        name: its name in SQL.
        columns: in the target's order.
        key: the columns that identify a row: a local replica identity index's, else the primary
            key's (rule C11); None where there is neither.
        kind: only the first two can be replicated into.
        locator: the pseudo-column that addresses exactly one row (rowid, ctid), or None.
        has_identity_always: some column is ``identity_always`` (INSERT must override it).
    """

    schema: str | None
    name: str
    columns: tuple[TargetColumn, ...]
    key: tuple[str, ...] | None
    kind: TableKind = "table"
    locator: str | None = None

    @property
    def has_identity_always(self) -> bool:
        """Whether an INSERT has to override an identity column."""
        return any(column.identity_always for column in self.columns)

    def column(self, name: str) -> TargetColumn | None:
        """The column of exactly this name (rule C2)."""
        return next((column for column in self.columns if column.name == name), None)

    def clause(self) -> sa.TableClause:
        """The table for SQLAlchemy Core: names to quote, nothing that adds defaults or types."""
        names = [column.name for column in self.columns]
        if self.locator is not None:
            names.append(self.locator)
        return sa.table(self.name, *(sa.column(name) for name in names), schema=self.schema)


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
