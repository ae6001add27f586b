"""Transactions of a PostgreSQL target, which apply changes as a replica (rule C23).

A session has the same DateStyle and IntervalStyle as the replication session. A write transaction
runs with ``session_replication_role = replica``. If the target's database role may not set this, a
warning is logged once, and triggers and foreign keys act as in any other session.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import exc

from subscriber.targets.generic.transactions import GenericTransactions
from subscriber.targets.roles.errors import Errors
from subscriber.targets.roles.transactions import DurabilityWarning
from subscriber.waiting import prepared
from subscriber.waiting import session as describe_session

logger = logging.getLogger(__name__)
_CANCEL_SECONDS: Final = 2.0
"""Seconds that a cancel request may take to reach the server."""
_ZONE: Final = "subscriber_time_zone"
"""The key under which a connection stores the time zone that is configured for its role and
database.
"""
_SESSION: Final = (
    "SET datestyle = 'ISO'; SET intervalstyle = 'postgres'; SET timezone = 'UTC'; SET client_encoding = 'UTF8';"
    " SET extra_float_digits = 1; SET bytea_output = 'hex';"
    # These settings are for interactive sessions. PostgreSQL's apply worker ignores them too.
    " SET default_transaction_read_only = off;"
    " SELECT set_config(name, '0', false) FROM pg_settings WHERE setting <> '0' AND source <> 'client' AND name IN"
    " ('statement_timeout', 'transaction_timeout', 'idle_in_transaction_session_timeout', 'idle_session_timeout');"
    # The journal is trimmed after a commit, so the commit must be on disk.
    " SELECT set_config('synchronous_commit', 'local', false) WHERE current_setting('synchronous_commit') = 'off'"
)
_BLOCKING: Final = sa.text(
    "SELECT DISTINCT b.pid, a.usename::text AS user, date_trunc('second', a.xact_start)::text AS since, a.state,"
    " a.application_name AS name FROM unnest(pg_blocking_pids(:session)) b(pid) LEFT JOIN pg_stat_activity a ON a.pid = b.pid"
    " ORDER BY 1"
)
_PREPARED_HERE: Final = sa.text(
    "SELECT gid, owner::text, date_trunc('second', prepared)::text FROM pg_prepared_xacts"
    " WHERE database = current_database() ORDER BY prepared"
)
_AS_REPLICA: Final = sa.func.set_config("session_replication_role", "replica", True)
_NO_SEARCH_PATH: Final = sa.func.set_config("search_path", "", True)


class PostgreSQLTransactions(GenericTransactions):
    """See :class:`~subscriber.targets.roles.transactions.Transactions`."""

    def __init__(self, engine: sa.Engine, errors: Errors) -> None:
        super().__init__(engine, errors)
        self._may_be_replica: bool | None = None
        self._schema: str | None = None

    @property
    def fires(self) -> str:
        """The ``tgenabled`` and ``ev_enabled`` values with which triggers and rules fire."""
        return "OA" if self._may_be_replica is False else "RA"

    def apply_as_replica(self, connection: sa.Connection) -> None:
        """Apply changes as a replica if the role may, and with an empty search_path (rule C23).

        The tables of the subscriber's catalog remain accessible, because SQLAlchemy adds their
        schema. Defaults and triggers use the time zone that is configured for the role and the
        database, as in PostgreSQL's apply worker.
        """
        if self._may_be_replica is None:
            self._schema = connection.execute(sa.select(sa.func.current_schema())).scalar_one()
            try:
                with connection.begin_nested():
                    connection.execute(sa.select(_AS_REPLICA))
                self._may_be_replica = True
            except exc.ProgrammingError:
                self._may_be_replica = False
                logger.warning("the target's role may not set session_replication_role: triggers and foreign keys act")
        elif self._may_be_replica:
            connection.execute(sa.select(_AS_REPLICA))
        connection.execution_options(schema_translate_map={None: self._schema})
        connection.execute(sa.select(_NO_SEARCH_PATH, sa.func.set_config("TimeZone", connection.info[_ZONE], True)))

    def interrupt(self, connection: sa.Connection) -> None:
        """See :meth:`Transactions.interrupt`; sends libpq's cancel request.

        The server's only answer to it is that the statement ends.
        """
        psycopg: Any = self._engine.dialect.dbapi
        with suppress(exc.SQLAlchemyError, psycopg.Error):  # the connection or the server may be gone
            driver: Any = connection.connection.driver_connection
            driver.cancel_safe(timeout=_CANCEL_SECONDS)

    def set_synchronous_commit(self, connection: sa.Connection, value: str) -> None:
        """See :meth:`Transactions.set_synchronous_commit`."""
        if value != "off":
            connection.execute(sa.select(sa.func.set_config("synchronous_commit", value, True)))

    @contextmanager
    def limited_lock_waits(self, connection: sa.Connection, seconds: int) -> Iterator[None]:
        """See :meth:`Transactions.limited_lock_waits`; the limit ends with the transaction."""
        connection.execute(sa.select(sa.func.set_config("lock_timeout", f"{seconds}s", True)))
        yield

    def durability_warnings(self) -> Sequence[DurabilityWarning]:
        """See :meth:`Transactions.durability_warnings`.

        Only fsync is checked, because the subscriber's connections set synchronous_commit
        themselves.
        """
        with self._errors.reporting(), self._engine.connect() as connection:
            fsync: str = connection.execute(sa.select(sa.func.current_setting("fsync"))).scalar_one()
        if fsync == "on":
            return ()
        return (
            DurabilityWarning(
                "the target may lose committed changes, and all others, when its machine fails: its fsync is off",
                "Run ALTER SYSTEM SET fsync = on and SELECT pg_reload_conf() there. The journal does not keep committed changes.",
            ),
        )

    def session_id(self, connection: sa.Connection) -> int | None:
        """See :meth:`Transactions.session_id`; the process ID of the backend."""
        driver: Any = connection.connection.driver_connection
        return int(driver.info.backend_pid)

    def waits_for(self, session: int | None) -> Sequence[str]:
        """See :meth:`Transactions.waits_for`; uses ``pg_blocking_pids``."""
        if session is None:
            return ()
        with self._engine.connect() as connection:
            blocking = connection.execute(_BLOCKING, {"session": session}).all()
            found = [
                describe_session(row.pid, row.user, row.since, row.state, name=row.name) for row in blocking if row.pid
            ]
            if len(found) < len(blocking):  # process 0 stands for a prepared transaction
                found += [prepared(*row) for row in connection.execute(_PREPARED_HERE)]
        return found


def set_up_session(connection: Any, record: Any) -> None:
    """Set up a new session so that it does not change values and does not time out.

    This is the handler of SQLAlchemy's event "connect".
    """
    with connection.cursor() as cursor:
        (record.info[_ZONE],) = cursor.execute("SELECT current_setting('TimeZone')").fetchone()
        cursor.execute(_SESSION)
    connection.commit()
