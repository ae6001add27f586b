"""Values for MariaDB's columns; the rules are in :mod:`subscriber.targets.mariadb.values`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from subscriber.targets.generic.values import GenericValues
from subscriber.targets.mariadb import values as mariadb_values
from subscriber.targets.mariadb.refused_values import unrepresentable_values
from subscriber.targets.target_table import TargetColumn


class MariaDBValues(GenericValues):
    """See :class:`~subscriber.targets.roles.values.Values`."""

    def check_column(self, type_oid: int, column: TargetColumn) -> None:
        """See :func:`subscriber.targets.mariadb.values.check_column`."""
        mariadb_values.check_column(type_oid, column)

    def accepts(self, type_oid: int, type_modifier: int, column: TargetColumn, values: pa.Array) -> bool:
        """See :func:`subscriber.targets.mariadb.values.accepts`."""
        del type_modifier  # the values are checked
        return mariadb_values.accepts(type_oid, column, values)

    def unrepresentable_values(self, type_oid: int, column: TargetColumn, values: pa.Array) -> pa.Array:
        """See :func:`subscriber.targets.mariadb.refused_values.unrepresentable_values`."""
        return unrepresentable_values(type_oid, column, values)

    def bind_values(self, type_oid: int, column: TargetColumn, values: pa.Array) -> list[Any]:
        """See :func:`subscriber.targets.mariadb.values.bind_values`."""
        return mariadb_values.bind_values(type_oid, column, values)

    def read_as(self, type_oid: int, column: TargetColumn) -> int | None:
        """See :func:`subscriber.targets.mariadb.values.conversion_of`."""
        return mariadb_values.conversion_of(type_oid, column)

    def readable(self, column: TargetColumn) -> sa.ColumnElement[Any]:
        """See :meth:`Values.readable`; times without trailing zeros in the fraction, as in
        PostgreSQL.
        """
        name: sa.ColumnClause[Any] = sa.column(column.name)
        if column.storage not in mariadb_values.TIMES | {"time"}:
            return name
        return sa.func.regexp_replace(sa.cast(name, sa.CHAR()), r"\.?0+$", "").label(column.name)
