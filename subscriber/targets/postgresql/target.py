"""PostgreSQL as a target: the server itself parses PostgreSQL's text.

Every value is bound as text of unknown type, so that the column's input function reads it (rule
C5). This works for every type and does not lose precision.
"""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from subscriber.errors import (
    NotSupportedError,
    TargetUnavailable,
    UsageError,
)
from subscriber.password_command import command_password
from subscriber.targets.capabilities import Capabilities
from subscriber.targets.postgresql.cluster import PostgreSQLCluster
from subscriber.targets.postgresql.errors import (
    PostgreSQLErrors,
)
from subscriber.targets.postgresql.origins import PostgreSQLOrigins, reset_origin
from subscriber.targets.postgresql.pipeline import PostgreSQLPipeline
from subscriber.targets.postgresql.prepared import PostgreSQLPrepared
from subscriber.targets.postgresql.run_lock import PostgreSQLRunLock
from subscriber.targets.postgresql.server_text import read_server_text
from subscriber.targets.postgresql.transactions import PostgreSQLTransactions, set_up_session
from subscriber.targets.server_facts import Limit, TargetFacts
from subscriber.targets.table_roles import TableRoles
from subscriber.targets.target import Target

CAPABILITIES: Final = Capabilities(
    database="PostgreSQL",
    postgresql_text=True,
    postgresql_types=True,
    postgresql_expressions=True,
    standbys=True,
    empty_tables=True,
    multi_rowcount=True,
    driver_cursor=True,
    transactional_ddl=True,
    statement_snapshots=True,
    column_case=True,
    parallel_ddl=True,
)


def open_postgresql(url: sa.URL) -> Target:
    """Open the database that ``url`` names, with psycopg 3.

    Raises:
        NotSupportedError: the URL asks for another driver.
        UsageError: the URL has an option that libpq does not know.
    """
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    if url.get_driver_name() != "psycopg":
        raise NotSupportedError(
            f'driver "{url.get_driver_name()}" is not supported for PostgreSQL',
            hint="Write the URL as postgresql+psycopg://...",
        )
    # Positional parameters, because rows are bound as tuples.
    engine = sa.create_engine(url, paramstyle="format", pool_pre_ping=True, hide_parameters=True)
    _check_options(engine)
    sa.event.listen(engine, "do_connect", _connect)
    sa.event.listen(engine, "connect", set_up_session)
    sa.event.listen(engine, "checkin", reset_origin)
    errors = PostgreSQLErrors()
    transactions, origins = PostgreSQLTransactions(engine, errors), PostgreSQLOrigins(engine, errors)

    def table_roles() -> TableRoles:
        from subscriber.targets.generic.reading import GenericReading
        from subscriber.targets.postgresql.bulk import PostgreSQLBulk
        from subscriber.targets.postgresql.column_values import PostgreSQLValues
        from subscriber.targets.postgresql.ddl import PostgreSQLDDL
        from subscriber.targets.postgresql.loading import PostgreSQLLoading
        from subscriber.targets.postgresql.matching import PostgreSQLMatching
        from subscriber.targets.postgresql.objects import PostgreSQLObjects
        from subscriber.targets.postgresql.row_versions import PostgreSQLRowVersions
        from subscriber.targets.postgresql.sequences import PostgreSQLSequences
        from subscriber.targets.postgresql.shapes import PostgreSQLShapes
        from subscriber.targets.postgresql.writing import PostgreSQLWriting

        values, matching, writing = PostgreSQLValues(), PostgreSQLMatching(), PostgreSQLWriting(errors)
        return TableRoles(
            shapes=PostgreSQLShapes(errors, transactions),
            values=values,
            matching=matching,
            writing=writing,
            loading=PostgreSQLLoading(engine, errors, values, writing),
            reading=GenericReading(values),
            ddl=PostgreSQLDDL(engine),
            sequences=PostgreSQLSequences(errors),
            row_versions=PostgreSQLRowVersions(),
            objects=PostgreSQLObjects(engine, errors),
            bulk=PostgreSQLBulk(engine, errors, transactions, matching, origins),
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
        pipeline=PostgreSQLPipeline() if engine.dialect.loaded_dbapi.Pipeline.is_supported() else None,
        prepared=PostgreSQLPrepared(engine, errors, transactions, origins),
        origins=origins,
        run_lock=PostgreSQLRunLock(engine, errors),
        cluster=PostgreSQLCluster(engine, errors),
    )


def _connect(dialect: Any, _record: object, arguments: list[Any], options: dict[str, Any]) -> Any:
    """A connection with the password that the password command gives now. If there is none,
    SQLAlchemy connects.
    """
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
