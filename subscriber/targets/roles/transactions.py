"""Write transactions: beginning, interrupting, lock waits, and the durability of commits."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import sqlalchemy as sa


@dataclass(frozen=True, slots=True)
class DurabilityWarning:
    """A setting of the target because of which committed changes can be lost.

    Attributes:
        message: what may happen, and why.
        hint: the command to execute.
    """

    message: str
    hint: str


class Transactions(Protocol):
    """Begins, interrupts and ends the target's transactions."""

    def begin(self) -> AbstractContextManager[sa.Connection]:
        """Begin a write transaction: committed when the block ends, rolled back if the block
        raises.

        Raises:
            TargetUnavailable: there is no connection, or another writer holds the database for too
                long.
            SubscriberError: any other failure of the driver, as translated by
                :meth:`Errors.translate`.
        """
        ...

    def write_engine(self) -> sa.Engine:
        """The engine for write transactions; the target's plain engine is only for reading."""
        ...

    def session_id(self, connection: sa.Connection) -> int | None:
        """The server's number of a connection's session; None if there is no number or it is not
        known.
        """
        ...

    def waits_for(self, session: int | None) -> Sequence[str]:
        """The sessions or processes for which a session of the subscriber waits, described for
        messages.

        The texts are those of :mod:`subscriber.waiting`. The result is empty if the session does
        not wait, or if this cannot be determined.

        Args:
            session: a result of :meth:`session_id`; None for a session that is still being opened.
        """
        ...

    def interrupt(self, connection: sa.Connection) -> None:
        """Interrupt the statement that another thread executes on ``connection``.

        The statement then raises an error in that thread. If no statement is running, nothing
        happens. A statement that cannot be interrupted continues.
        """
        ...

    def apply_as_replica(self, connection: sa.Connection) -> None:
        """Make ``connection`` apply changes as a replica in this transaction (rule C23)."""
        ...

    def set_synchronous_commit(self, connection: sa.Connection, value: str) -> None:
        """Set the durability of this transaction's commit to a subscription's
        ``synchronous_commit``.

        The value ``off`` leaves the target's own setting unchanged: committed changes must be
        durable in the target before they are removed from the journal.
        """
        ...

    def limited_lock_waits(self, connection: sa.Connection, seconds: int) -> AbstractContextManager[None]:
        """Let a statement of the block fail if it waits for a lock for longer than ``seconds``.

        The error is a :class:`~subscriber.errors.TargetUnavailable`. A database that has a limit
        for every lock keeps its own.

        Args:
            connection: a connection of :meth:`begin`.
            seconds: the limit, at least 1.
        """
        ...

    def durability_warnings(self) -> Sequence[DurabilityWarning]:
        """The settings because of which the database may lose committed changes in a crash.

        The crash may be that of the machine or of the database's process. The journal is trimmed
        after each commit, so lost changes cannot be received again.

        Raises:
            TargetUnavailable: the settings cannot be read.
        """
        ...

    def interruptible(self, connection: sa.Connection) -> AbstractContextManager[None]:
        """Allow Control-C to end a query of the block. Most drivers do this themselves."""
        ...
