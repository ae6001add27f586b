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
It is refused although no row has it. Therefore :meth:`DuckDBObjects.building` waits until its
connection is the only one, before its transaction begins. Other processes cannot have the file open
at that time. *Rejected:* to look for such keys afterwards, since no query returns them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import sqlalchemy as sa

from subscriber.errors import TargetUnavailable
from subscriber.targets.duckdb import values as duckdb_values
from subscriber.targets.generic.objects import GenericObjects
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
from subscriber.targets.translate_expression import Kind, Rules

_PLACE: Final = "database_name = current_database() AND schema_name = :schema AND table_name = :table"
_PROBE: Final = "subscriber probe"
"""The name of a temporary table."""
_CONSTRAINTS: Final = sa.text(
    "SELECT constraint_type, constraint_column_names, expression, referenced_table, referenced_column_names, constraint_name"
    f" FROM duckdb_constraints() WHERE {_PLACE} ORDER BY constraint_index"
)
_INDEXES: Final = sa.text(f"SELECT index_name, expressions, is_unique, sql FROM duckdb_indexes() WHERE {_PLACE}")
_COLUMNS: Final = sa.text(f"SELECT column_name, column_default, comment FROM duckdb_columns() WHERE {_PLACE}")
_TABLE: Final = sa.text(f"SELECT comment, sql FROM duckdb_tables() WHERE {_PLACE}")
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


class DuckDBObjects(GenericObjects):
    """See :class:`~subscriber.targets.roles.objects.Objects`."""

    def __init__(self, engine: sa.Engine, errors: Errors, rules: Rules) -> None:
        super().__init__(engine, errors)
        self.rules = rules

    def find(self, connection: sa.Connection, table: TargetTable) -> FoundObjects:
        """See :meth:`Objects.find`."""
        place = _place(table)
        with self._errors.reporting():
            constraints = connection.execute(_CONSTRAINTS, place).all()
            indexes = connection.execute(_INDEXES, place).all()
            columns = connection.execute(_COLUMNS, place).all()
            comment = connection.execute(_TABLE, place).scalar_one_or_none()
        names = {column.column_name for column in columns}
        found = [
            FoundIndex(row.constraint_name or "", tuple(row.constraint_column_names), unique=True)
            for row in constraints
            if row.constraint_type in ("PRIMARY KEY", "UNIQUE")
        ]
        for name, expressions, unique, sql in indexes:
            keys = [key.strip("'\"") for key in expressions.strip("[]").split(", ")]
            keys_of_columns = tuple(key if key in names else None for key in keys)
            found.append(FoundIndex(name, keys_of_columns, bool(unique), definition=_after_names(sql)))
        generated = {column.name for column in table.columns if column.generated}
        values = {column.column_name: column.column_default for column in columns if column.column_default is not None}
        return FoundObjects(
            indexes=tuple(found),
            foreign_keys=tuple(
                FoundForeignKey(
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
            counted=frozenset(name for name, text in values.items() if "nextval(" in text),
            comment=comment,
            column_comments={column.column_name: column.comment for column in columns if column.comment},
        )

    @contextmanager
    def building(self) -> Iterator[sa.Connection]:
        """See :meth:`Objects.building`; no other transaction of this process is open.

        Raises:
            TargetUnavailable: 55006, other connections of this process stay open.
        """
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

    def is_text(self, column: TargetColumn) -> bool:
        """See :meth:`GenericObjects.is_text`."""
        return column.storage == duckdb_values.VARCHAR

    def other_kind(self, type_oid: int, column: TargetColumn) -> Kind:
        """See :meth:`GenericObjects.other_kind`."""
        if column.storage == duckdb_values.DECIMAL:
            return "decimal"
        if type_oid in (_TIMESTAMP, _TIMESTAMPTZ) and not self.is_text(column):
            return "moment"
        return "date" if column.storage == "DATE" else "other"

    def default(self, text: str, type_oid: int, column: TargetColumn) -> str | None:
        """See :meth:`Objects.default`."""
        return None if self.is_text(column) else _NOW.get((text, type_oid))

    def statements(
        self, connection: sa.Connection, table: TargetTable, change: TableChange, earlier: Sequence[TableChange] = ()
    ) -> Statements:
        """See :meth:`Objects.statements`."""
        name = self.qualified(table)
        match change:
            case NewIndex() if change.index.constraint == "primary key" and not table.key:
                self.plain_index(change)
                return Statements((f"ALTER TABLE {name} ADD PRIMARY KEY ({', '.join(change.keys)})",))
            case NewIndex():
                note = self.plain_index(change)
                if change.predicate is not None:
                    raise CannotBuild("DuckDB has no partial indexes")
                unique = "UNIQUE " if change.index.unique else ""
                keys = ", ".join(change.keys)
                return Statements((f"CREATE {unique}INDEX {self.quote(change.name)} ON {name} ({keys})",), note)
            case NewDefault():
                return Statements(
                    (f"ALTER TABLE {name} ALTER COLUMN {self.quote(change.column)} SET DEFAULT {change.expression}",)
                )
            case NewIdentity():
                # The same name as in DuckDBDDL.auto_increment.
                schema = "public" if table.schema == "main" else table.schema
                sequence = self.quote(f"subscriber.{schema}.{table.name}.{change.column}")
                column, text = self.quote(change.column), sequence.replace("'", "''")
                return Statements(
                    (
                        f"CREATE SEQUENCE IF NOT EXISTS {sequence}",
                        f"ALTER TABLE {name} ALTER COLUMN {column} SET DEFAULT nextval('{text}')",
                    )
                )
            case NewComment():
                place = f"TABLE {name}" if change.column is None else f"COLUMN {name}.{self.quote(change.column)}"
                return Statements((f"COMMENT ON {place} IS {_text(change.text)}",))
            case NewForeignKey():
                raise CannotBuild("DuckDB would enforce it also while changes are applied")
            case NewCheck() | NewGenerated():
                return self._made_again(connection, table, change, earlier)
        raise self.refusal(change)

    def _made_again(
        self, connection: sa.Connection, table: TargetTable, change: TableChange, earlier: Sequence[TableChange]
    ) -> Statements:
        """The statements for a table without rows (see the module)."""
        place, name = _place(table), self.qualified(table)
        with self._errors.reporting():
            row = connection.execute(_TABLE, place).one()
            indexes = [one.sql.rstrip(";") for one in connection.execute(_INDEXES, place)]
            columns = connection.execute(_COLUMNS, place).all()
        clauses: list[str] = []
        others = [NewComment(one.comment, one.column_name) for one in columns if one.comment]
        others += [NewComment(row.comment)] if row.comment else []
        follow = [*indexes, *(self.statements(connection, table, one).sql[0] for one in others)]
        for one in (*earlier, change):
            if isinstance(one, NewCheck | NewGenerated):
                clauses.append(self._clause(one))
            else:
                follow += self.statements(connection, table, one).sql
        body = _after_names(row.sql).removesuffix(")")
        note = "the column is VIRTUAL: DuckDB has no STORED columns" if isinstance(change, NewGenerated) else ""
        return Statements(
            (
                f"SELECT CASE WHEN EXISTS (FROM {name}) THEN error('the table has rows') END",
                f"DROP TABLE {name}",
                f"CREATE TABLE {name}{body}, {', '.join(clauses)})",
                *follow,
            ),
            note,
            needs_empty=True,
        )

    def _clause(self, change: NewCheck | NewGenerated) -> str:
        if isinstance(change, NewCheck):
            return f"CONSTRAINT {self.quote(change.name)} CHECK ({change.expression})"
        return f"{self.quote(change.column)} {change.declared} GENERATED ALWAYS AS ({change.expression})"

    def removal(self, table: TargetTable, change: Definition, name: str) -> tuple[str, ...]:
        """See :meth:`Objects.removal`."""
        match change:
            case NewIndex():
                return (f"DROP INDEX {self.quote(str(table.schema))}.{self.quote(name)}",)
            case NewDefault():
                return ()
        raise CannotBuild("DuckDB cannot remove it: the table must be created again")

    def shown(self, connection: sa.Connection, table: TargetTable, change: Definition) -> str:
        """See :meth:`Objects.shown`; a temporary table shows it in DuckDB's own form."""
        items = {one.name: f"{self.quote(one.name)} {one.declared_type}" for one in table.columns if not one.generated}
        probe = self.quote(_PROBE)
        after: tuple[str, ...] = ()
        match change:
            case NewIndex():
                self.statements(connection, table, change)  # refuses what DuckDB cannot have
                after = (f"CREATE INDEX {probe} ON {probe} ({', '.join(change.keys)})",)
                query = "SELECT sql FROM duckdb_indexes()"
            case NewDefault():
                items[change.column] += f" DEFAULT ({change.expression})"
                query = "SELECT column_default FROM duckdb_columns()"
            case NewCheck():
                items[""] = self._clause(change)
                query = "SELECT expression FROM duckdb_constraints()"
            case NewGenerated():
                items[change.column] = self._clause(change)
                query = "SELECT column_default FROM duckdb_columns()"
        of_column = f"column_name = {_text(change.column)}" if isinstance(change, NewDefault | NewGenerated) else "true"
        of_kind = "constraint_type = 'CHECK'" if isinstance(change, NewCheck) else of_column
        raw = connection.execution_options(no_parameters=True)
        try:
            raw.exec_driver_sql(f"CREATE TEMPORARY TABLE {probe} ({', '.join(items.values())})")
            for statement in after:
                raw.exec_driver_sql(statement)
            where = f"database_name = 'temp' AND table_name = {_text(_PROBE)} AND {of_kind}"
            found = str(raw.exec_driver_sql(f"{query} WHERE {where}").scalar_one())
            raw.exec_driver_sql(f"DROP TABLE temp.{probe}")
        except sa.exc.SQLAlchemyError:  # DuckDB refuses the expression, and will say so when it is built
            connection.rollback()
            return "" if isinstance(change, NewIndex) else change.expression
        return _after_names(found) if isinstance(change, NewIndex) else found

    def same_constant(self, connection: sa.Connection, column: TargetColumn, first: str, second: str) -> bool:
        """See :meth:`Objects.same_constant`."""
        declared = column.declared_type
        query = f"SELECT TRY_CAST(({first}) AS {declared}) IS NOT DISTINCT FROM TRY_CAST(({second}) AS {declared})"
        with self._errors.reporting():
            return bool(connection.execution_options(no_parameters=True).exec_driver_sql(query).scalar_one())


def _place(table: TargetTable) -> dict[str, str | None]:
    return {"schema": table.schema, "table": table.name}


def _after_names(sql: str) -> str:
    """What follows the names in DuckDB's text of a table or an index, without the semicolon."""
    names = re.match(r'(?:"(?:[^"]|"")*"|[^"(])*', sql)
    assert names is not None
    return sql[names.end() :].rstrip().removesuffix(";")


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _connections(connection: sa.Connection) -> int:
    """The number of connections that this process has to the database, this one included."""
    number: int = connection.exec_driver_sql(_CONNECTIONS).scalar_one()
    connection.rollback()  # the transaction of the index must see what was committed meanwhile
    return number
