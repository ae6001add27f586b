"""MariaDB and MySQL as a target, through PyMySQL.

- *Sessions* are strict (nothing is cut without an error, 0 is no auto-increment), in UTC and utf8mb4. Foreign keys are off on our
  connections, as PostgreSQL's apply worker does not enforce them (rule C23); unique keys are not; triggers fire.
- *Schemas.* ``public`` is the URL's database. Table ``t`` of another schema ``s`` is the table named ``s.t`` in it, or table ``t`` of
  a database ``s``.
- *System-versioned tables* are tables; their history is the server's.
- *Engines* without transactions (MyISAM, Aria as users make it) are refused as targets: progress and data would part.
- *TRUNCATE* is DELETE without WHERE, since TRUNCATE commits; RESTRICT is checked against the foreign keys (rule C30). RESTART IDENTITY
  sets AUTO_INCREMENT back right after the transaction, since ALTER TABLE commits too; a process that dies in between leaves the
  counter where it is, and so does a prepared transaction.
- *Rows without a key* have no locator: UPDATE and DELETE are told to change one row (``LIMIT 1``). Their texts are compared letter by
  letter, whatever the column's collation is: the server's own takes letters of both cases for the same, and nobody asked for that.
- *Prepared transactions* are XA's, named as PostgreSQL's with the database as second part; they outlive their session (MariaDB 10.5).
- *DDL commits.* Tables that are made, and auto-increment values that are set, stay whatever becomes of the transaction.
- *Copies* are loaded by LOAD DATA LOCAL from PostgreSQL's own text, or row by row where the server forbids it. LOCAL makes warnings of
  errors; any warning is an error here.
"""

from __future__ import annotations

import hashlib
import inspect
import logging
import re
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, Final

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.dialects.mysql import CHAR
from sqlalchemy.dialects.mysql.base import MySQLDialect

from subscriber.errors import (
    AlreadyRunning,
    ApplyError,
    NotSupportedError,
    SubscriberError,
    UnsupportedValue,
    UsageError,
)
from subscriber.schema.shape import ColumnShape, SequencePosition, TableShape
from subscriber.targets.capabilities import Capabilities
from subscriber.targets.default_expressions import sqlite_expression
from subscriber.targets.loader import LoadColumn
from subscriber.targets.mariadb import values as mariadb_values
from subscriber.targets.mariadb.blockers import blockers
from subscriber.targets.mariadb.catalog import check_references, counts, next_auto_increment, read_table
from subscriber.targets.mariadb.errors import PACKET_TOO_LARGE, translate_number
from subscriber.targets.target import Change, DurabilityWarning, Target
from subscriber.targets.target_table import AutoIncrement, TargetColumn, TargetSequence, TargetTable
from subscriber.types.equality import EXACT, Equality

_SQL_MODE: Final = "STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION"
_SESSION: Final = (
    f"SET SESSION sql_mode = '{_SQL_MODE}', SESSION time_zone = '+00:00', SESSION foreign_key_checks = 0,"
    " SESSION unique_checks = 1, SESSION autocommit = 0, SESSION default_storage_engine = InnoDB,"
    # Notes tell of decimals that LOAD DATA has rounded, their texts of the column; a TRUNCATE is a DELETE of all rows.
    " SESSION sql_notes = 1, SESSION max_error_count = 64, SESSION lc_messages = 'en_US', SESSION sql_safe_updates = 0,"
    f" SESSION sql_select_limit = {2**64 - 1}, SESSION wait_timeout = 28800 /*M! , SESSION check_constraint_checks = 1 */"
)
"""Everything that the server's configuration, or the URL, could have set so that values change or are not looked at."""
_XID_BYTES: Final = 64
"""What a part of an XA name may be long."""
_DETACH_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.01
_COUNTER_WAIT: Final = 5
"""Seconds that setting a counter back waits for whoever uses the table."""
_LONG_WAIT: Final = 31_536_000
"""Seconds that the run lock's connection may be idle: the server's largest, a year."""


def open_mariadb(url: sa.URL) -> MariaDBTarget:
    """Open the database that ``url`` names, through PyMySQL.

    Raises:
        NotSupportedError: the URL asks for another driver.
        UsageError: the URL names no database.
        ImportError: PyMySQL is not installed.
    """
    from pymysql import err
    from pymysql.constants import CR

    from subscriber.targets.mariadb.connection import Connection

    backend = url.get_backend_name()
    if url.drivername == backend:
        url = url.set(drivername=f"{backend}+pymysql")
    if url.get_driver_name() != "pymysql":
        raise NotSupportedError(
            f'driver "{url.get_driver_name()}" is not supported for MariaDB',
            hint=f"Write the URL as {backend}+pymysql://...",
        )
    if not url.database:
        raise UsageError(
            "the target URL names no database",
            hint=f"Write it at the end: {backend}+pymysql://user@host/database.",
        )
    engine = sa.create_engine(url.update_query_dict({"charset": "utf8mb4"}), pool_pre_ping=True, hide_parameters=True)
    _check_options(engine.dialect.create_connect_args(engine.url)[1])
    _adapt(engine.dialect)

    @sa.event.listens_for(engine, "do_connect")
    def connect(_dialect: object, _record: object, _arguments: object, options: dict[str, Any]) -> Any:
        try:
            return Connection(**options)
        except OSError as error:  # a file of TLS's that is not there, or is none; PyMySQL's errors are no OSErrors
            raise err.OperationalError(CR.CR_SSL_CONNECTION_ERROR, f"{error.strerror or error}") from None

    sa.event.listen(engine, "connect", _on_connect)
    return MariaDBTarget(url, engine)


def _check_options(options: Mapping[str, Any]) -> None:
    from pymysql import connections  # which need not be installed where nobody asks

    known = inspect.signature(connections.Connection.__init__).parameters
    unknown = sorted(name for name in options if name not in known)
    if unknown:
        raise UsageError(
            f'unknown option "{unknown[0]}" in the target URL',
            hint="The options of a MariaDB URL are those of PyMySQL's connect(), such as connect_timeout=10 or ssl_ca=/….",
        )


def _on_connect(connection: Any, _record: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_SESSION)
        cursor.execute("SELECT @@max_allowed_packet")
        (connection.largest_statement,) = cursor.fetchone()


def _adapt(dialect: Any) -> None:
    """Quote every name, as each version of each server has reserved words of its own; make tables for every character."""

    class _Preparer(dialect.preparer):  # type: ignore[misc]  # a class that is known when it runs
        def _requires_quotes(self, _value: str) -> bool:
            return True

    class _DDLCompiler(dialect.ddl_compiler):  # type: ignore[misc]  # the same
        def post_create_table(self, table: sa.Table) -> str:
            return f"{super().post_create_table(table)} CHARACTER SET utf8mb4"

    dialect.preparer = _Preparer
    dialect.identifier_preparer = _Preparer(dialect)
    dialect.ddl_compiler = _DDLCompiler


logger = logging.getLogger(__name__)


class MariaDBTarget(Target):
    """A database of a MariaDB or MySQL server."""

    real_type_code: ClassVar[Hashable | None] = 4  # FIELD_TYPE.FLOAT
    capabilities: ClassVar[Capabilities] = Capabilities(
        database="MariaDB",
        restart_identity=True,
        multi_rowcount=True,
        signed_zero=False,
        run_lock=True,
        stored_columns=False,
        prepared_transactions=True,
        copy_format="text",
    )

    def __init__(self, url: sa.URL, engine: sa.Engine) -> None:
        super().__init__(url, engine)
        self._to_restart: dict[sa.Connection, list[TargetTable]] = {}
        """Tables whose counters are to be set back when the transaction of a connection is committed."""

    def durability_warnings(self) -> Sequence[DurabilityWarning]:
        """See :meth:`Target.durability_warnings`; what the binary log is synced at does not matter, as InnoDB's log has the commit."""
        with self.reporting(), self.engine.connect() as connection:
            flushed: int = connection.exec_driver_sql("SELECT @@GLOBAL.innodb_flush_log_at_trx_commit").scalar_one()
        if flushed == 1:
            return ()
        return (
            DurabilityWarning(
                f"the target may lose committed changes in a crash: its innodb_flush_log_at_trx_commit is {flushed}",
                "Run SET GLOBAL innodb_flush_log_at_trx_commit = 1 there, and set it in the server's configuration file. The journal"
                " does not keep what is committed.",
            ),
        )

    def reflect(self, connection: sa.Connection, schema: str, table: str) -> TargetTable | None:
        """See :meth:`Target.reflect` and the module."""
        with self.reporting():
            return read_table(connection, schema, table)

    def check_column(self, type_oid: int, column: TargetColumn) -> None:
        """See :func:`subscriber.targets.mariadb.values.check_column`."""
        mariadb_values.check_column(type_oid, column)

    def bind_values(self, type_oid: int, column: TargetColumn, values: pa.Array) -> list[Any]:
        """See :func:`subscriber.targets.mariadb.values.bind_values`."""
        return mariadb_values.bind_values(type_oid, column, values)

    def readable(self, column: TargetColumn) -> sa.ColumnElement[Any]:
        """Times without the zeros at the end of their fraction, as PostgreSQL writes them."""
        name: sa.ColumnClause[Any] = sa.column(column.name)
        if column.storage not in mariadb_values.TIMES | {"time"}:
            return name
        return sa.func.regexp_replace(sa.cast(name, sa.CHAR()), r"\.?0+$", "").label(column.name)

    def equality(self, type_oid: int, column: TargetColumn) -> Equality:
        """See :meth:`Target.equality`; a DECIMAL compares as numeric does."""
        return EXACT if column.storage == "decimal" else super().equality(type_oid, column)

    def comparable(self, column: TargetColumn, clause: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
        """See :meth:`Target.comparable`; texts letter by letter, with the blanks at their end, which a CHAR does not have."""
        storage = column.storage.removesuffix(mariadb_values.INEXACT_KEY)
        if storage not in mariadb_values.TEXTS | {"char"}:
            return clause
        collation = "utf8mb4_bin" if storage == "char" else self._collation
        return sa.collate(sa.cast(clause, CHAR(charset="utf8mb4")), collation)

    def finds(
        self, column: TargetColumn, clause: sa.ColumnElement[Any], value: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        """See :meth:`Target.finds`; a text by its index, and then with the blanks at its end, which most ``_bin`` collations ignore."""
        equal = super().finds(column, clause, value)
        if column.storage not in mariadb_values.TEXTS:
            return equal
        return sa.and_(equal, self.comparable(column, clause) == value)

    def found_as_written(self, type_oid: int, table: TargetTable, column: TargetColumn) -> bool:
        """See :meth:`Target.found_as_written`; triggers are for whole rows."""
        del table
        return column.storage in mariadb_values.STORED_ALIKE and self.equality(type_oid, column) == EXACT

    def change_first(self, statement: Change) -> Change:
        """See :meth:`Target.change_first`; LIMIT 1."""
        return statement.with_dialect_options(mysql_limit=1)

    @contextmanager
    def loader(
        self, connection: sa.Connection, table: TargetTable, columns: Sequence[LoadColumn]
    ) -> Iterator[Callable[[bytes], None]]:
        """See :meth:`Target.loader` and :mod:`subscriber.targets.mariadb.load`."""
        from subscriber.targets.mariadb.load import load_blocks

        yield load_blocks(self, connection, table, columns)

    def interrupt(self, connection: sa.Connection) -> None:
        """See :meth:`Target.interrupt`; KILL QUERY, on a connection of its own."""
        with suppress(exc.SQLAlchemyError, OSError):  # it may just be closed, or the server take no more connections
            driver: Any = connection.connection.driver_connection
            number = driver.thread_id()
            with self.engine.connect() as other:
                other.exec_driver_sql(f"KILL QUERY {number}")

    # Prepared transactions ------------------------------------------------------------------------------

    @contextmanager
    def begin_prepared(self, gid: str) -> Iterator[sa.Connection]:
        """See :meth:`Target.begin_prepared`; XA START to XA PREPARE.

        READ COMMITTED, so that it keeps locks on the rows that it changes and on no gap between them: until it is finished, the
        changes that the publisher made beside it must get by.
        """
        with self._renewing_sessions(), self.reporting(), self.engine.connect() as connection:
            xid = self._xid(gid)
            try:
                connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
                connection.exec_driver_sql(f"XA START {xid}")
                try:
                    self.prepare_transaction(connection)
                    yield connection
                    connection.exec_driver_sql(f"XA END {xid}")
                    connection.exec_driver_sql(f"XA PREPARE {xid}")
                except BaseException:
                    _roll_back(connection, xid)
                    raise
            except exc.DBAPIError as error:
                raise self._explain_prepared(error, gid) from None
            finally:
                # The session can do nothing else before the transaction is finished, which is left to another.
                connection.invalidate()

    def finish_prepared(self, gid: str, *, commit: bool, origin: str | None = None) -> None:
        """See :meth:`Target.finish_prepared`; XA COMMIT, XA ROLLBACK."""
        del origin  # nothing is marked
        command = f"XA {'COMMIT' if commit else 'ROLLBACK'} {self._xid(gid)}"
        deadline = time.monotonic() + _DETACH_SECONDS
        autocommit = self.engine.execution_options(isolation_level="AUTOCOMMIT")
        with self.reporting(), autocommit.connect() as connection:
            while True:
                try:
                    connection.exec_driver_sql(command)
                    return
                except exc.DBAPIError as error:
                    # The session that prepared it may not have ended yet, though its connection has.
                    if time.monotonic() > deadline or gid not in self.prepared_transactions(connection):
                        raise self._explain_prepared(error, gid) from None
                time.sleep(_POLL_SECONDS)

    def prepared_transactions(self, connection: sa.Connection) -> frozenset[str]:
        """Those of this database, which is the second part of their names (bqual)."""
        with self.reporting():
            rows = connection.exec_driver_sql("XA RECOVER").all()
        here = self._bqual()
        names = ((bytes(row.data), row.gtrid_length) for row in rows)
        return frozenset(name[:length].decode(errors="replace") for name, length in names if name[length:] == here)

    def _xid(self, gid: str) -> str:
        """The name of a transaction: ``gid``, and the database as its second part."""
        return f"X'{gid.encode().hex()}',X'{self._bqual().hex()}'"

    def _bqual(self) -> bytes:
        database = str(self.url.database).encode()
        return database if len(database) <= _XID_BYTES else hashlib.sha256(database).hexdigest().encode()

    def _explain_prepared(self, error: exc.SQLAlchemyError, gid: str) -> SubscriberError:
        """In PostgreSQL's words (rule C50)."""
        match getattr(getattr(error, "orig", None), "args", (None,))[0]:
            case 1397 | 1402:
                return ApplyError(f'prepared transaction with identifier "{gid}" does not exist', sqlstate="42704")
            case 1440:
                return ApplyError(f'transaction identifier "{gid}" is already in use', sqlstate="42710")
            case _:
                return self.translate(error)

    # New tables -----------------------------------------------------------------------------------------

    def place(self, schema: str, table: str) -> tuple[str | None, str]:
        """See :meth:`Target.place` and the module."""
        return None, table if schema == "public" else f"{schema}.{table}"

    def column_type(self, type_oid: int, type_name: str, *, key: bool = False) -> str:
        """See :func:`subscriber.targets.mariadb.values.declaration`."""
        return mariadb_values.declaration(type_oid, type_name, key=key, collation=self._collation)

    @property
    def _collation(self) -> str:
        """One that compares letter by letter, blanks at the end included."""
        # Until the first connection nobody knows which of the two it is.
        dialect = self.engine.dialect
        is_mysql = isinstance(dialect, MySQLDialect) and bool(dialect.server_version_info) and not dialect.is_mariadb
        return "utf8mb4_0900_bin" if is_mysql else "utf8mb4_nopad_bin"

    def storage(self, declared: str) -> str:
        """The type's name as the server has it in its catalog."""
        word = re.split(r"[ (]", declared, maxsplit=1)[0].lower()
        return {"boolean": "tinyint"}.get(word, word)

    def expression(self, expression: str, types: Mapping[str, int]) -> str | None:
        """What means the same in SQLite means the same here, but for ``||``, which is OR, and length, which counts bytes."""
        written = sqlite_expression(expression, types, _quote)
        return None if written is None or "||" in written or "length(" in written else written

    def literal(self, value: Any) -> str | None:
        """See :meth:`Target.literal`; bytes too."""
        return f"X'{value.hex()}'" if isinstance(value, bytes) else super().literal(value)

    def auto_increment(self, shape: TableShape, column: ColumnShape, declared: str) -> AutoIncrement | None:
        """AUTO_INCREMENT, which a table has for one column, the first of a key."""
        if column.name != _incremented(shape) or self.storage(declared) not in mariadb_values.INTEGERS:
            return None
        return AutoIncrement(f"{declared} AUTO_INCREMENT")

    # -------------------------------------------------------------------------------------------------

    def sequence_of(self, connection: sa.Connection, table: TargetTable, column: str) -> TargetSequence | None:
        """See :meth:`Target.sequence_of`; counts as the server does (``auto_increment_increment``)."""
        found = table.column(column)
        if found is None or not counts(found):
            return None
        with self.reporting():
            following = next_auto_increment(connection, table)
        position = SequencePosition(last_value=max(1, following - 1), is_called=following > 1)
        name = f"{table.schema or ''}.{table.name}"
        return TargetSequence(name, position, 1, mariadb_values.greatest_integer(found), table)

    def set_sequence(self, connection: sa.Connection, sequence: TargetSequence, position: SequencePosition) -> None:
        """See :meth:`Target.set_sequence`.

        ALTER TABLE commits the transaction. A value at or below the table's largest is raised above it by the server.
        """
        assert sequence.table is not None
        name = connection.dialect.identifier_preparer.format_table(sequence.table.clause())
        with self.reporting():
            connection.exec_driver_sql(f"ALTER TABLE {name} AUTO_INCREMENT = {position.next_value}")

    def truncate(self, connection: sa.Connection, tables: Sequence[TargetTable], *, restart_identity: bool) -> None:
        """See :meth:`Target.truncate`; auto-increments are set back when the transaction has committed."""
        with self.reporting():
            for table in tables:
                check_references(connection, table, tables)
            super().truncate(connection, tables, restart_identity=restart_identity)
        counting = [table for table in tables if any(map(counts, table.columns))] if restart_identity else []
        if counting and connection not in self._to_restart:
            logger.warning(
                "a prepared transaction of MariaDB cannot set AUTO_INCREMENT back: TRUNCATE leaves it where it is"
            )
        self._to_restart.get(connection, []).extend(counting)

    @contextmanager
    def begin(self) -> Iterator[sa.Connection]:
        """See :meth:`Target.begin`."""
        to_restart: list[TargetTable] = []
        with self._renewing_sessions(), super().begin() as connection:
            self._to_restart[connection] = to_restart
            try:
                yield connection
            finally:
                del self._to_restart[connection]
        if to_restart:
            self._restart_counters(to_restart)

    @contextmanager
    def _renewing_sessions(self) -> Iterator[None]:
        """After a value that was too large no session is used again: what somebody raises the limit to, only new ones are told."""
        try:
            yield
        except UnsupportedValue as error:
            if error.sqlstate == PACKET_TOO_LARGE:
                self.engine.dispose()
            raise

    def _restart_counters(self, tables: Sequence[TargetTable]) -> None:
        """The server raises a counter above what is in the table. What is committed stays so, whatever becomes of the counter."""
        format_table = self.engine.dialect.identifier_preparer.format_table
        try:
            with self.reporting(), self.engine.connect() as connection:
                connection.exec_driver_sql(f"SET SESSION lock_wait_timeout = {_COUNTER_WAIT}")
                try:
                    for table in tables:
                        connection.exec_driver_sql(f"ALTER TABLE {format_table(table.clause())} AUTO_INCREMENT = 1")
                finally:
                    connection.exec_driver_sql("SET SESSION lock_wait_timeout = DEFAULT")
        except SubscriberError as error:
            logger.warning("TRUNCATE ... RESTART IDENTITY could not set AUTO_INCREMENT back: %s", error.message)

    @contextmanager
    def run_lock(self) -> Iterator[None]:
        """Hold the server's lock (GET_LOCK) of this database's name on a connection of its own."""
        name = self._run_lock_name
        autocommit = self.engine.execution_options(isolation_level="AUTOCOMMIT")
        with self.reporting(), autocommit.connect() as connection:
            connection.exec_driver_sql(f"SET SESSION wait_timeout = {_LONG_WAIT}")
            if connection.execute(sa.select(sa.func.get_lock(name, 0))).scalar_one() != 1:
                raise AlreadyRunning(
                    f'another "subscriber run" is at work on database "{self.url.database}"',
                    hint="Stop it first; one process runs all subscriptions of a target.",
                )
            try:
                yield
            finally:
                # The lock ends with its session, so one that is lost has released it.
                with suppress(exc.SQLAlchemyError):
                    connection.execute(sa.select(sa.func.release_lock(name)))
                connection.invalidate()  # its session is no longer like the others

    def session_id(self, connection: sa.Connection) -> int | None:
        """See :meth:`Target.session_id`; the connection's number."""
        driver: Any = connection.connection.driver_connection
        return int(driver.thread_id())

    def waits_for(self, session: int | None) -> Sequence[str]:
        """See :meth:`Target.waits_for`; with the right to see other sessions (PROCESS)."""
        if session is None:
            return ()
        with self.engine.connect() as connection:
            return blockers(connection, session)

    def is_run_locked(self, connection: sa.Connection) -> bool | None:
        """See :meth:`Target.is_run_locked`."""
        return connection.execute(sa.select(sa.func.is_used_lock(self._run_lock_name))).scalar_one() is not None

    @property
    def _run_lock_name(self) -> str:
        digest = hashlib.sha256(str(self.url.database).encode()).hexdigest()[:32]
        return f"subscriber run {digest}"  # at most 64 characters

    def translate(self, error: exc.SQLAlchemyError, columns: Sequence[str] = ()) -> SubscriberError:
        """See :meth:`Target.translate`; by MariaDB's error numbers."""
        arguments = getattr(getattr(error, "orig", None), "args", ())
        if not arguments or not isinstance(arguments[0], int):
            return super().translate(error, columns)
        return translate_number(arguments[0], str(arguments[1]) if len(arguments) > 1 else "")


def _roll_back(connection: sa.Connection, xid: str) -> None:
    """Take an XA transaction back; what fails here the end of its session does."""
    for command in ("END", "ROLLBACK"):
        with suppress(exc.SQLAlchemyError):
            connection.exec_driver_sql(f"XA {command} {xid}")


def _incremented(shape: TableShape) -> str | None:
    """The first identity or serial column that a key begins with."""
    first = {
        columns[0] for columns in (shape.key, *(key.columns for key in shape.unique if not key.deferrable)) if columns
    }
    return next((one.name for one in shape.columns if (one.identity or one.serial) and one.name in first), None)


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
