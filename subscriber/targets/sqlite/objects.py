"""Objects of SQLite's tables.

An index and a generated column are added to a table that exists. SQLite has no ALTER TABLE for
constraints and defaults. Its documentation ("Making Other Kinds Of Table Schema Changes") has two
procedures. The first makes the table again, in one transaction. A script does this::

    CREATE TABLE new (…)       the text of the old statement, with one more clause
    INSERT INTO new SELECT …   the rows
    DROP TABLE old, RENAME     with legacy_alter_table, so that views and references stay as they are
    CREATE INDEX, CREATE TRIGGER   as they were
    foreign_key_check          before the commit (apply), or left to the user (script)

But SQLite reads its whole schema again after each change, so the time of many such changes grows
with the square of the number of tables. :meth:`SQLiteObjects.build_together` therefore follows the
second procedure, for changes that leave the stored rows as they are. It changes the text of all
tables in one transaction::

    PRAGMA writable_schema     UPDATE sqlite_master SET sql = … for each table
    PRAGMA schema_version      one more, so that every connection reads the schema again
    pragma_table_xinfo         the stored columns must be the same as before
    quick_check, foreign_key_check   of tables that have rows; then the commit
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from typing import Any, Final
from weakref import WeakKeyDictionary

import sqlalchemy as sa
from typing_extensions import override

from subscriber.base.errors import ConflictError, SubscriberError
from subscriber.postgres.sql.quoting import quote_literal
from subscriber.targets import table_changes
from subscriber.targets.base.catalog import by_table
from subscriber.targets.base.errors import Errors
from subscriber.targets.base.objects import Objects
from subscriber.targets.base.transactions import Transactions
from subscriber.targets.sqlite.catalog import texts_of
from subscriber.targets.sqlite.create_table_text import TableText, after_names, read_table_text
from subscriber.targets.sqlite.transactions import asked
from subscriber.targets.sqlite.values import INTEGER, NUMERIC, REAL
from subscriber.targets.target_table import TargetColumn, TargetTable
from subscriber.targets.translate_expression import TranslationRules

_FROM: Final = "FROM json_each(:names) AS j,"
_INDEXES: Final = sa.text(
    f'SELECT j.value AS place, i.name, i."unique" AS is_unique, i.partial, x.cid, x.name AS field {_FROM}'
    " pragma_index_list(j.value, :database) AS i, pragma_index_xinfo(i.name, :database) AS x"
    " WHERE x.key ORDER BY j.id, i.seq, x.seqno"
)
_FOREIGN_KEYS: Final = sa.text(
    'SELECT j.value AS place, f.id, f."table" AS other, f."from" AS field, f."to" AS referenced, f.on_delete, f.on_update'
    f" {_FROM} pragma_foreign_key_list(j.value, :database) AS f ORDER BY j.id, f.id, f.seq"
)
_COLUMNS: Final = sa.text(
    f"SELECT j.value AS place, x.name, x.dflt_value, x.hidden {_FROM} pragma_table_xinfo(j.value, :database) AS x"
    " ORDER BY j.id, x.cid"
)
_STORED_COLUMNS: Final = sa.text(
    'SELECT j.value AS place, x.name, x.type, x."notnull", x.pk'
    f" {_FROM} pragma_table_xinfo(j.value, :database) AS x WHERE x.hidden <> 2 ORDER BY j.id, x.cid"
)
_QUICK_CHECK: Final = sa.text("SELECT quick_check FROM pragma_quick_check(:name, :database)")
_NO_TEXT: Final = "the text of its CREATE TABLE statement cannot be changed"
_DEFINITIONS: Final = (
    "SELECT tbl_name AS place, name, sql, type FROM {database}sqlite_master WHERE type IN ('index', 'trigger') AND sql IS NOT NULL"
    " AND tbl_name IN (SELECT value FROM json_each(:names))"
)
_VIRTUAL: Final = 2
_NOW: Final = "rtrim(rtrim(strftime('%Y-%m-%d %H:%M:%f', 'now'), '0'), '.')"
"""The current time in UTC, as PostgreSQL writes it."""


class SQLiteObjects(Objects):
    casts = "CAST({column} AS INTEGER)"
    builds_together = True
    most_tables = 500  # SQLITE_MAX_COMPOUND_SELECT

    def __init__(
        self, engine: sa.Engine, errors: Errors, transactions: Transactions, rules: TranslationRules | None
    ) -> None:
        super().__init__(engine, errors, rules)
        self._transactions = transactions
        self._schemas: WeakKeyDictionary[sa.Connection, tuple[tuple[str, int], Mapping[str, list[sa.Row[Any]]]]] = (
            WeakKeyDictionary()
        )

    @override
    def find(self, connection: sa.Connection, tables: Sequence[TargetTable]) -> list[table_changes.FoundObjects]:
        found: dict[TargetTable, table_changes.FoundObjects] = {}
        for database in dict.fromkeys(one.schema for one in tables):
            there = [one for one in tables if one.schema == database]
            names = [one.name for one in there]
            place = {"database": database, "names": json.dumps(names)}
            with self._errors.reporting():
                definitions_query = sa.text(_DEFINITIONS.format(database=self._database(there[0])))
                indexes, references, columns, definitions = (
                    by_table(connection.execute(asked(connection, query), place))
                    for query in (_INDEXES, _FOREIGN_KEYS, _COLUMNS, definitions_query)
                )
                texts = texts_of(connection, database, names)
            for one in there:
                of_table = _found(
                    one,
                    indexes[one.name],
                    references[one.name],
                    columns[one.name],
                    {row.name: after_names(row.sql) for row in definitions[one.name] if row.type == "index"},
                    read_table_text(texts.get(one.name, "")),
                )
                triggers = frozenset(row.name for row in definitions[one.name] if row.type == "trigger")
                found[one] = replace(of_table, triggers=triggers)
        return [found[one] for one in tables]

    @override
    def is_text(self, column: TargetColumn) -> bool:
        return column.storage not in (INTEGER, NUMERIC, REAL)

    @override
    def default(self, text: str, type_oid: int, column: TargetColumn) -> str | None:
        """A time of the session's time zone has no equal here."""
        match text, type_oid:
            case (("now()" | "CURRENT_TIMESTAMP"), 1184):
                return f"{_NOW} || '+00'"
            case "timezone('utc'::text, now())", 1114:
                return _NOW
        return None

    @override
    def statements(
        self,
        connection: sa.Connection,
        table: TargetTable,
        change: table_changes.TableChange,
        earlier: Sequence[table_changes.TableChange] = (),
    ) -> table_changes.Statements:
        match change:
            case table_changes.NewIndex() if not _is_primary_key(table, change):
                note = self.plain_index(change)
                unique = "UNIQUE " if change.index.unique else ""
                where = "" if change.predicate is None else f" WHERE {change.predicate}"
                name = f"{self._database(table)}{self.quote(change.name)}"
                keys = _with_order(change)
                return table_changes.Statements(
                    (f"CREATE {unique}INDEX {name} ON {self.quote(table.name)} ({keys}){where}",), note
                )
            case table_changes.NewGenerated():
                return table_changes.Statements(
                    (f"ALTER TABLE {self.qualified(table)} ADD COLUMN {self._generated(change)}",),
                    ""
                    if change.virtual
                    else f"the column is VIRTUAL: {self._errors.database} cannot add a STORED column to a table that exists",
                )
            case table_changes.NewView():
                return self.view(change)
            case table_changes.NewIdentity():
                raise table_changes.CannotBuild(
                    f"{self._errors.database} generates values only for a column INTEGER PRIMARY KEY"
                )
            case (
                table_changes.NewIndex()
                | table_changes.NewForeignKey()
                | table_changes.NewCheck()
                | table_changes.NewDefault()
            ):
                return self._rebuilt(connection, table, change, earlier)
        raise table_changes.CannotBuild(f"{self._errors.database} has no comments")

    @override
    def removal(self, table: TargetTable, change: table_changes.Definition, name: str) -> tuple[str, ...]:
        match change:
            case table_changes.NewIndex() if not name.startswith("sqlite_autoindex_"):
                return (f"DROP INDEX {self._database(table)}{self.quote(name)}",)
            case table_changes.NewGenerated():
                return (f"ALTER TABLE {self.qualified(table)} DROP COLUMN {self.quote(name)}",)
            case table_changes.NewDefault():
                return ()
        raise table_changes.CannotBuild(
            f"{self._errors.database} cannot remove a constraint: the table must be made again without it"
        )

    @override
    def shown(self, connection: sa.Connection, table: TargetTable, change: table_changes.Definition) -> str:
        """SQLite keeps every definition as it was written."""
        if not isinstance(change, table_changes.NewIndex):
            return change.expression
        return "" if _is_primary_key(table, change) else after_names(self.statements(connection, table, change).sql[0])

    @override
    def same_constant(self, connection: sa.Connection, column: TargetColumn, first: str, second: str) -> bool:
        """A database in memory stores both."""
        with closing(sqlite3.connect(":memory:")) as memory:
            declared = column.declared_type
            memory.execute(f"CREATE TABLE t (a {declared} DEFAULT ({first}), b {declared} DEFAULT ({second}))")
            memory.execute("INSERT INTO t DEFAULT VALUES")
            (same,) = memory.execute("SELECT typeof(a) = typeof(b) AND a IS b FROM t").fetchone()
        return bool(same)

    def _generated(self, change: table_changes.NewGenerated) -> str:
        return f"{self.quote(change.column)} {change.declared} GENERATED ALWAYS AS ({change.expression}) VIRTUAL"

    def _database(self, table: TargetTable) -> str:
        return "" if table.schema in (None, "main") else f"{self.quote(str(table.schema))}."

    @override
    def referenced(self, table: TargetTable) -> str:
        """A reference stays in its database."""
        return self.quote(table.name)

    @override
    @contextmanager
    def building(self) -> Iterator[sa.Connection]:
        with self._errors.reporting(), self._transactions.write_engine().begin() as connection:
            try:
                yield connection
            finally:  # a rollback does not undo a pragma
                connection.exec_driver_sql("PRAGMA legacy_alter_table = OFF")
                connection.exec_driver_sql("PRAGMA writable_schema = OFF")

    @override
    def check(self, connection: sa.Connection, table: TargetTable) -> None:
        query = sa.text("SELECT parent FROM pragma_foreign_key_check(:name, :database) LIMIT 1")
        with self._errors.reporting():
            parent = connection.execute(
                asked(connection, query), {"name": table.name, "database": table.schema}
            ).scalar_one_or_none()
        if parent is not None:
            raise ConflictError(
                f'a row of table "{table.name}" references a row that is missing in table "{parent}"', sqlstate="23503"
            )

    @override
    def build_together(self, changes: Sequence[tuple[TargetTable, table_changes.TableChange]]) -> Collection[int]:
        databases: dict[str | None, dict[TargetTable, dict[int, table_changes.TableChange]]] = {}
        for place, (table, change) in enumerate(changes):
            if isinstance(
                change,
                table_changes.NewForeignKey
                | table_changes.NewCheck
                | table_changes.NewDefault
                | table_changes.NewGenerated,
            ):
                databases.setdefault(table.schema, {}).setdefault(table, {})[place] = change
        built: set[int] = set()
        for of_tables in databases.values():
            with suppress(SubscriberError):  # a change that is refused gives its error when it is made alone
                built |= self._edit_texts(of_tables)
        return built

    def _edit_texts(self, changes: Mapping[TargetTable, Mapping[int, table_changes.TableChange]]) -> set[int]:
        """Change stored texts in one transaction, except where a table's rows refuse a change."""
        with self.building() as connection:
            while changes:
                savepoint = connection.begin_nested()
                before = self._stored_columns(connection, changes)
                made = self._write_texts(connection, changes)
                after = self._stored_columns(connection, changes)
                accepted = {
                    table: of_table
                    for table, of_table in changes.items()
                    if before[table.name] == after[table.name] and self._accepts(connection, table, of_table.values())
                }
                if len(accepted) == len(changes):
                    return made
                savepoint.rollback()
                changes = accepted
        return set()

    def _write_texts(
        self, connection: sa.Connection, changes: Mapping[TargetTable, Mapping[int, table_changes.TableChange]]
    ) -> set[int]:
        made: set[int] = set()
        texts: list[tuple[str, int]] = []
        for table, of_table in changes.items():
            row = next(row for row in self._entries(connection, table) if row.type == "table")
            text = read_table_text(row.sql)
            for place, change in of_table.items():
                with suppress(table_changes.CannotBuild):
                    text, _ = self._changed(text, change)
                    made.add(place)
            if text is not None:
                texts.append((text.statement(self.quote(table.name)), row.rowid))
        database = self._database(next(iter(changes)))
        connection.exec_driver_sql("PRAGMA writable_schema = ON")
        connection.exec_driver_sql(f"UPDATE {database}sqlite_master SET sql = ? WHERE rowid = ?", texts)
        connection.exec_driver_sql("PRAGMA writable_schema = OFF")
        version = connection.exec_driver_sql(f"PRAGMA {database}schema_version").scalar_one()
        connection.exec_driver_sql(f"PRAGMA {database}schema_version = {version + 1}")
        return made

    def _stored_columns(
        self, connection: sa.Connection, tables: Collection[TargetTable]
    ) -> Mapping[str, list[sa.Row[Any]]]:
        names = json.dumps([table.name for table in tables])
        place = {"names": names, "database": next(iter(tables)).schema}
        return by_table(connection.execute(asked(connection, _STORED_COLUMNS), place))

    def _accepts(
        self, connection: sa.Connection, table: TargetTable, changes: Iterable[table_changes.TableChange]
    ) -> bool:
        place = {"name": table.name, "database": table.schema}
        has_rows = table.has_rows(connection)
        if has_rows and connection.execute(asked(connection, _QUICK_CHECK), place).scalars().all() != ["ok"]:
            return False
        if has_rows or any(isinstance(change, table_changes.NewForeignKey) for change in changes):
            try:
                self.check(connection, table)
            except SubscriberError:
                return False
        return True

    def _entries(self, connection: sa.Connection, table: TargetTable) -> Sequence[sa.Row[Any]]:
        """``sqlite_master`` has no index, so it is read once while the schema stays as it is."""
        database = self._database(table)
        version = connection.exec_driver_sql(f"PRAGMA {database}schema_version").scalar_one()
        if self._schemas.get(connection, (None,))[0] != (database, version):
            query = f"SELECT tbl_name AS place, rowid, type, sql FROM {database}sqlite_master ORDER BY type, name"
            self._schemas[connection] = (database, version), by_table(connection.exec_driver_sql(query))
        return self._schemas[connection][1][table.name]

    def _rebuilt(
        self,
        connection: sa.Connection,
        table: TargetTable,
        change: table_changes.TableChange,
        earlier: Sequence[table_changes.TableChange],
    ) -> table_changes.Statements:
        with self._errors.reporting():
            entries = self._entries(connection, table)
            text = read_table_text(next(row.sql for row in entries if row.type == "table"))
            others = [row.sql for row in entries if row.type in ("index", "trigger") and row.sql is not None]
            place = {"names": json.dumps([table.name]), "database": table.schema}
            columns = connection.execute(asked(connection, _COLUMNS), place).all()
            counter = self._counter(connection, table)
        note = ""
        for one in (*earlier, change):
            if isinstance(one, table_changes.NewIndex) and not _is_primary_key(table, one):
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
        return table_changes.Statements(sql, note, rebuilds=True)

    def _changed(self, text: TableText | None, change: table_changes.TableChange) -> tuple[TableText, str]:
        note = ""
        if text is None:
            raise table_changes.CannotBuild(_NO_TEXT)
        match change:
            case table_changes.NewIndex():
                return text.with_item(f"PRIMARY KEY ({', '.join(change.keys)})"), note
            case table_changes.NewForeignKey():
                clause, note = self.foreign_key_clause(change, deferrable=True)
                return text.with_item(f"CONSTRAINT {self.quote(change.name)} {clause}"), note
            case table_changes.NewCheck():
                return text.with_item(f"CONSTRAINT {self.quote(change.name)} CHECK ({change.expression})"), note
            case table_changes.NewDefault():
                with_default = text.with_default(change.column, f"DEFAULT ({change.expression})")
                if with_default is None:
                    raise table_changes.CannotBuild(_NO_TEXT)
                return with_default, note
            case table_changes.NewGenerated():
                return text.with_column(self._generated(change)), note
        raise self.refusal(change)

    def _counter(self, connection: sa.Connection, table: TargetTable) -> tuple[str, ...]:
        if not any("AUTOINCREMENT" in (row.sql or "").upper() for row in self._entries(connection, table)):
            return ()
        kept = sa.table("sqlite_sequence", sa.column("name"), sa.column("seq"), schema=table.schema)
        last = connection.execute(sa.select(kept.c.seq).where(kept.c.name == table.name)).scalar_one_or_none()
        if last is None:
            return ()
        name = quote_literal(table.name)
        place = self._database(table)
        return (
            f"DELETE FROM {place}sqlite_sequence WHERE name = {name}",
            f"INSERT INTO {place}sqlite_sequence (name, seq) VALUES ({name}, {int(last)})",
        )


def _found(
    table: TargetTable,
    index_rows: Sequence[sa.Row[Any]],
    reference_rows: Sequence[sa.Row[Any]],
    columns: Sequence[sa.Row[Any]],
    definitions: Mapping[str, str],
    text: TableText | None,
) -> table_changes.FoundObjects:
    indexes: dict[str, list[Any]] = {}
    for row in index_rows:
        entry = indexes.setdefault(row.name, [bool(row.is_unique), bool(row.partial)])
        entry.append(row.field if row.cid >= 0 else None)
    references: dict[int, list[Any]] = {}
    for row in reference_rows:
        entry = references.setdefault(row.id, [row.other, row.on_delete, row.on_update])
        entry.append((row.field, row.referenced))
    counted = {column.name for column in table.columns if column.null_is_generated}
    found = [
        table_changes.FoundIndex(name, tuple(keys), unique, partial, definition=definitions.get(name, ""))
        for name, (unique, partial, *keys) in indexes.items()
    ]
    if counted:  # the rowid is the key, and needs no index
        found.append(table_changes.FoundIndex("", table.key or (), unique=True))
    return table_changes.FoundObjects(
        indexes=tuple(found),
        foreign_keys=tuple(
            table_changes.FoundForeignKey(
                tuple(column for column, _ in pairs), other, tuple(to for _, to in pairs if to), deleted, updated
            )
            for other, deleted, updated, *pairs in references.values()
        ),
        checks=() if text is None else tuple(text.checks()),
        defaults={row.name: row.dflt_value for row in columns if row.dflt_value is not None},
        generated={} if text is None else dict(text.generated()),
        virtual=frozenset(row.name for row in columns if row.hidden == _VIRTUAL),
        counted=frozenset(counted),
        inexact=frozenset(
            name for name, collation in (() if text is None else text.collations()) if collation != "BINARY"
        ),
    )


def _is_primary_key(table: TargetTable, change: table_changes.NewIndex) -> bool:
    """Whether the index is the key of a table without one, which only CREATE TABLE can declare."""
    return change.index.constraint == "primary key" and not table.key


def _with_order(change: table_changes.NewIndex) -> str:
    keys = zip(change.keys, change.index.keys, strict=True)
    return ", ".join(f"{written}{' DESC' if key.descending else ''}" for written, key in keys)
