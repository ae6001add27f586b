"""Shapes of DuckDB's tables: ``public`` is ``main``; any other schema keeps its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import sqlalchemy as sa

from subscriber.targets.duckdb import values as duckdb_values
from subscriber.targets.generic.shapes import GenericShapes
from subscriber.targets.target_table import (
    TableKind,
    TargetColumn,
    TargetTable,
    UniqueIndex,
)

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
_INDEX_SQL: Final = sa.text(
    "SELECT index_name, sql FROM duckdb_indexes() WHERE database_name = current_database()"
    " AND schema_name = :schema AND table_name = :table AND is_unique ORDER BY index_oid"
)
_CONNECTED: Final = sa.text(
    # Foreign keys of the table and to it, and unique keys beside the primary key.
    "SELECT EXISTS (SELECT 1 FROM duckdb_constraints() WHERE database_name = current_database() AND schema_name = :schema"
    "  AND (table_name = :table AND constraint_type IN ('FOREIGN KEY', 'UNIQUE') OR referenced_table = :table))"
    " OR EXISTS (SELECT 1 FROM duckdb_indexes() WHERE database_name = current_database()"
    "  AND schema_name = :schema AND table_name = :table AND is_unique)"
)
_CHECKED: Final = sa.text(
    "SELECT EXISTS (SELECT 1 FROM duckdb_constraints() WHERE database_name = current_database() AND schema_name = :schema"
    "  AND table_name = :table AND constraint_type NOT IN ('PRIMARY KEY', 'NOT NULL'))"
    " OR EXISTS (SELECT 1 FROM duckdb_indexes() WHERE database_name = current_database()"
    "  AND schema_name = :schema AND table_name = :table)"
)


class DuckDBShapes(GenericShapes):
    """See :class:`~subscriber.targets.roles.shapes.Shapes`."""

    def reflect(self, connection: sa.Connection, schema: str, table: str) -> TargetTable | None:
        """See :meth:`Shapes.reflect`; names are compared exactly, although DuckDB ignores their
        case.
        """
        place = {"schema": _schema(schema), "table": table}
        with self._errors.reporting():
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
                    storage=duckdb_values.storage(column.data_type),
                    nullable=column.is_nullable,
                    generated=bool(column.is_generated),
                    required=not (column.is_nullable or column.is_generated or column.has_default),
                )
                for column in columns
            ),
            tuple(key) if key else None,
            kinds[kind],
            locators=() if any(column.column_name.lower() == "rowid" for column in columns) else ("rowid",),
        )

    def order_matters(self, connection: sa.Connection, table: TargetTable) -> bool:
        """See :meth:`Shapes.order_matters`; DuckDB has no triggers."""
        place = {"schema": table.schema, "table": table.name}
        with self._errors.reporting():
            return bool(connection.execute(_CONNECTED, place).scalar_one())

    def refuses_rows(self, connection: sa.Connection, table: TargetTable) -> bool:
        """See :meth:`Shapes.refuses_rows`; an index limits the length of keys."""
        if any(column.generated for column in table.columns):
            return True
        place = {"schema": table.schema, "table": table.name}
        with self._errors.reporting():
            return bool(connection.execute(_CHECKED, place).scalar_one())

    def unique_indexes(self, connection: sa.Connection, table: TargetTable) -> Sequence[UniqueIndex]:
        """See :meth:`Shapes.unique_indexes`; indexes of expressions are left out."""
        place = {"schema": table.schema, "table": table.name}
        found = [UniqueIndex(row.name, tuple(row.keys)) for row in connection.execute(_UNIQUE_CONSTRAINTS, place)]
        names = {column.name for column in table.columns}
        for name, text in connection.execute(_UNIQUE_INDEXES, place):
            keys = tuple(key.strip('"') for key in text.strip("[]").split(", "))
            if names.issuperset(keys):
                found.append(UniqueIndex(name, keys))
        return found

    def refused_key_hint(self, connection: sa.Connection, table: TargetTable) -> str | None:
        """See :meth:`Shapes.refused_key_hint`; the reason is in
        :mod:`subscriber.targets.duckdb.objects`.
        """
        place = {"schema": table.schema, "table": table.name}
        quote = connection.dialect.identifier_preparer.quote
        built = [
            f"DROP INDEX {quote(table.schema or 'main')}.{quote(name)}; {sql}"
            for name, sql in connection.execute(_INDEX_SQL, place)
        ]
        if not built:
            return None
        return (
            "If no row has the key, a unique index has kept it from a row that was deleted, as DuckDB's indexes do that were"
            f" created while another transaction was open. Create the index again: {' '.join(built)}"
        )


def _schema(schema: str) -> str:
    return "main" if schema == "public" else schema
