"""SQLite as a target: one file, one writer, no types to speak of.

- *Transactions.* The driver's own idea of when to begin is switched off; a write transaction is
  ``BEGIN IMMEDIATE``, so that the lock is had (or refused, after 5 s) before anything is read.
- *Schemas.* ``public`` is the database itself. Table ``t`` of another schema ``s`` is the table named
  ``"s.t"``, or table ``t`` of an attached database ``s``.
- *Side effects* (rule C23). Foreign keys are off on our connections, as PostgreSQL's apply worker does not
  enforce them; triggers fire, because SQLite cannot switch them off from here.
- *TRUNCATE* is DELETE without WHERE; RESTRICT is checked against every table's foreign keys (rule C30).

The journal mode is the user's choice and left alone.
"""

from __future__ import annotations

import re
import sqlite3
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, Final

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.schema import ExecutableDDLElement
from sqlglot import TokenType, tokenize
from sqlglot.errors import SqlglotError

from subscriber.errors import (
    ConflictError,
    SubscriberError,
    TargetError,
    TargetUnavailable,
    UnsupportedValue,
    UsageError,
)
from subscriber.schema.shape import ColumnShape, SequencePosition, TableShape, UniqueKey
from subscriber.targets.capabilities import Capabilities
from subscriber.targets.default_expressions import sqlite_expression
from subscriber.targets.file_locks import holders
from subscriber.targets.loader import LoadColumn, bind_block, insert_statement, read_block
from subscriber.targets.place import hint_at, obstacle
from subscriber.targets.run_lock import is_locked, locked_file
from subscriber.targets.sqlite import values as sqlite_values
from subscriber.targets.sqlite.keywords import KEYWORDS
from subscriber.targets.target import Target, Writing
from subscriber.targets.target_table import AutoIncrement, TableKind, TargetColumn, TargetSequence, TargetTable
from subscriber.types import family_of
from subscriber.types.equality import EXACT

BUSY_TIMEOUT: Final = 5.0
"""Seconds to wait for another writer before the target counts as unavailable."""

CACHE_KIB: Final = 65_536
"""Page cache of a connection: enough that a batch of 64 MiB rarely spills and takes the exclusive lock early."""

_KINDS: Final[dict[str, TableKind]] = {"table": "table", "view": "view", "virtual": "virtual table"}
_LOCATORS: Final = ("rowid", "_rowid_", "oid")
_IMMEDIATE: Final = "subscriber_begin_immediate"
_BINARY: Final = "BINARY"
_KEY_COLLATIONS: Final = sa.text(
    "SELECT x.name, x.coll FROM pragma_index_list(:name, :database) AS i, pragma_index_xinfo(i.name, :database) AS x"
    " WHERE i.origin = 'pk' AND x.key"
)


def open_sqlite(url: sa.URL) -> SQLiteTarget:
    """Open the database file that ``url`` names; it is created when it does not exist.

    Raises:
        UsageError: an in-memory database, which would forget the progress with the data.
    """
    if url.database in (None, "", ":memory:") or url.query.get("mode") == "memory":
        raise UsageError(
            "an in-memory SQLite database cannot be a target",
            hint="Name a file: sqlite:////absolute/path.db or sqlite:///relative/path.db.",
        )
    with warnings.catch_warnings():
        # SQLAlchemy passes over what it does not know.
        warnings.simplefilter("error", exc.SAWarning)
        try:
            engine = sa.create_engine(url, connect_args={"timeout": BUSY_TIMEOUT}, hide_parameters=True)
        except exc.SAWarning:
            raise UsageError(
                f"the target URL has options that SQLite does not know, among {', '.join(sorted(url.query))}",
                hint="The options of SQLite's own URIs take effect only with uri=true, and the path as file:/….",
            ) from None
    preparer = engine.dialect.identifier_preparer
    preparer.reserved_words = preparer.reserved_words | KEYWORDS
    sa.event.listen(engine, "connect", _on_connect)
    sa.event.listen(engine, "begin", _on_begin)
    return SQLiteTarget(url, engine)


def new_database(file: Path) -> None:
    """An empty database in place of what there is under that name; nobody may have it open.

    Write-ahead logging lets others read while a batch is written. It is a property of the file, so this is asked once.
    """
    for leftover in (file, Path(f"{file}-wal"), Path(f"{file}-shm")):
        leftover.unlink(missing_ok=True)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")


def _on_connect(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys = OFF")
    # The journal is trimmed behind a commit, so that must be on disk: some builds' default is NORMAL.
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")


def _on_begin(connection: sa.Connection) -> None:
    immediate = connection.get_execution_options().get(_IMMEDIATE, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


class SQLiteTarget(Target):
    """A SQLite database file."""

    capabilities: ClassVar[Capabilities] = Capabilities(
        database="SQLite",
        restart_identity=True,
        multi_rowcount=True,
        signed_zero=False,
        single_writer=True,
        run_lock=True,
        lenient_foreign_keys=True,
        transactional_ddl=True,
    )

    def _write_engine(self) -> sa.Engine:
        return self.engine.execution_options(**{_IMMEDIATE: True})

    def reflect(self, connection: sa.Connection, schema: str, table: str) -> TargetTable | None:
        """See :meth:`Target.reflect`; names compare exactly, though SQLite's own look-up does not."""
        with self.reporting():
            for database, name in _places(schema, table):
                found = _table_list(connection, database, name)
                if found is not None:
                    return _reflect(connection, database, name, *found)
        return None

    def check_column(self, type_oid: int, column: TargetColumn) -> None:
        """See :func:`subscriber.targets.sqlite.values.check_column`."""
        sqlite_values.check_column(type_oid, column)

    def bind_values(self, type_oid: int, column: TargetColumn, values: pa.Array) -> list[Any]:
        """See :func:`subscriber.targets.sqlite.values.bind_values`."""
        return sqlite_values.bind_values(type_oid, column, values)

    def comparable(self, column: TargetColumn, clause: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
        """See :meth:`Target.comparable`; letter by letter."""
        del column
        return sa.collate(clause, _BINARY)

    def equals(
        self, column: TargetColumn, clause: sa.ColumnElement[Any], value: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        """See :meth:`Target.equals`; as the key's index does."""
        return (clause if column.key_collation is None else sa.collate(clause, column.key_collation)) == value

    def found_as_written(self, type_oid: int, table: TargetTable, column: TargetColumn) -> bool:
        """See :meth:`Target.found_as_written`; integers, and texts that the key's index tells apart letter by letter."""
        if table.may_watch_columns or self.equality(type_oid, column) != EXACT:
            return False
        if column.storage == sqlite_values.INTEGER:
            return bool(pa.types.is_integer(family_of(type_oid).arrow_type))
        return column.storage == sqlite_values.TEXT and column.key_collation == _BINARY

    def or_fail(self, table: TargetTable, statement: Writing) -> Writing:
        """See :meth:`Target.or_fail`; OR ABORT goes before what constraints say, in the statement and in its triggers."""
        return statement.prefix_with("OR ABORT") if table.resolves_conflicts else statement

    @contextmanager
    def loader(
        self, connection: sa.Connection, table: TargetTable, columns: Sequence[LoadColumn]
    ) -> Iterator[Callable[[bytes], None]]:
        """See :meth:`Target.loader`; on the driver's own connection, which takes rows from an iterator."""
        statement = insert_statement(self, table, columns)
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)

        def load(block: bytes) -> None:
            batch = read_block(block)
            rows = statement.rows(bind_block(self, columns, batch), batch.num_rows)
            try:
                driver.executemany(statement.sql, rows)
            except sqlite3.Error as error:
                raise self._translate_driver(error) from None

        yield load

    def place(self, schema: str, table: str) -> tuple[str | None, str]:
        """See :meth:`Target.place` and the module."""
        return None, table if schema == "public" else f"{schema}.{table}"

    def column_type(self, type_oid: int, type_name: str, *, key: bool = False) -> str:
        """See :func:`subscriber.targets.sqlite.values.declaration`."""
        del key  # any type will do
        return sqlite_values.declaration(type_oid, type_name)

    def storage(self, declared: str) -> str:
        """The affinity."""
        return sqlite_values.affinity(declared)

    def expression(self, expression: str, types: Mapping[str, int]) -> str | None:
        """See :func:`subscriber.targets.default_expressions.sqlite_expression`."""
        return sqlite_expression(expression, types, self.engine.dialect.identifier_preparer.quote)

    def literal(self, value: Any) -> str | None:
        """See :meth:`Target.literal`; blobs too, and a backslash is an ordinary character."""
        match value:
            case bytes():
                return f"X'{value.hex()}'"
            case str() if "\0" not in value:
                return "'" + value.replace("'", "''") + "'"
            case _:
                return super().literal(value)

    def unique_index(self, table: sa.Table, key: UniqueKey) -> ExecutableDDLElement | None:
        """NULLS NOT DISTINCT: unique is whether a column is NULL, and what it holds otherwise."""
        if key.deferrable or key.nulls_distinct:
            return None
        quote = self.engine.dialect.identifier_preparer.quote
        name = quote("_".join([table.name, *key.columns, "key"]))
        parts = ", ".join(f"{quote(column)} IS NULL, ifnull({quote(column)}, 0)" for column in key.columns)
        statement = f"CREATE UNIQUE INDEX {name} ON {quote(table.name)} ({parts})"
        return sa.DDL(statement.replace("%", "%%"))  # type: ignore[no-untyped-call]  # SQLAlchemy left it out

    def auto_increment(self, shape: TableShape, column: ColumnShape, declared: str) -> AutoIncrement | None:
        """``INTEGER PRIMARY KEY AUTOINCREMENT``, which SQLite has for a column that is the whole key."""
        if shape.key != (column.name,) or sqlite_values.affinity(declared) != sqlite_values.INTEGER:
            return None
        return AutoIncrement("INTEGER PRIMARY KEY AUTOINCREMENT", is_key=True)

    def sequence_of(self, connection: sa.Connection, table: TargetTable, column: str) -> TargetSequence | None:
        """See :meth:`Target.sequence_of`; counts in ones.

        Only AUTOINCREMENT tables keep a value (in ``sqlite_sequence``). Any other ``INTEGER PRIMARY KEY`` goes on from its largest
        rowid, which is the publisher's when its rows are here: there is nothing to set.
        """
        found = table.column(column)
        if found is None or not found.null_is_generated:
            return None
        with self.reporting():
            if not _is_auto_increment(connection, table):
                return None
            kept = _kept_values(table)
            last = connection.execute(sa.select(kept.c.seq).where(kept.c.name == table.name)).scalar_one_or_none()
        position = SequencePosition(last_value=last or 1, is_called=bool(last))
        return TargetSequence(f"{table.schema}.{table.name}", position, 1, _LAST_ROWID, table)

    def set_sequence(self, connection: sa.Connection, sequence: TargetSequence, position: SequencePosition) -> None:
        """See :meth:`Target.set_sequence`."""
        assert sequence.table is not None
        kept, name = _kept_values(sequence.table), sequence.table.name
        with self.reporting():
            connection.execute(sa.delete(kept).where(kept.c.name == name))
            connection.execute(sa.insert(kept).values(name=name, seq=position.next_value - 1))

    def truncate(self, connection: sa.Connection, tables: Sequence[TargetTable], *, restart_identity: bool) -> None:
        """See :meth:`Target.truncate`."""
        with self.reporting():
            for table in tables:
                _check_references(connection, table, tables)
            super().truncate(connection, tables, restart_identity=restart_identity)
            if restart_identity:
                _restart_identities(connection, tables)

    def interrupt(self, connection: sa.Connection) -> None:
        """See :meth:`Target.interrupt`."""
        with suppress(exc.SQLAlchemyError, sqlite3.Error):  # it may just be closed
            driver: Any = connection.connection.driver_connection
            driver.interrupt()

    @contextmanager
    def interruptible(self, connection: sa.Connection) -> Iterator[None]:
        """See :meth:`Target.interruptible`; Python sees a signal only where SQLite calls it."""
        driver: Any = connection.connection.driver_connection
        driver.set_progress_handler(lambda: None, _SIGNALS_SEEN_EVERY)
        try:
            yield
        except exc.OperationalError as error:
            if getattr(error.orig, "sqlite_errorname", None) == "SQLITE_INTERRUPT":
                raise KeyboardInterrupt from None
            raise
        finally:
            driver.set_progress_handler(None, 0)

    @contextmanager
    def run_lock(self) -> Iterator[None]:
        """Hold an advisory lock on ``<file>.subscriber-lock``, which ends with the process."""
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
        """See :meth:`Target.translate`; SQLite's extended result codes say what failed."""
        original = getattr(error, "orig", None)
        if isinstance(original, sqlite3.Error) and _result_code(original) is not None:
            return self._translate_driver(original)
        return super().translate(error, columns)

    def _translate_driver(self, error: sqlite3.Error) -> SubscriberError:
        name = _result_code(error)
        if name is None:
            return UnsupportedValue(f"SQLite cannot hold a value exactly ({type(error).__name__})")
        return _translate(name, str(error), str(self.url.database))


def _result_code(error: sqlite3.Error) -> str | None:
    """SQLite's name of what failed; None where it was Python's module that refused, and not SQLite."""
    name = _NAMELESS.get(getattr(error, "sqlite_errorcode", 0))
    return name or getattr(error, "sqlite_errorname", None)


def _places(schema: str, table: str) -> Iterator[tuple[str, str]]:
    if schema == "public":
        yield "main", table
        return
    yield "main", f"{schema}.{table}"
    if schema not in ("main", "temp"):
        yield schema, table


def _table_list(connection: sa.Connection, database: str, name: str) -> tuple[str, bool, bool] | None:
    query = sa.text("SELECT type, wr, strict FROM pragma_table_list WHERE schema = :database AND name = :name")
    row = connection.execute(query, {"database": database, "name": name}).one_or_none()
    return None if row is None else (row.type, bool(row.wr), bool(row.strict))


def _reflect(
    connection: sa.Connection, database: str, name: str, kind: str, without_rowid: bool, strict: bool
) -> TargetTable:
    query = sa.text(
        'SELECT name, type, "notnull", pk, hidden, dflt_value FROM pragma_table_xinfo(:name, :database) ORDER BY cid'
    )
    rows = connection.execute(query, {"name": name, "database": database}).all()
    key = [row.name for row in sorted(rows, key=lambda row: row.pk) if row.pk]
    collations: dict[str, str] = {
        row.name: row.coll for row in connection.execute(_KEY_COLLATIONS, {"name": name, "database": database})
    }
    is_rowid = not without_rowid and len(key) == 1

    def is_alias(row: sa.Row[Any]) -> bool:
        """Whether a column is the rowid, which SQLite makes."""
        return is_rowid and bool(row.pk) and row.type.upper() == "INTEGER"

    columns = tuple(
        TargetColumn(
            name=row.name,
            declared_type=row.type,
            storage=sqlite_values.affinity(row.type, strict=strict),
            nullable=not row.notnull,
            generated=row.hidden in (2, 3),
            null_is_generated=is_alias(row),
            key_collation=collations.get(row.name),
            required=bool(row.notnull) and row.dflt_value is None and row.hidden not in (2, 3) and not is_alias(row),
        )
        for row in rows
    )
    taken = {column.name.lower() for column in columns}
    locator = None if without_rowid else next((word for word in _LOCATORS if word not in taken), None)
    statement = "" if kind != "table" else _sql_of(connection, database, name)
    return TargetTable(
        database,
        name,
        columns,
        tuple(key) or None,
        _KINDS.get(kind, "other"),
        locator,
        resolves_conflicts="CONFLICT" in statement.upper(),
        may_watch_columns=_has_trigger(connection, database, name),
    )


def _has_trigger(connection: sa.Connection, database: str, name: str) -> bool:
    schema = sa.table("sqlite_master", sa.column("type"), sa.column("tbl_name"), schema=database)
    # The table's name as the trigger spells it.
    of_table = (schema.c.type == "trigger") & (sa.collate(schema.c.tbl_name, "NOCASE") == name)
    return connection.execute(sa.select(sa.literal_column("1")).where(of_table)).first() is not None


def _sql_of(connection: sa.Connection, database: str | None, name: str) -> str:
    """The CREATE TABLE of a table."""
    schema = sa.table("sqlite_master", sa.column("type"), sa.column("name"), sa.column("sql"), schema=database)
    query = sa.select(schema.c.sql).where(schema.c.type == "table", schema.c.name == name)
    return str(connection.execute(query).scalar_one())


def _check_references(connection: sa.Connection, table: TargetTable, truncated: Sequence[TargetTable]) -> None:
    query = sa.text(
        "SELECT DISTINCT t.name FROM pragma_table_list AS t, pragma_foreign_key_list(t.name, t.schema) AS f"
        " WHERE t.schema = :schema AND t.type = 'table' AND f.\"table\" = :name COLLATE NOCASE"
    )
    referencing = set(connection.execute(query, {"schema": table.schema, "name": table.name}).scalars())
    referencing -= {other.name for other in truncated if other.schema == table.schema}
    if referencing:
        raise ConflictError(
            "cannot truncate a table referenced in a foreign key constraint",
            sqlstate="0A000",
            detail=f'Table "{min(referencing)}" references "{table.name}".',
            hint="Truncate the referencing table at the publisher in the same command.",
        )


_LAST_ROWID: Final = 2**63 - 1


def _kept_values(table: TargetTable) -> sa.TableClause:
    """SQLite's table of the last values that AUTOINCREMENT tables have had."""
    return sa.table("sqlite_sequence", sa.column("name"), sa.column("seq"), schema=table.schema)


def _is_auto_increment(connection: sa.Connection, table: TargetTable) -> bool:
    """Whether the table is declared AUTOINCREMENT; only its SQL tells."""
    try:
        tokens = tokenize(_sql_of(connection, table.schema, table.name), read="sqlite")
    except SqlglotError:
        return False
    return any(token.token_type is TokenType.AUTO_INCREMENT for token in tokens)


def _restart_identities(connection: sa.Connection, tables: Sequence[TargetTable]) -> None:
    for table in tables:
        if _table_list(connection, str(table.schema), "sqlite_sequence") is not None:
            sequence = sa.table("sqlite_sequence", sa.column("name"), schema=table.schema)
            connection.execute(sa.delete(sequence).where(sequence.c.name == table.name))


_CONSTRAINTS: Final = {
    "SQLITE_CONSTRAINT_NOTNULL": ("23502", "null value violates not-null constraint"),
    "SQLITE_CONSTRAINT_FOREIGNKEY": ("23503", "change violates foreign key constraint"),
    "SQLITE_CONSTRAINT_UNIQUE": ("23505", "duplicate key value violates unique constraint"),
    "SQLITE_CONSTRAINT_PRIMARYKEY": ("23505", "duplicate key value violates unique constraint"),
    "SQLITE_CONSTRAINT_ROWID": ("23505", "duplicate key value violates unique constraint"),
    "SQLITE_CONSTRAINT_CHECK": ("23514", "new row violates check constraint"),
    "SQLITE_CONSTRAINT_TRIGGER": ("P0001", "a trigger of the target refused the change"),
}
_NAMELESS: Final = {3091: "SQLITE_CONSTRAINT_DATATYPE"}
"""Result codes that Python's sqlite3 has no name for."""

_SIGNALS_SEEN_EVERY: Final = 100_000
"""Instructions of SQLite's virtual machine: about a millisecond."""

_ABOUT_NAMES: Final = re.compile(
    r'no such \w+: .*|ambiguous column name: .*|near "\w+": syntax error|incomplete input'
    r"|Expression tree is too large \(maximum depth \d+\)|too many SQL variables|too many columns .*"
)
"""Messages on a statement that names what is not there, or is none, or too much; they hold its words and nothing of any row."""

_QUOTES: Final = str.maketrans("'", '"')
_UNAVAILABLE: Final = ("BUSY", "READONLY", "LOCKED", "CANTOPEN", "IOERR", "FULL", "PROTOCOL", "NOMEM", "INTERRUPT")


def _translate(name: str, text: str, database: str) -> SubscriberError:
    if name in _CONSTRAINTS:
        sqlstate, message = _CONSTRAINTS[name]
        column = text.rpartition(".")[2] if name == "SQLITE_CONSTRAINT_NOTNULL" else None
        return ConflictError(message, sqlstate=sqlstate, detail=_constraint_detail(name, text), column=column)
    if name in ("SQLITE_CONSTRAINT_DATATYPE", "SQLITE_MISMATCH", "SQLITE_TOOBIG"):
        # "cannot store TEXT value in INTEGER column t.a", in a STRICT table.
        column = text.rpartition(".")[2] if name == "SQLITE_CONSTRAINT_DATATYPE" else None
        return UnsupportedValue("a value does not fit the column's type", sqlstate="22000", column=column)
    if name.startswith("SQLITE_CONSTRAINT"):
        return ConflictError("a constraint of the target forbids the change", sqlstate="23000")
    kind = name.removeprefix("SQLITE_").partition("_")[0]
    if kind in _UNAVAILABLE:
        found = obstacle(database) if kind in ("CANTOPEN", "READONLY") else None
        return TargetUnavailable(
            f"the SQLite database {database} is not available ({name})",
            hint="Another program may hold it locked, its disk may be full, or it may be read-only; the change will be tried again."
            if found is None
            else hint_at(found, "sqlite"),
        )
    if name == "SQLITE_NOTADB":
        return TargetError(
            f"{database} is not a SQLite database ({name})",
            hint="Name another file in the target's URL; this one stays as it is.",
        )
    if name == "SQLITE_ERROR" and _ABOUT_NAMES.fullmatch(text):
        return TargetError(text, sqlstate="42000")
    return TargetError(f"SQLite refused a statement ({name})", hint=f"The database is {database}.")


def _constraint_detail(name: str, text: str) -> str | None:
    # "UNIQUE constraint failed: t.a, t.b": names of the schema, never values. A CHECK may show its
    # expression, which may hold constants of the schema's, and a trigger's text is anything: both stay out.
    if name not in ("SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_PRIMARYKEY", "SQLITE_CONSTRAINT_NOTNULL"):
        return None
    _, _, place = text.partition("constraint failed: ")
    if place.startswith("index "):
        return f"Key already exists in unique index {place.removeprefix('index ').translate(_QUOTES)}."
    if name == "SQLITE_CONSTRAINT_NOTNULL":
        return f'Column "{place.rpartition(".")[2]}" must not be null.'
    columns = ", ".join(part.rpartition(".")[2] for part in place.split(", "))
    return f"Key ({columns}) already exists."
