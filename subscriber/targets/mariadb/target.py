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
  Their texts are compared exactly, whatever the column's collation is. The server's default
  collation ignores case, and this is usually not a decision of the user.
- *Prepared transactions* are XA transactions. The first part of their name is PostgreSQL's GID, the
  second part is the database. They outlive their session (MariaDB 10.5).
- *DDL commits.* Tables that are created and auto-increment values that are set remain, even if the
  transaction is rolled back.
- *Copies* are loaded by LOAD DATA LOCAL from PostgreSQL's text, or by INSERT if the server forbids
  this. LOCAL turns errors into warnings; here any warning is an error.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import sqlalchemy as sa
from pymysql import connections, err
from pymysql.constants import CR, FIELD_TYPE

from subscriber.errors import (
    NotSupportedError,
    UsageError,
)
from subscriber.targets.capabilities import Capabilities
from subscriber.targets.mariadb.connection import Connection
from subscriber.targets.mariadb.counters import CounterRestarts
from subscriber.targets.mariadb.errors import MariaDBErrors
from subscriber.targets.mariadb.prepared import MariaDBPrepared
from subscriber.targets.mariadb.run_lock import MariaDBRunLock
from subscriber.targets.mariadb.transactions import MariaDBTransactions
from subscriber.targets.query_result import read_result
from subscriber.targets.server_facts import Limit, TargetFacts
from subscriber.targets.table_roles import TableRoles
from subscriber.targets.target import Target

_SQL_MODE: Final = "STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION"
_SESSION: Final = (
    f"SET SESSION sql_mode = '{_SQL_MODE}', SESSION time_zone = '+00:00', SESSION foreign_key_checks = 0,"
    " SESSION unique_checks = 1, SESSION autocommit = 0, SESSION default_storage_engine = InnoDB,"
    # Notes report decimals that LOAD DATA has rounded; their texts have the column's name. A
    # TRUNCATE is a DELETE of all rows.
    " SESSION sql_notes = 1, SESSION max_error_count = 64, SESSION lc_messages = 'en_US', SESSION sql_safe_updates = 0,"
    f" SESSION sql_select_limit = {2**64 - 1}, SESSION wait_timeout = 28800 /*M! , SESSION check_constraint_checks = 1 */"
)
"""Session variables that the server's configuration or the URL could have set so that values are
changed or not checked.
"""


CAPABILITIES: Final = Capabilities(
    database="MariaDB",
    multi_rowcount=True,
    driver_cursor=True,
    signed_zero=False,
    stored_columns=False,
    parallel_ddl=True,
)


def open_mariadb(url: sa.URL) -> Target:
    """Open the database that ``url`` names, with PyMySQL.

    Raises:
        NotSupportedError: the URL asks for another driver.
        UsageError: the URL does not name a database, or it has an option that PyMySQL does not
            know.
    """
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
        except OSError as error:  # a TLS file is missing or unusable
            raise err.OperationalError(CR.CR_SSL_CONNECTION_ERROR, f"{error.strerror or error}") from None

    sa.event.listen(engine, "connect", _on_connect)
    database = str(url.database)
    errors = MariaDBErrors()
    counters = CounterRestarts(engine, errors)
    transactions = MariaDBTransactions(engine, errors, counters)

    def table_roles() -> TableRoles:
        from subscriber.targets.generic.row_versions import GenericRowVersions
        from subscriber.targets.mariadb.bulk import MariaDBBulk
        from subscriber.targets.mariadb.column_values import MariaDBValues
        from subscriber.targets.mariadb.ddl import MariaDBDDL
        from subscriber.targets.mariadb.loading import MariaDBLoading
        from subscriber.targets.mariadb.matching import MariaDBMatching
        from subscriber.targets.mariadb.objects import MariaDBObjects
        from subscriber.targets.mariadb.reading import MariaDBReading
        from subscriber.targets.mariadb.sequences import MariaDBSequences
        from subscriber.targets.mariadb.shapes import MariaDBShapes
        from subscriber.targets.mariadb.writing import MariaDBWriting

        values, writing, ddl = MariaDBValues(), MariaDBWriting(errors, counters), MariaDBDDL(engine)
        matching = MariaDBMatching(ddl)
        return TableRoles(
            shapes=MariaDBShapes(errors),
            values=values,
            matching=matching,
            writing=writing,
            loading=MariaDBLoading(engine, errors, values, writing),
            reading=MariaDBReading(values),
            ddl=ddl,
            sequences=MariaDBSequences(errors),
            row_versions=GenericRowVersions(),
            objects=MariaDBObjects(engine, errors),
            bulk=MariaDBBulk(engine, matching, writing),
        )

    return Target(
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


def _on_connect(connection: Any, _record: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_SESSION)
        cursor.execute("SELECT @@max_allowed_packet")
        (connection.largest_statement,) = cursor.fetchone()


def _adapt(dialect: Any) -> None:
    """Quote every name, and create tables with the character set utf8mb4.

    Every name is quoted because the reserved words depend on the server and its version.
    """

    class _Preparer(dialect.preparer):  # type: ignore[misc]  # a class that is known when it runs
        def _requires_quotes(self, _value: str) -> bool:
            return True

    class _DDLCompiler(dialect.ddl_compiler):  # type: ignore[misc]  # the same
        def post_create_table(self, table: sa.Table) -> str:
            return f"{super().post_create_table(table)} CHARACTER SET utf8mb4"

    dialect.preparer = _Preparer
    dialect.identifier_preparer = _Preparer(dialect)
    dialect.ddl_compiler = _DDLCompiler
