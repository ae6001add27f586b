"""PostgreSQL as a target: the server parses PostgreSQL's text itself.

Every value is bound as text of unknown type, so that the column's own input function reads it (rule C5):
no type is too exotic, no precision is lost on the way. The session's DateStyle, IntervalStyle and
TimeZone are set to what the replication session writes.

A write transaction runs with ``session_replication_role = replica`` (rule C23). Where the role may not set
it, that is said once, and triggers and foreign keys act as they do for anyone.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa
from sqlalchemy import exc

from subscriber.errors import (
    AlreadyRunning,
    ConflictError,
    NotSupportedError,
    SubscriberError,
    TargetError,
    TargetRelationError,
    TargetUnavailable,
    UnsupportedValue,
)
from subscriber.target.capabilities import Capabilities
from subscriber.target.table import TableKind, TargetColumn, TargetTable
from subscriber.target.target import Target
from subscriber.types import BUILT_IN_TYPES
from subscriber.types.shape import UniqueKey

logger = logging.getLogger(__name__)

RUN_LOCK_KEY: Final = int.from_bytes(b"subscrib")
"""The advisory lock that a runner holds: eight letters that nobody else picks by accident."""

_SESSION: Final = (
    "SET datestyle = 'ISO, MDY'; SET intervalstyle = 'postgres'; SET timezone = 'UTC'; SET client_encoding = 'UTF8'"
)
_KINDS: Final[dict[str, TableKind]] = {"r": "table", "p": "partitioned table", "v": "view"}


def open_postgresql(url: sa.URL) -> PostgreSQLTarget:
    """Open the database that ``url`` names, through psycopg 3.

    Raises:
        NotSupportedError: the URL asks for another driver.
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
    sa.event.listen(engine, "connect", _on_connect)
    return PostgreSQLTarget(url, engine)


def _on_connect(connection: Any, _record: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_SESSION)
    connection.commit()


class PostgreSQLTarget(Target):
    """A PostgreSQL database."""

    capabilities: ClassVar[Capabilities] = Capabilities(
        database="PostgreSQL",
        postgresql_text=True,
        restart_identity=True,
        multi_rowcount=True,
        run_lock=True,
    )

    def __init__(self, url: sa.URL, engine: sa.Engine) -> None:
        super().__init__(url, engine)
        self._may_be_replica: bool | None = None

    def prepare_transaction(self, connection: sa.Connection) -> None:
        """Apply as a replica where the role may (rule C23)."""
        set_role = "SET LOCAL session_replication_role = replica"
        if self._may_be_replica is None:
            try:
                with connection.begin_nested():
                    connection.exec_driver_sql(set_role)
                self._may_be_replica = True
            except exc.ProgrammingError:
                self._may_be_replica = False
                logger.warning("the target's role may not set session_replication_role: triggers and foreign keys act")
        elif self._may_be_replica:
            connection.exec_driver_sql(set_role)

    def reflect(self, connection: sa.Connection, schema: str, table: str) -> TargetTable | None:
        """See :meth:`Target.reflect`."""
        with self.reporting():
            row = connection.execute(_RELATION, {"schema": schema, "table": table}).one_or_none()
            if row is None:
                return None
            columns = connection.execute(_COLUMNS, {"oid": row.oid}).all()
            key = connection.execute(_KEY, {"oid": row.oid}).scalars().all()
        return TargetTable(
            schema,
            table,
            tuple(_column(*column) for column in columns),
            tuple(key) or None,
            _KINDS.get(row.relkind, "other"),
            # A ctid is unique within one partition only.
            locator="ctid" if row.relkind == "r" else None,
        )

    def check_column(self, type_oid: int, column: TargetColumn) -> None:
        """Any column will do: its input function accepts the text or raises (rule C5)."""

    def bind_values(self, type_oid: int, column: TargetColumn, values: pa.Array) -> list[Any]:
        """The values' text, for the column's input function."""
        del type_oid, column  # the server knows the column's type and reads it
        bound: list[Any] = as_postgresql_text(values).to_pylist()
        return bound

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
                connection.execute(sa.select(sa.func.pg_advisory_unlock(RUN_LOCK_KEY)))

    def translate(self, error: exc.SQLAlchemyError, columns: Sequence[str] = ()) -> SubscriberError:
        """See :meth:`Target.translate`; by SQLSTATE."""
        original = getattr(error, "orig", None)
        sqlstate = getattr(original, "sqlstate", None)
        if isinstance(error, exc.OperationalError) and (sqlstate is None or error.connection_invalidated):
            # libpq's own words on the connection: host, port and user, never a row.
            return TargetUnavailable("PostgreSQL is not available", detail=" ".join(str(original).split()))
        if original is None or sqlstate is None:
            return super().translate(error, columns)
        diag = original.diag
        translated = _translate(sqlstate, diag)
        translated.column = translated.column or _column_of_parameter(str(diag.context), columns)
        return translated


_RELATION: Final = sa.text(
    "SELECT c.oid, c.relkind::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE n.nspname = :schema AND c.relname = :table AND c.relkind NOT IN ('i', 'I', 'c', 't')"
)
_COLUMNS: Final = sa.text(
    "SELECT attname, format_type(atttypid, atttypmod), NOT attnotnull, attgenerated <> '', attidentity = 'a'"
    " FROM pg_attribute WHERE attrelid = :oid AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
)
_KEY: Final = sa.text(
    # The local replica identity index, else the primary key (rule C11).
    "SELECT a.attname FROM (SELECT i.indexrelid FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid"
    " WHERE i.indrelid = :oid AND i.indisvalid AND (i.indisprimary OR (i.indisreplident AND c.relreplident = 'i'))"
    " ORDER BY i.indisreplident AND c.relreplident = 'i' DESC LIMIT 1) k"
    " JOIN pg_attribute a ON a.attrelid = k.indexrelid"
    " WHERE a.attnum <= (SELECT indnkeyatts FROM pg_index WHERE indexrelid = k.indexrelid) ORDER BY a.attnum"
)


_QUOTED: Final = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*\"""")


def _depends_on_others(expression: str) -> bool:
    """Whether a name with a schema is in it (those of pg_catalog have none), or a sequence."""
    bare = _QUOTED.sub("quoted", expression)
    return re.search(r"\b[A-Za-z_]\w*\.\D", bare) is not None or "nextval(" in bare


def _column(name: str, declared: str, nullable: bool, generated: bool, identity_always: bool) -> TargetColumn:
    storage = declared.partition("(")[0]
    return TargetColumn(name, declared, storage, nullable, generated=generated, identity_always=identity_always)


def as_postgresql_text(values: pa.Array) -> pa.Array:
    r"""Arrow values as text that PostgreSQL's input functions read: ``t``, ``42``, ``NaN``, ``\x00ff``."""
    if pa.types.is_boolean(values.type):
        return pc.if_else(values, "t", "f")
    if pa.types.is_binary(values.type):
        return pa.array([None if value is None else "\\x" + value.hex() for value in values.to_pylist()], pa.string())
    return values.cast(pa.string())


_VALUE_ERRORS: Final = {
    "22001": "value too long for the column's type",
    "22003": "value out of range for the column's type",
    "22007": "invalid input syntax for the column's type",
    "22008": "date/time field value out of range",
    "22021": "character not in the target's encoding",
    "22P02": "invalid input syntax for the column's type",
    "22P05": "character has no equivalent in the target's encoding",
}


def _translate(sqlstate: str, diag: Any) -> SubscriberError:
    match sqlstate[:2]:
        case "23":
            return _constraint(sqlstate, diag)
        case "22":
            return UnsupportedValue(_VALUE_ERRORS.get(sqlstate, "the target cannot hold a value"), sqlstate=sqlstate)
        case "42" | "0A":
            # Messages of these classes are about names and types, never about rows.
            return TargetRelationError(str(diag.message_primary), sqlstate=sqlstate)
        case "08" | "28" | "40" | "53" | "55" | "57" | "58" if sqlstate != "55000":
            return TargetUnavailable(f"PostgreSQL is not available (SQLSTATE {sqlstate})", sqlstate=sqlstate)
        case _:
            return TargetError(f"PostgreSQL refused a statement (SQLSTATE {sqlstate})", sqlstate=sqlstate)


def _column_of_parameter(context: str, columns: Sequence[str]) -> str | None:
    # "unnamed portal parameter $2 = ...": the number is ours to use, the value is not.
    found = re.match(r"(?:un)?named portal parameter \$(\d+)", context)
    return columns[int(found[1]) - 1] if found and int(found[1]) <= len(columns) else None


def _constraint(sqlstate: str, diag: Any) -> ConflictError:
    name, table, column = diag.constraint_name, diag.table_name, diag.column_name
    messages = {
        "23502": f'null value in column "{column}" of relation "{table}" violates not-null constraint',
        "23503": f'change of table "{table}" violates foreign key constraint "{name}"',
        "23505": f'duplicate key value violates unique constraint "{name}"',
        "23514": f'new row for relation "{table}" violates check constraint "{name}"',
        "23P01": f'conflicting key value violates exclusion constraint "{name}"',
    }
    message = messages.get(sqlstate, f"a constraint forbids the change (SQLSTATE {sqlstate})")
    detail = f'Key already exists in unique index "{name}".' if sqlstate == "23505" else None
    return ConflictError(message, sqlstate=sqlstate, detail=detail, column=column)
