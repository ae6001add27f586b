"""Objects of DuckDB's tables.

DuckDB adds indexes, defaults and comments to a table that exists, but no CHECK constraint, foreign
key or generated column.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import sqlalchemy as sa

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
