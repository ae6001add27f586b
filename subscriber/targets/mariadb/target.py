"""MariaDB and MySQL as a target, through PyMySQL.

- *Sessions* are strict (nothing is truncated without an error, and 0 does not generate an
  auto-increment value), and use UTC and utf8mb4. Foreign keys are off on the subscriber's
  connections, because PostgreSQL's apply worker does not enforce them (rule C23). Unique keys are
  enforced, and triggers fire.
- *Schemas.* ``public`` is the URL's database. Table ``t`` of another schema ``s`` is the table
  named ``s.t`` in this database, or table ``t`` of a database ``s``.
- *System-versioned tables* are treated as tables; the server maintains their history.
- *Engines* without transactions (MyISAM, and Aria in tables of users) are refused, because progress
  and data would no longer agree.
- *TRUNCATE* is DELETE without WHERE, because TRUNCATE commits. RESTRICT is checked against the
  foreign keys (rule C30). RESTART IDENTITY resets AUTO_INCREMENT immediately after the transaction,
  because ALTER TABLE commits too. If the process ends in between, or if the transaction is
  prepared, the counter keeps its value.
- *Rows without a key* have no locator, so UPDATE and DELETE are limited to one row (``LIMIT 1``).
- *Prepared transactions* are XA transactions, named by PostgreSQL's GID and the database. They
  outlive their session (MariaDB 10.5).
- *DDL commits.* Tables that are created and auto-increment values that are set remain, even if the
  transaction is rolled back.
- *Many new rows* are loaded by LOAD DATA LOCAL, those of a copy from PostgreSQL's text, or by
  INSERT if the server forbids this.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
from pymysql import connections, err
from pymysql.constants import CLIENT, COMMAND, CR, ER, FIELD_TYPE
from pymysql.protocol import OKPacketWrapper

from subscriber.base.errors import NotSupportedError, UsageError
from subscriber.targets.base.target import base_roles, quote_all_names
from subscriber.targets.base.transactions import Prepared
from subscriber.targets.capabilities import Capabilities, Limit, Limits, TargetFacts
from subscriber.targets.mariadb.errors import MariaDBErrors
from subscriber.targets.mariadb.transactions import (
    CounterRestarts,
    MariaDBPrepared,
    MariaDBRunLock,
    MariaDBTransactions,
    are_known,
    facts_of,
    find_facts,
    learn,
)
from subscriber.targets.query_result import read_result
from subscriber.targets.target import TableRoles, Target

_SQL_MODE: Final = "STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION"
_SESSION: Final = (
    f"SET SESSION sql_mode = '{_SQL_MODE}', SESSION time_zone = '+00:00', SESSION foreign_key_checks = 0,"
    " SESSION unique_checks = 1, SESSION autocommit = 0, SESSION default_storage_engine = InnoDB,"
    # Notes report decimals that LOAD DATA has rounded; their texts have the column's name. A
    # TRUNCATE is a DELETE of all rows.
    " SESSION sql_notes = 1, SESSION max_error_count = 64, SESSION lc_messages = 'en_US', SESSION sql_safe_updates = 0,"
    f" SESSION sql_select_limit = {2**63 - 1}, SESSION wait_timeout = 28800 /*M! , SESSION check_constraint_checks = 1 */"
)
"""What the server's configuration or the URL could have set so that values change unnoticed."""


CAPABILITIES: Final = Capabilities(
    database="MariaDB",
    multi_rowcount=True,
    row_locks=True,
    driver_cursor=True,
    signed_zero=False,
    stored_columns=False,
    equal_key_types=True,
    parallel_ddl=True,
    limits=Limits(columns=1_017, keys=64, key_columns=32, name_length=64, last_character="\uffff", final_blank=False),
)


def open_mariadb(url: sa.URL) -> Target:
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
            return MariaDBConnection(**options)
        except RuntimeError:  # PyMySQL's, about caching_sha2_password and sha256_password
            raise UsageError(
                "the server's authentication needs a package that is not installed (cryptography)",
                hint='Run: pip install "PyMySQL[rsa]". Or connect with TLS, by ssl_ca=/… in the target URL.',
            ) from None
        except OSError as error:  # a TLS file is missing or unusable
            raise err.OperationalError(CR.CR_SSL_CONNECTION_ERROR, f"{error.strerror or error}") from None

    database = str(url.database)
    errors = MariaDBErrors()
    sa.event.listen(engine, "connect", partial(_on_connect, engine.dialect, errors))
    counters = CounterRestarts(engine, errors)
    transactions = MariaDBTransactions(engine, errors, counters)

    def table_roles() -> TableRoles:
        from subscriber.targets.mariadb import catalog, ddl, deleted_rows, objects, writing
        from subscriber.targets.mariadb.values import MariaDBValues

        new_tables = ddl.MariaDBDDL(engine)
        values, matching = MariaDBValues(), writing.MariaDBMatching(new_tables)
        write = writing.MariaDBWriting(errors, counters)
        bulk = writing.MariaDBBulk(engine, errors, values, matching, write)
        return base_roles(
            engine,
            errors,
            values,
            shapes=catalog.MariaDBShapes(errors),
            matching=matching,
            writing=write,
            loading=writing.MariaDBLoading(engine, errors, values, bulk, write),
            reader=catalog.MariaDBTableReader(values),
            ddl=new_tables,
            sequences=catalog.MariaDBSequences(errors),
            objects=objects.MariaDBObjects(engine, errors, new_tables.rules),
            bulk=bulk,
            deleted_rows=deleted_rows.MariaDBDeletedRows(new_tables),
        )

    return MariaDBTarget(
        url=url,
        engine=engine,
        capabilities=CAPABILITIES,
        errors=errors,
        transactions=transactions,
        open_table_roles=table_roles,
        read_result=partial(read_result, real=FIELD_TYPE.FLOAT),
        read_facts=_read_facts,
        prepared=MariaDBPrepared(engine, errors, transactions, database),
        run_lock=MariaDBRunLock(engine, errors, database),
    )


class MariaDBTarget(Target):
    """What depends on the server is known when a connection has found the facts."""

    if not TYPE_CHECKING:

        @property
        def capabilities(self) -> Capabilities:
            if self._capabilities.database != self.errors.database:
                self._capabilities = replace(self._capabilities, database=self.errors.database)
            return self._capabilities

        @capabilities.setter
        def capabilities(self, found: Capabilities) -> None:
            self._capabilities = found

        @property
        def prepared(self) -> Prepared | None:
            """A first use connects, if nothing has connected before."""
            if not are_known(self.engine.dialect):
                with self.reporting(), self.engine.connect():
                    pass
            return self._prepared if facts_of(self.engine.dialect).has_xa else None

        @prepared.setter
        def prepared(self, role: Prepared | None) -> None:
            self._prepared = role


def _read_facts(connection: sa.Connection) -> TargetFacts:
    version, packet = connection.execute(sa.text("SELECT @@version, @@max_allowed_packet")).one()
    remedy = f"SET GLOBAL max_allowed_packet = {1024**3}; -- and in the server's configuration file"
    return TargetFacts(version=version, largest_value=Limit("max_allowed_packet", packet, remedy))


def _check_options(options: Mapping[str, Any]) -> None:
    known = inspect.signature(connections.Connection.__init__).parameters
    unknown = sorted(name for name in options if name not in known)
    if unknown:
        raise UsageError(
            f'unknown option "{unknown[0]}" in the target URL',
            hint="The options of a MariaDB URL are those of PyMySQL's connect(), such as connect_timeout=10 or ssl_ca=/….",
        )


def _on_connect(dialect: sa.Dialect, errors: MariaDBErrors, connection: Any, _record: object) -> None:
    with connection.cursor() as cursor:
        if not are_known(dialect):
            learn(dialect, find_facts(cursor))
        errors.database = facts_of(dialect).database
        cursor.execute(_SESSION + facts_of(dialect).session())
        cursor.execute("SELECT @@max_allowed_packet")
        (connection.largest_statement,) = cursor.fetchone()


def _adapt(dialect: Any) -> None:
    """Quote all names. New tables get utf8mb4."""

    class _DDLCompiler(dialect.ddl_compiler):  # type: ignore[misc]  # a class that is known when it runs
        def post_create_table(self, table: sa.Table) -> str:
            return f"{super().post_create_table(table)} CHARACTER SET utf8mb4"

    quote_all_names(dialect)
    dialect.ddl_compiler = _DDLCompiler


# Connection ------------------------------------------------------------------------------------

_PACKET: Final = 256 * 1024
"""Far below max_allowed_packet, and so large that the number of packets does not matter."""

_MULTI_STATEMENTS_ON, _MULTI_STATEMENTS_OFF = 0, 1


class MariaDBConnection(connections.Connection):  # type: ignore[misc]  # PyMySQL has no types
    """Sends packets of several statements, and bytes for LOAD DATA LOCAL. PyMySQL's own opens any
    file that the server requests, so it stays disabled; this one sends the given bytes, and only
    within :meth:`load`. A statement of more than ``largest_statement`` (``max_allowed_packet``) is
    not sent: the server would close the connection, which looks like any other lost connection.
    """

    largest_statement: int | None = None

    def __init__(self, *, client_flag: int = 0, **options: object) -> None:
        super().__init__(client_flag=client_flag | CLIENT.LOCAL_FILES, **options)

    def _execute_command(self, command: int, sql: str | bytes) -> None:
        data = sql.encode(self.encoding, "surrogateescape") if isinstance(sql, str) else sql
        if self.largest_statement is not None and len(data) >= self.largest_statement:
            raise err.OperationalError(ER.NET_PACKET_TOO_LARGE, "Got a packet bigger than 'max_allowed_packet' bytes")
        super()._execute_command(command, data)

    def query_many(self, statements: bytes) -> int:
        """Statements, separated by semicolons, without rows; the server takes them only here."""
        self._set_option(_MULTI_STATEMENTS_ON)
        try:
            return self._query_many(statements)
        finally:
            if self.open:
                self._set_option(_MULTI_STATEMENTS_OFF)

    def _query_many(self, statements: bytes) -> int:
        self._execute_command(COMMAND.COM_QUERY, statements)
        affected, follows = 0, True
        while follows:
            answer = OKPacketWrapper(self._read_packet())
            affected += answer.affected_rows
            follows = answer.has_next
        return affected

    def _set_option(self, option: int) -> None:
        self._execute_command(COMMAND.COM_SET_OPTION, option.to_bytes(2, "little"))
        self._read_packet()

    def load(self, statement: str, data: bytes) -> tuple[int, int]:
        """LOAD DATA LOCAL with the file content ``data``; returns the numbers of inserted rows and
        of warnings. A caller must check both: with LOCAL, an error of a row is a warning.
        """
        self._execute_command(COMMAND.COM_QUERY, statement.encode())
        if not self._read_packet().is_load_local_packet():
            raise err.InternalError("the server did not ask for the data")
        for at in range(0, len(data), _PACKET):
            self.write_packet(data[at : at + _PACKET])
        self.write_packet(b"")
        answer = OKPacketWrapper(self._read_packet())
        return answer.affected_rows, answer.warning_count
