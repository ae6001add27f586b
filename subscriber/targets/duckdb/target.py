"""DuckDB as a target: one file, one process, several connections in it.

- *Processes.* A process that has the file open keeps all others out. A connection is therefore opened for one transaction and closed
  after it, which costs some twenty milliseconds, and lets ``subscriber sql`` and ``status`` (and the users' own tools) in between.
  Whoever finds the file open elsewhere tries again (:mod:`subscriber.targets.duckdb.connection`). Closing writes no checkpoint: DuckDB
  makes one when its write-ahead log has grown.
  A transaction that copies a large table keeps them out until it ends.
- *Transactions* are optimistic, and several connections of our process write at once: of two that change a row, the later one is refused, and tried again by us. There are no savepoints.
- *Schemas.* ``public`` is ``main``; every other schema is the one of its name.
- *Memory.* The keys that a transaction adds are in memory until it commits, some 40 bytes each, also those of a large copy; the
  rows are not. DuckDB takes what it is allowed: four fifths of the machine's, or ``?memory_limit=2GB`` in the URL.
- *Names* are always quoted. DuckDB finds columns and tables whatever the case of their letters; we compare exactly.
- *Foreign keys* cannot be switched off (unlike rule C23), so rows of a referring table must come after those that they refer to.

duckdb-engine reflects neither columns nor keys with today's versions: shapes are read from ``duckdb_columns()`` and its like.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy import exc

from subscriber.errors import (
    ConflictError,
    SubscriberError,
    TargetError,
    TargetRelationError,
    TargetUnavailable,
    UnsupportedValue,
    UsageError,
)
from subscriber.schema.shape import ColumnShape, SequencePosition, TableShape
from subscriber.targets.capabilities import Capabilities
from subscriber.targets.default_expressions import sqlite_expression
from subscriber.targets.duckdb import values as duckdb_values
from subscriber.targets.file_locks import holders
from subscriber.targets.loader import LoadColumn, read_block
from subscriber.targets.place import hint_at, obstacle
from subscriber.targets.run_lock import is_locked, locked_file
from subscriber.targets.target import Target
from subscriber.targets.target_table import (
    AutoIncrement,
    TableKind,
    TargetColumn,
    TargetSequence,
    TargetTable,
    UniqueIndex,
)
from subscriber.types.equality import EXACT, Equality

_BLOCK_TABLE: Final = "SELECT 1 FROM information_schema.tables WHERE lower(table_name) = 'subscriber_block'"
_BYTE_BY_BYTE: Final = "binary"
"""The collation that is none."""


def leave_quietly() -> None:
    """For a program that ends: DuckDB's module lists, at the interpreter's very end, what daemon threads (Spark's) still refer to.

    That is a hundred lines for nobody, and nothing but standard error takes them away.
    """
    if "duckdb" in sys.modules:
        sys.stderr.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def open_duckdb(url: sa.URL) -> DuckDBTarget:
    """Open the database file that ``url`` names; it is created when it does not exist.

    Raises:
        UsageError: an in-memory database, which would forget the progress with the data.
        ImportError: DuckDB is not installed.
    """
    from subscriber.targets.duckdb.connection import open_file

    if url.database in (None, "", ":memory:") or str(url.database).startswith(":memory:"):
        raise UsageError(
            "an in-memory DuckDB database cannot be a target",
            hint="Name a file: duckdb:////absolute/path.duckdb or duckdb:///relative/path.duckdb.",
        )
    engine = sa.create_engine(url, paramstyle="qmark", poolclass=sa.NullPool, hide_parameters=True)
    _quote_every_name(engine.dialect, Path(str(url.database)).name)

    @sa.event.listens_for(engine, "do_connect")
    def connect(dialect: Any, _record: object, arguments: list[Any], options: dict[str, Any]) -> Any:
        return open_file(str(url.database), partial(dialect.connect, *arguments, **options))

    return DuckDBTarget(url, engine)


def _quote_every_name(dialect: Any, database: str) -> None:
    """Quote names one by one: duckdb-engine takes what has a dot for ``database.schema``, and quotes by a list of words.

    A schema with the database's own name is qualified, since DuckDB takes it for either.
    """

    class _Preparer(dialect.preparer):  # type: ignore[misc]  # duckdb-engine has no types
        def _requires_quotes(self, _value: str) -> bool:
            return True

        def quote_schema(self, schema: str, force: Any = None) -> str:
            del force  # as SQLAlchemy's own
            own = database.partition(".")[0]
            return ".".join(self.quote(name) for name in ([own, schema] if schema.lower() == own.lower() else [schema]))

        format_schema = quote_schema

    dialect.preparer = _Preparer
    dialect.identifier_preparer = _Preparer(dialect)


class DuckDBTarget(Target):
    """A DuckDB database file."""

    real_type_code: ClassVar[Hashable | None] = duckdb_values.FLOAT
    capabilities: ClassVar[Capabilities] = Capabilities(
        database="DuckDB",
        restart_identity=True,
        multi_rowcount=True,
        run_lock=True,
        stored_columns=False,
        transactional_ddl=True,
        savepoints=False,
    )

    def reflect(self, connection: sa.Connection, schema: str, table: str) -> TargetTable | None:
        """See :meth:`Target.reflect`; names compare exactly, though DuckDB's own look-up does not."""
        place = {"schema": _schema(schema), "table": table}
        with self.reporting():
            kind = connection.execute(_RELATION, place).scalar_one_or_none()
            if kind is None:
                return None
            columns = connection.execute(_COLUMNS, place).all()
            key = connection.execute(_KEY, place).scalar_one_or_none()
        kinds: dict[str, TableKind] = {"table": "table", "view": "view"}
        return TargetTable(
            place["schema"],
            table,
            tuple(
                TargetColumn(
                    name=column.column_name,
                    declared_type=column.data_type,
                    storage=self.storage(column.data_type),
                    nullable=column.is_nullable,
                    generated=bool(column.is_generated),
                    required=not (column.is_nullable or column.is_generated or column.has_default),
                )
                for column in columns
            ),
            tuple(key) if key else None,
            kinds[kind],
            locator=None if any(column.column_name.lower() == "rowid" for column in columns) else "rowid",
        )

    def unique_indexes(self, connection: sa.Connection, table: TargetTable) -> Sequence[UniqueIndex]:
        """See :meth:`Target.unique_indexes`; what an index of expressions is about is left out."""
        place = {"schema": table.schema, "table": table.name}
        found = [UniqueIndex(row.name, tuple(row.keys)) for row in connection.execute(_UNIQUE_CONSTRAINTS, place)]
        names = {column.name for column in table.columns}
        for name, text in connection.execute(_UNIQUE_INDEXES, place):
            keys = tuple(key.strip('"') for key in text.strip("[]").split(", "))
            if names.issuperset(keys):
                found.append(UniqueIndex(name, keys))
        return found

    def check_column(self, type_oid: int, column: TargetColumn) -> None:
        """See :func:`subscriber.targets.duckdb.values.check_column`."""
        duckdb_values.check_column(type_oid, column)

    def bind_values(self, type_oid: int, column: TargetColumn, values: pa.Array) -> list[Any]:
        """See :func:`subscriber.targets.duckdb.values.bind_values`."""
        return duckdb_values.bind_values(type_oid, column, values)

    def readable(self, column: TargetColumn) -> sa.ColumnElement[Any]:
        """Dates and times as text: Python has neither infinities nor years before Christ, and DuckDB gives others instead.

        JSON too, whose null its module takes for NULL.
        """
        name: sa.ColumnClause[Any] = sa.column(column.name)
        if column.storage == "JSON":
            return sa.cast(name, sa.Text()).label(column.name)
        if column.storage not in duckdb_values.TEMPORAL:
            return name
        return sa.func.regexp_replace(sa.cast(name, sa.Text()), r"^(\S+) \(BC\)(.*)$", r"\1\2 BC").label(column.name)

    def equality(self, type_oid: int, column: TargetColumn) -> Equality:
        """See :meth:`Target.equality`; a DECIMAL compares as numeric does."""
        return EXACT if column.storage == duckdb_values.DECIMAL else super().equality(type_oid, column)

    def comparable(self, column: TargetColumn, clause: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
        """See :meth:`Target.comparable`; texts byte by byte, whatever collation the column, or the database, has."""
        return sa.collate(clause, _BYTE_BY_BYTE) if column.storage == duckdb_values.VARCHAR else clause

    def equals(
        self, column: TargetColumn, clause: sa.ColumnElement[Any], value: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        """See :meth:`Target.equals`; DuckDB's indexes know of no collation, its ``=`` does."""
        return self.comparable(column, clause) == value

    def found_as_written(self, type_oid: int, table: TargetTable, column: TargetColumn) -> bool:
        """See :meth:`Target.found_as_written`; there are no triggers."""
        del table
        return column.storage in duckdb_values.STORED_ALIKE and self.equality(type_oid, column) == EXACT

    @contextmanager
    def loader(
        self, connection: sa.Connection, table: TargetTable, columns: Sequence[LoadColumn]
    ) -> Iterator[Callable[[bytes], None]]:
        """See :meth:`Target.loader`; DuckDB reads the block's Arrow memory itself."""
        import duckdb

        with self.reporting():
            if connection.exec_driver_sql(_BLOCK_TABLE).first() is not None:
                raise TargetRelationError(
                    'the name "subscriber_block" is taken',
                    sqlstate="42P07",
                    hint="Blocks of a copy go by it: rename the table or view of that name.",
                )
        driver: Any = connection.connection.driver_connection
        insert = self._insert_from_block(table, [one.column for one in columns])

        def load(block: bytes) -> None:
            batch = read_block(block)
            arrays = [
                duckdb_values.as_stored(one.type_oid, one.column, values)
                for one, values in zip(columns, batch.columns, strict=True)
            ]
            names = [f"c{number}" for number in range(len(arrays))]
            # DuckDB finds it by the variable's name, unless it has a table of that name; what is registered it keeps until the commit.
            subscriber_block = pa.Table.from_arrays(arrays, names=names)
            try:
                driver.execute(insert)
            except duckdb.Error as error:
                raise self._translate_driver(error) from None
            del subscriber_block

        yield load

    def _insert_from_block(self, table: TargetTable, columns: Sequence[TargetColumn]) -> str:
        quote = self.engine.dialect.identifier_preparer
        names = ", ".join(quote.quote(column.name) for column in columns)
        casts = ", ".join(f"CAST(c{number} AS {column.declared_type})" for number, column in enumerate(columns))
        return f"INSERT INTO {quote.format_table(table.clause())} ({names}) SELECT {casts} FROM subscriber_block"

    def interrupt(self, connection: sa.Connection) -> None:
        """See :meth:`Target.interrupt`."""
        import duckdb

        with suppress(exc.SQLAlchemyError, duckdb.Error):  # it may just be closed
            driver: Any = connection.connection.driver_connection
            driver.interrupt()

    # New tables -----------------------------------------------------------------------------------------

    def place(self, schema: str, table: str) -> tuple[str | None, str]:
        """See :meth:`Target.place` and the module."""
        return None if schema == "public" else schema, table

    def column_type(self, type_oid: int, type_name: str, *, key: bool = False) -> str:
        """See :func:`subscriber.targets.duckdb.values.declaration`."""
        del key  # any type will do
        return duckdb_values.declaration(type_oid, type_name)

    def storage(self, declared: str) -> str:
        """See :func:`subscriber.targets.duckdb.values.storage`."""
        return duckdb_values.storage(declared)

    def expression(self, expression: str, types: Mapping[str, int]) -> str | None:
        """What means the same in SQLite means the same here; see :mod:`subscriber.targets.default_expressions`."""
        return sqlite_expression(expression, types, self.engine.dialect.identifier_preparer.quote)

    def literal(self, value: Any) -> str | None:
        """See :meth:`Target.literal`; blobs too, and a backslash is an ordinary character."""
        match value:
            case bytes():
                return f"from_hex('{value.hex()}')"
            case str() if "\0" not in value:
                return "'" + value.replace("'", "''") + "'"
            case _:
                return super().literal(value)

    def auto_increment(self, shape: TableShape, column: ColumnShape, declared: str) -> AutoIncrement | None:
        """A sequence of ours that the column's default takes values from; it outlives its table, and begins anew with the next."""
        name = self.engine.dialect.identifier_preparer.quote(f"subscriber.{shape.qualified_name}.{column.name}")
        create = sa.DDL(f"CREATE OR REPLACE SEQUENCE {name}".replace("%", "%%"))  # type: ignore[no-untyped-call]  # SQLAlchemy left it out
        return AutoIncrement(f"{declared} DEFAULT nextval({self.literal(name)})", before=(create,))

    # -------------------------------------------------------------------------------------------------

    def sequence_of(self, connection: sa.Connection, table: TargetTable, column: str) -> TargetSequence | None:
        """See :meth:`Target.sequence_of`: the sequence that the column's default takes values from."""
        with self.reporting():
            written = _sequence_of(connection, table, column)
            found = written and next(
                (one for one in connection.execute(_SEQUENCES) if written in _spellings(connection, one)), None
            )
        if not written or not found:
            return None
        last = found.last_value
        position = SequencePosition(
            last_value=found.first if last is None else last, is_called=last is not None, increment=found.increment_by
        )
        return TargetSequence(written, position, found.min_value, found.max_value)

    def set_sequence(self, connection: sa.Connection, sequence: TargetSequence, position: SequencePosition) -> None:
        """See :meth:`Target.set_sequence`; at once, whatever becomes of the transaction."""
        last, called = position.last_value, position.is_called
        before = last - sequence.position.increment
        if not called and sequence.least <= before <= sequence.greatest:
            last, called = before, True  # DuckDB does not tell of a value that is still to come
        with self.reporting():
            connection.execute(_SET_SEQUENCE, {"sequence": sequence.name, "last": last, "called": called})

    def truncate(self, connection: sa.Connection, tables: Sequence[TargetTable], *, restart_identity: bool) -> None:
        """See :meth:`Target.truncate`; sequences start again from their MINVALUE at once, whatever becomes of the transaction."""
        with self.reporting():
            for table in tables:
                _check_references(connection, table, tables)
            super().truncate(connection, tables, restart_identity=restart_identity)
            if restart_identity:
                for table in tables:
                    _restart_sequences(connection, table)

    @property
    def status_file(self) -> Path:
        """See :attr:`Target.status_file`; beside the file of :meth:`run_lock`."""
        return Path(f"{self.url.database}.subscriber-status")

    @contextmanager
    def run_lock(self) -> Iterator[None]:
        """Hold an advisory lock on ``<file>.subscriber-lock``: the database's own is given up between transactions."""
        with locked_file(str(self.url.database)):
            yield

    def waits_for(self, session: int | None) -> Sequence[str]:
        """See :meth:`Target.waits_for`; the processes that have the file locked."""
        del session
        return holders(str(self.url.database))

    def is_run_locked(self, connection: sa.Connection) -> bool | None:
        """See :meth:`Target.is_run_locked`."""
        del connection
        return is_locked(str(self.url.database))

    def translate(self, error: exc.SQLAlchemyError, columns: Sequence[str] = ()) -> SubscriberError:
        """See :meth:`Target.translate`; by the class of DuckDB's exception."""
        original = getattr(error, "orig", None)
        return super().translate(error, columns) if original is None else self._translate_driver(original)

    def _translate_driver(self, error: BaseException) -> SubscriberError:
        return _translate(type(error).__name__, str(error), str(self.url.database))


# The catalog ----------------------------------------------------------------------------------------

_RELATION: Final = sa.text(
    "SELECT 'table' FROM duckdb_tables() WHERE database_name = current_database()"
    " AND schema_name = :schema AND table_name = :table"
    " UNION ALL SELECT 'view' FROM duckdb_views() WHERE database_name = current_database()"
    " AND schema_name = :schema AND view_name = :table"
)
_COLUMNS: Final = sa.text(
    "SELECT column_name, data_type, is_nullable, is_generated, column_default IS NOT NULL AS has_default FROM duckdb_columns()"
    " WHERE database_name = current_database() AND schema_name = :schema AND table_name = :table ORDER BY column_index"
)
_KEY: Final = sa.text(
    "SELECT constraint_column_names FROM duckdb_constraints() WHERE database_name = current_database()"
    " AND schema_name = :schema AND table_name = :table AND constraint_type = 'PRIMARY KEY'"
)
_UNIQUE_CONSTRAINTS: Final = sa.text(
    "SELECT constraint_name AS name, constraint_column_names AS keys FROM duckdb_constraints()"
    " WHERE database_name = current_database() AND schema_name = :schema AND table_name = :table"
    " AND constraint_type IN ('PRIMARY KEY', 'UNIQUE') ORDER BY constraint_type, constraint_index"
)
_UNIQUE_INDEXES: Final = sa.text(
    "SELECT index_name, expressions FROM duckdb_indexes() WHERE database_name = current_database()"
    " AND schema_name = :schema AND table_name = :table AND is_unique ORDER BY index_oid"
)
_REFERENCES: Final = sa.text(
    "SELECT DISTINCT table_name FROM duckdb_constraints() WHERE database_name = current_database()"
    " AND schema_name = :schema AND constraint_type = 'FOREIGN KEY' AND referenced_table = :table"
)


def _schema(schema: str) -> str:
    return "main" if schema == "public" else schema


def _check_references(connection: sa.Connection, table: TargetTable, truncated: Sequence[TargetTable]) -> None:
    # A foreign key cannot leave its schema.
    place = {"schema": table.schema, "table": table.name}
    referencing = set(connection.execute(_REFERENCES, place).scalars())
    referencing -= {other.name for other in truncated if other.schema == table.schema}
    if referencing:
        raise ConflictError(
            "cannot truncate a table referenced in a foreign key constraint",
            sqlstate="0A000",
            detail=f'Table "{min(referencing)}" references "{table.name}".',
            hint="Truncate the referencing table at the publisher in the same command.",
        )


_DEFAULT: Final = sa.text(
    "SELECT column_default FROM duckdb_columns() WHERE database_name = current_database()"
    " AND schema_name = :schema AND table_name = :table AND column_name = :column"
)
_SEQUENCES: Final = sa.text(
    # DuckDB 2.0 forgets START when it opens the file again; the first value by default is the last resort.
    "SELECT schema_name, sequence_name, CASE WHEN increment_by > 0 THEN min_value ELSE max_value END AS first,"
    " increment_by, min_value, max_value, last_value FROM duckdb_sequences() WHERE database_name = current_database()"
)
_SET_SEQUENCE: Final = sa.text("SELECT setval(:sequence, :last, :called)")


def _sequence_of(connection: sa.Connection, table: TargetTable, column: str) -> str | None:
    """The sequence that a column's default takes values from, as the default writes it."""
    place = {"schema": table.schema, "table": table.name, "column": column}
    default = connection.execute(_DEFAULT, place).scalar_one_or_none()
    found = re.fullmatch(r"nextval\('((?:[^']|'')+)'\)", default or "")
    return found[1].replace("''", "'") if found else None


def _restart_sequences(connection: sa.Connection, table: TargetTable) -> None:
    names = {_sequence_of(connection, table, column.name) for column in table.columns} - {None}
    if not names:
        return
    for found in connection.execute(_SEQUENCES).all():
        for name in names & _spellings(connection, found):
            connection.execute(_SET_SEQUENCE, {"sequence": name, "last": found.first, "called": False})


def _spellings(connection: sa.Connection, sequence: sa.Row[Any]) -> set[str]:
    """How a column's default may write the name of a sequence."""
    quote = connection.dialect.identifier_preparer.quote
    schema, name = sequence.schema_name, sequence.sequence_name
    return {name, quote(name), f"{schema}.{name}", f"{quote(schema)}.{quote(name)}"}


# Errors -------------------------------------------------------------------------------------------

_CONSTRAINTS: Final = (
    ("Duplicate key", "23505", "duplicate key value violates unique constraint"),
    ("PRIMARY KEY or UNIQUE constraint", "23505", "duplicate key value violates unique constraint"),
    ("NOT NULL constraint failed", "23502", "null value violates not-null constraint"),
    ("Violates foreign key constraint", "23503", "change violates foreign key constraint"),
    ("CHECK constraint failed", "23514", "new row violates check constraint"),
)
_VALUES: Final = frozenset(
    {"ConversionException", "OutOfRangeException", "InvalidInputException", "TypeMismatchException"}
)
_UNKNOWN_OPTION: Final = re.compile(r'unrecognized configuration parameter "(\w+)"')
_UNAVAILABLE: Final = frozenset({"IOException", "ResourceInUseException", "InterruptException", "ConnectionException"})


def _translate(kind: str, text: str, database: str) -> SubscriberError:
    if kind == "ConstraintException":
        for words, sqlstate, message in _CONSTRAINTS:
            if words in text:
                null = re.search(r"NOT NULL constraint failed: .*\.([^.\n]+)", text)
                column = null[1] if null and sqlstate == "23502" else None
                return ConflictError(message, sqlstate=sqlstate, column=column)
        return ConflictError("a constraint of DuckDB forbids the change", sqlstate="23000")
    if kind in _VALUES:
        return UnsupportedValue("a value does not fit the column's type", sqlstate="22000")
    if kind == "TransactionException":
        return TargetUnavailable(
            "another transaction changed the same rows of the DuckDB database",
            sqlstate="40001",
            hint="It will be tried again.",
        )
    if kind == "OutOfMemoryException":
        return TargetUnavailable(
            f"DuckDB has reached its memory limit with the database {database}",
            sqlstate="53200",
            hint="Let it have more, such as duckdb:///….duckdb?memory_limit=8GB; the change will be tried again.",
        )
    if kind == "CatalogException" and "already exists" in text:
        return TargetError(
            "DuckDB has a table or a column of this name already",
            sqlstate="42P07",
            hint="Letters of both cases are the same in its names. A table gets another name here with the option map.",
        )
    if kind in _UNAVAILABLE:
        if "not a valid DuckDB database file" in text:
            return TargetError(
                f"{database} is not a DuckDB database",
                hint="Name another file in the target's URL; this one stays as it is.",
            )
        found = obstacle(database) if kind == "IOException" else None
        return TargetUnavailable(
            f"the DuckDB database {database} is not available ({kind})",
            hint="Another process may have it open, or its disk may be full; the change will be tried again."
            if found is None
            else hint_at(found, "duckdb"),
        )
    if kind == "CatalogException" and (unknown := _UNKNOWN_OPTION.search(text)):
        return TargetError(
            f'DuckDB does not know the option "{unknown[1]}" of the target URL',
            hint="An option is a setting of DuckDB's, such as duckdb:///….duckdb?memory_limit=2GB.",
        )
    if kind == "CatalogException":
        # What is not there, or there already: the first line has names only, and the others quote the statement.
        return TargetError(text.partition("\n")[0].removeprefix("Catalog Error: "), hint=f"The database is {database}.")
    return TargetError(f"DuckDB refused a statement ({kind})", hint=f"The database is {database}.")
