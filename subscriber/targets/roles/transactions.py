"""Write transactions: begin, interrupt, wait, and how durable a commit is."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import sqlalchemy as sa


@dataclass(frozen=True, slots=True)
class DurabilityWarning:
    """A setting of the target's by which a commit can be lost.

    Attributes:
        message: what may happen, and why.
        hint: what to run.
    """

    message: str
    hint: str


class Transactions(Protocol):
    """How the target's transactions begin and end."""

    def begin(self) -> AbstractContextManager[sa.Connection]:
        """One write transaction: committed when the block ends, rolled back when it raises.

        Raises:
            TargetUnavailable: no connection, or another writer holds the database for too long.
            SubscriberError: any other failure of the driver, as :meth:`Errors.translate` words it.
        """
        ...

    def write_engine(self) -> sa.Engine:
        """The engine whose transactions may write; others of its engine only read."""
        ...

    def session_id(self, connection: sa.Connection) -> int | None:
        """How the server calls the session of a connection; None where it has none, or it is not
        known.
        """
        ...

    def waits_for(self, session: int | None) -> Sequence[str]:
        """Whom a session of ours waits for, in words (:mod:`subscriber.waiting`); nobody where it
        waits for none, or nobody can tell.

        Args:
            session: of :meth:`session_id`; None is one that is still being opened.
        """
        ...

    def interrupt(self, connection: sa.Connection) -> None:
        """Have the statement end that another thread runs on ``connection``, which then raises;
        where none runs, nothing happens.

        What cannot be interrupted just goes on.
        """
        ...

    def apply_as_replica(self, connection: sa.Connection) -> None:
        """Make ``connection`` apply as a replica (rule C23), for this transaction."""
        ...

    def set_synchronous_commit(self, connection: sa.Connection, value: str) -> None:
        """Make this transaction commit as a subscription's ``synchronous_commit`` asks.

        ``off`` leaves it to the target's own setting: what is committed must be durable there
        before the journal forgets it.
        """
        ...

    def durability_warnings(self) -> Sequence[DurabilityWarning]:
        """The settings by which the database may lose what it has committed, when the machine fails
        or its own process does.

        The journal is trimmed behind a commit, so such changes come from nowhere again.

        Raises:
            TargetUnavailable: it cannot be asked.
        """
        ...

    def interruptible(self, connection: sa.Connection) -> AbstractContextManager[None]:
        """Let Control-C end a query of the block; most drivers see to it themselves."""
        ...
