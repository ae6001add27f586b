"""The way back: PostgreSQL's own replication from the target to the old publisher.

::

    target (PostgreSQL)                                     old publisher
    publication + slot   ──────────▶  native subscription   CREATE SUBSCRIPTION … WITH (create_slot = false,
    made before the application's first write                copy_data = false, origin = none)

The slot is made before the application writes to the target. So the subscription has all that the
application ever writes there, and the old database stays complete. ``origin = none`` leaves out
what `subscriber run` still applies to the target, because that is marked with a replication origin.
PostgreSQL has the option from 16 on.

What prevents it is found before: see :mod:`subscriber.publisher.reverse_obstacles`.

Publication, slot and subscription have one name. Every function can be repeated: what is there is
left as it is, and what is gone is no error.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import psycopg
from psycopg import sql

from subscriber.errors import PublisherNotReady
from subscriber.lsn import INVALID_LSN, LSN, parse_lsn
from subscriber.publisher.fence import SETTING
from subscriber.publisher.server_errors import error_of
from subscriber.publisher.sql_connection import Connection

TableName = tuple[str, str]

_RELEASE_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.1
_RAW: Final = "pgoutput"
_UNDEFINED_OBJECT: Final = "42704"

_EXISTS: Final = """
SELECT subenabled FROM pg_subscription
WHERE subname = %s AND subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
_MAY_SEE_ORIGINS: Final = "SELECT has_table_privilege('pg_replication_origin_status', 'SELECT')"
_RECEIVED: Final = """
SELECT o.remote_lsn::text FROM pg_subscription s
 LEFT JOIN pg_replication_origin r ON r.roname = 'pg_' || s.oid
 LEFT JOIN pg_replication_origin_status o ON o.local_id = r.roident
WHERE s.subname = %s AND s.subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


def prepare_target(target: Connection, name: str, tables: Sequence[TableName]) -> None:
    """Make publication and slot on the target, the slot last: it decodes only what comes after it.

    Raises:
        PublisherNotReady: the target refuses it.
    """
    with _refused("the target"):
        if target.execute("SELECT 1 FROM pg_publication WHERE pubname = %s", (name,)).fetchone() is None:
            listed = sql.SQL(", ").join(sql.Identifier(*table) for table in tables)
            statement = sql.SQL("CREATE PUBLICATION {} FOR TABLE {} WITH (publish_via_partition_root = true)")
            target.execute(statement.format(sql.Identifier(name), listed))
        if _slot(target, name) is None:
            target.execute("SELECT pg_create_logical_replication_slot(%s, %s)", (name, _RAW))


def subscribe_back(publisher: Connection, name: str, conninfo: str) -> None:
    """Make the subscription at the old publisher.

    Args:
        publisher: to the old publisher.
        name: of publication, slot and subscription.
        conninfo: how the old publisher's server reaches the target.

    Raises:
        PublisherNotReady: the publisher refuses it, or the connection leads to a database without
            the publication, which is not the target; the message holds no password.
    """
    warned: list[str] = []

    def warn(notice: psycopg.errors.Diagnostic) -> None:
        if notice.sqlstate == _UNDEFINED_OBJECT:
            warned.append(str(notice.message_primary))

    with _refused("the publisher"):
        if publisher.execute(_EXISTS, (name,)).fetchone() is not None:
            return
        read_write(publisher)
        statement = sql.SQL(
            "CREATE SUBSCRIPTION {name} CONNECTION {conninfo} PUBLICATION {name}"
            " WITH (create_slot = false, slot_name = {slot}, copy_data = false, origin = none)"
        )
        publisher.add_notice_handler(warn)
        with publisher.transaction():
            publisher.execute(
                statement.format(name=sql.Identifier(name), conninfo=sql.Literal(conninfo), slot=sql.Literal(name))
            )
            if warned:
                raise PublisherNotReady(
                    f"the connection of the way back leads from the old publisher to another database: {warned[0]}",
                    hint="Give --reverse-connection, by which the old publisher's server reaches the target.",
                )


def stands(publisher: Connection, target: Connection, name: str) -> bool:
    """Whether the way back is still there: the subscription at the old publisher, and the slot.

    Raises:
        psycopg.Error: a query failed.
    """
    return publisher.execute(_EXISTS, (name,)).fetchone() is not None and _slot(target, name) is not None


def came_back(publisher: Connection, name: str) -> bool:
    """Whether the old publisher has applied a transaction of the target. True also if the role may
    not know it: only superusers see the positions of replication origins.

    Raises:
        psycopg.Error: the query failed.
    """
    if publisher.execute(_EXISTS, (name,)).fetchone() is None:
        return False
    if publisher.execute(_MAY_SEE_ORIGINS).fetchone() != (True,):
        return True
    row = publisher.execute(_RECEIVED, (name,)).fetchone()
    return row is not None and row[0] is not None and parse_lsn(row[0]) != INVALID_LSN


def confirmed_by_publisher(target: Connection, name: str) -> LSN | None:
    """The position that the slot on the target has confirmed; None if there is no slot.

    Raises:
        psycopg.Error: the query failed.
    """
    found = _slot(target, name)
    return None if found is None else parse_lsn(found[1]) if found[1] else INVALID_LSN


def drop_subscription_back(publisher: Connection, name: str) -> None:
    """Drop the subscription at the old publisher, without its slot.

    Raises:
        PublisherNotReady: the publisher refuses it.
    """
    with _refused("the publisher"):
        if publisher.execute(_EXISTS, (name,)).fetchone() is None:
            return
        read_write(publisher)
        for change in ("ALTER SUBSCRIPTION {} DISABLE", "ALTER SUBSCRIPTION {} SET (slot_name = NONE)",
                       "DROP SUBSCRIPTION {}"):  # fmt: skip
            publisher.execute(sql.SQL(change).format(sql.Identifier(name)))


def drop_on_target(target: Connection, name: str) -> None:
    """Drop slot and publication of the target, when the worker has released the slot.

    Raises:
        PublisherNotReady: the target refuses it; a slot that stays in use is one reason.
    """
    deadline = time.monotonic() + _RELEASE_SECONDS
    with _refused("the target"):
        while (found := _slot(target, name)) is not None:
            try:
                target.execute("SELECT pg_drop_replication_slot(%s)", (name,))
            except psycopg.errors.ObjectInUse:
                if time.monotonic() > deadline:
                    raise
                if found[0] is not None:
                    target.execute("SELECT pg_terminate_backend(%s)", (found[0],))
                time.sleep(_PAUSE_SECONDS)
        target.execute(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(name)))


def dropping_statements(name: str) -> tuple[str, str]:
    """The statements that end the way back, at the old publisher and at the target, for people. The
    old publisher may be fenced.
    """
    quoted = _name(name)
    return (
        f"SET {SETTING} = off; DROP SUBSCRIPTION {quoted};",
        f"DROP PUBLICATION {quoted};",
    )


def _slot(target: Connection, name: str) -> tuple[Any, ...] | None:
    return target.execute(
        "SELECT active_pid, confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s", (name,)
    ).fetchone()


def read_write(connection: Connection) -> None:
    """Let a session write, whose database may be fenced."""
    connection.execute(sql.SQL("SET {} = off").format(sql.Identifier(SETTING)))


@contextlib.contextmanager
def _refused(where: str) -> Iterator[None]:
    """Errors of a server in the block become errors of this program, with the server's text."""
    try:
        yield
    except psycopg.Error as error:
        if error.sqlstate is None:  # the connection was lost
            raise
        told = error_of(error)
        raise PublisherNotReady(
            f"{where} refuses the way back: {told.message}",
            sqlstate=told.sqlstate,
            hint="Put that right and run the command again, or run it without --reverse.",
        ) from None


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
