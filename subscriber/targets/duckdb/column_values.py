"""Values for DuckDB's columns; the rules are in :mod:`subscriber.targets.duckdb.values`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from subscriber.targets.duckdb import values as duckdb_values
from subscriber.targets.generic.values import GenericValues
from subscriber.targets.target_table import (
    TargetColumn,
)


class DuckDBValues(GenericValues):
    """See :class:`~subscriber.targets.roles.values.Values`."""

    def check_column(self, type_oid: int, column: TargetColumn) -> None:
        """See :func:`subscriber.targets.duckdb.values.check_column`."""
        duckdb_values.check_column(type_oid, column)

    def accepts(self, type_oid: int, type_modifier: int, column: TargetColumn, values: pa.Array) -> bool:
        """See :func:`subscriber.targets.duckdb.values.accepts`."""
        del type_modifier  # the values are checked
        return duckdb_values.accepts(type_oid, column, values)

    def unrepresentable_values(self, type_oid: int, column: TargetColumn, values: pa.Array) -> pa.Array:
        """See :func:`subscriber.targets.duckdb.values.unrepresentable_values`."""
        return duckdb_values.unrepresentable_values(type_oid, column, values)

    def bind_values(self, type_oid: int, column: TargetColumn, values: pa.Array) -> list[Any]:
        """See :func:`subscriber.targets.duckdb.values.bind_values`."""
        return duckdb_values.bind_values(type_oid, column, values)

    def read_as(self, type_oid: int, column: TargetColumn) -> int | None:
        """See :func:`subscriber.targets.duckdb.values.conversion_of`."""
        return duckdb_values.conversion_of(type_oid, column)

    def readable(self, column: TargetColumn) -> sa.ColumnElement[Any]:
        """See :meth:`Values.readable`; dates and times as text.

        Python has neither infinities nor years before Christ for them, and DuckDB would return
        other values. JSON is read as text too, because DuckDB's Python module returns the JSON
        value null as NULL.
        """
        name: sa.ColumnClause[Any] = sa.column(column.name)
        if column.storage == "JSON":
            return sa.cast(name, sa.Text()).label(column.name)
        if column.storage not in duckdb_values.TEMPORAL:
            return name
        return sa.func.regexp_replace(sa.cast(name, sa.Text()), r"^(\S+) \(BC\)(.*)$", r"\1\2 BC").label(column.name)
