"""The way back: PostgreSQL's own replication from the target to the old publisher.

::

    target (PostgreSQL)                                     old publisher
    publication + slot   ──────────▶  native subscription   CREATE SUBSCRIPTION … WITH (create_slot = false,
    made before the application's first write                copy_data = false, origin = none)

The slot is made before the application writes to the target. So the subscription has all that the
application ever writes there, and the old database stays complete. ``origin = none`` leaves out
what `subscriber run` still applies to the target, because that is marked with a replication origin.
PostgreSQL has the option from 16 on.

Publication, slot and subscription have one name. Every function can be repeated: what is there is
left as it is, and what is gone is no error.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import sql

from subscriber.errors import PublisherNotReady
from subscriber.lsn import INVALID_LSN, LSN, parse_lsn
from subscriber.publisher.connection import error_of
from subscriber.publisher.fence import SETTING
from subscriber.publisher.sql_connection import Connection

OLDEST_VERSION: Final = 160000
"""The first version whose subscriptions have the option ``origin``."""
_RELEASE_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.1
_RAW: Final = "pgoutput"

_FACTS: Final = """
SELECT current_setting('wal_level'),
 current_setting('max_replication_slots')::int4 - (SELECT count(*)::int4 FROM pg_replication_slots),
 current_setting('max_wal_senders')::int4 - (SELECT count(*)::int4 FROM pg_stat_replication),
 has_database_privilege(current_database(), 'CREATE'),
 (SELECT rolsuper OR rolreplication FROM pg_roles WHERE rolname = current_user),
 has_function_privilege('pg_replication_origin_create(text)', 'EXECUTE')
 AND has_function_privilege('pg_replication_origin_session_setup(text)', 'EXECUTE'), current_user::text
"""
_MISSING_TABLES: Final = """
SELECT t.schema, t.name FROM unnest(%s::text[], %s::text[]) AS t (schema, name)
WHERE to_regclass(quote_ident(t.schema) || '.' || quote_ident(t.name)) IS NULL ORDER BY 1, 2
"""
_NO_IDENTITY: Final = """
SELECT t.schema, t.name FROM unnest(%s::text[], %s::text[]) AS t (schema, name)
 JOIN pg_class c ON c.oid = to_regclass(quote_ident(t.schema) || '.' || quote_ident(t.name))
WHERE c.relreplident = 'n' OR c.relreplident = 'd' AND NOT EXISTS
 (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary) ORDER BY 1, 2
"""
_MAY_SUBSCRIBE: Final = """
SELECT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) OR (pg_has_role('pg_create_subscription', 'USAGE')
 AND has_database_privilege(current_database(), 'CREATE')), current_user::text,
 current_setting('max_logical_replication_workers')::int4 - (SELECT count(*)::int4 FROM pg_subscription)
"""
_RECEIVED: Final = """
SELECT s.subenabled, o.remote_lsn::text FROM pg_subscription s
 LEFT JOIN pg_replication_origin r ON r.roname = 'pg_' || s.oid
 LEFT JOIN pg_replication_origin_status o ON o.local_id = r.roident
WHERE s.subname = %s AND s.subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())
"""

TableName = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why there can be no way back.

    Attributes:
        message: what is missing.
        hint: what to do.
    """

    message: str
    hint: str


def target_obstacles(target: Connection, tables: Sequence[TableName]) -> list[Obstacle]:
    """Why the target cannot publish these tables to the old publisher; empty if it can.

    Args:
        target: a connection to the target.
        tables: schema and name of the tables of the subscription.

    Raises:
        psycopg.Error: a query failed.
    """
    row = target.execute(_FACTS).fetchone()
    assert row is not None
    wal_level, slots, senders, may_create, may_replicate, may_mark, role = row
    found = []
    if target.info.server_version < OLDEST_VERSION:
        found.append(_too_old("target", target.info.server_version))
    if wal_level != "logical":
        found.append(
            Obstacle(
                f'the target has wal_level = "{wal_level}", and a slot needs "logical"',
                "Run at the target: ALTER SYSTEM SET wal_level = 'logical'; and restart it.",
            )
        )
    for name, left in (("max_replication_slots", slots), ("max_wal_senders", senders)):
        if left < 1:
            found.append(Obstacle(f"all {name} of the target are in use", f"Raise {name} there, and restart it."))
    if not may_create:
        found.append(
            Obstacle(
                f'role "{role}" may not create a publication in the target',
                f"Run at the target: GRANT CREATE ON DATABASE {_name(target.info.dbname)} TO {_name(role)};",
            )
        )
    if not may_replicate:
        found.append(
            Obstacle(
                f'role "{role}" of the target may not create a replication slot',
                f"Run at the target, as a superuser: ALTER ROLE {_name(role)} REPLICATION;",
            )
        )
    if not may_mark:
        found.append(
            Obstacle(
                "applied changes are not marked with a replication origin in the target, so they would be sent back",
                "Let `subscriber run` apply as a superuser, or grant the functions pg_replication_origin_* to its role.",
            )
        )
    found += _table_obstacles(target, tables)
    return found


def _table_obstacles(target: Connection, tables: Sequence[TableName]) -> list[Obstacle]:
    names = [schema for schema, _ in tables], [name for _, name in tables]
    found = [
        Obstacle(f'table "{schema}.{name}" does not exist in the target', "REFRESH PUBLICATION, or create it.")
        for schema, name in target.execute(_MISSING_TABLES, names).fetchall()
    ]
    found += [
        Obstacle(
            f'table "{schema}.{name}" of the target has no replica identity: the application could not update it',
            f"Run at the target: ALTER TABLE {_name(schema)}.{_name(name)} REPLICA IDENTITY FULL;",
        )
        for schema, name in target.execute(_NO_IDENTITY, names).fetchall()
    ]
    return found


def publisher_obstacles(publisher: Connection) -> list[Obstacle]:
    """Why the old publisher cannot subscribe; empty if it can.

    Raises:
        psycopg.Error: a query failed.
    """
    if publisher.info.server_version < OLDEST_VERSION:
        return [_too_old("publisher", publisher.info.server_version)]
    row = publisher.execute(_MAY_SUBSCRIBE).fetchone()
    assert row is not None
    may, role, workers = row
    found = []
    if not may:
        found.append(
            Obstacle(
                f'role "{role}" may not create a subscription at the publisher',
                f"Run at the publisher, as a superuser: GRANT pg_create_subscription TO {_name(role)};"
                f" GRANT CREATE ON DATABASE {_name(publisher.info.dbname)} TO {_name(role)};",
            )
        )
    if workers < 1:
        found.append(
            Obstacle(
                "all max_logical_replication_workers of the publisher are in use",
                "Raise max_logical_replication_workers there, and restart it.",
            )
        )
    return found


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
        PublisherNotReady: the publisher refuses it; the message holds no password.
    """
    with _refused("the publisher"):
        if publisher.execute(_RECEIVED, (name,)).fetchone() is not None:
            return
        _read_write(publisher)
        statement = sql.SQL(
            "CREATE SUBSCRIPTION {name} CONNECTION {conninfo} PUBLICATION {name}"
            " WITH (create_slot = false, slot_name = {slot}, copy_data = false, origin = none)"
        )
        publisher.execute(
            statement.format(name=sql.Identifier(name), conninfo=sql.Literal(conninfo), slot=sql.Literal(name))
        )


def received_back(publisher: Connection, name: str) -> LSN | None:
    """The position up to which the old publisher has applied transactions of the target; 0/0 if
    there was none yet, None if there is no subscription.

    Raises:
        psycopg.Error: the query failed.
    """
    row = publisher.execute(_RECEIVED, (name,)).fetchone()
    if row is None:
        return None
    return INVALID_LSN if row[1] is None else parse_lsn(row[1])


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
        if publisher.execute(_RECEIVED, (name,)).fetchone() is None:
            return
        _read_write(publisher)
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
    """The statements that end the way back, at the old publisher and at the target, for people."""
    quoted = _name(name)
    return (
        f"DROP SUBSCRIPTION {quoted};",
        f"DROP PUBLICATION {quoted};",
    )


def _slot(target: Connection, name: str) -> tuple[Any, ...] | None:
    return target.execute(
        "SELECT active_pid, confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s", (name,)
    ).fetchone()


def _read_write(connection: Connection) -> None:
    """The database may be fenced."""
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


def _too_old(side: str, version: int) -> Obstacle:
    return Obstacle(
        f"the {side} is PostgreSQL {version // 10000}, and a way back needs origin = none, which PostgreSQL 16 brought",
        "Run the command without --reverse.",
    )


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
