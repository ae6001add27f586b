"""Values as Python's, with nothing assumed of what the database does to them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, ClassVar

import pyarrow as pa
import sqlalchemy as sa

from subscriber.errors import UnsupportedValue
from subscriber.targets.query_result import QueryResult, read_result
from subscriber.targets.target_table import TargetColumn


class GenericValues:
    """See :class:`~subscriber.targets.roles.values.Values`.

    Attributes:
        real_type_code: the driver's code for single-precision columns in a result; None where it
            does not tell them apart.
    """

    real_type_code: ClassVar[Hashable | None] = None

    def check_column(self, type_oid: int, column: TargetColumn) -> None:
        """Nothing is known, so nothing is refused;
        :func:`~subscriber.targets.generic.target.open_generic` says so.
        """

    def bind_values(self, type_oid: int, column: TargetColumn, values: pa.Array) -> list[Any]:
        """The values as Python's."""
        del type_oid, column  # nothing is known of what they would ask for
        bound: list[Any] = values.to_pylist()
        return bound

    def refused_binary(self, type_oid: int, column: TargetColumn, number: int | None = None) -> UnsupportedValue | None:
        """See :meth:`Values.refused_binary`; the column has none of PostgreSQL's types, so values
        are converted as ever.
        """
        del type_oid, column, number
        return None

    def readable(self, column: TargetColumn) -> sa.ColumnElement[Any]:
        """See :meth:`Values.readable`."""
        return sa.column(column.name)

    def read_result(self, result: sa.CursorResult[Any]) -> QueryResult:
        """See :meth:`Values.read_result`."""
        return read_result(result, self.real_type_code)
