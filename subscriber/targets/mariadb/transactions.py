"""Transactions of a MariaDB target, XA transactions, the run lock, and restarted counters; and the
facts about a server of MySQL's family.
"""

from __future__ import annotations

import hashlib
import logging
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from pymysql.constants import ER
from pymysql.err import MySQLError
from sqlalchemy import exc
from typing_extensions import override

from subscriber.base.errors import AlreadyRunning, ApplyError, SubscriberError, UnsupportedValue
from subscriber.base.waiting import session as describe
from subscriber.targets.base.errors import Errors
from subscriber.targets.base.transactions import DurabilityWarning, Prepared, RunLock, Transactions
from subscriber.targets.mariadb.errors import MARIADB, PACKET_TOO_LARGE
from subscriber.targets.target_table import TargetTable

# Facts -----------------------------------------------------------------------------------------

_COLLATIONS: Final = ("utf8mb4_nopad_bin", "utf8mb4_0900_bin")
"""Those that compare code points, and blanks at the end too: MariaDB's and MySQL's."""
_PADDED: Final = "utf8mb4_bin"
"""It compares code points, but no blanks at the end; every server has it."""
_SHOWN_COLLATIONS: Final = f"SHOW COLLATION WHERE collation IN {_COLLATIONS}"
_CHECKS: Final = (
    "SELECT count(*) FROM information_schema.columns WHERE table_schema = 'information_schema'"
    " AND lower(table_name) = 'check_constraints' AND lower(column_name) = 'table_name'"
)
_FOREVER: Final = 3_216_672_000_000_000
"""Microseconds: OceanBase's greatest timeout."""
_LOCK_MICROSECONDS: Final = 10_000_000
"""In OceanBase a KILL QUERY does not end the wait for a lock, and deadlocks are not found."""
_LOCK_TIMEOUT: Final = "ob_trx_lock_timeout"
_SETTINGS: Final[Mapping[str, int]] = {
    "ob_query_timeout": _FOREVER,  # of each statement; the default is ten seconds
    "ob_trx_timeout": _FOREVER,
    "ob_trx_idle_timeout": _FOREVER,
    _LOCK_TIMEOUT: _LOCK_MICROSECONDS,
    "information_schema_stats_expiry": 0,  # MySQL shows an AUTO_INCREMENT value of yesterday
}
"""What a session sets of the variables that only some servers have."""
_LOWER_CASE: Final = "lower_case_table_names"
_VERSION: Final = "version"
_NAME: Final = re.compile(r"-([A-Z]\w+(?: seekdb)?)")
_ATTRIBUTE: Final = "subscriber_mariadb_facts"
_LONG_DEFAULTS: Final = "subscriber_long_defaults"
_NO_DEFAULT: Final = frozenset({ER.INVALID_DEFAULT, ER.BLOB_CANT_HAVE_DEFAULT, ER.NOT_SUPPORTED_YET})
"""The last one is about temporary tables."""


@dataclass(frozen=True, slots=True)
class MariaDBFacts:
    """What differs between the servers of MySQL's family. It is found out by the first connection;
    until then, it is as in MariaDB.

    Attributes:
        database: the server's name, for messages.
        exact_collation: a collation in which texts are equal that have the same characters, blanks
            at the end included; None if there is none.
        has_xa: there are XA transactions.
        has_own_expressions: ``information_schema`` has expressions as SHOW CREATE TABLE has them.
        lower_case_tables: tables have names in lower case only.
        settings: what a session sets beside the variables that every server has.
    """

    database: str = MARIADB
    exact_collation: str | None = _COLLATIONS[0]
    has_xa: bool = True
    has_own_expressions: bool = True
    lower_case_tables: bool = False
    settings: tuple[str, ...] = ()

    @property
    def collation(self) -> str:
        """The collation of new columns."""
        return self.exact_collation or _PADDED

    @property
    def limits_lock_waits(self) -> bool:
        return _LOCK_TIMEOUT in self.settings

    def session(self) -> str:
        """The end of a SET statement."""
        return "".join(f", SESSION {name} = {_SETTINGS[name]}" for name in self.settings)


def facts_of(dialect: sa.Dialect) -> MariaDBFacts:
    found: MariaDBFacts = getattr(dialect, _ATTRIBUTE, MariaDBFacts())
    return found


def are_known(dialect: sa.Dialect) -> bool:
    return hasattr(dialect, _ATTRIBUTE)


def find_facts(cursor: Any) -> MariaDBFacts:
    """Ask the server; ``cursor`` is the driver's."""
    names = (*_SETTINGS, _LOWER_CASE, _VERSION)
    cursor.execute(f"SHOW VARIABLES WHERE variable_name IN {names}")
    variables = {str(name).lower(): value for name, value in cursor.fetchall()}
    cursor.execute(_SHOWN_COLLATIONS)
    collations = {row[0] for row in cursor.fetchall()}
    cursor.execute(_CHECKS)
    (has_own_expressions,) = cursor.fetchone()
    name = _NAME.search(str(variables.get(_VERSION)))
    return MariaDBFacts(
        database="MySQL" if name is None else name[1],
        exact_collation=next((one for one in _COLLATIONS if one in collations), None),
        has_xa=_knows(cursor, "XA RECOVER"),
        has_own_expressions=bool(has_own_expressions),
        lower_case_tables=variables.get(_LOWER_CASE) == "1",
        settings=tuple(name for name in _SETTINGS if name in variables),
    )


def learn(dialect: sa.Dialect, facts: MariaDBFacts) -> None:
    setattr(dialect, _ATTRIBUTE, facts)


def has_long_defaults(engine: sa.Engine) -> bool:
    """Whether a LONGTEXT can have a default. The first use asks the server."""
    found: bool | None = getattr(engine.dialect, _LONG_DEFAULTS, None)
    if found is None:
        with engine.connect() as connection:
            found = _takes(connection, "CREATE TEMPORARY TABLE `subscriber probe` (a LONGTEXT DEFAULT ('a'))")
            if found:
                connection.exec_driver_sql("DROP TEMPORARY TABLE IF EXISTS `subscriber probe`")
        setattr(engine.dialect, _LONG_DEFAULTS, found)
    return found


def _takes(connection: sa.Connection, statement: str) -> bool:
    """Whether the server has what a statement needs; a user who may not run it cannot know."""
    try:
        connection.exec_driver_sql(statement)
    except exc.DBAPIError as error:
        arguments = getattr(error.orig, "args", ())
        return not arguments or arguments[0] not in _NO_DEFAULT
    return True


def _knows(cursor: Any, statement: str) -> bool:
    """Whether a statement is one of the server's; one that is not allowed is."""
    try:
        cursor.execute(statement)
        cursor.fetchall()
    except MySQLError as error:
        return not error.args or error.args[0] not in (ER.PARSE_ERROR, ER.NOT_SUPPORTED_YET, ER.UNKNOWN_COM_ERROR)
    return True


# Transactions ----------------------------------------------------------------------------------

_SET_LOCK_WAITS: Final = "SET SESSION innodb_lock_wait_timeout = {}, SESSION lock_wait_timeout = {}"


class MariaDBTransactions(Transactions):
    def __init__(self, engine: sa.Engine, errors: Errors, counters: CounterRestarts) -> None:
        super().__init__(engine, errors)
        self._counters = counters

    @override
    def durability_warnings(self) -> Sequence[DurabilityWarning]:
        """When the binary log is synchronized does not matter: InnoDB's log has the commit."""
        with self._errors.reporting(), self._engine.connect() as connection:
            flushed: int = connection.exec_driver_sql("SELECT @@GLOBAL.innodb_flush_log_at_trx_commit").scalar_one()
        if flushed == 1:
            return ()
        return (
            DurabilityWarning(
                f"the target may lose committed changes in a crash: its innodb_flush_log_at_trx_commit is {flushed}",
                "Run SET GLOBAL innodb_flush_log_at_trx_commit = 1 there, and set it in the server's configuration file. The journal"
                " does not keep committed changes.",
            ),
        )

    @override
    def interrupt(self, connection: sa.Connection) -> None:
        with suppress(exc.SQLAlchemyError, OSError):  # it may be closed, or no new connection is possible
            driver: Any = connection.connection.driver_connection
            number = driver.thread_id()
            with self._engine.connect() as other:
                other.exec_driver_sql(f"KILL QUERY {number}")

    @override
    @contextmanager
    def _begin(self, engine: sa.Engine) -> Iterator[sa.Connection]:
        with (
            self.renewing_sessions(),
            super()._begin(engine) as connection,
            self._counters.collected(connection) as truncated,
        ):
            yield connection
        if truncated:
            self._counters.restart(truncated)

    @contextmanager
    def renewing_sessions(self) -> Iterator[None]:
        """Close the pool after a value was too large: only new sessions have a raised limit."""
        try:
            yield
        except UnsupportedValue as error:
            if error.sqlstate == PACKET_TOO_LARGE:
                self._engine.dispose()
            raise

    @override
    @contextmanager
    def limited_lock_waits(self, connection: sa.Connection, seconds: int) -> Iterator[None]:
        _limit_lock_waits(connection, seconds)
        try:
            yield
        finally:
            with suppress(exc.SQLAlchemyError):  # a session that is lost has no limit any more
                _limit_lock_waits(connection, None)

    @override
    def session_id(self, connection: sa.Connection) -> int | None:
        driver: Any = connection.connection.driver_connection
        return int(driver.thread_id())

    @override
    def waits_for(self, session: int | None) -> Sequence[str]:
        """Complete only with the PROCESS privilege."""
        if session is None:
            return ()
        with suppress(exc.SQLAlchemyError), self._engine.connect() as connection:
            return blockers(connection, session)
        return ()  # not every server has the tables of locks


def _limit_lock_waits(connection: sa.Connection, seconds: int | None) -> None:
    limit = "DEFAULT" if seconds is None else seconds
    connection.exec_driver_sql(_SET_LOCK_WAITS.format(limit, limit))
    if facts_of(connection.dialect).limits_lock_waits:
        microseconds = _LOCK_MICROSECONDS if seconds is None else seconds * 1_000_000
        connection.exec_driver_sql(f"SET SESSION {_LOCK_TIMEOUT} = {microseconds}")


# Run lock --------------------------------------------------------------------------------------

_LONG_WAIT: Final = 31_536_000
"""Seconds that the run lock's connection may be idle: the server's maximum, a year."""


class MariaDBRunLock(RunLock):
    def __init__(self, engine: sa.Engine, errors: Errors, database: str) -> None:
        self._engine = engine
        self._errors = errors
        self._database = database

    @override
    @contextmanager
    def hold(self) -> Iterator[None]:
        name = self._name
        autocommit = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        with self._errors.reporting(), autocommit.connect() as connection:
            connection.exec_driver_sql(f"SET SESSION wait_timeout = {_LONG_WAIT}")
            if connection.execute(sa.select(sa.func.get_lock(name, 0))).scalar_one() != 1:
                raise AlreadyRunning(
                    f'another "subscriber run" is already running for database "{self._database}"',
                    hint="Stop it first; one process runs all subscriptions of a target.",
                )
            try:
                yield
            finally:
                # The lock ends with its session, so a lost session has released it.
                with suppress(exc.SQLAlchemyError):
                    connection.execute(sa.select(sa.func.release_lock(name)))
                connection.invalidate()  # its session differs from the others

    @override
    def is_held(self, connection: sa.Connection) -> bool | None:
        return connection.execute(sa.select(sa.func.is_used_lock(self._name))).scalar_one() is not None

    @property
    def _name(self) -> str:
        digest = hashlib.sha256(self._database.encode()).hexdigest()[:32]
        return f"subscriber run {digest}"  # at most 64 characters


# Prepared --------------------------------------------------------------------------------------

_XID_BYTES: Final = 64
"""The maximum length of a part of an XA name, in bytes."""
_DETACH_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.01


class MariaDBPrepared(Prepared):
    def __init__(self, engine: sa.Engine, errors: Errors, transactions: MariaDBTransactions, database: str) -> None:
        self._engine = engine
        self._errors = errors
        self._transactions = transactions
        self._database = database

    @override
    @contextmanager
    def begin(self, gid: str) -> Iterator[sa.Connection]:
        """READ COMMITTED locks no gaps between rows: changes that were concurrent at the publisher
        must not wait until the transaction is finished.
        """
        with self._transactions.renewing_sessions(), self._errors.reporting(), self._engine.connect() as connection:
            xid = self._xid(gid)
            try:
                connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
                connection.exec_driver_sql(f"XA START {xid}")
                try:
                    self._transactions.apply_as_replica(connection)
                    yield connection
                    connection.exec_driver_sql(f"XA END {xid}")
                    connection.exec_driver_sql(f"XA PREPARE {xid}")
                except BaseException:
                    _roll_back(connection, xid)
                    raise
            except exc.DBAPIError as error:
                raise self._explain(error, gid) from None
            finally:
                # The session cannot do anything else until another session has finished the
                # transaction.
                connection.invalidate()

    @override
    def finish(self, gid: str, *, commit: bool, origin: str | None = None) -> None:
        # Changes are not marked.
        command = f"XA {'COMMIT' if commit else 'ROLLBACK'} {self._xid(gid)}"
        deadline = time.monotonic() + _DETACH_SECONDS
        autocommit = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        with self._errors.reporting(), autocommit.connect() as connection:
            while True:
                try:
                    connection.exec_driver_sql(command)
                    return
                except exc.DBAPIError as error:
                    # The session that prepared it may still be ending, although its connection is
                    # closed.
                    if time.monotonic() > deadline or gid not in self.names(connection):
                        raise self._explain(error, gid) from None
                time.sleep(_POLL_SECONDS)

    @override
    def free_gid(self, connection: sa.Connection, gid: str) -> str:
        """XA names here include the database."""
        return gid

    @override
    def names(self, connection: sa.Connection) -> frozenset[str]:
        with self._errors.reporting():
            rows = connection.exec_driver_sql("XA RECOVER").all()
        here = self._bqual()
        names = ((bytes(row.data), row.gtrid_length) for row in rows)
        return frozenset(name[:length].decode(errors="replace") for name, length in names if name[length:] == here)

    def _xid(self, gid: str) -> str:
        return f"X'{gid.encode().hex()}',X'{self._bqual().hex()}'"

    def _bqual(self) -> bytes:
        database = self._database.encode()
        return database if len(database) <= _XID_BYTES else hashlib.sha256(database).hexdigest().encode()

    def _explain(self, error: exc.SQLAlchemyError, gid: str) -> SubscriberError:
        """The translation of an error, with PostgreSQL's text (rule C50)."""
        match getattr(getattr(error, "orig", None), "args", (None,))[0]:
            case 1397 | 1402:
                return ApplyError(f'prepared transaction with identifier "{gid}" does not exist', sqlstate="42704")
            case 1440:
                return ApplyError(f'transaction identifier "{gid}" is already in use', sqlstate="42710")
            case _:
                return self._errors.translate(error)


def _roll_back(connection: sa.Connection, xid: str) -> None:
    """Roll back an XA transaction. If this fails, the end of the session rolls it back."""
    for command in ("END", "ROLLBACK"):
        with suppress(exc.SQLAlchemyError):
            connection.exec_driver_sql(f"XA {command} {xid}")


# Counters --------------------------------------------------------------------------------------

logger = logging.getLogger(__name__)

_COUNTER_WAIT: Final = 5
"""Seconds that the reset of a counter waits for other sessions that use the table."""


class CounterRestarts:
    """The tables that each open transaction has truncated with RESTART IDENTITY."""

    def __init__(self, engine: sa.Engine, errors: Errors) -> None:
        self._engine = engine
        self._errors = errors
        self._wanted: dict[sa.Connection, list[TargetTable]] = {}

    @contextmanager
    def collected(self, connection: sa.Connection) -> Iterator[list[TargetTable]]:
        """Tables whose counters the block's transaction resets, by :meth:`restart` after it."""
        tables = self._wanted[connection] = []
        try:
            yield tables
        finally:
            del self._wanted[connection]

    def want(self, connection: sa.Connection, tables: Sequence[TargetTable]) -> None:
        """Note tables whose counters are to restart, which a prepared transaction cannot do."""
        if tables and connection not in self._wanted:
            logger.warning(
                "a prepared transaction of %s cannot set AUTO_INCREMENT back: TRUNCATE leaves it where it is",
                self._errors.database,
            )
        self._wanted.get(connection, []).extend(tables)

    def restart(self, tables: Sequence[TargetTable]) -> None:
        """The server keeps counters above the values. A failure is only logged: it is committed."""
        format_table = self._engine.dialect.identifier_preparer.format_table
        try:
            with self._errors.reporting(), self._engine.connect() as connection:
                connection.exec_driver_sql(f"SET SESSION lock_wait_timeout = {_COUNTER_WAIT}")
                try:
                    for table in tables:
                        connection.exec_driver_sql(f"ALTER TABLE {format_table(table.clause())} AUTO_INCREMENT = 1")
                finally:
                    connection.exec_driver_sql("SET SESSION lock_wait_timeout = DEFAULT")
        except SubscriberError as error:
            logger.warning("TRUNCATE ... RESTART IDENTITY could not set AUTO_INCREMENT back: %s", error.message)


# Blockers --------------------------------------------------------------------------------------

_STATE: Final = sa.text("SELECT state FROM information_schema.processlist WHERE id = :session")
_ROWS: Final = sa.text(
    "SELECT DISTINCT b.trx_mysql_thread_id AS id, p.user, p.db, p.command, b.trx_started AS since"
    " FROM information_schema.innodb_lock_waits w"
    " JOIN information_schema.innodb_trx r ON r.trx_id = w.requesting_trx_id"
    " JOIN information_schema.innodb_trx b ON b.trx_id = w.blocking_trx_id"
    " LEFT JOIN information_schema.processlist p ON p.id = b.trx_mysql_thread_id"
    " WHERE r.trx_mysql_thread_id = :session ORDER BY 1"
)
_OTHERS: Final = sa.text(
    "SELECT p.id, p.user, p.db, p.command, t.trx_started AS since FROM information_schema.processlist p"
    " LEFT JOIN information_schema.innodb_trx t ON t.trx_mysql_thread_id = p.id"
    " WHERE p.id <> :session AND p.id <> CONNECTION_ID() AND (t.trx_id IS NOT NULL OR (p.db = DATABASE() AND p.command = 'Query'))"
    " UNION ALL SELECT 0, NULL, NULL, NULL, trx_started FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = 0 ORDER BY 1"
)
"""All sessions that may hold a metadata lock. The server reports the holder only with a plugin."""


def blockers(connection: sa.Connection, session: int) -> list[str]:
    state: str | None = connection.execute(_STATE, {"session": session}).scalar_one_or_none()
    if state and state.startswith("Waiting for") and "lock" in state:
        others = connection.execute(_OTHERS, {"session": session}).all()
        return [f"a lock of the table's definition, perhaps held by {_described(row)}" for row in others]
    return [_described(row) for row in connection.execute(_ROWS, {"session": session})]


def _described(row: Any) -> str:
    if not row.id:
        return f"a prepared transaction (since {row.since}; XA RECOVER lists the prepared transactions)"
    state = "idle in transaction" if row.command == "Sleep" else row.command
    return describe(row.id, row.user, row.since, state, database=row.db)
