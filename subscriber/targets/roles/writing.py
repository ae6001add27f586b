"""Statements that write: how an INSERT, an UPDATE and a TRUNCATE are worded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

import sqlalchemy as sa

from subscriber.targets.target_table import (
    TargetTable,
)

Written = TypeVar("Written", sa.Insert, sa.Update)


class Writing(Protocol):
    """What the target's SQL needs so that a statement does what PostgreSQL's apply worker does."""

    def or_fail(self, table: TargetTable, statement: Written) -> Written:
        """``statement``, an INSERT or UPDATE of ``table``, made to fail where a constraint is
        violated, whatever the table says.
        """
        ...

    def may_suppress(self, table: TargetTable) -> bool:
        """Whether a trigger may leave a row as it is without an error.

        A BEFORE trigger of PostgreSQL that returns NULL does that.
        """
        ...

    def truncate(self, connection: sa.Connection, tables: Sequence[TargetTable], *, restart_identity: bool) -> None:
        """Empty ``tables`` together, RESTRICT always (rules C29, C30).

        Raises:
            ConflictError: 0A000, a foreign key of another table refers to one of them.
            TargetRelationError: 0A000, the identity cannot be restarted.
        """
        ...

    def override_identity(self, insert: str) -> str:
        """An INSERT statement that writes identity columns too."""
        ...
