"""PostgreSQL as a target: every value is bound as text of unknown type, which the column's input
function reads without a loss (rule C5).
"""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from subscriber.base.errors import NotSupportedError, TargetUnavailable, UsageError
from subscriber.base.password_command import command_password
from subscriber.targets.base.target import base_roles
from subscriber.targets.capabilities import Capabilities, Limit, Limits, TargetFacts
from subscriber.targets.postgresql.errors import PostgreSQLErrors
from subscriber.targets.postgresql.transactions import (
    PostgreSQLCluster,
    PostgreSQLOrigins,
    PostgreSQLPrepared,
    PostgreSQLRunLock,
    PostgreSQLStatementPipeline,
    PostgreSQLTransactions,
    check_connection,
    reset_origin,
    set_up_session,
)
from subscriber.targets.query_result import QueryResult
from subscriber.targets.target import TableRoles, Target

CAPABILITIES: Final = Capabilities(
    database="PostgreSQL",
    postgresql_text=True,
    postgresql_types=True,
    postgresql_expressions=True,
    standbys=True,
    empty_tables=True,
    multi_rowcount=True,
    row_locks=True,
    driver_cursor=True,
    transactional_ddl=True,
    statement_snapshots=True,
    column_case=True,
    parallel_ddl=True,
    limits=Limits(columns=1_600, key_columns=32, name_length=63, name_in_bytes=True),
)


def open_postgresql(url: sa.URL) -> Target:
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    if url.get_driver_name() != "psycopg":
        raise NotSupportedError(
            f'driver "{url.get_driver_name()}" is not supported for PostgreSQL',
            hint="Write the URL as postgresql+psycopg://...",
        )
    # Positional parameters, because rows are bound as tuples.
    engine = sa.create_engine(url, paramstyle="format", hide_parameters=True, pool_use_lifo=True)
    _check_options(engine)
    sa.event.listen(engine, "do_connect", _connect)
    sa.event.listen(engine, "connect", set_up_session)
    sa.event.listen(engine, "checkout", check_connection)
    sa.event.listen(engine, "checkin", reset_origin)
    errors = PostgreSQLErrors()
    transactions, origins = PostgreSQLTransactions(engine, errors), PostgreSQLOrigins(engine, errors)

    def table_roles() -> TableRoles:
        from subscriber.targets.postgresql import catalog, ddl, objects, writing
        from subscriber.targets.postgresql.values import PostgreSQLValues

        values, matching, write = (
            PostgreSQLValues(),
            writing.PostgreSQLMatching(),
            writing.PostgreSQLWriting(errors),
        )
        return base_roles(
            engine,
            errors,
            values,
            shapes=catalog.PostgreSQLShapes(errors, transactions),
            matching=matching,
            writing=write,
            loading=writing.PostgreSQLLoading(engine, errors, values, write),
            ddl=ddl.PostgreSQLDDL(engine),
            sequences=catalog.PostgreSQLSequences(errors),
            row_versions=catalog.PostgreSQLRowVersions(),
            objects=objects.PostgreSQLObjects(engine, errors),
            bulk=writing.PostgreSQLBulk(engine, errors, transactions, matching, origins),
            deleted_rows=ddl.PostgreSQLDeletedRows(),
        )

    return Target(
        url=url,
        engine=engine,
        capabilities=CAPABILITIES,
        errors=errors,
        transactions=transactions,
        open_table_roles=table_roles,
        read_result=read_server_text,
        read_facts=_read_facts,
        statement_pipeline=PostgreSQLStatementPipeline()
        if engine.dialect.loaded_dbapi.Pipeline.is_supported()
        else None,
        prepared=PostgreSQLPrepared(engine, errors, transactions, origins),
        origins=origins,
        run_lock=PostgreSQLRunLock(engine, errors),
        cluster=PostgreSQLCluster(engine, errors),
    )


def _connect(dialect: Any, _record: object, arguments: list[Any], options: dict[str, Any]) -> Any:
    """With the password that the password command gives now; None lets SQLAlchemy connect."""
    password = command_password(options, TargetUnavailable)
    return None if password is None else dialect.connect(*arguments, **{**options, "password": password})


def _read_facts(connection: sa.Connection) -> TargetFacts:
    version, prepared = connection.execute(
        sa.text("SELECT current_setting('server_version'), current_setting('max_prepared_transactions')::int4")
    ).one()
    remedy = "ALTER SYSTEM SET max_prepared_transactions = 100; -- and restart the target"
    return TargetFacts(version=version, prepared_transactions=Limit("max_prepared_transactions", prepared, remedy))


def _check_options(engine: sa.Engine) -> None:
    options = {
        name: value for name, value in engine.dialect.create_connect_args(engine.url)[1].items() if name != "context"
    }
    psycopg: Any = engine.dialect.dbapi
    conninfo = psycopg.conninfo
    try:
        conninfo.timeout_from_conninfo(conninfo.conninfo_to_dict(conninfo.make_conninfo(**options)))
    except psycopg.ProgrammingError as error:
        # Examples: "invalid connection option …", "bad value for connect_timeout: …"
        raise UsageError(
            f"the target URL cannot be used: {str(error).strip()}",
            hint="The options of a PostgreSQL URL are libpq's, such as ?sslmode=require&connect_timeout=10.",
        ) from None


# Server text -----------------------------------------------------------------------------------


def read_server_text(result: sa.CursorResult[Any]) -> QueryResult:
    """Python values of psycopg would lose infinity and the output format of a type."""
    assert result.cursor is not None
    answer = result.cursor.pgresult
    encoding = result.cursor.connection.info.encoding
    columns = range(answer.nfields)
    return QueryResult(
        tuple(answer.fname(column).decode(encoding) for column in columns),
        tuple(answer.ftype(column) for column in columns),
        [
            tuple(
                None if (value := answer.get_value(row, column)) is None else value.decode(encoding)
                for column in columns
            )
            for row in range(answer.ntuples)
        ],
    )
