"""Objects of DuckDB's tables.

DuckDB adds indexes, defaults and comments to a table that exists, but no CHECK constraint, foreign
key or generated column.

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
_CONSTRAINTS: Final = sa.text(
    "SELECT constraint_type, constraint_column_names, expression, referenced_table, referenced_column_names, constraint_name"
    f" FROM duckdb_constraints() WHERE {_PLACE} ORDER BY constraint_index"
)
_INDEXES: Final = sa.text(f"SELECT index_name, expressions, is_unique FROM duckdb_indexes() WHERE {_PLACE}")
_COLUMNS: Final = sa.text(f"SELECT column_name, column_default, comment FROM duckdb_columns() WHERE {_PLACE}")
_COMMENT: Final = sa.text(f"SELECT comment FROM duckdb_tables() WHERE {_PLACE}")
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
        place = {"schema": table.schema, "table": table.name}
        with self._errors.reporting():
            constraints = connection.execute(_CONSTRAINTS, place).all()
            indexes = connection.execute(_INDEXES, place).all()
            columns = connection.execute(_COLUMNS, place).all()
            comment = connection.execute(_COMMENT, place).scalar_one_or_none()
        names = {column.column_name for column in columns}
        found = [
            FoundIndex(row.constraint_name or "", tuple(row.constraint_column_names), unique=True)
            for row in constraints
            if row.constraint_type in ("PRIMARY KEY", "UNIQUE")
        ]
        for name, expressions, unique in indexes:
            keys = [key.strip("'\"") for key in expressions.strip("[]").split(", ")]
            found.append(FoundIndex(name, tuple(key if key in names else None for key in keys), bool(unique)))
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
                (row.constraint_name or "", row.expression or "")
                for row in constraints
                if row.constraint_type == "CHECK"
            ),
            defaults=frozenset(column.column_name for column in columns if column.column_default is not None),
            counted=frozenset(column.column_name for column in columns if "nextval(" in (column.column_default or "")),
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
        del connection, earlier  # the statements do not depend on what the table has
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
                text = change.text.replace("'", "''")
                return Statements((f"COMMENT ON {place} IS '{text}'",))
            case NewCheck():
                raise CannotBuild("DuckDB cannot add a CHECK constraint to a table that exists")
            case NewForeignKey():
                raise CannotBuild("DuckDB cannot add a foreign key to a table that exists")
            case NewGenerated():
                raise CannotBuild("DuckDB cannot add a generated column to a table that exists")
        raise self.refusal(change)


def _connections(connection: sa.Connection) -> int:
    """The number of connections that this process has to the database, this one included."""
    number: int = connection.exec_driver_sql(_CONNECTIONS).scalar_one()
    connection.rollback()  # the transaction of the index must see what was committed meanwhile
    return number
