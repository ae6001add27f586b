"""Objects of SQLite's tables.

An index and a generated column are added to a table that exists. SQLite has no ALTER TABLE for
constraints and defaults, so the table is made again, by the procedure of SQLite's documentation
("Making Other Kinds Of Table Schema Changes"), in one transaction::

    CREATE TABLE new (…)       the text of the old statement, with one more clause
    INSERT INTO new SELECT …   the rows
    DROP TABLE old, RENAME     with legacy_alter_table, so that views and references stay as they are
    CREATE INDEX, CREATE TRIGGER   as they were
    foreign_key_check          before the commit (apply), or left to the user (script)
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Final

import sqlalchemy as sa

from subscriber.errors import ConflictError
from subscriber.targets.generic.objects import GenericObjects
from subscriber.targets.roles.errors import Errors
from subscriber.targets.roles.transactions import Transactions
from subscriber.targets.sqlite import values as sqlite_values
from subscriber.targets.sqlite.catalog import sql_of
from subscriber.targets.sqlite.create_table_text import TableText, after_names, read_table_text
from subscriber.targets.table_changes import (
    CannotBuild,
    Definition,
    FoundForeignKey,
    FoundIndex,
    FoundObjects,
    NewCheck,
    NewDefault,
    NewForeignKey,
    NewGenerated,
    NewIdentity,
    NewIndex,
    Statements,
    TableChange,
)
from subscriber.targets.target_table import TargetColumn, TargetTable
from subscriber.targets.translate_expression import Rules

_INDEXES: Final = sa.text(
    'SELECT i.name, i."unique", i.partial, x.cid, x.name FROM pragma_index_list(:name, :database) AS i,'
    " pragma_index_xinfo(i.name, :database) AS x WHERE x.key ORDER BY i.seq, x.seqno"
)
_FOREIGN_KEYS: Final = sa.text(
    'SELECT id, "table", "from", "to", on_delete, on_update FROM pragma_foreign_key_list(:name, :database) ORDER BY id, seq'
)
_COLUMNS: Final = sa.text("SELECT name, dflt_value, hidden FROM pragma_table_xinfo(:name, :database) ORDER BY cid")
_DEFINITIONS: Final = (
    "SELECT name, sql FROM {database}sqlite_master WHERE type = 'index' AND tbl_name = :name AND sql IS NOT NULL"
)
_NOW: Final = "rtrim(rtrim(strftime('%Y-%m-%d %H:%M:%f', 'now'), '0'), '.')"
"""The current time in UTC, as PostgreSQL writes it."""


class SQLiteObjects(GenericObjects):
    """See :class:`~subscriber.targets.roles.objects.Objects`."""

    casts = "CAST({column} AS INTEGER)"

    def __init__(self, engine: sa.Engine, errors: Errors, transactions: Transactions, rules: Rules) -> None:
        super().__init__(engine, errors)
        self._transactions = transactions
        self.rules = rules

    def find(self, connection: sa.Connection, table: TargetTable) -> FoundObjects:
        """See :meth:`Objects.find`."""
        place = {"name": table.name, "database": table.schema}
        with self._errors.reporting():
            indexes: dict[str, list[Any]] = {}
            for name, unique, partial, cid, column in connection.execute(_INDEXES, place):
                indexes.setdefault(name, [bool(unique), bool(partial)]).append(column if cid >= 0 else None)
            references: dict[int, list[Any]] = {}
            for number, other, column, referenced, deleted, updated in connection.execute(_FOREIGN_KEYS, place):
                references.setdefault(number, [other, deleted, updated]).append((column, referenced))
            columns = connection.execute(_COLUMNS, place).all()
            query = sa.text(_DEFINITIONS.format(database=self._database(table)))
            definitions = {row.name: after_names(row.sql) for row in connection.execute(query, {"name": table.name})}
            text = read_table_text(sql_of(connection, table.schema, table.name))
        counted = {column.name for column in table.columns if column.null_is_generated}
        found = [
            FoundIndex(name, tuple(keys), unique, partial, definition=definitions.get(name, ""))
            for name, (unique, partial, *keys) in indexes.items()
        ]
        if counted:  # the rowid is the key, and needs no index
            found.append(FoundIndex("", table.key or (), unique=True))
        return FoundObjects(
            indexes=tuple(found),
            foreign_keys=tuple(
                FoundForeignKey(
                    tuple(column for column, _ in pairs), other, tuple(to for _, to in pairs if to), deleted, updated
                )
                for other, deleted, updated, *pairs in references.values()
            ),
            checks=() if text is None else tuple(text.checks()),
            defaults={row.name: row.dflt_value for row in columns if row.dflt_value is not None},
            generated={} if text is None else dict(text.generated()),
            counted=frozenset(counted),
            inexact=frozenset(
                name for name, collation in (() if text is None else text.collations()) if collation != "BINARY"
            ),
        )

    def is_text(self, column: TargetColumn) -> bool:
        """See :meth:`GenericObjects.is_text`."""
        return column.storage not in (sqlite_values.INTEGER, sqlite_values.NUMERIC, sqlite_values.REAL)

    def default(self, text: str, type_oid: int, column: TargetColumn) -> str | None:
        """See :meth:`Objects.default`; a time of the session's time zone has no equal here."""
        del column
        match text, type_oid:
            case (("now()" | "CURRENT_TIMESTAMP"), 1184):
                return f"{_NOW} || '+00'"
            case "timezone('utc'::text, now())", 1114:
                return _NOW
        return None

    def statements(
        self, connection: sa.Connection, table: TargetTable, change: TableChange, earlier: Sequence[TableChange] = ()
    ) -> Statements:
        """See :meth:`Objects.statements`."""
        match change:
            case NewIndex() if not _is_primary_key(table, change):
                note = self.plain_index(change)
                unique = "UNIQUE " if change.index.unique else ""
                where = "" if change.predicate is None else f" WHERE {change.predicate}"
                name = f"{self._database(table)}{self.quote(change.name)}"
                keys = _with_order(change)
                return Statements((f"CREATE {unique}INDEX {name} ON {self.quote(table.name)} ({keys}){where}",), note)
            case NewGenerated():
                return Statements(
                    (f"ALTER TABLE {self.qualified(table)} ADD COLUMN {self._generated(change)}",),
                    "the column is VIRTUAL: SQLite cannot add a STORED column to a table that exists",
                )
            case NewIdentity():
                raise CannotBuild("SQLite generates values only for a column INTEGER PRIMARY KEY")
            case NewIndex() | NewForeignKey() | NewCheck() | NewDefault():
                return self._rebuilt(connection, table, change, earlier)
        raise CannotBuild("SQLite has no comments")

    def removal(self, table: TargetTable, change: Definition, name: str) -> tuple[str, ...]:
        """See :meth:`Objects.removal`."""
        match change:
            case NewIndex() if not name.startswith("sqlite_autoindex_"):
                return (f"DROP INDEX {self._database(table)}{self.quote(name)}",)
            case NewGenerated():
                return (f"ALTER TABLE {self.qualified(table)} DROP COLUMN {self.quote(name)}",)
            case NewDefault():
                return ()
        raise CannotBuild("SQLite cannot remove a constraint: the table must be made again without it")

    def shown(self, connection: sa.Connection, table: TargetTable, change: Definition) -> str:
        """See :meth:`Objects.shown`; SQLite keeps every definition as it was written."""
        if not isinstance(change, NewIndex):
            return change.expression
        return "" if _is_primary_key(table, change) else after_names(self.statements(connection, table, change).sql[0])

    def same_constant(self, connection: sa.Connection, column: TargetColumn, first: str, second: str) -> bool:
        """See :meth:`Objects.same_constant`; a database in memory stores both."""
        del connection
        with closing(sqlite3.connect(":memory:")) as memory:
            declared = column.declared_type
            memory.execute(f"CREATE TABLE t (a {declared} DEFAULT ({first}), b {declared} DEFAULT ({second}))")
            memory.execute("INSERT INTO t DEFAULT VALUES")
            (same,) = memory.execute("SELECT typeof(a) = typeof(b) AND a IS b FROM t").fetchone()
        return bool(same)

    def _generated(self, change: NewGenerated) -> str:
        return f"{self.quote(change.column)} {change.declared} GENERATED ALWAYS AS ({change.expression}) VIRTUAL"

    def _database(self, table: TargetTable) -> str:
        """The name of an attached database, with a dot."""
        return "" if table.schema in (None, "main") else f"{self.quote(str(table.schema))}."

    def referenced(self, table: TargetTable) -> str:
        """See :meth:`GenericObjects.referenced`; a reference stays in its database."""
        return self.quote(table.name)

    @contextmanager
    def building(self) -> Iterator[sa.Connection]:
        """See :meth:`Objects.building`."""
        with self._errors.reporting(), self._transactions.write_engine().begin() as connection:
            try:
                yield connection
            finally:  # a rollback does not undo a pragma
                connection.exec_driver_sql("PRAGMA legacy_alter_table = OFF")

    def check(self, connection: sa.Connection, table: TargetTable) -> None:
        """See :meth:`Objects.check`."""
        query = sa.text("SELECT parent FROM pragma_foreign_key_check(:name, :database) LIMIT 1")
        with self._errors.reporting():
            parent = connection.execute(query, {"name": table.name, "database": table.schema}).scalar_one_or_none()
        if parent is not None:
            raise ConflictError(
                f'a row of table "{table.name}" references a row that is missing in table "{parent}"', sqlstate="23503"
            )

    def _rebuilt(
        self, connection: sa.Connection, table: TargetTable, change: TableChange, earlier: Sequence[TableChange]
    ) -> Statements:
        with self._errors.reporting():
            text = read_table_text(sql_of(connection, table.schema, table.name))
            columns = connection.execute(_COLUMNS, {"name": table.name, "database": table.schema}).all()
            others: list[str] = list(
                connection.execute(
                    sa.select(sa.column("sql"))
                    .select_from(sa.table("sqlite_master", schema=table.schema))
                    .where(sa.column("tbl_name") == table.name, sa.column("type").in_(("index", "trigger")))
                    .where(sa.column("sql").is_not(None))
                    .order_by(sa.column("type"), sa.column("name"))
                ).scalars()
            )
            counter = self._counter(connection, table)
        note = ""
        for one in (*earlier, change):
            if text is None:
                raise CannotBuild("the text of its CREATE TABLE statement cannot be changed")
            if isinstance(one, NewIndex) and not _is_primary_key(table, one):
                others += self.statements(connection, table, one).sql
            else:
                text, note = self._changed(text, one)
        assert text is not None
        new, old = (f"{self._database(table)}{self.quote(name)}" for name in (f"{table.name} (new)", table.name))
        names = self.quoted([row.name for row in columns if row.hidden == 0])
        sql = (
            # In a transaction the first has no effect; a script is not run in one.
            "PRAGMA foreign_keys = OFF",
            "PRAGMA legacy_alter_table = ON",
            text.statement(new),
            f"INSERT INTO {new} ({names}) SELECT {names} FROM {old}",
            f"DROP TABLE {old}",
            f"ALTER TABLE {new} RENAME TO {self.quote(table.name)}",
            *others,
            *counter,
            "PRAGMA legacy_alter_table = OFF",
        )
        return Statements(sql, note, rebuilds=True)

    def _changed(self, text: TableText, change: TableChange) -> tuple[TableText | None, str]:
        """The text of a table with one more clause, and a note."""
        note = ""
        match change:
            case NewIndex():
                return text.with_item(f"PRIMARY KEY ({', '.join(change.keys)})"), note
            case NewForeignKey():
                clause, note = self.foreign_key_clause(change, deferrable=True)
                return text.with_item(f"CONSTRAINT {self.quote(change.name)} {clause}"), note
            case NewCheck():
                return text.with_item(f"CONSTRAINT {self.quote(change.name)} CHECK ({change.expression})"), note
            case NewDefault():
                return text.with_default(change.column, f"DEFAULT ({change.expression})"), note
            case NewGenerated():
                return text.with_column(self._generated(change)), note
        raise self.refusal(change)

    def _counter(self, connection: sa.Connection, table: TargetTable) -> tuple[str, ...]:
        """The statements that keep the value of an AUTOINCREMENT table."""
        master = sa.table("sqlite_master", sa.column("name"), schema=table.schema)
        if connection.execute(sa.select(master.c.name).where(master.c.name == "sqlite_sequence")).first() is None:
            return ()
        kept = sa.table("sqlite_sequence", sa.column("name"), sa.column("seq"), schema=table.schema)
        last = connection.execute(sa.select(kept.c.seq).where(kept.c.name == table.name)).scalar_one_or_none()
        if last is None:
            return ()
        name = "'" + table.name.replace("'", "''") + "'"
        place = self._database(table)
        return (
            f"DELETE FROM {place}sqlite_sequence WHERE name = {name}",
            f"INSERT INTO {place}sqlite_sequence (name, seq) VALUES ({name}, {int(last)})",
        )


def _is_primary_key(table: TargetTable, change: NewIndex) -> bool:
    """Whether the index is the key of a table without one, which only CREATE TABLE can declare."""
    return change.index.constraint == "primary key" and not table.key


def _with_order(change: NewIndex) -> str:
    keys = zip(change.keys, change.index.keys, strict=True)
    return ", ".join(f"{written}{' DESC' if key.descending else ''}" for written, key in keys)
