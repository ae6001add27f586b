"""The way back: PostgreSQL's own replication from the target to the old publisher.

::

    target (PostgreSQL)                                     old publisher
    publication + slot   ──────────▶  native subscription   CREATE SUBSCRIPTION … WITH (create_slot = false,
    made before the application's first write                copy_data = false, origin = none)

The slot is made before the application writes to the target, so the subscription has all that it
ever writes there. ``origin = none`` (from PostgreSQL 16 on) leaves out what `subscriber run` still
applies to the target, because that is marked with a replication origin.

Publication, slot and subscription have one name. Every function can be repeated. Connections are in
autocommit mode; the old publisher may be fenced.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg
from psycopg import sql

from subscriber.base.errors import PublisherNotReady
from subscriber.base.lsn import INVALID_LSN, LSN, parse_lsn
from subscriber.postgres.schema.shape import SequencePosition
from subscriber.postgres.sql.quoting import delimited_identifier
from subscriber.publisher.connection import Connection
from subscriber.publisher.conninfo import check_conninfo
from subscriber.publisher.fence.read_only import SETTING
from subscriber.publisher.sequences import PublishedSequence, published_sequences
from subscriber.publisher.server_errors import error_of
from subscriber.publisher.server_facts import read_decoding_settings

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
    """Make publication and slot on the target, the slot last: it decodes what comes after it."""
    with _refused("the target"):
        if target.execute("SELECT 1 FROM pg_publication WHERE pubname = %s", (name,)).fetchone() is None:
            listed = ", ".join(delimited_identifier(*table) for table in tables)
            target.execute(
                f"CREATE PUBLICATION {delimited_identifier(name)} FOR TABLE {listed}"
                " WITH (publish_via_partition_root = true)".encode()
            )
        if _slot(target, name) is None:
            target.execute("SELECT pg_create_logical_replication_slot(%s, %s)", (name, _RAW))


def subscribe_back(publisher: Connection, name: str, conninfo: str) -> None:
    """Make the subscription at the old publisher, unless the connection leads to a database without
    the publication, which is not the target. Errors hold no password.
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
    return publisher.execute(_EXISTS, (name,)).fetchone() is not None and _slot(target, name) is not None


def came_back(publisher: Connection, name: str) -> bool:
    """Whether a target's transaction is applied there; only superusers see origins' positions."""
    if publisher.execute(_EXISTS, (name,)).fetchone() is None:
        return False
    if publisher.execute(_MAY_SEE_ORIGINS).fetchone() != (True,):
        return True
    row = publisher.execute(_RECEIVED, (name,)).fetchone()
    return row is not None and row[0] is not None and parse_lsn(row[0]) != INVALID_LSN


def confirmed_by_publisher(target: Connection, name: str) -> LSN | None:
    found = _slot(target, name)
    return None if found is None else parse_lsn(found[1]) if found[1] else INVALID_LSN


def drop_subscription_back(publisher: Connection, name: str) -> None:
    """Drop the subscription at the old publisher, without its slot."""
    with _refused("the publisher"):
        if publisher.execute(_EXISTS, (name,)).fetchone() is None:
            return
        read_write(publisher)
        for change in ("ALTER SUBSCRIPTION {} DISABLE", "ALTER SUBSCRIPTION {} SET (slot_name = NONE)",
                       "DROP SUBSCRIPTION {}"):  # fmt: skip
            publisher.execute(change.format(delimited_identifier(name)).encode())


def drop_on_target(target: Connection, name: str) -> None:
    """Drop slot and publication of the target, when the worker has released the slot."""
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
        target.execute(f"DROP PUBLICATION IF EXISTS {delimited_identifier(name)}".encode())


def dropping_statements(name: str) -> tuple[str, str]:
    """The statements for people that end the way back, at the old publisher and at the target."""
    quoted = delimited_identifier(name)
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
    connection.execute(f"SET {SETTING} = off".encode())


@contextlib.contextmanager
def _refused(where: str) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        if error.sqlstate is None:  # the connection was lost
            raise
        refusal = error_of(error)
        raise PublisherNotReady(
            f"{where} refuses the way back: {refusal.message}",
            sqlstate=refusal.sqlstate,
            hint="Put that right and run the command again, or run it without --reverse.",
        ) from None


@dataclass(slots=True)
class SetForward:
    """A line for each sequence that was set, and one for each that was not, with what to run."""

    done: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def set_forward(publisher: Connection, target: Connection, tables: Sequence[TableName]) -> SetForward:
    """Set the old publisher's sequences to the target's positions where those are ahead."""
    there = published_sequences(target, tables)
    read_write(publisher)
    result = SetForward()
    for sequence in published_sequences(publisher, tables):
        name = delimited_identifier(sequence.schema, sequence.name)
        counterparts = list(_counterparts(sequence, there))
        unread = [(one.grants, "target") for one in counterparts if one.grants]
        if counterparts and sequence.grants:
            unread.append((sequence.grants, "publisher"))
        result.left += [
            f"sequence {name} was not set forward, because the role may not read it at the {where}"
            f" ({'; '.join(grants)}): set it yourself before the application writes"
            for grants, where in unread
        ]
        position = _furthest(sequence.position, counterparts)
        if position is None:
            continue
        try:
            publisher.execute("SELECT setval(%s::regclass, %s, %s)", (name, position.last_value, position.is_called))
        except (psycopg.errors.InsufficientPrivilege, psycopg.errors.NumericValueOutOfRange) as error:
            values = (
                sql.Literal(value).as_string(publisher) for value in (name, position.last_value, position.is_called)
            )
            result.left.append(
                f"sequence {name} was not set forward: {error_of(error).message}. Before the application writes, run at"
                f" the publisher: SELECT setval({', '.join(values)});"
            )
        else:
            result.done.append(f"sequence {name} is set forward to {position.last_value}")
    return result


def _counterparts(sequence: PublishedSequence, there: Sequence[PublishedSequence]) -> Iterator[PublishedSequence]:
    """The target's sequences for the same columns, or of the same name."""
    if sequence.used and not sequence.columns:
        return  # only other tables use it
    columns, name = set(sequence.columns), (sequence.schema, sequence.name)
    for one in there:
        if columns & set(one.columns) or (one.schema, one.name) == name:
            yield one


def _furthest(here: SequencePosition | None, counterparts: Sequence[PublishedSequence]) -> SequencePosition | None:
    """The target's position that is furthest ahead, if one is and the sequence may be read."""
    if here is None:
        return None
    sign = 1 if here.increment > 0 else -1
    ahead = [
        one.position
        for one in counterparts
        if one.position is not None
        and one.position.increment * sign > 0
        and (one.position.next_value - here.next_value) * sign > 0
    ]
    return max(ahead, key=lambda position: position.next_value * sign, default=None)


# Obstacles ---------------------------------------------------------------------------------------


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
    """Why there can be no way back, and what to do."""

    message: str
    hint: str


def target_obstacles(target: Connection, tables: Sequence[TableName]) -> list[Obstacle]:
    """Why the target cannot publish these tables to the old publisher."""
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
                f"Run at the target: GRANT CREATE ON DATABASE {delimited_identifier(target.info.dbname)} TO {delimited_identifier(role)};",
            )
        )
    if not may_replicate:
        found.append(
            Obstacle(
                f'role "{role}" of the target may not create a replication slot',
                f"Run at the target, as a superuser: ALTER ROLE {delimited_identifier(role)} REPLICATION;",
            )
        )
    if not may_mark:
        found.append(
            Obstacle(
                "applied changes are not marked with a replication origin in the target, so they would be sent back",
                f"Run at the target, as a superuser: GRANT EXECUTE ON FUNCTION {', '.join(_ORIGIN_FUNCTIONS)} TO"
                f" {delimited_identifier(role)}; and start `subscriber run` again.",
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
            f"Run at the target: ALTER TABLE {delimited_identifier(schema, name)} REPLICA IDENTITY FULL;",
        )
        for schema, name in target.execute(_NO_IDENTITY, names).fetchall()
    ]
    found += [
        Obstacle(
            f'table "{schema}.{name}" of the target belongs to role "{owner}", and only its owner may publish it',
            f"Run at the target, as a superuser: GRANT {delimited_identifier(owner)} TO {delimited_identifier(role)};",
        )
        for schema, name, owner in target.execute(_NOT_OWNED, names).fetchall()
    ]
    return found


def publisher_obstacles(publisher: Connection, tables: Sequence[TableName]) -> list[Obstacle]:
    """Why the old publisher cannot subscribe."""
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
                f"Run at the publisher, as a superuser: GRANT pg_create_subscription TO {delimited_identifier(role)};"
                f" GRANT CREATE ON DATABASE {delimited_identifier(publisher.info.dbname)} TO {delimited_identifier(role)};",
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
            f"Run at the publisher, as a superuser: GRANT {delimited_identifier(owner)} TO {delimited_identifier(role)};",
        )
        for (owner,) in publisher.execute(_NOT_OWNED_BY_SUBSCRIBER, _split(tables)).fetchall()
    ]
    return found


def column_obstacles(publisher: Connection, target: Connection, tables: Sequence[TableName]) -> list[Obstacle]:
    """The columns that prevent rows of the target from being applied at the old publisher."""
    old, new = _reversed_columns(publisher, tables), _reversed_columns(target, tables)
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
                f"Run at the publisher: ALTER TABLE {delimited_identifier(*table)} ALTER COLUMN {delimited_identifier(column)} DROP"
                " NOT NULL;",
            )
            for column, (_, needed) in old[table].items()
            if needed and column not in new[table]
        ]
    return found


def connection_obstacles(publisher: Connection, name: str, conninfo: str) -> list[Obstacle]:
    """Why the old publisher's server cannot subscribe by this string; nothing is created."""
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
        refusal = error_of(error)
        reason = refusal.message.partition("\n")[0].rpartition("could not connect to the publisher: ")[2]
        hint = "Give --reverse-connection, by which the old publisher's server reaches the target."
        if error.sqlstate == _PROHIBITED:
            reason = f"{reason}: {refusal.detail}"
            hint = (
                "The role at the publisher is no superuser: give --reverse-connection with a password, and let the"
                " target's pg_hba.conf ask for it."
            )
        return [Obstacle(f"the old publisher's server cannot subscribe to the target: {reason}", hint)]
    return []


def _reversed_columns(
    connection: Connection, tables: Sequence[TableName]
) -> dict[TableName, dict[str, tuple[bool, bool]]]:
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
