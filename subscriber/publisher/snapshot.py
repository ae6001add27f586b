"""A snapshot of the publisher that many sessions can read: that of a temporary replication slot
(rules A37, D2).

The snapshot exists as long as the connection that created it runs no other command, so that
connection must stay open during long copies: timeouts of the publisher are disabled for it, and TCP
keepalives prevent firewalls from closing it. The slot is dropped at the end of the connection, also
when this process is killed.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Self

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from subscriber.base.errors import PublisherError, PublisherUnavailable
from subscriber.base.lsn import LSN
from subscriber.postgres.schema.server_features import OLDEST_VERSION, ServerFeatures
from subscriber.publisher.client import PublisherClient
from subscriber.publisher.connection import Connection, ReplicationConnection, connected, reporting
from subscriber.publisher.conninfo import check_conninfo, session_conninfo
from subscriber.publisher.server_publications import PublicationsInSnapshot
from subscriber.publisher.slots import create_slot

_LONGEST_NAME: Final = 24
"""The number of characters of the subscription's name that the slot's name includes. A slot's name
has at most 63 characters.
"""

_KEEPALIVE_SECONDS: Final = "60"
_TIMEOUTS: Final = (
    (OLDEST_VERSION, "statement_timeout"),
    (OLDEST_VERSION, "lock_timeout"),
    (OLDEST_VERSION, "idle_in_transaction_session_timeout"),
    (ServerFeatures.idle_session_timeout, "idle_session_timeout"),
    (ServerFeatures.transaction_timeout, "transaction_timeout"),
)
"""The settings that may end a session which waits or reads for hours, and the version that
introduced each.
"""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An exported snapshot: its name for SET TRANSACTION SNAPSHOT, and the consistent point.
    Transactions that commit from there on are streamed and are not in the snapshot (rule D6).
    """

    name: str
    lsn: LSN


@contextlib.contextmanager
def exported_snapshot(conninfo: str, subscription: str, stop: threading.Event | None = None) -> Iterator[Snapshot]:
    """Waits for every transaction in progress there, or until ``stop`` is set (57014)."""
    with ReplicationConnection(_kept_alive(conninfo), subscription) as connection:
        for command in _without_timeouts(connection.server_version):
            connection.execute(command)
        slot = create_slot(connection, _slot_name(subscription), snapshot="export", temporary=True, stop=stop)
        yield Snapshot(slot.snapshot_name or "", slot.consistent_point)


class SnapshotSession:
    """Reads as of a snapshot; it connects when first used, and again after an error."""

    def __init__(self, conninfo: str, application_name: str, snapshot: str) -> None:
        self._conninfo = conninfo
        self._application_name = application_name
        self._snapshot = snapshot
        self._connection: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is not None:
            self._connection.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A read-only transaction as of the snapshot, which looks up no name in a user's schema."""
        connection = self._connection
        if connection is None or connection.closed:
            conninfo = session_conninfo(_kept_alive(self._conninfo), self._application_name)
            connection = self._connection = connected(conninfo)
        with reporting(connection), _closed_after_an_error(connection):
            commands = [
                *_without_timeouts(connection.info.server_version),
                "SET search_path = ''",
                "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
            ]
            connection.execute("; ".join(commands).encode())
            try:
                connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(self._snapshot)))
            except psycopg.Error as error:
                if connection.broken or error.sqlstate is None:
                    raise
                raise snapshot_gone(str(error.diag.message_primary)) from error
            yield connection
            if not connection.closed:
                connection.execute("COMMIT")


@contextlib.contextmanager
def _closed_after_an_error(connection: Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


@contextlib.contextmanager
def snapshot_session(conninfo: str, application_name: str, snapshot: str) -> Iterator[Connection]:
    """A transaction of a :class:`SnapshotSession` that is used once."""
    with SnapshotSession(conninfo, application_name, snapshot) as session, session.transaction() as connection:
        yield connection


def snapshot_gone(reason: str) -> PublisherError:
    return PublisherUnavailable(
        f"the snapshot of the initial copy is no longer there: {reason}",
        sqlstate="55000",
        hint="The session that held it was ended at the publisher; the copy starts again with a new one.",
    )


def _kept_alive(conninfo: str) -> str:
    """The connection string with keepalives, unless it has such parameters."""
    given = check_conninfo(conninfo)
    return conninfo if "keepalives_idle" in given else make_conninfo(conninfo, keepalives_idle=_KEEPALIVE_SECONDS)


def _without_timeouts(server_version: int) -> list[str]:
    return [f"SET {name} = 0" for since, name in _TIMEOUTS if server_version >= since]


def _slot_name(subscription: str) -> str:
    """``pg_<subscription>_sync_<random>``, of the characters that a slot's name may have."""
    readable = re.sub("[^a-z0-9_]", "_", subscription.lower())[:_LONGEST_NAME]
    return f"pg_{readable}_sync_{secrets.token_hex(8)}"


class CopySession(SnapshotSession):
    """A session in which many tables are looked at, with what is the same for all of them."""

    def __init__(
        self,
        conninfo: str,
        subscription: str,
        snapshot: str,
        *,
        publications: Sequence[str] = (),
        streamed: Sequence[str] = (),
    ) -> None:
        super().__init__(conninfo, subscription, snapshot)
        self._publications = publications
        self._streamed = streamed
        self._published: PublicationsInSnapshot | None = None
        self._missing: Sequence[str] | None = None

    def published(self, connection: Connection) -> PublicationsInSnapshot:
        if self._published is None:
            self._published = PublicationsInSnapshot.read(connection, self._publications)
        return self._published

    def missing(self, connection: Connection) -> Sequence[str]:
        """The streamed publications that did not exist at the snapshot."""
        if self._missing is None:
            self._missing = PublisherClient(connection).missing_publications(self._streamed)
        return self._missing
