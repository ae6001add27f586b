"""Values as Python values; nothing is assumed about how the database changes them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from subscriber.errors import UnsupportedValue
from subscriber.targets.target_table import TargetColumn
from subscriber.targets.unrepresentable import refused_one_by_one


class GenericValues:
    """See :class:`~subscriber.targets.roles.values.Values`."""

    def check_column(self, type_oid: int, column: TargetColumn) -> None:
        """Accept every column, because nothing is known about it.

        :func:`~subscriber.targets.generic.target.open_generic` logs a warning about this.
        """

    def accepts(self, type_oid: int, type_modifier: int, column: TargetColumn, values: pa.Array) -> bool:
        """See :meth:`Values.accepts`; not known."""
        del type_oid, type_modifier, column, values
        return False

    def bind_values(self, type_oid: int, column: TargetColumn, values: pa.Array) -> list[Any]:
        """The values as Python values."""
        del type_oid, column  # the requirements of the column's type are not known
        bound: list[Any] = values.to_pylist()
        return bound

    def unrepresentable_values(self, type_oid: int, column: TargetColumn, values: pa.Array) -> pa.Array:
        """See :meth:`Values.unrepresentable_values`; the values that :meth:`bind_values`
        refuses.
        """
        return refused_one_by_one(lambda some: self.bind_values(type_oid, column, some), values)

    def refused_binary(self, type_oid: int, column: TargetColumn, number: int | None = None) -> UnsupportedValue | None:
        """See :meth:`Values.refused_binary`; always None.

        The column does not have a PostgreSQL type, so values in binary format are converted like
        others.
        """
        del type_oid, column, number
        return None

    def read_as(self, type_oid: int, column: TargetColumn) -> int | None:
        """See :meth:`Values.read_as`; not known."""
        del type_oid, column
        return None

    def readable(self, column: TargetColumn) -> sa.ColumnElement[Any]:
        """See :meth:`Values.readable`."""
        return sa.column(column.name)
