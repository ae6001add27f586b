"""The fence around the publisher's database: ``default_transaction_read_only`` is set for it.

::

    ALTER DATABASE … SET … = on ──commit──▶ sessions that begin later are read-only
                                     └────▶ sessions that began before go on as they were: wait for them, or end them

So the fence is closed only when every session that began before it has ended
(:func:`unfenced_sessions`). A session's backend_start is taken before it reads the setting, so a
session that began after the ALTER has it.

The fence keeps out applications that do not know that they have moved. A session that wants to
write may set ``default_transaction_read_only = off``; a comparison of positions finds what was
written nevertheless.

PostgreSQL's apply worker is not held by the setting, so that rows may still come back from the
target. The functions set their own session to read-write first, because ALTER DATABASE is refused
in a read-only transaction.

*Rejected:* REVOKE of privileges, which owners and superusers do not feel, and which is hard to
restore. *Rejected:* ``ALLOW_CONNECTIONS false``, which would keep out the subscriber, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import psycopg

from subscriber.base.errors import PublisherNotReady
from subscriber.base.waiting import session
from subscriber.postgres.sql.quoting import delimited_identifier
from subscriber.publisher.connection import Connection
from subscriber.publisher.server_errors import error_of

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
    """The ``former`` value, and the publisher's time after which sessions are read-only."""

    database: str
    former: Setting | None
    since: str


@dataclass(frozen=True, slots=True)
class UnfencedSession:
    """A session that the fence does not hold; ``text`` describes it for messages."""

    process: int
    text: str


def fence_obstacles(connection: Connection) -> list[tuple[str, str]]:
    """Why the fence cannot be set or would not hold, each with the statement that puts it right."""
    row = connection.execute(_MAY_ALTER).fetchone()
    assert row is not None
    may_alter, role, may_see = row
    database, name = delimited_identifier(connection.info.dbname), delimited_identifier(role)
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
                 f"ALTER ROLE {delimited_identifier(other)}{where} RESET {SETTING};")
            )  # fmt: skip
    return found


def own_setting(connection: Connection) -> Setting | None:
    """The database's own value of the setting, if any."""
    values = [value for role, _, value in connection.execute(_SETTINGS, (SETTING,)).fetchall() if role is None]
    return None if not values else "on" if _is_on(values[0]) else "off"


def raise_fence(connection: Connection, former: Setting | None) -> Fence:
    """Make later sessions read-only (in autocommit mode). ``former`` is the setting before."""
    _alter(connection, f"SET {SETTING} = on")
    row = connection.execute("SELECT clock_timestamp()::text").fetchone()
    assert row is not None
    return Fence(connection.info.dbname, former, row[0])


def lift_fence(connection: Connection, former: Setting | None) -> None:
    _alter(connection, f"RESET {SETTING}" if former is None else f"SET {SETTING} = {former}")


def unfenced_sessions(connection: Connection, since: str) -> list[UnfencedSession]:
    """The sessions of the database that began before the fence."""
    rows = connection.execute(_UNFENCED, (since,)).fetchall()
    return [
        UnfencedSession(pid, session(pid, user, started, state, name=application))
        for pid, user, application, started, state in rows
    ]


def end_sessions(connection: Connection, sessions: Sequence[UnfencedSession]) -> None:
    """``pg_terminate_backend``, also of those that have ended; 42501 without the privilege."""
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
    name = delimited_identifier(database)
    change = f"RESET {SETTING}" if former is None else f"SET {SETTING} = {former}"
    return f"BEGIN READ WRITE; ALTER DATABASE {name} {change}; COMMIT;"


def _alter(connection: Connection, change: str) -> None:
    try:
        connection.execute(f"SET {SETTING} = off".encode())
        connection.execute(f"ALTER DATABASE {delimited_identifier(connection.info.dbname)} {change}".encode())
    except psycopg.errors.InsufficientPrivilege as error:
        raise PublisherNotReady(
            error_of(error).message,
            sqlstate="42501",
            hint="Only the owner of the database and superusers may fence it. Stop the application yourself, and run the"
            " command without --fence.",
        ) from error


def _is_on(value: str) -> bool:
    """PostgreSQL's reading of a boolean setting (parse_bool), for the values that it accepts."""
    text = value.strip().lower()
    return text in {"1", "on"} or (text != "" and ("true".startswith(text) or "yes".startswith(text)))
