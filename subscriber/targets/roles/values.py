"""Values: what is bound for a PostgreSQL value, and how a stored value is read back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import sqlalchemy as sa

from subscriber.errors import UnsupportedValue
from subscriber.targets.target_table import (
    TargetColumn,
)

if TYPE_CHECKING:
    import pyarrow as pa


class Values(Protocol):
    """Decides which columns store a PostgreSQL type exactly, and converts values for the driver."""

    def check_column(self, type_oid: int, column: TargetColumn) -> None:
        """Refuse a column that would silently change values of this PostgreSQL type.

        Raises:
            TargetRelationError: with the column's name, its declared type, and a declaration that
                works.
        """
        ...

    def accepts(self, type_oid: int, type_modifier: int, column: TargetColumn, values: pa.Array) -> bool:
        """Whether the column is known to accept all these values, so that neither
        :meth:`bind_values` nor the database would refuse one of them.

        NULL is not considered. The answer may be False although the column accepts the values.

        Args:
            type_oid: the publisher's type.
            type_modifier: the modifier of the publisher's type; -1 for none.
            column: the target's column, which :meth:`check_column` has accepted.
            values: values of the publisher's column.
        """
        ...

    def bind_values(self, type_oid: int, column: TargetColumn, values: pa.Array) -> list[Any]:
        """The Python values to bind for ``values`` of a PostgreSQL type in ``column``; None for
        NULL.

        Raises:
            UnsupportedValue: the column cannot store a value exactly.
        """
        ...

    def unrepresentable_values(self, type_oid: int, column: TargetColumn, values: pa.Array) -> pa.Array:
        """For each value whether the column cannot hold it: a mask without NULLs.

        It is true for every value for which :meth:`bind_values` raises, and for values that the
        database itself is known to refuse because of the column's type. It is false for NULL. A
        value that only a constraint, a trigger or an unknown type refuses is not included.

        Args:
            type_oid: the publisher's type.
            column: the target's column, which :meth:`check_column` has accepted.
            values: values of the publisher's column.
        """
        ...

    def refused_binary(self, type_oid: int, column: TargetColumn, number: int | None = None) -> UnsupportedValue | None:
        """The error to raise for a value in binary format that the column does not read (rules C5,
        D7).

        None if the column reads it. NULL is always accepted.

        Args:
            type_oid: the publisher's type.
            column: the target's column.
            number: the number of the column in the stream, from 1; None in a copy.
        """
        ...

    def read_as(self, type_oid: int, column: TargetColumn) -> int | None:
        """The PostgreSQL type as which ``column`` reads the text of a value of another type.

        None if the column stores the values of the type as they are, or if it is not known how it
        reads them.
        """
        ...

    def readable(self, column: TargetColumn) -> sa.ColumnElement[Any]:
        """The expression to use in a query that must show each stored value of a column unchanged.

        It differs from the column if the driver would return another value.
        """
        ...
