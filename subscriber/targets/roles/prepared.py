"""Prepared transactions (an optional role, rules C49 to C50a)."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

import sqlalchemy as sa


class Prepared(Protocol):
    """Transactions that one connection prepares and another one commits or rolls back later."""

    def begin(self, gid: str) -> AbstractContextManager[sa.Connection]:
        """One write transaction that is prepared under ``gid`` when the block ends, and rolled back
        when it raises.

        What was prepared is durable, holds its locks, and shows to nobody until :meth:`finish`.

        Raises:
            ApplyError: 55000, the server does not allow it; 42710, ``gid`` is in use.
            SubscriberError: any other failure of the driver, as :meth:`Errors.translate` words it.
        """
        ...

    def finish(self, gid: str, *, commit: bool, origin: str | None = None) -> None:
        """COMMIT PREPARED, or ROLLBACK PREPARED, on a connection of its own.

        Args:
            gid: its name.
            commit: which of the two.
            origin: the name that :meth:`Origins.set` takes; None where nothing is marked.

        Raises:
            ApplyError: 42704, there is no such prepared transaction.
            SubscriberError: any other failure of the driver, as :meth:`Errors.translate` words it.
        """
        ...

    def free_gid(self, connection: sa.Connection, gid: str) -> str:
        """``gid``, or another name where a neighbour that shares the names, such as a database of
        the same server, has taken it.
        """
        ...

    def names(self, connection: sa.Connection) -> frozenset[str]:
        """The names of what is prepared in this database."""
        ...
