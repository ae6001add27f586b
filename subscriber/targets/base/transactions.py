"""Write transactions, and optional roles: the run lock, prepared transactions, replication origins,
pipelined statements, and the cluster of a PostgreSQL target.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import sqlalchemy as sa

from subscriber.base.waiting import watched
from subscriber.targets.base.errors import Errors


@dataclass(frozen=True, slots=True)
class DurabilityWarning:
    """A setting because of which committed changes can be lost, and the command to execute."""

    message: str
    hint: str


class Transactions:
    """Begins, interrupts and ends the target's transactions."""

    def __init__(self, engine: sa.Engine, errors: Errors) -> None:
        self._engine = engine
        self._errors = errors

    @contextmanager
    def begin(self) -> Iterator[sa.Connection]:
        """Begin a write transaction: committed when the block ends, rolled back if it raises.
        TargetUnavailable if there is no connection, or another writer holds the database for too
        long.
        """
        with self._begin(self.write_engine()) as connection:
            yield connection

    def begin_beside_others(self) -> AbstractContextManager[sa.Connection]:
        """Begin as :meth:`begin`, where there are ``row_locks`` (:class:`Capabilities`): each
        statement sees what others have committed before it, and locks no rows but its own.
        """
        return self._begin(self.write_engine().execution_options(isolation_level="READ COMMITTED"))

    @contextmanager
    def _begin(self, engine: sa.Engine) -> Iterator[sa.Connection]:
        sessions: list[int] = []
        with (
            watched(f"a transaction of the target ({self._errors.database})", partial(self._asked, sessions)),
            self._errors.reporting(),
            engine.begin() as connection,
        ):
            session = self.session_id(connection)
            if session is not None:
                sessions.append(session)
            self.apply_as_replica(connection)
            yield connection

    def _asked(self, sessions: Sequence[int]) -> Sequence[str]:
        return self.waits_for(sessions[0] if sessions else None)

    def write_engine(self) -> sa.Engine:
        """The engine for write transactions; the target's plain engine is only for reading."""
        return self._engine

    def session_id(self, connection: sa.Connection) -> int | None:
        """The server's number of a connection's session; None if it is not known."""
        return None

    def waits_for(self, session: int | None) -> Sequence[str]:
        """The sessions or processes for which the session with a :meth:`session_id` waits (None:
        one that is still being opened), described with the texts of :mod:`subscriber.base.waiting`.
        Empty if it does not wait, or if this is not known.
        """
        return ()

    def interrupt(self, connection: sa.Connection) -> None:
        """Let the statement that another thread executes on ``connection`` raise an error there. If
        none runs, nothing happens. One that cannot be interrupted continues.
        """

    def interruptible(self, connection: sa.Connection) -> AbstractContextManager[None]:
        """Allow Control-C to end a query of the block. Most drivers do this themselves."""
        return nullcontext()

    def apply_as_replica(self, connection: sa.Connection) -> None:
        """Make ``connection`` apply changes as a replica in this transaction (rule C23)."""

    def set_synchronous_commit(self, connection: sa.Connection, value: str) -> None:
        """Set the durability of this transaction's commit to a subscription's
        ``synchronous_commit``. The value ``off`` leaves the target's own setting unchanged:
        committed changes must be durable in the target before they are removed from the journal.
        """

    def limited_lock_waits(self, connection: sa.Connection, seconds: int) -> AbstractContextManager[None]:
        """Let a statement of the block fail with TargetUnavailable if it waits for a lock for
        longer than ``seconds``, at least 1. A database that has a limit for every lock keeps its
        own.
        """
        return nullcontext()

    def durability_warnings(self) -> Sequence[DurabilityWarning]:
        """The settings because of which the database may lose committed changes in a crash of the
        machine or of its process. The journal is trimmed after each commit, so lost changes cannot
        be received again. TargetUnavailable if they cannot be read.
        """
        return ()


class RunLock(ABC):
    """The lock of the one ``subscriber run`` of a target (optional). It ends with the process."""

    @abstractmethod
    def hold(self) -> AbstractContextManager[None]:
        """Hold the run lock while the block runs; AlreadyRunning if another run holds it."""

    @abstractmethod
    def is_held(self, connection: sa.Connection) -> bool | None:
        """Whether a run holds the run lock now; None if this cannot be determined."""


class Prepared(ABC):
    """Transactions that any connection may finish (an optional role, rules C49 to C50a)."""

    @abstractmethod
    def begin(self, gid: str) -> AbstractContextManager[sa.Connection]:
        """Begin a write transaction that is prepared under ``gid`` when the block ends, and rolled
        back if it raises. A prepared transaction is durable and holds its locks; its changes are
        invisible until :meth:`finish` commits it. ApplyError 55000: the server does not allow it;
        42710: ``gid`` is in use.
        """

    @abstractmethod
    def finish(self, gid: str, *, commit: bool, origin: str | None = None) -> None:
        """COMMIT or ROLLBACK PREPARED on another connection, with the origin; else ApplyError
        42704.
        """

    @abstractmethod
    def free_gid(self, connection: sa.Connection, gid: str) -> str:
        """``gid``, or another GID if it is in use elsewhere, as in another database."""

    @abstractmethod
    def names(self, connection: sa.Connection) -> frozenset[str]:
        """The GIDs of the transactions that are prepared in this database."""


class Origins(ABC):
    """Marks changes with a replication origin (an optional role, rules C32, C34, C38)."""

    @abstractmethod
    def set(self, connection: sa.Connection, name: str) -> bool:
        """Mark the changes of this transaction with a replication origin (rule C32); returns
        whether they are. They are not if the target's database role may not use origins.
        TargetUnavailable if another session uses it: several writers have origins of their own,
        whose names are the subscription's with a suffix, as in ``pg_16394_1``.
        """

    @abstractmethod
    def set_position(self, connection: sa.Connection, lsn: int, timestamp: int | None) -> None:
        """Set the origin's position, the progress, for the commit of this transaction (rule C32),
        after :meth:`set`. ``timestamp`` is the time of the last remote commit in microseconds since
        2000-01-01 UTC; None if there was none.
        """

    @abstractmethod
    def others(self, connection: sa.Connection) -> sa.ColumnElement[bool] | None:
        """The condition that another origin changed a row last, and none with a suffix of
        :meth:`set` either; None if it is not recorded.
        """

    @abstractmethod
    def are_tracked(self, connection: sa.Connection) -> bool:
        """Whether the target records the origin and the commit time of each row's last change."""

    @abstractmethod
    def drop(self, connection: sa.Connection, name: str) -> None:
        """Drop the origins that :meth:`set` created, with every suffix."""


class StatementPipeline(ABC):
    """Sends statements without waiting for results (an optional role)."""

    @abstractmethod
    def execute(self, connection: sa.Connection, statements: Sequence[tuple[str, Sequence[Any]]]) -> Sequence[int]:
        """Execute statements in order; returns the row count of each. They are SQL in the driver's
        parameter style with positional parameters. If one fails, those after it are not executed,
        and the caller rolls the transaction back.
        """


class Cluster(ABC):
    """The PostgreSQL cluster and database that a target is (an optional role)."""

    @abstractmethod
    def has_database(self, connection: sa.Connection, system_identifier: str, database: str) -> bool:
        """Whether the target is this database of the cluster with this system identifier."""

    @abstractmethod
    def conninfo(self) -> str:
        """The target as a libpq connection string; it may hold a password."""
