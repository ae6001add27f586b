"""New tables in DuckDB."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from subscriber.schema.shape import ColumnShape, TableShape
from subscriber.targets.default_expressions import sqlite_expression
from subscriber.targets.duckdb import values as duckdb_values
from subscriber.targets.generic.ddl import GenericDDL
from subscriber.targets.target_table import (
    AutoIncrement,
)


class DuckDBDDL(GenericDDL):
    """See :class:`~subscriber.targets.roles.ddl.DDL`."""

    def place(self, schema: str, table: str) -> tuple[str | None, str]:
        """See :meth:`DDL.place` and :mod:`subscriber.targets.duckdb.target`."""
        return None if schema == "public" else schema, table

    def column_type(self, type_oid: int, type_name: str, *, key: bool = False) -> str:
        """See :func:`subscriber.targets.duckdb.values.declaration`."""
        del key  # every type is allowed in a key
        return duckdb_values.declaration(type_oid, type_name)

    def storage(self, declared: str) -> str:
        """See :func:`subscriber.targets.duckdb.values.storage`."""
        return duckdb_values.storage(declared)

    def expression(self, expression: str, types: Mapping[str, int]) -> str | None:
        """The expression that SQLite would get; it has the same meaning here.

        See :mod:`subscriber.targets.default_expressions`.
        """
        return sqlite_expression(expression, types, self._engine.dialect.identifier_preparer.quote)

    def literal(self, value: Any) -> str | None:
        """See :meth:`DDL.literal`; supports blobs too, and a backslash is an ordinary character."""
        match value:
            case bytes():
                return f"from_hex('{value.hex()}')"
            case str() if "\0" not in value:
                return "'" + value.replace("'", "''") + "'"
            case _:
                return super().literal(value)

    def auto_increment(self, shape: TableShape, column: ColumnShape, declared: str) -> AutoIncrement | None:
        """A new sequence from which the column's default takes values.

        The sequence remains if its table is dropped, and starts again if the table is created
        again.
        """
        name = self._engine.dialect.identifier_preparer.quote(f"subscriber.{shape.qualified_name}.{column.name}")
        create = sa.DDL(f"CREATE OR REPLACE SEQUENCE {name}".replace("%", "%%"))  # type: ignore[no-untyped-call]  # SQLAlchemy left it out
        return AutoIncrement(f"{declared} DEFAULT nextval({self.literal(name)})", before=(create,))
