"""Why there can be no way back from the target to the old publisher, found before anything is
changed.

The last question is put to the server that has to answer it: CREATE SUBSCRIPTION is executed at the
old publisher in a transaction that is rolled back (:func:`connection_obstacles`). So the old
publisher's server has really reached the target, under its own rules about passwords.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import psycopg
from psycopg import sql

from subscriber.publisher.conninfo import check_conninfo
from subscriber.publisher.logical_decoding import read_decoding_settings
from subscriber.publisher.reverse_replication import TableName, read_write
from subscriber.publisher.server_errors import error_of
from subscriber.publisher.sql_connection import Connection

_PROHIBITED: Final = "2F003"
_WITHOUT: Final = "Run the command without --reverse."
OLDEST_VERSION: Final = 160000
"""The first version whose subscriptions have the option ``origin``."""
_ORIGIN_FUNCTIONS: Final = tuple(
    f"pg_replication_origin_{name}"
    for name in ("oid", "create", "drop", "session_setup", "session_reset", "xact_setup")
)

_FACTS: Final = """
SELECT current_setting('max_replication_slots')::int4 - (SELECT count(*)::int4 FROM pg_replication_slots),
 current_setting('max_wal_senders')::int4 - (SELECT count(*)::int4 FROM pg_stat_replication),
 has_database_privilege(current_database(), 'CREATE'),
 (SELECT rolsuper OR rolreplication FROM pg_roles WHERE rolname = current_user),
 (SELECT bool_and(has_function_privilege(oid, 'EXECUTE')) FROM pg_proc WHERE proname = ANY (%s)), current_user::text
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
_NOT_OWNED_BY_SUBSCRIBER: Final = """
SELECT DISTINCT pg_get_userbyid(c.relowner)::text FROM unnest(%s::text[], %s::text[]) AS t (schema, name)
 JOIN pg_class c ON c.oid = to_regclass(quote_ident(t.schema) || '.' || quote_ident(t.name))
WHERE NOT pg_has_role(c.relowner, 'SET') ORDER BY 1
"""
_NOT_OWNED: Final = """
SELECT t.schema, t.name, pg_get_userbyid(c.relowner)::text FROM unnest(%s::text[], %s::text[]) AS t (schema, name)
 JOIN pg_class c ON c.oid = to_regclass(quote_ident(t.schema) || '.' || quote_ident(t.name))
WHERE NOT pg_has_role(c.relowner, 'USAGE') ORDER BY 1, 2
"""
_COLUMNS: Final = """
SELECT t.schema, t.name, a.attname::text, a.attgenerated <> '' AS is_generated,
 a.attnotnull AND NOT a.atthasdef AND a.attidentity = '' AND a.attgenerated = '' AS is_needed
FROM unnest(%s::text[], %s::text[]) AS t (schema, name)
 JOIN pg_attribute a ON a.attrelid = to_regclass(quote_ident(t.schema) || '.' || quote_ident(t.name))
WHERE a.attnum > 0 AND NOT a.attisdropped ORDER BY 1, 2, a.attnum
"""


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
    row = target.execute(_FACTS, (list(_ORIGIN_FUNCTIONS),)).fetchone()
    assert row is not None
    slots, senders, may_create, may_replicate, may_mark, role = row
    found = []
    if target.info.server_version < OLDEST_VERSION:
        found.append(_too_old("target", target.info.server_version))
    found += [
        Obstacle(f"in the target, {one.finding}", one.hint("target"))
        for one in read_decoding_settings(target).obstacles()
    ]
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
                f"Run at the target, as a superuser: GRANT EXECUTE ON FUNCTION {', '.join(_ORIGIN_FUNCTIONS)} TO"
                f" {_name(role)}; and start `subscriber run` again.",
            )
        )
    found += _table_obstacles(target, role, tables)
    return found


def _table_obstacles(target: Connection, role: str, tables: Sequence[TableName]) -> list[Obstacle]:
    names = _split(tables)
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
    found += [
        Obstacle(
            f'table "{schema}.{name}" of the target belongs to role "{owner}", and only its owner may publish it',
            f"Run at the target, as a superuser: GRANT {_name(owner)} TO {_name(role)};",
        )
        for schema, name, owner in target.execute(_NOT_OWNED, names).fetchall()
    ]
    return found


def publisher_obstacles(publisher: Connection, tables: Sequence[TableName]) -> list[Obstacle]:
    """Why the old publisher cannot subscribe; empty if it can.

    Args:
        publisher: a connection to the old publisher.
        tables: schema and name of the tables of the subscription.

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
    found += [
        Obstacle(
            f'role "{role}" may not write at the publisher as "{owner}", the owner of tables of the subscription',
            f"Run at the publisher, as a superuser: GRANT {_name(owner)} TO {_name(role)};",
        )
        for (owner,) in publisher.execute(_NOT_OWNED_BY_SUBSCRIBER, _split(tables)).fetchall()
    ]
    return found


def column_obstacles(publisher: Connection, target: Connection, tables: Sequence[TableName]) -> list[Obstacle]:
    """The columns that prevent rows of the target from being applied at the old publisher.

    Raises:
        psycopg.Error: a query failed.
    """
    old, new = _columns(publisher, tables), _columns(target, tables)
    found = []
    for table in sorted(old.keys() & new.keys()):
        name = ".".join(table)
        for column, (generated, _) in new[table].items():
            there = old[table].get(column)
            if generated or (there is not None and not there[0]):
                continue  # a generated column is not published
            why = "is not at the old publisher" if there is None else "is generated at the old publisher"
            found.append(
                Obstacle(f'column "{column}" of table "{name}" {why}, which could not take rows back', _WITHOUT)
            )
        found += [
            Obstacle(
                f'column "{column}" of table "{name}" is NOT NULL without a default at the old publisher, and the target'
                " does not have it",
                f"Run at the publisher: ALTER TABLE {_name(table[0])}.{_name(table[1])} ALTER COLUMN {_name(column)} DROP"
                " NOT NULL;",
            )
            for column, (_, needed) in old[table].items()
            if needed and column not in new[table]
        ]
    return found


def connection_obstacles(publisher: Connection, name: str, conninfo: str) -> list[Obstacle]:
    """Why the old publisher's server cannot subscribe by a connection string; nothing is created.

    Args:
        publisher: to the old publisher.
        name: of the subscription.
        conninfo: how the old publisher's server reaches the target.

    Raises:
        UsageError: 42601, it is no connection string.
        psycopg.Error: the connection was lost.
    """
    check_conninfo(conninfo)
    statement = sql.SQL(
        "CREATE SUBSCRIPTION {name} CONNECTION {conninfo} PUBLICATION {name}"
        " WITH (enabled = false, create_slot = false, slot_name = NONE, copy_data = false, origin = none)"
    ).format(name=sql.Identifier(name), conninfo=sql.Literal(conninfo))
    read_write(publisher)
    try:
        with publisher.transaction(force_rollback=True):
            publisher.execute(statement)
    except psycopg.Error as error:
        if error.sqlstate is None:  # the connection was lost
            raise
        told = error_of(error)
        reason = told.message.partition("\n")[0].rpartition("could not connect to the publisher: ")[2]
        hint = "Give --reverse-connection, by which the old publisher's server reaches the target."
        if error.sqlstate == _PROHIBITED:
            reason = f"{reason}: {told.detail}"
            hint = (
                "The role at the publisher is no superuser: give --reverse-connection with a password, and let the"
                " target's pg_hba.conf ask for it."
            )
        return [Obstacle(f"the old publisher's server cannot subscribe to the target: {reason}", hint)]
    return []


def _columns(connection: Connection, tables: Sequence[TableName]) -> dict[TableName, dict[str, tuple[bool, bool]]]:
    """Of each table, the columns: whether they are generated, and whether a row must bring them."""
    found: dict[TableName, dict[str, tuple[bool, bool]]] = {}
    for schema, table, column, generated, needed in connection.execute(_COLUMNS, _split(tables)).fetchall():
        found.setdefault((schema, table), {})[column] = (generated, needed)
    return found


def _split(tables: Sequence[TableName]) -> tuple[list[str], list[str]]:
    return [schema for schema, _ in tables], [name for _, name in tables]


def _too_old(side: str, version: int) -> Obstacle:
    return Obstacle(
        f"the {side} is PostgreSQL {version // 10000}, and a way back needs origin = none, which PostgreSQL 16 brought",
        _WITHOUT,
    )


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
