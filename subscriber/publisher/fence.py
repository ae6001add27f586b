"""The fence around the publisher's database: ``default_transaction_read_only`` is set for it.

::

    ALTER DATABASE … SET … = on ──commit──▶ sessions that begin later are read-only
                                     └────▶ sessions that began before go on as they were: wait for them, or end them

A session takes the setting when it begins. So the fence is closed only when every session of the
database that began before it has ended (:func:`unfenced_sessions`). Nothing is ended unasked:
:func:`end_sessions` is for an operator who wants it. A session's backend_start is taken before the
session reads the setting, so a session that began after the ALTER has it.

The fence holds nobody who wants to write: a session may set ``default_transaction_read_only = off``
itself. It keeps out applications that do not know that they have moved. What was written
nevertheless is found by a comparison of positions, not here.

PostgreSQL's apply worker is not held by the setting, so that rows may still come back from the
target. The functions here set their own session to read-write first, because ALTER DATABASE is
refused in a read-only transaction.

*Rejected:* REVOKE of privileges, which owners and superusers do not feel, and which is hard to
restore. *Rejected:* ``ALTER DATABASE … ALLOW_CONNECTIONS false``, which would keep out the
subscriber, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import psycopg
from psycopg import sql

from subscriber.errors import PublisherNotReady
from subscriber.publisher.server_errors import error_of
from subscriber.publisher.sql_connection import Connection
from subscriber.waiting import session

SETTING: Final = "default_transaction_read_only"

Setting = Literal["on", "off"]

_MAY_ALTER: Final = """
SELECT pg_has_role(d.datdba, 'USAGE') OR (SELECT rolsuper FROM pg_roles WHERE rolname = current_user), current_user::text,
 EXISTS (SELECT FROM pg_roles WHERE rolname = 'pg_read_all_stats') AND pg_has_role('pg_read_all_stats', 'USAGE')
FROM pg_database d WHERE d.datname = current_database()
"""
_SETTINGS: Final = """
SELECT r.rolname::text, s.setdatabase <> 0, c.value FROM pg_db_role_setting s LEFT JOIN pg_roles r ON r.oid = s.setrole,
 LATERAL (SELECT split_part(e, '=', 2) FROM unnest(s.setconfig) AS u (e) WHERE split_part(e, '=', 1) = %s) AS c (value)
WHERE s.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
 AND (s.setrole <> 0 OR s.setdatabase <> 0) ORDER BY 1, 2
"""
_UNFENCED: Final = """
SELECT pid, usename::text, application_name, date_trunc('second', backend_start)::text, state FROM pg_stat_activity
WHERE datname = current_database() AND COALESCE(backend_type, 'client backend') = 'client backend'
 AND pid <> pg_backend_pid() AND COALESCE(backend_start < %s::timestamptz, true) ORDER BY pid
"""


@dataclass(frozen=True, slots=True)
class Fence:
    """A fence that was set.

    Attributes:
        database: the database's name.
        former: the database's own value before: on, off, or None if it had none.
        since: the publisher's time after which sessions are read-only.
    """

    database: str
    former: Setting | None
    since: str


@dataclass(frozen=True, slots=True)
class Session:
    """A session that the fence does not hold.

    Attributes:
        process: its process.
        text: its user, application, state and start, for messages.
    """

    process: int
    text: str


def fence_obstacles(connection: Connection) -> list[tuple[str, str]]:
    """Why this role cannot fence the database, or why the fence would not hold: pairs of a sentence
    and the statement that puts it right.

    Raises:
        psycopg.Error: a query failed.
    """
    row = connection.execute(_MAY_ALTER).fetchone()
    assert row is not None
    may_alter, role, may_see = row
    database, name = (_quoted(connection, text) for text in (connection.info.dbname, role))
    found = []
    if not may_alter:
        found.append(
            (f'role "{role}" may not alter database "{connection.info.dbname}"',
             f"ALTER DATABASE {database} OWNER TO {name};")
        )  # fmt: skip
    if not may_see:
        found.append((f'role "{role}" may not see the sessions of other roles', f"GRANT pg_read_all_stats TO {name};"))
    for other, is_for_database, value in connection.execute(_SETTINGS, (SETTING,)).fetchall():
        if other is not None and not _is_on(value):
            where = f" IN DATABASE {database}" if is_for_database else ""
            found.append(
                (f'role "{other}" has {SETTING} = {value} of its own, which the fence does not change',
                 f"ALTER ROLE {_quoted(connection, other)}{where} RESET {SETTING};")
            )  # fmt: skip
    return found


def own_setting(connection: Connection) -> Setting | None:
    """The database's own value of the setting; None if it has none.

    Raises:
        psycopg.Error: the query failed.
    """
    values = [value for role, _, value in connection.execute(_SETTINGS, (SETTING,)).fetchall() if role is None]
    return None if not values else "on" if _is_on(values[0]) else "off"


def raise_fence(connection: Connection, former: Setting | None) -> Fence:
    """Make every later session of the database read-only; it may be so already.

    Args:
        connection: to the database, in autocommit mode.
        former: the result of :func:`own_setting` before the fence was first set.

    Raises:
        PublisherNotReady: the server refuses it.
    """
    _alter(connection, sql.SQL("SET {} = on").format(sql.Identifier(SETTING)))
    row = connection.execute("SELECT clock_timestamp()::text").fetchone()
    assert row is not None
    return Fence(connection.info.dbname, former, row[0])


def lift_fence(connection: Connection, former: Setting | None) -> None:
    """Give the database its former setting back.

    Raises:
        PublisherNotReady: the server refuses it.
    """
    change = "RESET {}" if former is None else f"SET {{}} = {former}"
    _alter(connection, sql.SQL(change).format(sql.Identifier(SETTING)))


def unfenced_sessions(connection: Connection, since: str) -> list[Session]:
    """The sessions of the database that began before the fence, and so can still write.

    Raises:
        psycopg.Error: the query failed.
    """
    rows = connection.execute(_UNFENCED, (since,)).fetchall()
    return [
        Session(pid, session(pid, user, started, state, name=application))
        for pid, user, application, started, state in rows
    ]


def end_sessions(connection: Connection, sessions: Sequence[Session]) -> None:
    """Terminate sessions (``pg_terminate_backend``); one that has ended already is no error.

    Raises:
        PublisherNotReady: 42501, the role may not do this.
    """
    for one in sessions:
        try:
            connection.execute("SELECT pg_terminate_backend(%s)", (one.process,))
        except psycopg.errors.InsufficientPrivilege as error:
            raise PublisherNotReady(
                error_of(error).message,
                sqlstate="42501",
                hint="Run at the publisher, as a superuser: GRANT pg_signal_backend TO … (the user of the"
                " subscription's CONNECTION), or end the sessions yourself.",
            ) from error


def lifting_statements(database: str, former: str | None) -> str:
    """The statements that lift the fence, for people. Their session may be read-only itself."""
    name = '"' + database.replace('"', '""') + '"'
    change = f"RESET {SETTING}" if former is None else f"SET {SETTING} = {former}"
    return f"BEGIN READ WRITE; ALTER DATABASE {name} {change}; COMMIT;"


def _alter(connection: Connection, change: sql.Composable) -> None:
    try:
        connection.execute(sql.SQL("SET {} = off").format(sql.Identifier(SETTING)))
        connection.execute(sql.SQL("ALTER DATABASE {} ").format(sql.Identifier(connection.info.dbname)) + change)
    except psycopg.errors.InsufficientPrivilege as error:
        raise PublisherNotReady(
            error_of(error).message,
            sqlstate="42501",
            hint="Only the owner of the database and superusers may fence it. Stop the application yourself, and run the"
            " command without --fence.",
        ) from error


def _quoted(connection: Connection, name: str) -> str:
    return sql.Identifier(name).as_string(connection)


def _is_on(value: str) -> bool:
    """PostgreSQL's reading of a boolean setting (parse_bool), for the values that it accepts."""
    text = value.strip().lower()
    return text in {"1", "on"} or (text != "" and ("true".startswith(text) or "yes".startswith(text)))
