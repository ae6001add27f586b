"""What is bound for a PostgreSQL value, here a Python value, and how a stored one is read back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from subscriber.base.errors import UnsupportedValue
from subscriber.targets.target_table import TargetColumn


class Values:
    """Decides which columns store a PostgreSQL type exactly, and converts values for the driver."""

    def check_column(self, type_oid: int, column: TargetColumn) -> None:
        """Refuse a column that would silently change values of this type: a TargetRelationError
        with its name, its declared type, and a declaration that works.
        """

    def accepts(self, type_oid: int, type_modifier: int, column: TargetColumn, values: pa.Array) -> bool:
        """Whether the column, which :meth:`check_column` has accepted, is known to accept all these
        values, so that neither :meth:`bind_values` nor the database would refuse one of them. The
        publisher's ``type_modifier`` is -1 for none.

        NULL is not considered. The answer may be False although the column accepts the values.
        """
        return False

    def bind_values(self, type_oid: int, column: TargetColumn, values: pa.Array) -> list[Any]:
        """The values to bind, None for NULL; UnsupportedValue if one cannot be stored exactly."""
        bound: list[Any] = values.to_pylist()
        return bound

    def unrepresentable_values(self, type_oid: int, column: TargetColumn, values: pa.Array) -> pa.Array:
        """For each value whether the column, which :meth:`check_column` has accepted, cannot hold
        it: a mask without NULLs, true where :meth:`bind_values` raises, and where the database
        refuses the value because of the column's type. Constraints, triggers and unknown types do
        not count.
        """
        return refused_one_by_one(lambda some: self.bind_values(type_oid, column, some), values)

    def refused_binary(self, type_oid: int, column: TargetColumn, number: int | None = None) -> UnsupportedValue | None:
        """The error for a value in binary format that the column does not read (rules C5, D7); None
        if it reads it, or has no PostgreSQL type. NULL is always accepted. ``number`` is that of
        the column in the stream, from 1; None in a copy.
        """
        return None

    def read_as(self, type_oid: int, column: TargetColumn) -> int | None:
        """The PostgreSQL type as which ``column`` reads the text of a value of another type; None
        if it stores the values as they are, or if this is not known.
        """
        return None

    def readable(self, column: TargetColumn) -> sa.ColumnElement[Any]:
        """The expression that reads each stored value unchanged, where the driver would not."""
        return sa.column(column.name)

    def selected(self, column: TargetColumn, value: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
        """A bound value of ``column`` in the list of a SELECT, where the database may not know of
        which type it is.
        """
        return value


def refused_one_by_one(bind: Callable[[pa.Array], object], values: pa.Array) -> pa.Array:
    """Whether ``bind`` raises UnsupportedValue for each value (not for NULL), where no rule exists
    for an array. Distinct values are bound alone, if binding all has failed.
    """
    if _binds(bind, values):
        return none_of(values)
    encoded = values.dictionary_encode()
    known = encoded.dictionary
    refused = pa.array([not _binds(bind, known.slice(place, 1)) for place in range(len(known))], pa.bool_())
    return pc.fill_null(refused.take(encoded.indices), False)


def none_of(values: pa.Array) -> pa.Array:
    return pa.repeat(pa.scalar(False), len(values))


def _binds(bind: Callable[[pa.Array], object], values: pa.Array) -> bool:
    try:
        bind(values)
    except UnsupportedValue:
        return False
    return True
