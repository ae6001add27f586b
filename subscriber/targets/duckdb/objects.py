"""Objects of DuckDB's tables.

DuckDB adds indexes, defaults and comments to a table that exists, but no CHECK constraint, foreign
key or generated column. A table without rows is made again with its CHECK constraint or generated
column, in one transaction::

    error(…) if the table has rows
    DROP TABLE, CREATE TABLE (…)      DuckDB's own text of the table, with one more clause
    CREATE INDEX, COMMENT             as they were

Foreign keys are left out even then: DuckDB has no way to turn them off for apply's connections.

An index must be created while no other transaction of the process is open. DuckDB (2.0) fills it
with the keys of all rows that any open transaction can still see::

    other transaction   BEGIN; SELECT …                                         COMMIT
    writer                              DELETE FROM t WHERE b = 10
    index                                                CREATE UNIQUE INDEX … ON t (b)
    writer                                                                              INSERT … 10: "Duplicate key"

The key of the deleted row stays in the index, also after a checkpoint, until the index is dropped.
Therefore :meth:`DuckDBObjects.building` waits until its connection is the only one, before its
transaction begins. *Rejected:* to look for such keys afterwards, since no query returns them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import sqlalchemy as sa
from typing_extensions import override

from subscriber.base.errors import TargetUnavailable
from subscriber.postgres.sql.quoting import quote_literal
from subscriber.targets import table_changes
from subscriber.targets.base.catalog import by_table
from subscriber.targets.base.objects import Objects
from subscriber.targets.duckdb.values import DECIMAL, VARCHAR
from subscriber.targets.target_table import TargetColumn, TargetTable
from subscriber.targets.translate_expression import Kind

_OF: Final = "WHERE database_name = current_database() AND table_name IN (SELECT unnest(CAST(:names AS VARCHAR[])))"
_PLACE: Final = "(schema_name, table_name) AS place"
_PROBE: Final = "subscriber probe"
_CONSTRAINTS: Final = sa.text(
    "SELECT constraint_type, constraint_column_names, expression, referenced_table, referenced_column_names, constraint_name,"
    f" {_PLACE} FROM duckdb_constraints() {_OF} ORDER BY constraint_index"
)
_INDEXES: Final = sa.text(f"SELECT index_name, expressions, is_unique, sql, {_PLACE} FROM duckdb_indexes() {_OF}")
_COLUMNS: Final = sa.text(f"SELECT column_name, column_default, comment, {_PLACE} FROM duckdb_columns() {_OF}")
_TABLES: Final = sa.text(f"SELECT comment, sql, {_PLACE} FROM duckdb_tables() {_OF}")
_VIEW: Final = sa.text(
    "SELECT sql FROM duckdb_views() WHERE database_name = current_database() AND schema_name = :schema AND view_name = :name"
)
_CONNECTIONS: Final = "SELECT count FROM duckdb_connection_count()"
_ALONE_SECONDS: Final = 10.0
"""How long to wait until other transactions of this process have ended."""
_ALONE_PAUSE: Final = 0.02
_DATE, _TIMESTAMP, _TIMESTAMPTZ, _UUID = 1082, 1114, 1184, 2950
_NOW: Final = {
    ("now()", _TIMESTAMPTZ): "now()",
    ("CURRENT_TIMESTAMP", _TIMESTAMPTZ): "now()",
    ("timezone('utc'::text, now())", _TIMESTAMP): "timezone('UTC', now())",
    ("gen_random_uuid()", _UUID): "gen_random_uuid()",
}


class DuckDBObjects(Objects):
    @override
    def find(self, connection: sa.Connection, tables: Sequence[TargetTable]) -> list[table_changes.FoundObjects]:
        constraints, indexes, columns, texts = self._read(connection, tables)
        return [
            _found(table, constraints[place], indexes[place], columns[place], texts[place])
            for table, place in ((one, (one.schema, one.name)) for one in tables)
        ]

    def _read(
        self, connection: sa.Connection, tables: Sequence[TargetTable]
    ) -> list[Mapping[tuple[str | None, str], list[sa.Row[Any]]]]:
        names = {"names": [table.name for table in tables]}
        with self._errors.reporting():
            return [by_table(connection.execute(query, names)) for query in (_CONSTRAINTS, _INDEXES, _COLUMNS, _TABLES)]

    @override
    @contextmanager
    def building(self) -> Iterator[sa.Connection]:
        with self._errors.reporting(), self._engine.connect() as connection:
            deadline = time.monotonic() + _ALONE_SECONDS
            while _connections(connection) > 1:
                if time.monotonic() > deadline:
                    raise TargetUnavailable(
                        "DuckDB cannot create an index safely while another connection of this process is open",
                        sqlstate="55006",
                        hint="Run `subscriber schema apply` as a program of its own.",
                    )
                time.sleep(_ALONE_PAUSE)
            with connection.begin():
                yield connection

    @override
    def is_text(self, column: TargetColumn) -> bool:
        return column.storage == VARCHAR

    @override
    def other_kind(self, type_oid: int, column: TargetColumn) -> Kind:
        if column.storage == DECIMAL:
            return "decimal"
        if type_oid in (_TIMESTAMP, _TIMESTAMPTZ) and not self.is_text(column):
            return "moment"
        return "date" if column.storage == "DATE" else "other"

    @override
    def default(self, text: str, type_oid: int, column: TargetColumn) -> str | None:
        return None if self.is_text(column) else _NOW.get((text, type_oid))

    @override
    def statements(
        self,
        connection: sa.Connection,
        table: TargetTable,
        change: table_changes.TableChange,
        earlier: Sequence[table_changes.TableChange] = (),
    ) -> table_changes.Statements:
        name = self.qualified(table)
        match change:
            case table_changes.NewIndex() if change.index.constraint == "primary key" and not table.key:
                self.plain_index(change)
                return table_changes.Statements((f"ALTER TABLE {name} ADD PRIMARY KEY ({', '.join(change.keys)})",))
            case table_changes.NewIndex():
                note = self.plain_index(change)
                if change.predicate is not None:
                    raise table_changes.CannotBuild("DuckDB has no partial indexes")
                unique = "UNIQUE " if change.index.unique else ""
                keys = ", ".join(change.keys)
                return table_changes.Statements(
                    (f"CREATE {unique}INDEX {self.quote(change.name)} ON {name} ({keys})",), note
                )
            case table_changes.NewIdentity():
                # The same name as in DuckDBDDL.auto_increment.
                schema = "public" if table.schema == "main" else table.schema
                sequence = self.quote(f"subscriber.{schema}.{table.name}.{change.column}")
                column, text = self.quote(change.column), sequence.replace("'", "''")
                return table_changes.Statements(
                    (
                        f"CREATE SEQUENCE IF NOT EXISTS {sequence}",
                        f"ALTER TABLE {name} ALTER COLUMN {column} SET DEFAULT nextval('{text}')",
                    )
                )
            case table_changes.NewView():
                schemas = () if change.schema is None else (f"CREATE SCHEMA IF NOT EXISTS {self.quote(change.schema)}",)
                made = self.view(change)
                return table_changes.Statements((*schemas, *made.sql), made.note)
            case table_changes.NewForeignKey():
                raise table_changes.CannotBuild("DuckDB would enforce it also while changes are applied")
            case table_changes.NewCheck() | table_changes.NewGenerated():
                return self._made_again(connection, table, change, earlier)
        return self.standard(table, change)

    def _made_again(
        self,
        connection: sa.Connection,
        table: TargetTable,
        change: table_changes.TableChange,
        earlier: Sequence[table_changes.TableChange],
    ) -> table_changes.Statements:
        place, name = (table.schema, table.name), self.qualified(table)
        _, found, columns_of, texts = self._read(connection, [table])
        (row,), columns = texts[place], columns_of[place]
        indexes = [one.sql.rstrip(";") for one in found[place]]
        clauses: list[str] = []
        others = [table_changes.NewComment(one.comment, one.column_name) for one in columns if one.comment]
        others += [table_changes.NewComment(row.comment)] if row.comment else []
        follow = [*indexes, *(self.statements(connection, table, one).sql[0] for one in others)]
        for one in (*earlier, change):
            if isinstance(one, table_changes.NewCheck | table_changes.NewGenerated):
                clauses.append(self._clause(one))
            else:
                follow += self.statements(connection, table, one).sql
        body = _after_names(row.sql).removesuffix(")")
        is_stored = isinstance(change, table_changes.NewGenerated) and not change.virtual
        note = "the column is VIRTUAL: DuckDB has no STORED columns" if is_stored else ""
        return table_changes.Statements(
            (
                f"SELECT CASE WHEN EXISTS (FROM {name}) THEN error('the table has rows') END",
                f"DROP TABLE {name}",
                f"CREATE TABLE {name}{body}, {', '.join(clauses)})",
                *follow,
            ),
            note,
            needs_empty=True,
        )

    def _clause(self, change: table_changes.NewCheck | table_changes.NewGenerated) -> str:
        if isinstance(change, table_changes.NewCheck):
            return f"CONSTRAINT {self.quote(change.name)} CHECK ({change.expression})"
        return f"{self.quote(change.column)} {change.declared} GENERATED ALWAYS AS ({change.expression}) VIRTUAL"

    @override
    def removal(self, table: TargetTable, change: table_changes.Definition, name: str) -> tuple[str, ...]:
        match change:
            case table_changes.NewIndex():
                return (f"DROP INDEX {self.quote(str(table.schema))}.{self.quote(name)}",)
            case table_changes.NewDefault():
                return ()
        raise table_changes.CannotBuild("DuckDB cannot remove it: the table must be created again")

    @override
    def shown(self, connection: sa.Connection, table: TargetTable, change: table_changes.Definition) -> str:
        """A temporary table shows it in DuckDB's own form."""
        items = {one.name: f"{self.quote(one.name)} {one.declared_type}" for one in table.columns if not one.generated}
        probe = self.quote(_PROBE)
        after: tuple[str, ...] = ()
        match change:
            case table_changes.NewIndex():
                self.statements(connection, table, change)  # refuses what DuckDB cannot have
                after = (f"CREATE INDEX {probe} ON {probe} ({', '.join(change.keys)})",)
                query = "SELECT sql FROM duckdb_indexes()"
            case table_changes.NewDefault():
                items[change.column] += f" DEFAULT ({change.expression})"
                query = "SELECT column_default FROM duckdb_columns()"
            case table_changes.NewCheck():
                items[""] = self._clause(change)
                query = "SELECT expression FROM duckdb_constraints()"
            case table_changes.NewGenerated():
                items[change.column] = self._clause(change)
                query = "SELECT column_default FROM duckdb_columns()"
        of_column = (
            f"column_name = {quote_literal(change.column)}"
            if isinstance(change, table_changes.NewDefault | table_changes.NewGenerated)
            else "true"
        )
        of_kind = "constraint_type = 'CHECK'" if isinstance(change, table_changes.NewCheck) else of_column
        raw = connection.execution_options(no_parameters=True)
        try:
            raw.exec_driver_sql(f"CREATE TEMPORARY TABLE {probe} ({', '.join(items.values())})")
            for statement in after:
                raw.exec_driver_sql(statement)
            where = f"database_name = 'temp' AND table_name = {quote_literal(_PROBE)} AND {of_kind}"
            found = str(raw.exec_driver_sql(f"{query} WHERE {where}").scalar_one())
            raw.exec_driver_sql(f"DROP TABLE temp.{probe}")
        except sa.exc.SQLAlchemyError:  # DuckDB refuses the expression, and will say so when it is built
            connection.rollback()
            return "" if isinstance(change, table_changes.NewIndex) else change.expression
        return _after_names(found) if isinstance(change, table_changes.NewIndex) else found

    @override
    def view_text(self, connection: sa.Connection, view: TargetTable) -> str:
        with self._errors.reporting():
            return str(connection.execute(_VIEW, {"schema": view.schema or "main", "name": view.name}).scalar_one())

    @override
    def same_constant(self, connection: sa.Connection, column: TargetColumn, first: str, second: str) -> bool:
        declared = column.declared_type
        query = f"SELECT TRY_CAST(({first}) AS {declared}) IS NOT DISTINCT FROM TRY_CAST(({second}) AS {declared})"
        with self._errors.reporting():
            return bool(connection.execution_options(no_parameters=True).exec_driver_sql(query).scalar_one())


def _found(
    table: TargetTable,
    constraints: Sequence[sa.Row[Any]],
    indexes: Sequence[sa.Row[Any]],
    columns: Sequence[sa.Row[Any]],
    texts: Sequence[sa.Row[Any]],
) -> table_changes.FoundObjects:
    names = {column.column_name for column in columns}
    found = [
        table_changes.FoundIndex(row.constraint_name or "", tuple(row.constraint_column_names), unique=True)
        for row in constraints
        if row.constraint_type in ("PRIMARY KEY", "UNIQUE")
    ]
    for row in indexes:
        keys = [key.strip("'\"") for key in row.expressions.strip("[]").split(", ")]
        keys_of_columns = tuple(key if key in names else None for key in keys)
        found.append(
            table_changes.FoundIndex(
                row.index_name, keys_of_columns, bool(row.is_unique), definition=_after_names(row.sql)
            )
        )
    generated = {column.name for column in table.columns if column.generated}
    values = {column.column_name: column.column_default for column in columns if column.column_default is not None}
    return table_changes.FoundObjects(
        indexes=tuple(found),
        foreign_keys=tuple(
            table_changes.FoundForeignKey(
                tuple(row.constraint_column_names), row.referenced_table, tuple(row.referenced_column_names)
            )
            for row in constraints
            if row.constraint_type == "FOREIGN KEY"
        ),
        checks=tuple(
            ("", row.expression or "")  # DuckDB replaces the name by one of its own
            for row in constraints
            if row.constraint_type == "CHECK"
        ),
        defaults={name: text for name, text in values.items() if name not in generated},
        generated={name: text for name, text in values.items() if name in generated},
        virtual=frozenset(generated),
        counted=frozenset(name for name, text in values.items() if "nextval(" in text),
        comment=texts[0].comment if texts else None,
        column_comments={column.column_name: column.comment for column in columns if column.comment},
    )


def _after_names(sql: str) -> str:
    """What follows the names in DuckDB's text of a table or an index, without the semicolon."""
    names = re.match(r'(?:"(?:[^"]|"")*"|[^"(])*', sql)
    assert names is not None
    return sql[names.end() :].rstrip().removesuffix(";")


def _connections(connection: sa.Connection) -> int:
    number: int = connection.exec_driver_sql(_CONNECTIONS).scalar_one()
    connection.rollback()  # the transaction of the index must see what was committed meanwhile
    return number
