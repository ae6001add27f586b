"""PostgreSQL as a target: the server parses PostgreSQL's text itself.

Every value is bound as text of unknown type, so that the column's own input function reads it (rule C5):
no type is too exotic, no precision is lost on the way. The session's DateStyle and IntervalStyle are
those that the replication session writes.

A write transaction runs with ``session_replication_role = replica`` (rule C23). Where the role may not set
it, that is said once, and triggers and foreign keys act as they do for anyone.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.dialects.postgresql import REGCLASS

from subscriber.errors import (
    AlreadyRunning,
    NotSupportedError,
    SubscriberError,
    TargetUnavailable,
    UsageError,
)
from subscriber.lsn import LSN
from subscriber.schema.shape import ColumnShape, SequencePosition, TableShape, UniqueKey
from subscriber.targets.capabilities import Capabilities
from subscriber.targets.declared_columns import check_text_length
from subscriber.targets.loader import BlockFormat, LoadColumn
from subscriber.targets.postgresql.catalog import (
    find_index_of_partition,
    find_named_sequence,
    find_sequence,
    read_row_version,
    read_table,
    read_unique_indexes,
)
from subscriber.targets.postgresql.errors import (
    column_of_parameter,
    explain_prepared,
    translate_copy,
    translate_sqlstate,
)
from subscriber.targets.postgresql.origins import ReplicationOrigins, reset_origin
from subscriber.targets.query_result import QueryResult
from subscriber.targets.target import DurabilityWarning, Target, Touching
from subscriber.targets.target_table import (
    AutoIncrement,
    RowVersion,
    TargetColumn,
    TargetSequence,
    TargetTable,
    UniqueIndex,
)
from subscriber.types import BUILT_IN_TYPES, equality_of, type_name
from subscriber.types.equality import EXACT, NONE, Equality
from subscriber.waiting import prepared
from subscriber.waiting import session as describe_session

logger = logging.getLogger(__name__)

RUN_LOCK_KEY: Final = int.from_bytes(b"subscrib")
"""The advisory lock that a runner holds: eight letters that nobody else picks by accident."""

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
_SAME_IN_BINARY: Final = frozenset(
    {16, 17, 20, 21, 23, 25, 114, 700, 701, 1043, 1082, 1083, 1114, 1184, 1700, 2950, 3802}
)
"""Types whose binary form has been the same in all versions, with the same checks when it is read: a receive function applies the
column's length and scale too. Not interval: a server older than 17 reads a newer one's infinity as a number of years.
"""
_RUN_LOCKED: Final = sa.text(
    "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid::int8 = :high AND objid::int8 = :low"
    " AND objsubid = 1 AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))"
)
"""How pg_locks shows an advisory lock of one 64-bit key."""
_BLOCKING: Final = sa.text(
    "SELECT DISTINCT b.pid, a.usename::text AS user, date_trunc('second', a.xact_start)::text AS since, a.state,"
    " a.application_name AS name FROM unnest(pg_blocking_pids(:session)) b(pid) LEFT JOIN pg_stat_activity a ON a.pid = b.pid"
    " ORDER BY 1"
)
_PREPARED_HERE: Final = sa.text(
    "SELECT gid, owner::text, date_trunc('second', prepared)::text FROM pg_prepared_xacts"
    " WHERE database = current_database() ORDER BY prepared"
)
_SIZED_TEXTS: Final = frozenset({"character varying", "character"})
_BINARY_HEADER: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_BINARY_END: Final = b"\xff\xff"


def open_postgresql(url: sa.URL) -> PostgreSQLTarget:
    """Open the database that ``url`` names, through psycopg 3.

    Raises:
        NotSupportedError: the URL asks for another driver.
        UsageError: it has an option that libpq does not know.
    """
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    if url.get_driver_name() != "psycopg":
        raise NotSupportedError(
            f'driver "{url.get_driver_name()}" is not supported for PostgreSQL',
            hint="Write the URL as postgresql+psycopg://...",
        )
    # Positional parameters: rows are bound as tuples.
    engine = sa.create_engine(url, paramstyle="format", pool_pre_ping=True, hide_parameters=True)
    _check_options(engine)
    sa.event.listen(engine, "connect", _on_connect)
    sa.event.listen(engine, "checkin", reset_origin)
    return PostgreSQLTarget(url, engine)


def _check_options(engine: sa.Engine) -> None:
    options = {
        name: value for name, value in engine.dialect.create_connect_args(engine.url)[1].items() if name != "context"
    }
    psycopg: Any = engine.dialect.dbapi
    conninfo = psycopg.conninfo
    try:
        conninfo.timeout_from_conninfo(conninfo.conninfo_to_dict(conninfo.make_conninfo(**options)))
    except psycopg.ProgrammingError as error:
        # "invalid connection option …", "bad value for connect_timeout: …"
        raise UsageError(
            f"the target URL cannot be used: {str(error).strip()}",
            hint="The options of a PostgreSQL URL are libpq's, such as ?sslmode=require&connect_timeout=10.",
        ) from None


def _on_connect(connection: Any, record: Any) -> None:
    with connection.cursor() as cursor:
        (record.info[_ZONE],) = cursor.execute("SELECT current_setting('TimeZone')").fetchone()
        cursor.execute(_SESSION)
    connection.commit()


class PostgreSQLTarget(Target):
    """A PostgreSQL database."""

    capabilities: ClassVar[Capabilities] = Capabilities(
        database="PostgreSQL",
        postgresql_text=True,
        postgresql_sql=True,
        restart_identity=True,
        transactional_ddl=True,
        multi_rowcount=True,
        run_lock=True,
        prepared_transactions=True,
        statement_snapshots=True,
        column_case=True,
        copy_format="text",
    )

    def __init__(self, url: sa.URL, engine: sa.Engine) -> None:
        super().__init__(url, engine)
        self._may_be_replica: bool | None = None
        self._schema: str | None = None
        self._origins = ReplicationOrigins(engine)

    def prepare_transaction(self, connection: sa.Connection) -> None:
        """Apply as a replica where the role may, and with an empty search_path (rule C23); our own tables stay where they are.

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
        """See :meth:`Target.interrupt`; libpq's cancel, which no server answers but by ending the statement."""
        psycopg: Any = self.engine.dialect.dbapi
        with suppress(exc.SQLAlchemyError, psycopg.Error):  # it may just be closed, or the server be gone
            driver: Any = connection.connection.driver_connection
            driver.cancel_safe(timeout=_CANCEL_SECONDS)

    @contextmanager
    def begin_prepared(self, gid: str) -> Iterator[sa.Connection]:
        """See :meth:`Target.begin_prepared`; PREPARE TRANSACTION."""
        with self.begin() as connection:
            yield connection
            try:
                connection.exec_driver_sql(f"PREPARE TRANSACTION {_literal(gid)}")
            except exc.DBAPIError as error:
                raise explain_prepared(self.translate(error), gid) from None

    def finish_prepared(self, gid: str, *, commit: bool, origin: str | None = None) -> None:
        """See :meth:`Target.finish_prepared`."""
        command = "COMMIT" if commit else "ROLLBACK"
        autocommit = self.engine.execution_options(isolation_level="AUTOCOMMIT")
        try:
            with autocommit.connect() as connection:
                if origin is not None:
                    self.set_origin(connection, origin)
                connection.exec_driver_sql(f"{command} PREPARED {_literal(gid)}")
        except exc.SQLAlchemyError as error:
            raise explain_prepared(self.translate(error), gid) from None

    def free_gid(self, connection: sa.Connection, gid: str) -> str:
        """With the database's name behind it where another database of the cluster has something prepared under this one."""
        with self.reporting():
            database = connection.execute(_TAKEN_ELSEWHERE, {"gid": gid}).scalar_one()
        return gid if database is None else f"{gid}_{database}"

    def prepared_transactions(self, connection: sa.Connection) -> frozenset[str]:
        """Those of this database; names are the cluster's."""
        with self.reporting():
            return frozenset(connection.execute(_PREPARED).scalars())

    def set_origin(self, connection: sa.Connection, name: str) -> None:
        """See :meth:`Target.set_origin`; where the role may not, nothing is marked, which is said once."""
        with self.reporting():
            self._origins.set(connection, name)

    def set_origin_position(self, connection: sa.Connection, lsn: int, timestamp: int | None) -> None:
        """See :meth:`Target.set_origin_position`."""
        if timestamp is not None:
            self._origins.set_position(connection, LSN(lsn), timestamp)

    def other_origin(self, connection: sa.Connection) -> sa.ColumnElement[bool] | None:
        """See :meth:`Target.other_origin`; with ``track_commit_timestamp`` only."""
        return self._origins.others(connection)

    def drop_origin(self, connection: sa.Connection, name: str) -> None:
        """See :meth:`Target.drop_origin`; what its rows are marked with is a number, which may be given again."""
        try:
            self._origins.drop(connection, name)
        except exc.DBAPIError as error:
            logger.warning("a replication origin is left in the target: %s", self.translate(error).message)

    def set_synchronous_commit(self, connection: sa.Connection, value: str) -> None:
        """See :meth:`Target.set_synchronous_commit`."""
        if value != "off":
            connection.execute(sa.select(sa.func.set_config("synchronous_commit", value, True)))

    def durability_warnings(self) -> Sequence[DurabilityWarning]:
        """See :meth:`Target.durability_warnings`; synchronous_commit is our connections' own."""
        with self.reporting(), self.engine.connect() as connection:
            fsync: str = connection.execute(sa.select(sa.func.current_setting("fsync"))).scalar_one()
        if fsync == "on":
            return ()
        return (
            DurabilityWarning(
                "the target may lose committed changes, and all others, when its machine fails: its fsync is off",
                "Run ALTER SYSTEM SET fsync = on and SELECT pg_reload_conf() there. The journal does not keep what is committed.",
            ),
        )

    def reflect(self, connection: sa.Connection, schema: str, table: str) -> TargetTable | None:
        """See :meth:`Target.reflect`."""
        with self.reporting():
            return read_table(connection, schema, table, fires="OA" if self._may_be_replica is False else "RA")

    def unique_indexes(self, connection: sa.Connection, table: TargetTable) -> Sequence[UniqueIndex]:
        """See :meth:`Target.unique_indexes`; expressions and predicates too."""
        return read_unique_indexes(connection, table)

    def row_version(self) -> Sequence[sa.ColumnElement[Any]]:
        """The transaction that inserted the version, and the table or partition that it is in."""
        return sa.literal_column("xmin::text"), sa.literal_column("tableoid::text")

    def read_row_version(
        self, connection: sa.Connection, table: TargetTable, values: Sequence[str | None]
    ) -> RowVersion | None:
        """See :meth:`Target.read_row_version`; when and by which origin is known with ``track_commit_timestamp`` only."""
        return read_row_version(connection, table, *values)

    def index_of_partition(
        self, connection: sa.Connection, table: TargetTable, index: str, leaf: tuple[str, str]
    ) -> str:
        """See :meth:`Target.index_of_partition`; partitions of partitions too."""
        return find_index_of_partition(connection, table, index, leaf)

    def check_column(self, type_oid: int, column: TargetColumn) -> None:
        """Any column will do: its input function accepts the text or raises (rule C5)."""

    def bind_values(self, type_oid: int, column: TargetColumn, values: pa.Array) -> list[Any]:
        """The values' text, for the column's input function.

        Raises:
            UnsupportedValue: a text that is too long, of which the server's error would not name the column.
        """
        del type_oid  # the server knows the column's type and reads it
        texts = as_postgresql_text(values)
        if column.storage in _SIZED_TEXTS:
            check_text_length(column, texts)
        bound: list[Any] = texts.to_pylist()
        return bound

    def equality(self, type_oid: int, column: TargetColumn) -> Equality:
        """See :meth:`Target.equality`; the server compares by the type of its own column, where that can be compared."""
        del type_oid  # the publisher's
        return NONE if column.storage in _WITHOUT_EQUALITY else EXACT

    def found_as_written(self, type_oid: int, table: TargetTable, column: TargetColumn) -> bool:
        """Never: PostgreSQL's worker names every column that was sent, and a trigger that is UPDATE OF the key fires."""
        del type_oid, table, column
        return False

    def equals(
        self, column: TargetColumn, clause: sa.ColumnElement[Any], value: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        """See :meth:`Target.equals`; an operator of an extension's is not found by an empty search_path (rule C23)."""
        typed = _typed(column, value)
        if column.own_operator is None:
            return clause == typed
        return clause.bool_op(f"OPERATOR({column.own_operator})")(typed)

    def is_same(
        self, column: TargetColumn, clause: sa.ColumnElement[Any], value: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        """See :meth:`Target.is_same`; records are compared by their types' own equality, wherever that is, and NULL equals NULL."""
        typed = _typed(column, value)
        if column.own_operator is None:
            return super().is_same(column, clause, typed)
        return _record(_typed(column, clause)) == _record(typed)

    def own_rows(self, table: TargetTable, statement: Touching, clause: sa.FromClause) -> Touching:
        """See :meth:`Target.own_rows`; ONLY, which a partitioned table has no use for."""
        if table.kind == "partitioned table":
            return statement
        if isinstance(statement, sa.Select):
            return statement.with_hint(clause, "ONLY", "postgresql")
        return statement.with_hint("ONLY", dialect_name="postgresql")

    def block_format(self, columns: Sequence[LoadColumn]) -> BlockFormat:
        """Binary, which takes the server hardly more than half the time, where it means the same in every column; else text."""
        same = all(
            load.type_oid in _SAME_IN_BINARY and load.column.storage == type_name(load.type_oid) for load in columns
        )
        return "binary" if columns and same else "text"

    @contextmanager
    def loader(
        self, connection: sa.Connection, table: TargetTable, columns: Sequence[LoadColumn]
    ) -> Iterator[Callable[[bytes], None]]:
        """See :meth:`Target.loader`; COPY, which reads the publisher's text as it is and overrides identities by itself."""
        preparer = connection.dialect.identifier_preparer
        into = preparer.format_table(table.clause())
        if not columns:
            # COPY has no words for rows of which nothing is given.
            yield lambda block: self._insert_defaults(connection, into, block.count(b"\n"))
            return
        names = [load.column.name for load in columns]
        binary = self.block_format(columns) == "binary"
        options = " (FORMAT binary)" if binary else ""
        command = f"COPY {into} ({', '.join(map(preparer.quote, names))}) FROM STDIN{options}"
        driver: Any = connection.connection.driver_connection
        try:
            with driver.cursor() as cursor, cursor.copy(command.encode()) as copy:
                if binary:
                    copy.write(_BINARY_HEADER)
                yield copy.write
                if binary:
                    copy.write(_BINARY_END)
        except connection.dialect.loaded_dbapi.Error as error:
            # The driver's error quotes rows, and must not be printed as the cause.
            raise translate_copy(error, table.name, names) from None

    def _insert_defaults(self, connection: sa.Connection, into: str, count: int) -> None:
        with self.reporting():
            connection.exec_driver_sql(f"INSERT INTO {into} SELECT FROM generate_series(1, {count})")

    def read_result(self, result: sa.CursorResult[Any]) -> QueryResult:
        """The server's own text of every value: psycopg's Python values would lose infinity, and how a type is written."""
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

    def place(self, schema: str, table: str) -> tuple[str | None, str]:
        """Under the same name."""
        return schema, table

    def column_type(self, type_oid: int, type_name: str, *, key: bool = False) -> str:
        """The type itself; text for what somebody has made (CREATE TYPE, CREATE DOMAIN, extensions), which may not be here."""
        del key  # any type will do
        return type_name if type_oid in BUILT_IN_TYPES else "text"

    def expression(self, expression: str, types: Mapping[str, int]) -> str | None:
        """The expression itself, unless it depends on a sequence, or on functions, types or operators that may not be here."""
        del types
        return None if _depends_on_others(expression) else expression

    def unique_constraint(self, key: UniqueKey) -> sa.UniqueConstraint | None:
        """Every kind."""
        return sa.UniqueConstraint(
            *key.columns,
            deferrable=key.deferrable or None,
            postgresql_nulls_not_distinct=not key.nulls_distinct or None,
        )

    def auto_increment(self, shape: TableShape, column: ColumnShape, declared: str) -> AutoIncrement | None:
        """An identity column that takes the publisher's values too."""
        del shape, column
        return AutoIncrement(f"{declared} GENERATED BY DEFAULT AS IDENTITY") if declared in _INTEGERS else None

    def sequence_of(self, connection: sa.Connection, table: TargetTable, column: str) -> TargetSequence | None:
        """See :meth:`Target.sequence_of`: the sequence that the column owns, or that its default takes values from."""
        with self.reporting():
            return find_sequence(connection, table, column)

    def sequence_named(self, connection: sa.Connection, schema: str, name: str) -> TargetSequence | None:
        """See :meth:`Target.sequence_named`."""
        with self.reporting():
            return find_named_sequence(connection, schema, name)

    def set_sequence(self, connection: sa.Connection, sequence: TargetSequence, position: SequencePosition) -> None:
        """See :meth:`Target.set_sequence`."""
        with self.reporting():
            connection.execute(
                sa.select(sa.func.setval(sa.cast(sequence.name, REGCLASS), position.last_value, position.is_called))
            )

    def is_database_of(self, connection: sa.Connection, system_identifier: str, database: str) -> bool:
        """Compare the cluster's identifier and the database's name."""
        with self.reporting():
            here = connection.exec_driver_sql(
                "SELECT system_identifier::text, current_database()::text FROM pg_control_system()"
            ).one()
        return tuple(here) == (system_identifier, database)

    def truncate(self, connection: sa.Connection, tables: Sequence[TargetTable], *, restart_identity: bool) -> None:
        """One TRUNCATE, never CASCADE; inheritance children are left alone, partitions are not (rule C29)."""
        if not tables:
            return
        quote = connection.dialect.identifier_preparer.format_table
        only = {"partitioned table": ""}
        names = [only.get(table.kind, "ONLY ") + quote(table.clause()) for table in tables]
        identity = "RESTART IDENTITY" if restart_identity else "CONTINUE IDENTITY"
        with self.reporting():
            connection.exec_driver_sql(f"TRUNCATE {', '.join(names)} {identity} RESTRICT")

    def override_identity(self, insert: str) -> str:
        """Write GENERATED ALWAYS columns too, as the apply worker does."""
        # Only placeholders follow the last VALUES, so no column's name can be mistaken for it.
        head, values, tail = insert.rpartition(" VALUES (")
        return f"{head} OVERRIDING SYSTEM VALUE{values}{tail}" if values else insert

    @contextmanager
    def run_lock(self) -> Iterator[None]:
        """Hold an advisory lock on a connection of its own."""
        autocommit = self.engine.execution_options(isolation_level="AUTOCOMMIT")
        with self.reporting(), autocommit.connect() as connection:
            if not connection.execute(sa.select(sa.func.pg_try_advisory_lock(RUN_LOCK_KEY))).scalar_one():
                raise AlreadyRunning(
                    f'another "subscriber run" is at work on database "{self.url.database}"',
                    hint="Stop it first; one process runs all subscriptions of a target.",
                )
            try:
                yield
            finally:
                try:
                    connection.execute(sa.select(sa.func.pg_advisory_unlock(RUN_LOCK_KEY)))
                except exc.SQLAlchemyError:
                    connection.invalidate()  # the lock ends with its session, so one that is lost has released it

    def session_id(self, connection: sa.Connection) -> int | None:
        """See :meth:`Target.session_id`; the backend's process."""
        driver: Any = connection.connection.driver_connection
        return int(driver.info.backend_pid)

    def waits_for(self, session: int | None) -> Sequence[str]:
        """See :meth:`Target.waits_for`; ``pg_blocking_pids``."""
        if session is None:
            return ()
        with self.engine.connect() as connection:
            blocking = connection.execute(_BLOCKING, {"session": session}).all()
            found = [
                describe_session(row.pid, row.user, row.since, row.state, name=row.name) for row in blocking if row.pid
            ]
            if len(found) < len(blocking):  # process 0 is a prepared transaction
                found += [prepared(*row) for row in connection.execute(_PREPARED_HERE)]
        return found

    def is_run_locked(self, connection: sa.Connection) -> bool | None:
        """See :meth:`Target.is_run_locked`."""
        halves = {"high": RUN_LOCK_KEY >> 32, "low": RUN_LOCK_KEY & 0xFFFFFFFF}
        return bool(connection.execute(_RUN_LOCKED, halves).scalar_one())

    def translate(self, error: exc.SQLAlchemyError, columns: Sequence[str] = ()) -> SubscriberError:
        """See :meth:`Target.translate`; by SQLSTATE."""
        original = getattr(error, "orig", None)
        sqlstate = getattr(original, "sqlstate", None)
        if isinstance(error, exc.OperationalError) and (sqlstate is None or error.connection_invalidated):
            # libpq's own words on the connection: host, port and user, never a row.
            return TargetUnavailable(
                "PostgreSQL is not available",
                detail=" ".join(str(original).split()),
                hint="Check host, port, user, password and database of the target's URL, and that the server runs.",
            )
        if original is None or sqlstate is None:
            return super().translate(error, columns)
        diag = original.diag
        translated = translate_sqlstate(sqlstate, diag)
        translated.column = translated.column or column_of_parameter(str(diag.context), columns)
        return translated


class _Named(sa.types.UserDefinedType[Any]):
    """A type by its SQL."""

    cache_ok = True

    def __init__(self, name: str) -> None:
        self.name = name

    def get_col_spec(self, **_: object) -> str:
        return self.name.replace("%", "%%")


def _typed(column: TargetColumn, value: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """A value as the column would have it, rounded to its scale; mostly the operator sees to that."""
    return value if column.compared_as is None else sa.cast(value, _Named(column.compared_as))


def _record(value: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    return sa.cast(sa.func.row(value), _Named("record"))


_PREPARED: Final = sa.text("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()")
_TAKEN_ELSEWHERE: Final = sa.text(
    "SELECT max(current_database()::text) FROM pg_prepared_xacts WHERE gid = :gid AND database <> current_database()"
)
_AS_REPLICA: Final = sa.func.set_config("session_replication_role", "replica", True)
_NO_SEARCH_PATH: Final = sa.func.set_config("search_path", "", True)

_WITHOUT_EQUALITY: Final = frozenset({type_name(oid) for oid in BUILT_IN_TYPES if not equality_of(oid).exists})
_INTEGERS: Final = frozenset({"smallint", "integer", "bigint"})


_QUOTED: Final = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*\"""")


def _depends_on_others(expression: str) -> bool:
    """Whether a name with a schema is in it (those of pg_catalog have none), or a sequence."""
    bare = _QUOTED.sub("quoted", expression)
    return re.search(r"\b[A-Za-z_]\w*\.\D", bare) is not None or "nextval(" in bare


def as_postgresql_text(values: pa.Array) -> pa.Array:
    r"""Arrow values as text that PostgreSQL's input functions read: ``t``, ``42``, ``NaN``, ``\x00ff``."""
    if pa.types.is_boolean(values.type):
        return pc.if_else(values, "t", "f")
    if pa.types.is_binary(values.type):
        return pa.array([None if value is None else "\\x" + value.hex() for value in values.to_pylist()], pa.string())
    return values.cast(pa.string())


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
