"""Replication origins: marks on applied changes (an optional role, rules C32, C34, C38)."""

from __future__ import annotations

from typing import Protocol

import sqlalchemy as sa


class Origins(Protocol):
    """Marks applied changes with a replication origin.

    A target has this role if it records where a row's last change came from.
    """

    def set(self, connection: sa.Connection, name: str) -> None:
        """Mark the changes of this transaction with a replication origin (rule C32).

        If the target's database role may not use replication origins, nothing is marked.

        Raises:
            TargetUnavailable: another process uses this origin.
            SubscriberError: as translated by :meth:`Errors.translate`.
        """
        ...

    def set_position(self, connection: sa.Connection, lsn: int, timestamp: int | None) -> None:
        """Set the origin's position for the commit of this transaction (rule C32).

        The position consists of the LSN and the time of the last remote commit.

        Args:
            connection: a connection for which :meth:`set` was called.
            lsn: the progress.
            timestamp: microseconds since 2000-01-01 UTC; None if no remote transaction was
                committed.
        """
        ...

    def others(self, connection: sa.Connection) -> sa.ColumnElement[bool] | None:
        """The condition that the last change of a row does not have this transaction's origin.

        None if the target does not record this.
        """
        ...

    def drop(self, connection: sa.Connection, name: str) -> None:
        """Drop the origin that :meth:`set` created, if it exists."""
        ...
