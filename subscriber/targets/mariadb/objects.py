"""Objects of MariaDB's tables.

A column is changed by MODIFY COLUMN with its whole declaration, which is taken from SHOW CREATE
TABLE. DDL commits, so each change is a transaction of its own in any case.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import sqlalchemy as sa

from subscriber.targets.declared_columns import declared_length
from subscriber.targets.generic.objects import GenericObjects
from subscriber.targets.mariadb.catalog import counts
from subscriber.targets.mariadb.create_table_text import checks_of, defaults_of, generated_of, without_default
from subscriber.targets.mariadb.ddl import RULES
from subscriber.targets.roles.errors import Errors
from subscriber.targets.table_changes import (
    CannotBuild,
    Definition,
    FoundForeignKey,
    FoundIndex,
    FoundObjects,
    NewCheck,
    NewComment,
    NewDefault,
    NewForeignKey,
    NewGenerated,
    NewIdentity,
    NewIndex,
    Statements,
    TableChange,
)
from subscriber.targets.target_table import TargetColumn, TargetTable
from subscriber.targets.translate_expression import Kind

_HERE: Final = "COALESCE(:database, DATABASE())"
_INDEXES: Final = sa.text(
    "SELECT index_name AS name, non_unique AS several, column_name AS field, sub_part AS part FROM information_schema.statistics"
    f" WHERE table_schema = {_HERE} AND table_name = :name ORDER BY index_name, seq_in_index"
)
_FOREIGN_KEYS: Final = sa.text(
    "SELECT k.constraint_name AS name, k.column_name AS field, k.referenced_table_name AS other, k.referenced_column_name AS referenced,"
    " r.delete_rule AS deleted, r.update_rule AS updated FROM information_schema.key_column_usage k"
    " JOIN information_schema.referential_constraints r ON r.constraint_schema = k.constraint_schema"
    " AND r.constraint_name = k.constraint_name AND r.table_name = k.table_name"
    f" WHERE k.table_schema = {_HERE} AND k.table_name = :name ORDER BY k.constraint_name, k.ordinal_position"
)
_CHECKS: Final = sa.text(
    "SELECT constraint_name AS name, check_clause AS text FROM information_schema.check_constraints"
    f" WHERE constraint_schema = {_HERE} AND table_name = :name"
)
_CHECKS_OF_MYSQL: Final = sa.text(
    "SELECT c.constraint_name AS name, c.check_clause AS text FROM information_schema.check_constraints c"
    " JOIN information_schema.table_constraints t ON t.constraint_schema = c.constraint_schema AND t.constraint_name = c.constraint_name"
    f" WHERE t.table_schema = {_HERE} AND t.table_name = :name"
)
_COLUMNS: Final = sa.text(
    "SELECT column_name AS name, column_comment AS comment, collation_name AS collation"
    f" FROM information_schema.columns WHERE table_schema = {_HERE} AND table_name = :name"
)
_COMMENT: Final = sa.text(
    f"SELECT table_comment FROM information_schema.tables WHERE table_schema = {_HERE} AND table_name = :name"
)
_LONG: Final = frozenset({"tinytext", "text", "mediumtext", "longtext", "tinyblob", "blob", "mediumblob", "longblob"})
_TEXTS: Final = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
_PREFIX: Final = 191
"""The characters of a long text that an index has. With four bytes for each, the key of an old row
format is not too long either.
"""
_TRIMMED: Final = "trim(TRAILING '.' FROM trim(TRAILING '0' FROM {}))"
"""A time with a fraction, as PostgreSQL writes it."""
_TIMESTAMP, _TIMESTAMPTZ, _DATE = 1114, 1184, 1082


class MariaDBObjects(GenericObjects):
    """See :class:`~subscriber.targets.roles.objects.Objects`."""

    casts = "CAST({column} AS SIGNED)"

    def __init__(self, engine: sa.Engine, errors: Errors) -> None:
        super().__init__(engine, errors)
        self.rules = RULES

    def find(self, connection: sa.Connection, table: TargetTable) -> FoundObjects:
        """See :meth:`Objects.find`."""
        place = {"database": table.schema, "name": table.name}
        with self._errors.reporting():
            indexes: dict[str, list[Any]] = {}
            for row in connection.execute(_INDEXES, place):
                indexes.setdefault(row.name, [not row.several]).append(None if row.part else row.field)
            references: dict[str, list[Any]] = {}
            for row in connection.execute(_FOREIGN_KEYS, place):
                entry = references.setdefault(row.name, [row.other, row.deleted, row.updated])
                entry.append((row.field, row.referenced))
            checks = [(row.name, row.text) for row in connection.execute(self._checks_query(), place)]
            columns = connection.execute(_COLUMNS, place).all()
            comment = connection.execute(_COMMENT, place).scalar_one_or_none()
            text = self._create_table(connection, self.qualified(table))
        written = dict(checks_of(text))
        return FoundObjects(
            indexes=tuple(FoundIndex(name, tuple(keys), unique) for name, (unique, *keys) in indexes.items()),
            foreign_keys=tuple(
                FoundForeignKey(
                    tuple(column for column, _ in pairs), other, tuple(to for _, to in pairs), deleted, updated
                )
                for other, deleted, updated, *pairs in references.values()
            ),
            checks=tuple((name, written.get(name, check)) for name, check in checks),
            defaults=dict(defaults_of(text)),
            generated=dict(generated_of(text)),
            counted=frozenset(column.name for column in table.columns if counts(column)),
            inexact=frozenset(row.name for row in columns if row.collation and "nopad_bin" not in row.collation),
            comment=comment or None,
            column_comments={row.name: row.comment for row in columns if row.comment},
        )

    def _checks_query(self) -> sa.TextClause:
        dialect: Any = self._engine.dialect
        return _CHECKS if dialect.is_mariadb else _CHECKS_OF_MYSQL

    def is_text(self, column: TargetColumn) -> bool:
        """See :meth:`GenericObjects.is_text`."""
        return column.storage in _TEXTS

    def other_kind(self, type_oid: int, column: TargetColumn) -> Kind:
        """See :meth:`GenericObjects.other_kind`."""
        if column.storage == "decimal":
            return "decimal"
        return "date" if (type_oid, column.storage) == (_DATE, "date") else "other"

    def default(self, text: str, type_oid: int, column: TargetColumn) -> str | None:
        """See :meth:`Objects.default`; both databases have a time zone of the session."""
        now = text in ("now()", "CURRENT_TIMESTAMP", "LOCALTIMESTAMP")
        if self.is_text(column):
            utc, local = _TRIMMED.format("utc_timestamp(6)"), _TRIMMED.format("current_timestamp(6)")
            if type_oid == _TIMESTAMPTZ and now:
                return f"concat({utc}, '+00')"
            if type_oid == _TIMESTAMP:
                return local if now else utc if text == "timezone('utc'::text, now())" else None
        if column.storage == "datetime" and type_oid == _TIMESTAMP and now:
            return "current_timestamp(6)"
        if (text, type_oid, column.storage) == ("CURRENT_DATE", _DATE, "date"):
            return "curdate()"
        return None

    def statements(
        self, connection: sa.Connection, table: TargetTable, change: TableChange, earlier: Sequence[TableChange] = ()
    ) -> Statements:
        """See :meth:`Objects.statements`."""
        alter = f"ALTER TABLE {self.qualified(table)}"
        match change:
            case NewIndex():
                return self._index(table, change, alter)
            case NewForeignKey():
                clause, note = self._foreign_key(table, change)
                return Statements((f"{alter} ADD CONSTRAINT {self.quote(change.name)} {clause}",), note)
            case NewCheck():
                check = f"CHECK ({change.expression})"
                return Statements((f"{alter} ADD CONSTRAINT {self.quote(change.name)} {check}",))
            case NewDefault():
                column = self.quote(change.column)
                return Statements((f"{alter} ALTER COLUMN {column} SET DEFAULT ({change.expression})",))
            case NewGenerated():
                made = f"{self.quote(change.column)} {change.declared} GENERATED ALWAYS AS ({change.expression}) STORED"
                return Statements((f"{alter} ADD COLUMN {made}",))
            case NewIdentity():
                self._check_counter(table, change.column)
                declared = self._declaration(connection, table, change.column)
                return Statements((f"{alter} MODIFY COLUMN {without_default(declared)} AUTO_INCREMENT",))
            case NewComment(column=None):
                return Statements((f"{alter} COMMENT = {_text(change.text)}",))
            case NewComment():
                assert change.column is not None
                declared = self._declaration(connection, table, change.column)
                for one in earlier:  # MODIFY COLUMN replaces what they have declared
                    if isinstance(one, NewDefault) and one.column == change.column:
                        declared = f"{without_default(declared)} DEFAULT ({one.expression})"
                    elif isinstance(one, NewIdentity) and one.column == change.column:
                        declared = f"{without_default(declared)} AUTO_INCREMENT"
                return Statements((f"{alter} MODIFY COLUMN {declared} COMMENT {_text(change.text)}",))
        raise self.refusal(change)

    def _index(self, table: TargetTable, change: NewIndex, alter: str) -> Statements:
        note = self.plain_index(change)
        index = change.index
        if change.predicate is not None:
            raise CannotBuild("MariaDB has no partial indexes")
        keys = []
        for key, written in zip(index.keys, change.keys, strict=True):
            if key.column is None:
                raise CannotBuild("MariaDB has no indexes of expressions")
            column = table.column(key.column)
            prefix = f"({_PREFIX})" if column is not None and _needs_prefix(column) else ""
            if column is not None and prefix and index.unique:
                raise CannotBuild(
                    f'a unique key of column "{column.name}", declared "{column.declared_type}", would compare only the first characters'
                )
            keys.append(f"{written}{prefix}{' DESC' if key.descending else ''}")
        if index.constraint == "primary key" and not table.key:
            return Statements((f"{alter} ADD PRIMARY KEY ({', '.join(change.keys)})",))
        unique = "UNIQUE " if index.unique else ""
        name, on = self.quote(change.name), self.qualified(table)
        return Statements((f"CREATE {unique}INDEX {name} ON {on} ({', '.join(keys)})",), note)

    def _foreign_key(self, table: TargetTable, change: NewForeignKey) -> tuple[str, str]:
        if "SET DEFAULT" in (change.key.on_delete, change.key.on_update):
            raise CannotBuild("MariaDB has no SET DEFAULT")
        for owner, names in ((table, change.key.columns), (change.references, change.key.referenced)):
            for column in (owner.column(name) for name in names):
                if column is not None and column.storage in _LONG:
                    raise CannotBuild(
                        f'column "{column.name}" of table "{owner.name}" is declared {column.declared_type.upper()},'
                        " which no key can have; declare it as VARCHAR"
                    )
        return self.foreign_key_clause(change, deferrable=False)

    def _check_counter(self, table: TargetTable, column: str) -> None:
        if any(counts(other) for other in table.columns):
            raise CannotBuild("a table of MariaDB has one AUTO_INCREMENT column, and this one has it already")
        if not table.key or table.key[0] != column:
            raise CannotBuild("an AUTO_INCREMENT column must be the first of the key")

    def _declaration(self, connection: sa.Connection, table: TargetTable, column: str) -> str:
        """The line of a column in SHOW CREATE TABLE, without its comment."""
        with self._errors.reporting():
            text = self._create_table(connection, self.qualified(table))
        for line in text.split("\n"):
            if line.startswith(f"  {self.quote(column)} "):
                return re.sub(r" COMMENT '(?:[^'\\]|''|\\.)*'", "", line.strip().removesuffix(","))
        raise CannotBuild(f'the declaration of column "{column}" cannot be read')

    @staticmethod
    def _create_table(connection: sa.Connection, name: str) -> str:
        """The server's CREATE TABLE statement of a table, whose name is quoted."""
        raw = connection.execution_options(no_parameters=True)
        return str(raw.exec_driver_sql(f"SHOW CREATE TABLE {name}").one()[1])

    def removal(self, table: TargetTable, change: Definition, name: str) -> tuple[str, ...]:
        """See :meth:`Objects.removal`."""
        alter = f"ALTER TABLE {self.qualified(table)}"
        match change:
            case NewIndex():
                return (f"DROP INDEX {self.quote(name)} ON {self.qualified(table)}",)
            case NewCheck():
                return (f"{alter} DROP CONSTRAINT {self.quote(name)}",)
            case NewGenerated():
                return (f"{alter} DROP COLUMN {self.quote(name)}",)
            case NewDefault():
                return ()

    def shown(self, connection: sa.Connection, table: TargetTable, change: Definition) -> str:
        """See :meth:`Objects.shown`; a temporary table shows it in the server's own form."""
        if isinstance(change, NewIndex):
            return ""  # an index has columns only, which are compared as such
        columns = [one for one in table.columns if not one.generated]
        items = {one.name: f"{self.quote(one.name)} {one.declared_type}" for one in columns}
        match change:
            case NewDefault():
                items[change.column] += f" DEFAULT ({change.expression})"
            case NewCheck():
                items[""] = f"CONSTRAINT {self.quote(change.name)} CHECK ({change.expression})"
            case NewGenerated():
                made = f"{change.declared} GENERATED ALWAYS AS ({change.expression}) STORED"
                items[change.column] = f"{self.quote(change.column)} {made}"
        name = self.quote("subscriber probe")
        raw = connection.execution_options(no_parameters=True)
        try:
            raw.exec_driver_sql(f"CREATE TEMPORARY TABLE {name} ({', '.join(items.values())})")
        except sa.exc.SQLAlchemyError:  # no right to create it
            return change.expression
        try:
            text = self._create_table(connection, name)
        finally:
            raw.exec_driver_sql(f"DROP TEMPORARY TABLE {name}")
        match change:
            case NewDefault():
                return dict(defaults_of(text)).get(change.column, "NULL")
            case NewCheck():
                return dict(checks_of(text))[change.name]
            case NewGenerated():
                return dict(generated_of(text))[change.column]

    def same_constant(self, connection: sa.Connection, column: TargetColumn, first: str, second: str) -> bool:
        """See :meth:`Objects.same_constant`; a temporary table stores both."""
        name, declared = self.quote("subscriber probe"), column.declared_type
        raw = connection.execution_options(no_parameters=True)
        try:
            raw.exec_driver_sql(
                f"CREATE TEMPORARY TABLE {name} (a {declared} DEFAULT ({first}), b {declared} DEFAULT ({second}))"
            )
            raw.exec_driver_sql(f"INSERT INTO {name} () VALUES ()")
            query = f"SELECT CAST(a AS BINARY) <=> CAST(b AS BINARY) FROM {name}"
            return bool(raw.exec_driver_sql(query).scalar_one())
        except sa.exc.SQLAlchemyError:  # no right to create it, or not a value of the column
            return first == second
        finally:
            raw.exec_driver_sql(f"DROP TEMPORARY TABLE IF EXISTS {name}")

    @contextmanager
    def building(self) -> Iterator[sa.Connection]:
        """See :meth:`Objects.building`; foreign keys are on."""
        with self._errors.reporting(), self._engine.begin() as connection:
            connection.exec_driver_sql("SET SESSION foreign_key_checks = 1")
            try:
                yield connection
            finally:
                connection.exec_driver_sql("SET SESSION foreign_key_checks = 0")


def _needs_prefix(column: TargetColumn) -> bool:
    if column.storage in _LONG:
        return True
    return column.storage in ("char", "varchar") and (declared_length(column.declared_type) or 0) > 4 * _PREFIX


def _text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
