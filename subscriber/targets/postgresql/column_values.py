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
from subscriber.targets.declared_columns import (
    check_text_length,
    declared_precision,
    none_of,
    out_of_range,
    too_long,
)
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

_RANGES: Final = {
    "smallint": (-(2**15), 2**15 - 1),
    "integer": (-(2**31), 2**31 - 1),
    "bigint": (-(2**63), 2**63 - 1),
}
_INTEGERS: Final = frozenset({20, 21, 23, 26})
_NUMBERS: Final = _INTEGERS | {700, 701, 1700}
_JSON: Final = 114
_NUL_ESCAPE: Final = r"(?:^|[^\\])(?:\\\\)*\\u0000"
"""The escape of a NUL character, which json stores and jsonb refuses."""

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

    def unrepresentable_values(self, type_oid: int, column: TargetColumn, values: pa.Array) -> pa.Array:
        """See :meth:`Values.unrepresentable_values`; where the column has another type than the
        publisher's, only some of the values that its input function refuses are known.
        """
        if column.storage in _SIZED_TEXTS:
            return too_long(column, as_postgresql_text(values))
        if column.storage in _RANGES and type_oid in _INTEGERS:
            return out_of_range(values.cast(pa.int64()), *_RANGES[column.storage])
        if column.storage == "numeric" and type_oid in _NUMBERS:
            return _overflow(column, values.cast(pa.string()))
        if column.storage == "jsonb" and type_oid == _JSON:
            return pc.fill_null(pc.match_substring_regex(values, _NUL_ESCAPE), False)
        return none_of(values)

    def refused_binary(self, type_oid: int, column: TargetColumn, number: int | None = None) -> UnsupportedValue | None:
        """See :meth:`Values.refused_binary`."""
        return refused_binary(type_oid, column, number) if isinstance(column, PostgreSQLColumn) else None


def _overflow(column: TargetColumn, texts: pa.Array) -> pa.Array:
    """For each number whether it overflows a numeric column that has a precision. A number that
    does so only when it is rounded is left out.
    """
    precision, scale = declared_precision(column.declared_type)
    if precision is None:
        return none_of(texts)
    whole = pc.utf8_length(pc.replace_substring_regex(texts, r"^NaN$|^-?0*|\..*$|e.*$", ""))
    excess = pc.or_(pc.match_substring_regex(texts, "(?i)inf"), pc.greater(whole, max(precision - scale, 0)))
    return pc.fill_null(excess, False)


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
