"""New tables in DuckDB."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from subscriber.schema.shape import ColumnShape, TableShape
from subscriber.targets.duckdb import values as duckdb_values
from subscriber.targets.generic.ddl import GenericDDL
from subscriber.targets.target_table import (
    AutoIncrement,
)
from subscriber.targets.translate_expression import NotKnown, Rules, plain_columns, translate


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
        """See :func:`subscriber.targets.translate_expression.translate`."""
        try:
            return translate(expression, plain_columns(types, self.rules.quote), self.rules)
        except NotKnown:
            return None

    @property
    def rules(self) -> Rules:
        """How expressions differ from PostgreSQL's."""
        return Rules(quote=self._engine.dialect.identifier_preparer.quote, date="DATE '{text}'")

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
