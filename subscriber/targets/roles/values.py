"""Values: what is bound for a value of PostgreSQL's, and how it is read back."""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa
import sqlalchemy as sa

from subscriber.errors import UnsupportedValue
from subscriber.targets.query_result import QueryResult
from subscriber.targets.target_table import (
    TargetColumn,
)


class Values(Protocol):
    """Which columns hold the values of a PostgreSQL type exactly, and how values go in and out."""

    def check_column(self, type_oid: int, column: TargetColumn) -> None:
        """Refuse a column that would change values of this PostgreSQL type without saying so.

        Raises:
            TargetRelationError: naming the column, its declared type, and how to declare it.
        """
        ...

    def bind_values(self, type_oid: int, column: TargetColumn, values: pa.Array) -> list[Any]:
        """The Python values to bind for ``values`` of a PostgreSQL type written to ``column``; NULL
        is None.

        Raises:
            UnsupportedValue: a value that the column cannot hold exactly.
        """
        ...

    def refused_binary(self, type_oid: int, column: TargetColumn, number: int | None = None) -> UnsupportedValue | None:
        """What to raise for a value other than NULL that came in binary form; None where the column
        reads it (rules C5, D7).

        Args:
            type_oid: the publisher's type.
            column: where the value is to go.
            number: of the column in the stream, from 1; None in a copy.
        """
        ...

    def readable(self, column: TargetColumn) -> sa.ColumnElement[Any]:
        """The column in a query that is to show every stored value as it is, where the driver would
        give another.
        """
        ...

    def read_result(self, result: sa.CursorResult[Any]) -> QueryResult:
        """All of a result as text."""
        ...
