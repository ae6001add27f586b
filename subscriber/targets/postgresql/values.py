"""Values for PostgreSQL's columns. A binary one is accepted only if the column's type can read the
bytes, as PostgreSQL's subscriber does (rule D7), although it is sent as text.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from subscriber.base.errors import UnsupportedValue
from subscriber.postgres.types.binary_forms import reads_form, refusal
from subscriber.postgres.types.oids import BUILT_IN_TYPES, declared_type, type_name
from subscriber.postgres.types.registry import family_of
from subscriber.targets.base.values import Values, none_of
from subscriber.targets.declared_columns import check_text_length, declared_precision, out_of_range, too_long
from subscriber.targets.postgresql.catalog import PostgreSQLColumn
from subscriber.targets.target_table import TargetColumn

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
"""Types that have the same values in every server from version 14 on."""


_OIDS: Final = {type_name(oid): oid for oid in BUILT_IN_TYPES}


class PostgreSQLValues(Values):
    @override
    def check_column(self, type_oid: int, column: TargetColumn) -> None:
        """Accept every column: its input function accepts the text or raises an error (rule C5)."""

    @override
    def accepts(self, type_oid: int, type_modifier: int, column: TargetColumn, values: pa.Array) -> bool:
        # The publisher's column accepted them.
        return type_oid in _SAME_VALUES and column.declared_type == declared_type(type_oid, type_modifier)

    @override
    def bind_values(self, type_oid: int, column: TargetColumn, values: pa.Array) -> list[Any]:
        # The server knows the column's type and reads the text.
        bound: list[Any] = column_texts(column, values).to_pylist()
        return bound

    @override
    def read_as(self, type_oid: int, column: TargetColumn) -> int | None:
        oid = _OIDS.get(column.storage)
        return None if oid == type_oid else oid

    @override
    def unrepresentable_values(self, type_oid: int, column: TargetColumn, values: pa.Array) -> pa.Array:
        """In a column of another type, only some that its input function refuses are known."""
        if column.storage in _SIZED_TEXTS:
            return too_long(column, as_postgresql_text(values))
        if column.storage in _RANGES and type_oid in _INTEGERS:
            return out_of_range(values.cast(pa.int64()), *_RANGES[column.storage])
        if column.storage == "numeric" and type_oid in _NUMBERS:
            return _overflow(column, values.cast(pa.string()))
        if column.storage == "jsonb" and type_oid == _JSON:
            return pc.fill_null(pc.match_substring_regex(values, _NUL_ESCAPE), False)
        return none_of(values)

    @override
    def refused_binary(self, type_oid: int, column: TargetColumn, number: int | None = None) -> UnsupportedValue | None:
        return refused_binary(type_oid, column, number) if isinstance(column, PostgreSQLColumn) else None


def _overflow(column: TargetColumn, texts: pa.Array) -> pa.Array:
    """Whether a number has more digits than the column's precision, before it is rounded."""
    precision, scale = declared_precision(column.declared_type)
    if precision is None:
        return none_of(texts)
    whole = pc.utf8_length(pc.replace_substring_regex(texts, r"^NaN$|^-?0*|\..*$|e.*$", ""))
    excess = pc.or_(pc.match_substring_regex(texts, "(?i)inf"), pc.greater(whole, max(precision - scale, 0)))
    return pc.fill_null(excess, False)


def column_texts(column: TargetColumn, values: pa.Array) -> pa.Array:
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


# Binary columns --------------------------------------------------------------------------------


def refused_binary(type_oid: int, column: PostgreSQLColumn, number: int | None = None) -> UnsupportedValue | None:
    """The error for a value in binary format that the column does not read. NULL is accepted."""
    form = column.binary_form
    if form is None or reads_form(form, type_oid) or not family_of(type_oid).reads_binary:
        return None  # in the last case the value was sent as text
    message, sqlstate = refusal(form, type_oid, column.declared_type, number)
    return UnsupportedValue(
        message,
        sqlstate=sqlstate,
        column=column.name,
        detail=f'Values of type {type_name(type_oid)} came in binary format, which column "{column.name}" of type'
        f" {column.declared_type} does not read.",
        hint="Give the column the publisher's type, or use ALTER SUBSCRIPTION ... SET (binary = false).",
    )
