"""Prepared transactions (an optional role, rules C49 to C50a)."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

import sqlalchemy as sa


class Prepared(Protocol):
    """Transactions that one connection prepares and another one commits or rolls back."""

    def begin(self, gid: str) -> AbstractContextManager[sa.Connection]:
        """Begin a write transaction that is prepared under ``gid`` when the block ends.

        It is rolled back if the block raises. A prepared transaction is durable and holds its
        locks; its changes are invisible until :meth:`finish` commits it.

        Raises:
            ApplyError: 55000, the server does not allow prepared transactions; 42710, ``gid`` is in
                use.
            SubscriberError: any other failure of the driver, as translated by
                :meth:`Errors.translate`.
        """
        ...

    def finish(self, gid: str, *, commit: bool, origin: str | None = None) -> None:
        """Execute COMMIT PREPARED or ROLLBACK PREPARED on a separate connection.

        Args:
            gid: the GID of the prepared transaction.
            commit: whether to execute COMMIT PREPARED; otherwise ROLLBACK PREPARED.
            origin: the origin's name for :meth:`Origins.set`; None if the changes are not marked.

        Raises:
            ApplyError: 42704, the prepared transaction does not exist.
            SubscriberError: any other failure of the driver, as translated by
                :meth:`Errors.translate`.
        """
        ...

    def free_gid(self, connection: sa.Connection, gid: str) -> str:
        """``gid``, or another GID if ``gid`` is in use elsewhere.

        GIDs may be shared, for instance with the other databases of the same server.
        """
        ...

    def names(self, connection: sa.Connection) -> frozenset[str]:
        """The GIDs of the transactions that are prepared in this database."""
        ...
