"""Values for SQLite's columns; the rules are in :mod:`subscriber.targets.sqlite.values`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from subscriber.targets.generic.values import GenericValues
from subscriber.targets.sqlite import values as sqlite_values
from subscriber.targets.target_table import TargetColumn


class SQLiteValues(GenericValues):
    """See :class:`~subscriber.targets.roles.values.Values`."""

    def check_column(self, type_oid: int, column: TargetColumn) -> None:
        """See :func:`subscriber.targets.sqlite.values.check_column`."""
        sqlite_values.check_column(type_oid, column)

    def accepts(self, type_oid: int, type_modifier: int, column: TargetColumn, values: pa.Array) -> bool:
        """See :func:`subscriber.targets.sqlite.values.accepts_all`."""
        del values  # SQLite has no type that stores only some of the values
        return sqlite_values.accepts_all(type_oid, type_modifier, column)

    def unrepresentable_values(self, type_oid: int, column: TargetColumn, values: pa.Array) -> pa.Array:
        """See :func:`subscriber.targets.sqlite.values.unrepresentable_values`."""
        return sqlite_values.unrepresentable_values(type_oid, column, values)

    def bind_values(self, type_oid: int, column: TargetColumn, values: pa.Array) -> list[Any]:
        """See :func:`subscriber.targets.sqlite.values.bind_values`."""
        return sqlite_values.bind_values(type_oid, column, values)

    def read_as(self, type_oid: int, column: TargetColumn) -> int | None:
        """See :func:`subscriber.targets.sqlite.values.conversion_of`."""
        return sqlite_values.conversion_of(type_oid, column)
