"""Transactions of a PostgreSQL target, which apply changes as a replica (rule C23), prepared
transactions, the run lock, and replication origins.

A session has the same DateStyle and IntervalStyle as the replication session. A write transaction
runs with ``session_replication_role = replica``. If the target's database role may not set this, a
warning is logged once, and triggers and foreign keys act as in any other session.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import exc
from typing_extensions import override

from subscriber.base.errors import AlreadyRunning
from subscriber.base.lsn import LSN, format_lsn
from subscriber.base.waiting import prepared
from subscriber.base.waiting import session as describe_session
from subscriber.postgres.sql.quoting import quote_literal
from subscriber.targets.base.errors import Errors
from subscriber.targets.base.transactions import (
    Cluster,
    DurabilityWarning,
    Origins,
    Prepared,
    RunLock,
    StatementPipeline,
    Transactions,
)
from subscriber.targets.postgresql.errors import explain_prepared, translate_driver

logger = logging.getLogger(__name__)
_CANCEL_SECONDS: Final = 2.0
"""Seconds that a cancel request may take to reach the server."""
_ZONE: Final = "subscriber_time_zone"
"""Under this key a connection stores the time zone that is configured for its role and database."""
_USED_AT: Final = "subscriber_used_at"
"""Under this key a connection stores when it was used last (monotonic seconds)."""
_TRUSTED_SECONDS: Final = 1.0
_SESSION: Final = (
    "SET datestyle = 'ISO'; SET intervalstyle = 'postgres'; SET timezone = 'UTC'; SET client_encoding = 'UTF8';"
    " SET extra_float_digits = 1; SET bytea_output = 'hex';"
    # These settings are for interactive sessions. PostgreSQL's apply worker ignores them too.
    " SET default_transaction_read_only = off;"
    " SELECT set_config(name, '0', false) FROM pg_settings WHERE setting <> '0' AND source <> 'client' AND name IN"
    " ('statement_timeout', 'transaction_timeout', 'idle_in_transaction_session_timeout', 'idle_session_timeout');"
    # If the machine is gone, the session ends after 25 s, and with it its locks and the run lock.
    " SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3;"
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
_AS_REPLICA: Final = sa.text("SELECT set_config('session_replication_role', 'replica', true)")
_SET_UP_OTHERWISE: Final = sa.text("SELECT set_config('search_path', '', true), set_config('TimeZone', :zone, true)")
_SET_UP: Final = sa.text(
    f"{_AS_REPLICA.text}, set_config('search_path', '', true), set_config('TimeZone', :zone, true)"
)


class PostgreSQLTransactions(Transactions):
    def __init__(self, engine: sa.Engine, errors: Errors) -> None:
        super().__init__(engine, errors)
        self._may_be_replica: bool | None = None
        self._schema: str | None = None

    @property
    def fires(self) -> str:
        """The ``tgenabled`` and ``ev_enabled`` values with which triggers and rules fire."""
        return "OA" if self._may_be_replica is False else "RA"

    @override
    def apply_as_replica(self, connection: sa.Connection) -> None:
        """With an empty search_path: SQLAlchemy names the schema of the catalog's tables. Defaults
        and triggers use the role's and database's time zone, as in PostgreSQL's apply worker.
        """
        if self._may_be_replica is None:
            self._schema = connection.execute(sa.select(sa.func.current_schema())).scalar_one()
            try:
                with connection.begin_nested():
                    connection.execute(_AS_REPLICA)
                self._may_be_replica = True
            except exc.ProgrammingError:
                self._may_be_replica = False
                logger.warning("the target's role may not set session_replication_role: triggers and foreign keys act")
        connection.execution_options(schema_translate_map={None: self._schema})
        settings = _SET_UP if self._may_be_replica else _SET_UP_OTHERWISE
        connection.execute(settings, {"zone": connection.info[_ZONE]})

    @override
    def interrupt(self, connection: sa.Connection) -> None:
        """libpq's cancel request. The server's only answer to it is that the statement ends."""
        psycopg: Any = self._engine.dialect.dbapi
        with suppress(exc.SQLAlchemyError, psycopg.Error):  # the connection or the server may be gone
            driver: Any = connection.connection.driver_connection
            driver.cancel_safe(timeout=_CANCEL_SECONDS)

    @override
    def set_synchronous_commit(self, connection: sa.Connection, value: str) -> None:
        if value != "off":
            connection.execute(sa.select(sa.func.set_config("synchronous_commit", value, True)))

    @override
    @contextmanager
    def limited_lock_waits(self, connection: sa.Connection, seconds: int) -> Iterator[None]:
        connection.execute(sa.select(sa.func.set_config("lock_timeout", f"{seconds}s", True)))
        yield

    @override
    def durability_warnings(self) -> Sequence[DurabilityWarning]:
        """Only fsync: the subscriber's connections set synchronous_commit themselves."""
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

    @override
    def session_id(self, connection: sa.Connection) -> int | None:
        driver: Any = connection.connection.driver_connection
        return int(driver.info.backend_pid)

    @override
    def waits_for(self, session: int | None) -> Sequence[str]:
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
    """Set up a new session so that it does not change values and does not time out."""
    with connection.cursor() as cursor:
        (record.info[_ZONE],) = cursor.execute("SELECT current_setting('TimeZone')").fetchone()
        cursor.execute(_SESSION)
    connection.commit()
    record.info[_USED_AT] = time.monotonic()


def check_connection(connection: Any, record: Any, _pooled: Any) -> None:
    """Replace a connection that the server has ended, and the others of the pool; but one that was
    used a moment ago is not asked, because a small transaction takes only a few round trips.
    """
    if time.monotonic() - record.info[_USED_AT] > _TRUSTED_SECONDS:
        try:
            _execute_alone(connection, "SELECT 1")
        except connection.Error:
            raise exc.InvalidatePoolError from None


# Run lock --------------------------------------------------------------------------------------

RUN_LOCK_KEY: Final = int.from_bytes(b"subscrib")
"""The key of the advisory lock of a run: eight letters that no other program should use."""
_RUN_LOCKED: Final = sa.text(
    "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid::int8 = :high AND objid::int8 = :low"
    " AND objsubid = 1 AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))"
)


class PostgreSQLRunLock(RunLock):
    def __init__(self, engine: sa.Engine, errors: Errors) -> None:
        self._engine = engine
        self._errors = errors

    @override
    @contextmanager
    def hold(self) -> Iterator[None]:
        autocommit = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        with self._errors.reporting(), autocommit.connect() as connection:
            if not connection.execute(sa.select(sa.func.pg_try_advisory_lock(RUN_LOCK_KEY))).scalar_one():
                raise AlreadyRunning(
                    f'another "subscriber run" is already running for database "{self._engine.url.database}"',
                    hint="Stop it first; one process runs all subscriptions of a target.",
                )
            try:
                yield
            finally:
                try:
                    connection.execute(sa.select(sa.func.pg_advisory_unlock(RUN_LOCK_KEY)))
                except exc.SQLAlchemyError:
                    connection.invalidate()  # a session that is lost has released the lock

    @override
    def is_held(self, connection: sa.Connection) -> bool | None:
        halves = {"high": RUN_LOCK_KEY >> 32, "low": RUN_LOCK_KEY & 0xFFFFFFFF}
        return bool(connection.execute(_RUN_LOCKED, halves).scalar_one())


# Prepared --------------------------------------------------------------------------------------

_PREPARED: Final = sa.text("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()")
_TAKEN_ELSEWHERE: Final = sa.text(
    "SELECT max(current_database()::text) FROM pg_prepared_xacts WHERE gid = :gid AND database <> current_database()"
)


class PostgreSQLPrepared(Prepared):
    def __init__(
        self, engine: sa.Engine, errors: Errors, transactions: PostgreSQLTransactions, origins: PostgreSQLOrigins
    ) -> None:
        self._engine = engine
        self._errors = errors
        self._transactions = transactions
        self._origins = origins

    @override
    @contextmanager
    def begin(self, gid: str) -> Iterator[sa.Connection]:
        with self._transactions.begin() as connection:
            yield connection
            try:
                connection.exec_driver_sql(f"PREPARE TRANSACTION {quote_literal(gid)}")
            except exc.DBAPIError as error:
                raise explain_prepared(self._errors.translate(error), gid) from None

    @override
    def finish(self, gid: str, *, commit: bool, origin: str | None = None) -> None:
        command = "COMMIT" if commit else "ROLLBACK"
        autocommit = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        try:
            with autocommit.connect() as connection:
                if origin is not None:
                    self._origins.set(connection, origin)
                connection.exec_driver_sql(f"{command} PREPARED {quote_literal(gid)}")
        except exc.SQLAlchemyError as error:
            raise explain_prepared(self._errors.translate(error), gid) from None

    @override
    def free_gid(self, connection: sa.Connection, gid: str) -> str:
        """A GID that another database of the cluster uses gets that database's name appended."""
        with self._errors.reporting():
            database = connection.execute(_TAKEN_ELSEWHERE, {"gid": gid}).scalar_one()
        return gid if database is None else f"{gid}_{database}"

    @override
    def names(self, connection: sa.Connection) -> frozenset[str]:
        """Only those of this database, although GIDs belong to the cluster."""
        with self._errors.reporting():
            return frozenset(connection.execute(_PREPARED).scalars())


# Origins ---------------------------------------------------------------------------------------

logger = logging.getLogger(__name__)

_ORIGIN: Final = "subscriber_origin"
"""Under this key a connection stores the number of the replication origin that it uses."""
_OWN_ORIGINS: Final = "subscriber_own_origins"
"""Under this key a connection stores the numbers of all origins of the subscription; None if the
server does not record commit times.
"""
_NOT_ALLOWED: Final = {
    "42501": "the target's role may not use replication origins",
    "53400": "the target has no replication origin left (max_active_replication_origins; before PostgreSQL 18: max_replication_slots)",
}
"""What is logged for the SQLSTATEs with which an origin is refused."""
_SUFFIX: Final = re.compile(r"(?<=\d)_\d+$")
"""The end of the origin's name of one of several writers; other names end with ``_pg_<subid>``."""

_DATABASE: Final = sa.text("SELECT oid::text FROM pg_database WHERE datname = current_database()")
_CREATE_ORIGIN: Final = sa.text(
    "SELECT CASE WHEN pg_replication_origin_oid(:name) IS NULL THEN pg_replication_origin_create(:name) END"
)
_OF_SUBSCRIPTION: Final = (
    "(s.roname = CAST(:subscription AS text)"
    " OR left(s.roname, length(CAST(:subscription AS text)) + 1) = CAST(:subscription AS text) || '_')"
)
"""The origin of a subscription, and those of its several writers."""
_SET_ORIGIN: Final = sa.text(
    # From the table and not by pg_replication_origin_oid: a cache may not yet contain an origin
    # that another session has created.
    "SELECT pg_replication_origin_session_setup(roname), roident AS number, CASE WHEN current_setting('track_commit_timestamp') = 'on'"
    f" THEN (SELECT string_agg(s.roident::text, ', ') FROM pg_replication_origin s WHERE {_OF_SUBSCRIPTION}) END AS numbers"
    " FROM pg_replication_origin WHERE roname = :name"
)
_COMMITS_TRACKED: Final = sa.text("SELECT current_setting('track_commit_timestamp') = 'on'")
_RESET_ORIGIN: Final = sa.text("SELECT pg_replication_origin_session_reset()")
_SET_ORIGIN_POSITION: Final = sa.text(
    "SELECT pg_replication_origin_xact_setup(CAST(:lsn AS pg_lsn),"
    " timestamptz '2000-01-01 00:00:00+00' + :microseconds * interval '1 microsecond')"
)
_DROP_ORIGINS: Final = sa.text(
    f"SELECT pg_replication_origin_drop(s.roname) FROM pg_replication_origin s WHERE {_OF_SUBSCRIPTION}"
)


class PostgreSQLOrigins(Origins):
    def __init__(self, engine: sa.Engine, errors: Errors) -> None:
        self._engine = engine
        self._errors = errors
        self._made: dict[str, str | None] = {}

    @override
    def set(self, connection: sa.Connection, name: str) -> bool:
        with self._errors.reporting():
            if name not in self._made:
                self._made[name] = self._make(connection, name)
            made = self._made[name]
            if made is None:
                return False
            names = {"name": made, "subscription": _SUFFIX.sub("", made)}
            row = connection.execute(_SET_ORIGIN, names).one_or_none()
            if row is None:  # another process dropped it, with a subscription of the same number
                self._make(connection, name)
                row = connection.execute(_SET_ORIGIN, names).one()
        connection.info[_ORIGIN] = int(row.number)
        connection.info[_OWN_ORIGINS] = row.numbers
        return True

    @override
    def set_position(self, connection: sa.Connection, lsn: int, timestamp: int | None) -> None:
        if timestamp is not None and _ORIGIN in connection.info:
            connection.execute(_SET_ORIGIN_POSITION, {"lsn": format_lsn(LSN(lsn)), "microseconds": timestamp})

    @override
    def others(self, connection: sa.Connection) -> sa.ColumnElement[bool] | None:
        """None without ``track_commit_timestamp``."""
        # The origin of a row's last transaction is recorded only with its commit time.
        own = connection.info.get(_OWN_ORIGINS)
        if own is None or _ORIGIN not in connection.info:
            return None
        # Rows that this transaction itself wrote do not have a commit time yet.
        return sa.literal_column(
            "(SELECT v.roident FROM pg_xact_commit_timestamp_origin(xmin) v WHERE v.timestamp IS NOT NULL)", sa.Integer
        ).not_in([sa.literal_column(number) for number in own.split(", ")])

    @override
    def are_tracked(self, connection: sa.Connection) -> bool:
        return bool(connection.execute(_COMMITS_TRACKED).scalar_one())

    @override
    def drop(self, connection: sa.Connection, name: str) -> None:
        """Rows remain marked with the origin's number, which a later origin may get."""
        if self._made.get(name, "") is None:
            return
        try:
            with connection.begin_nested():
                connection.execute(_DROP_ORIGINS, {"subscription": _qualified(connection, name)})
        except exc.DBAPIError as error:
            logger.warning("a replication origin is left in the target: %s", self._errors.translate(error).message)

    def _make(self, connection: sa.Connection, name: str) -> str | None:
        made = _qualified(connection, name)
        autocommit = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        try:
            with autocommit.connect() as other:
                other.execute(_CREATE_ORIGIN, {"name": made})
                other.execute(_SET_ORIGIN, {"name": made, "subscription": made})
                other.execute(_RESET_ORIGIN)
        except exc.DBAPIError as error:
            why = _NOT_ALLOWED.get(getattr(error.orig, "sqlstate", None) or "")
            if why is None:
                raise
            # The applier says what follows for one of several writers.
            outcome = "" if _SUFFIX.search(name) else ": applied changes are not marked as replicated"
            logger.warning("%s%s", why, outcome)
            return None
        return made


def reset_origin(connection: Any, record: Any) -> None:
    """Release the origin when a connection returns to its pool: others may need it."""
    record.info[_USED_AT] = time.monotonic()
    if connection is None or record.info.pop(_ORIGIN, None) is None:
        return
    try:
        _execute_alone(connection, "SELECT pg_replication_origin_session_reset()")
    except connection.Error:
        record.invalidate()


def _execute_alone(connection: Any, sql: str) -> None:
    """With one round trip: without BEGIN and COMMIT."""
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(sql)
    connection.autocommit = False


def _qualified(connection: sa.Connection, name: str) -> str:
    return f"subscriber_{connection.execute(_DATABASE).scalar_one()}_{name}"


# Pipeline --------------------------------------------------------------------------------------


class PostgreSQLStatementPipeline(StatementPipeline):
    @override
    def execute(self, connection: sa.Connection, statements: Sequence[tuple[str, Sequence[Any]]]) -> Sequence[int]:
        driver: Any = connection.connection.driver_connection
        try:
            with driver.pipeline():
                cursors = [driver.cursor().execute(sql, row) for sql, row in statements]
            return [cursor.rowcount for cursor in cursors]
        except connection.dialect.loaded_dbapi.Error as error:
            # The driver's error quotes rows, so it must not be printed as the cause.
            raise translate_driver(error) from None


# Cluster ---------------------------------------------------------------------------------------


class PostgreSQLCluster(Cluster):
    def __init__(self, engine: sa.Engine, errors: Errors) -> None:
        self._engine = engine
        self._errors = errors

    @override
    def has_database(self, connection: sa.Connection, system_identifier: str, database: str) -> bool:
        with self._errors.reporting():
            here = connection.exec_driver_sql(
                "SELECT system_identifier::text, current_database()::text FROM pg_control_system()"
            ).one()
        return tuple(here) == (system_identifier, database)

    @override
    def conninfo(self) -> str:
        arguments = self._engine.dialect.create_connect_args(self._engine.url)[1]
        driver: Any = self._engine.dialect.dbapi
        text: str = driver.conninfo.make_conninfo(**{key: arguments[key] for key in arguments if key != "context"})
        return text


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
