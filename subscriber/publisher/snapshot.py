"""A snapshot of the publisher that many sessions can read: that of a temporary replication slot
(rules A37, D2).

The slot's consistent point determines which transactions are in the snapshot: those that committed
before it. Later ones come in the stream. The snapshot exists as long as the connection that created
it runs no other command, so that this connection must stay open during long copies. Timeouts of the
publisher are therefore disabled for it, and TCP keepalives prevent firewalls from closing it as an
idle connection. The slot is dropped at the end of the connection, also when this process is killed.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from subscriber.errors import PublisherError, PublisherUnavailable
from subscriber.lsn import LSN
from subscriber.publisher.connection import ReplicationConnection
from subscriber.publisher.conninfo import check_conninfo
from subscriber.publisher.publisher import connect_publisher
from subscriber.publisher.slots import create_slot
from subscriber.publisher.sql_connection import Connection
from subscriber.schema.server_features import OLDEST_VERSION, ServerFeatures

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
    """An exported snapshot.

    Attributes:
        name: the name for SET TRANSACTION SNAPSHOT.
        lsn: the consistent point; transactions that commit from there on are streamed and are not
            in the snapshot (rule D6).
    """

    name: str
    lsn: LSN


@contextlib.contextmanager
def exported_snapshot(conninfo: str, subscription: str, stop: threading.Event | None = None) -> Iterator[Snapshot]:
    """A snapshot that other sessions can import until the block ends.

    Its creation waits for every transaction in progress at the publisher, including prepared ones.

    Args:
        conninfo: the publisher's connection string.
        subscription: the subscription's name, for the names of slot and session.
        stop: an event that ends the wait.

    Raises:
        PublisherError: no connection, no free slot, or ``stop`` was set (57014).
    """
    with ReplicationConnection(_kept_alive(conninfo), subscription) as connection:
        for command in _without_timeouts(connection.server_version):
            connection.execute(command)
        slot = create_slot(connection, _slot_name(subscription), snapshot="export", temporary=True, stop=stop)
        yield Snapshot(slot.snapshot_name or "", slot.consistent_point)


@contextlib.contextmanager
def snapshot_session(conninfo: str, application_name: str, snapshot: str) -> Iterator[Connection]:
    """A session in a read-only transaction that uses ``snapshot``.

    Names are never looked up in a user's schema: expressions from the catalogs are printed with
    schemas, and are evaluated as they were defined.

    Raises:
        PublisherUnavailable: no connection, or the snapshot ended with the session that exported
            it.
        PublisherError: the server refused a statement.
    """
    with connect_publisher(_kept_alive(conninfo), application_name) as connection:
        commands = [
            *_without_timeouts(connection.info.server_version),
            "SET search_path = ''",
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        ]
        connection.execute("; ".join(commands).encode())
        try:
            connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot)))
        except psycopg.Error as error:
            if connection.broken or error.sqlstate is None:
                raise
            raise snapshot_gone(str(error.diag.message_primary)) from error
        yield connection


def snapshot_gone(reason: str) -> PublisherError:
    """The error for a snapshot that can no longer be imported."""
    return PublisherUnavailable(
        f"the snapshot of the initial copy is no longer there: {reason}",
        sqlstate="55000",
        hint="The session that held it was ended at the publisher; the copy starts again with a new one.",
    )


def _kept_alive(conninfo: str) -> str:
    """The connection string with keepalives, unless it has keepalive parameters already."""
    given = check_conninfo(conninfo)
    return conninfo if "keepalives_idle" in given else make_conninfo(conninfo, keepalives_idle=_KEEPALIVE_SECONDS)


def _without_timeouts(server_version: int) -> list[str]:
    return [f"SET {name} = 0" for since, name in _TIMEOUTS if server_version >= since]


def _slot_name(subscription: str) -> str:
    """``pg_<subscription>_sync_<random>``, of the characters that a slot's name may have."""
    readable = re.sub("[^a-z0-9_]", "_", subscription.lower())[:_LONGEST_NAME]
    return f"pg_{readable}_sync_{secrets.token_hex(8)}"
