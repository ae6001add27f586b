"""New tables in SQLite."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.schema import ExecutableDDLElement

from subscriber.schema.shape import ColumnShape, TableShape, UniqueKey
from subscriber.targets.generic.ddl import GenericDDL
from subscriber.targets.sqlite import values as sqlite_values
from subscriber.targets.target_table import AutoIncrement
from subscriber.targets.translate_expression import NotKnown, Rules, plain_columns, translate


class SQLiteDDL(GenericDDL):
    """See :class:`~subscriber.targets.roles.ddl.DDL`."""

    def place(self, schema: str, table: str) -> tuple[str | None, str]:
        """See :meth:`DDL.place` and :mod:`subscriber.targets.sqlite.target`."""
        return None, table if schema == "public" else f"{schema}.{table}"

    def column_type(self, type_oid: int, type_name: str, *, key: bool = False) -> str:
        """See :func:`subscriber.targets.sqlite.values.declaration`."""
        del key  # every type is allowed in a key
        return sqlite_values.declaration(type_oid, type_name)

    def storage(self, declared: str) -> str:
        """See :meth:`DDL.storage`; the affinity of the declared type."""
        return sqlite_values.affinity(declared)

    def expression(self, expression: str, types: Mapping[str, int]) -> str | None:
        """See :func:`subscriber.targets.translate_expression.translate`."""
        try:
            return translate(expression, plain_columns(types, self.rules.quote), self.rules)
        except NotKnown:
            return None

    @property
    def rules(self) -> Rules:
        """How expressions differ from PostgreSQL's."""
        return Rules(quote=self._engine.dialect.identifier_preparer.quote, distinct="{left} IS NOT {right}")

    def literal(self, value: Any) -> str | None:
        """See :meth:`DDL.literal`; supports blobs too, and a backslash is an ordinary character."""
        match value:
            case bytes():
                return f"X'{value.hex()}'"
            case str() if "\0" not in value:
                return "'" + value.replace("'", "''") + "'"
            case _:
                return super().literal(value)

    def unique_index(self, table: sa.Table, key: UniqueKey) -> ExecutableDDLElement | None:
        """See :meth:`DDL.unique_index`; NULLS NOT DISTINCT as an index of expressions.

        For each column, the index has whether it is NULL, and its value if it is not NULL.
        """
        if key.deferrable or key.nulls_distinct:
            return None
        quote = self._engine.dialect.identifier_preparer.quote
        name = quote("_".join([table.name, *key.columns, "key"]))
        parts = ", ".join(f"{quote(column)} IS NULL, ifnull({quote(column)}, 0)" for column in key.columns)
        statement = f"CREATE UNIQUE INDEX {name} ON {quote(table.name)} ({parts})"
        return sa.DDL(statement.replace("%", "%%"))  # type: ignore[no-untyped-call]  # SQLAlchemy left it out

    def auto_increment(self, shape: TableShape, column: ColumnShape, declared: str) -> AutoIncrement | None:
        """``INTEGER PRIMARY KEY AUTOINCREMENT``, which SQLite allows for a column that is the whole
        key.
        """
        if shape.key != (column.name,) or sqlite_values.affinity(declared) != sqlite_values.INTEGER:
            return None
        return AutoIncrement("INTEGER PRIMARY KEY AUTOINCREMENT", is_key=True)
