"""Statements that write: the dialect's form of INSERT, UPDATE and TRUNCATE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

import sqlalchemy as sa

from subscriber.targets.target_table import (
    TargetTable,
)

Written = TypeVar("Written", sa.Insert, sa.Update)


class Writing(Protocol):
    """Adapts statements to the target's SQL so that they act as in PostgreSQL's apply worker."""

    def or_fail(self, table: TargetTable, statement: Written) -> Written:
        """An INSERT or UPDATE of ``table`` that fails if a constraint is violated.

        It fails even if the table declares another reaction to the violation.
        """
        ...

    def may_suppress(self, table: TargetTable) -> bool:
        """Whether a trigger may leave a row unchanged without an error.

        In PostgreSQL, a BEFORE trigger that returns NULL does this.
        """
        ...

    def truncate(self, connection: sa.Connection, tables: Sequence[TargetTable], *, restart_identity: bool) -> None:
        """Delete all rows of ``tables``, always with RESTRICT (rules C29, C30).

        Raises:
            ConflictError: 0A000, a foreign key of another table references one of them.
            TargetRelationError: 0A000, the identity cannot be restarted.
        """
        ...

    def delete_all(self, connection: sa.Connection, table: TargetTable) -> None:
        """Delete all rows of ``table`` so that they can be rolled back, and no rows of other
        tables.

        Foreign keys are treated as in a replicated DELETE: where the session does not enforce them,
        rows that refer to the deleted ones stay. Tables that inherit are not touched.

        Raises:
            ConflictError: 23503, a foreign key of another table forbids it, or would delete or
                change rows of that table.
            TargetRelationError: 55000, a trigger has left rows.
        """
        ...

    def delete_acts(self, connection: sa.Connection, table: TargetTable) -> bool:
        """Whether a replicated DELETE of a row would delete or change other rows, by a foreign key
        that acts in this session.
        """
        ...

    def override_identity(self, insert: str) -> str:
        """The INSERT statement in a form that can also write identity columns."""
        ...
