"""PostgreSQL's transactions, which apply as a replica (rule C23).

A session's DateStyle and IntervalStyle are those that the replication session writes. A write
transaction runs with ``session_replication_role = replica``. Where the role may not set it, that is
said once, and triggers and foreign keys act as they do for anyone.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
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
"""How long a cancel request may take to reach the server."""
_ZONE: Final = "subscriber_time_zone"
"""Under this name a connection knows the time zone that its role and database have of their own."""
_SESSION: Final = (
    "SET datestyle = 'ISO'; SET intervalstyle = 'postgres'; SET timezone = 'UTC'; SET client_encoding = 'UTF8';"
    " SET extra_float_digits = 1;"
    # What is meant for people's sessions does not hold for PostgreSQL's worker either.
    " SET default_transaction_read_only = off;"
    " SELECT set_config(name, '0', false) FROM pg_settings WHERE setting <> '0' AND source <> 'client' AND name IN"
    " ('statement_timeout', 'transaction_timeout', 'idle_in_transaction_session_timeout', 'idle_session_timeout');"
    # The journal is trimmed behind a commit, so that must be on disk.
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
        """The letters of ``tgenabled`` and ``ev_enabled`` with which triggers and rules act in our
        sessions.
        """
        return "OA" if self._may_be_replica is False else "RA"

    def apply_as_replica(self, connection: sa.Connection) -> None:
        """Apply as a replica where the role may, and with an empty search_path (rule C23); our own
        tables stay where they are.

        Defaults and triggers have the time of the target's zone, as with PostgreSQL's worker.
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
        """See :meth:`Transactions.interrupt`; libpq's cancel, which no server answers but by ending
        the statement.
        """
        psycopg: Any = self._engine.dialect.dbapi
        with suppress(exc.SQLAlchemyError, psycopg.Error):  # it may just be closed, or the server be gone
            driver: Any = connection.connection.driver_connection
            driver.cancel_safe(timeout=_CANCEL_SECONDS)

    def set_synchronous_commit(self, connection: sa.Connection, value: str) -> None:
        """See :meth:`Transactions.set_synchronous_commit`."""
        if value != "off":
            connection.execute(sa.select(sa.func.set_config("synchronous_commit", value, True)))

    def durability_warnings(self) -> Sequence[DurabilityWarning]:
        """See :meth:`Transactions.durability_warnings`; synchronous_commit is our
        connections' own.
        """
        with self._errors.reporting(), self._engine.connect() as connection:
            fsync: str = connection.execute(sa.select(sa.func.current_setting("fsync"))).scalar_one()
        if fsync == "on":
            return ()
        return (
            DurabilityWarning(
                "the target may lose committed changes, and all others, when its machine fails: its fsync is off",
                "Run ALTER SYSTEM SET fsync = on and SELECT pg_reload_conf() there. The journal does not keep what is committed.",
            ),
        )

    def session_id(self, connection: sa.Connection) -> int | None:
        """See :meth:`Transactions.session_id`; the backend's process."""
        driver: Any = connection.connection.driver_connection
        return int(driver.info.backend_pid)

    def waits_for(self, session: int | None) -> Sequence[str]:
        """See :meth:`Transactions.waits_for`; ``pg_blocking_pids``."""
        if session is None:
            return ()
        with self._engine.connect() as connection:
            blocking = connection.execute(_BLOCKING, {"session": session}).all()
            found = [
                describe_session(row.pid, row.user, row.since, row.state, name=row.name) for row in blocking if row.pid
            ]
            if len(found) < len(blocking):  # process 0 is a prepared transaction
                found += [prepared(*row) for row in connection.execute(_PREPARED_HERE)]
        return found


def set_up_session(connection: Any, record: Any) -> None:
    """For SQLAlchemy's event "connect": a session that neither changes values nor ends by
    itself.
    """
    with connection.cursor() as cursor:
        (record.info[_ZONE],) = cursor.execute("SELECT current_setting('TimeZone')").fetchone()
        cursor.execute(_SESSION)
    connection.commit()
