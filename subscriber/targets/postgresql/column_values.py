"""Values for PostgreSQL's columns.

A value's text is bound with unknown type, so that the column's input function reads it (rule C5).
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from subscriber.errors import (
    UnsupportedValue,
)
from subscriber.targets.declared_columns import check_text_length
from subscriber.targets.generic.values import GenericValues
from subscriber.targets.postgresql.binary_columns import refused_binary
from subscriber.targets.postgresql.catalog import (
    PostgreSQLColumn,
)
from subscriber.targets.target_table import (
    TargetColumn,
)
from subscriber.types import BUILT_IN_TYPES, declared_type, type_name

_SIZED_TEXTS: Final = frozenset({"character varying", "character"})

_SAME_VALUES: Final = frozenset(
    {16, 17, 20, 21, 23, 25, 26, 700, 701, 1042, 1043, 1082, 1083, 1114, 1184, 1266, 1700, 2950}
)
"""Types that have the same values in every server from version 14 on: boolean, bytea, the integer
types, text, oid, the floating-point types, character, varchar, date, time, timestamp, timestamptz,
timetz, numeric and uuid.
"""


_OIDS: Final = {type_name(oid): oid for oid in BUILT_IN_TYPES}
"""The built-in types by their names."""


class PostgreSQLValues(GenericValues):
    """See :class:`~subscriber.targets.roles.values.Values`."""

    def check_column(self, type_oid: int, column: TargetColumn) -> None:
        """Accept every column: its input function accepts the text or raises an error (rule C5)."""

    def accepts(self, type_oid: int, type_modifier: int, column: TargetColumn, values: pa.Array) -> bool:
        """See :meth:`Values.accepts`; true for a column that is declared as the publisher's, with a
        type that has the same values in every server.
        """
        del values  # the publisher's column accepted them
        return type_oid in _SAME_VALUES and column.declared_type == declared_type(type_oid, type_modifier)

    def bind_values(self, type_oid: int, column: TargetColumn, values: pa.Array) -> list[Any]:
        """The text of the values, for the column's input function.

        Raises:
            UnsupportedValue: a text is too long. The server's error for this would not name the
                column.
        """
        del type_oid  # the server knows the column's type and reads the text
        bound: list[Any] = column_texts(column, values).to_pylist()
        return bound

    def read_as(self, type_oid: int, column: TargetColumn) -> int | None:
        """See :meth:`Values.read_as`; the column's own type, where it is built in."""
        oid = _OIDS.get(column.storage)
        return None if oid == type_oid else oid

    def refused_binary(self, type_oid: int, column: TargetColumn, number: int | None = None) -> UnsupportedValue | None:
        """See :meth:`Values.refused_binary`."""
        return refused_binary(type_oid, column, number) if isinstance(column, PostgreSQLColumn) else None


def column_texts(column: TargetColumn, values: pa.Array) -> pa.Array:
    """The texts of a column's values, for its input function.

    Raises:
        UnsupportedValue: a text is too long.
    """
    texts = as_postgresql_text(values)
    if column.storage in _SIZED_TEXTS:
        check_text_length(column, texts)
    return texts


def as_postgresql_text(values: pa.Array) -> pa.Array:
    r"""Arrow values as text for input functions: ``t``, ``42``, ``NaN``, ``\x00ff``."""
    if pa.types.is_boolean(values.type):
        return pc.if_else(values, "t", "f")
    if pa.types.is_binary(values.type):
        return pa.array([None if value is None else "\\x" + value.hex() for value in values.to_pylist()], pa.string())
    return values.cast(pa.string())
