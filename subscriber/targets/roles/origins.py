"""Replication origins: marks on what is applied (an optional role, rules C32, C34, C38)."""

from __future__ import annotations

from typing import Protocol

import sqlalchemy as sa


class Origins(Protocol):
    """A target has this role if it remembers where a row's last change came from."""

    def set(self, connection: sa.Connection, name: str) -> None:
        """Mark what this transaction writes as coming from a replication origin, where the role may
        (rule C32).

        Raises:
            TargetUnavailable: another process works as this origin.
            SubscriberError: as :meth:`Errors.translate` words it.
        """
        ...

    def set_position(self, connection: sa.Connection, lsn: int, timestamp: int | None) -> None:
        """Where the origin stands when this transaction commits: the last remote commit's LSN and
        time (rule C32).

        Args:
            connection: to which :meth:`set` was applied.
            lsn: the progress.
            timestamp: microseconds since 2000-01-01 UTC; None where nothing was committed.
        """
        ...

    def others(self, connection: sa.Connection) -> sa.ColumnElement[bool] | None:
        """The condition that a row was written last by anybody but this transaction's origin; None
        where nobody can tell.
        """
        ...

    def drop(self, connection: sa.Connection, name: str) -> None:
        """Forget the origin that :meth:`set` has created, if it has."""
        ...
