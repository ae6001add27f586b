"""How SQLite stores PostgreSQL's values, and which columns would change them.

A column of SQLite has an *affinity*, which SQLite derives from the text of the declared type. The
affinity converts values when they are stored: the text ``007`` becomes the integer 7 in a column
declared ``JSON`` (affinity NUMERIC), and ``12.50`` becomes 12.5. SQLite does not report this, so
such columns are refused when the relation is opened (invariant refuse_not_guess).

========================  ==========================================  =============================
PostgreSQL                bound as                                    affinities
========================  ==========================================  =============================
boolean                   0, 1 (``t``, ``f`` for TEXT)                INTEGER NUMERIC BLOB TEXT
smallint integer oid      integer (its digits for TEXT)               INTEGER NUMERIC BLOB TEXT REAL
bigint                    integer (its digits for TEXT)               INTEGER NUMERIC BLOB TEXT
real, double precision    float; NaN as the text ``NaN``              REAL NUMERIC BLOB
bytea                     blob, which no affinity converts            all
numeric                   exact text                                  TEXT BLOB
timestamptz               text, ``+00`` completed to ``+00:00``       all
date, uuid, arrays, ...   text that never looks like a number         all
everything else           text                                        TEXT BLOB
========================  ==========================================  =============================

Columns of INTEGER, REAL and TEXT affinity also accept values of other types
(:mod:`subscriber.targets.conversion`). If a column is declared with a type name of
:func:`declaration` (``INT``, ``NUMERIC_TEXT``, ...), values of other types are read as this type:
an ``INT`` column refuses a bigint that is out of integer's range, and a ``CHARACTER VARYING(10)``
column a text that is too long. An exception: ``NUMERIC_TEXT(10,2)`` keeps decimal digits beyond the
scale.

One known loss remains: the sign of a floating-point negative zero (SQLite stores small whole REALs
as integers). A ``real`` is bound as the shortest double that rounds to it, 0.1 and not
0.10000000149011612, as PostgreSQL prints it.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from subscriber.base.errors import TargetRelationError
from subscriber.postgres.types.oids import BUILT_IN_TYPES, declared_type, type_name
from subscriber.postgres.types.registry import family_of
from subscriber.targets import conversion, declared_columns
from subscriber.targets.base.values import Values, none_of, refused_one_by_one
from subscriber.targets.conversion import converted, converts
from subscriber.targets.target_table import TargetColumn

INTEGER, TEXT, BLOB, REAL, NUMERIC = "INTEGER", "TEXT", "BLOB", "REAL", "NUMERIC"
_ALL: Final = frozenset({INTEGER, TEXT, BLOB, REAL, NUMERIC})
_EXACT_TEXT: Final = frozenset({TEXT, BLOB})

_BIGINT, _TIMESTAMPTZ, _FLOAT4 = 20, 1184, 700

_STANDS_FOR: Final = {INTEGER: conversion.BIGINT, REAL: conversion.DOUBLE, TEXT: conversion.TEXT}
"""The PostgreSQL type as which a column reads values of other types."""
_DECLARES: Final = {
    "BOOLEAN_INTEGER": conversion.BOOLEAN,
    "SMALLINT": conversion.SMALLINT,
    "INT": conversion.INTEGER,
    "NUMERIC_TEXT": conversion.NUMERIC,
    "TIMESTAMP_TEXT": conversion.TIMESTAMP,
}
"""The type for each type name of :func:`declaration`, as which values of other types are read."""

_NEVER_A_NUMBER: Final = frozenset(
    {1082, 1083, 1266, 1114, 1184, 1186}  # date and time: always with a dash, a colon or a letter
    | {2950, 869, 650, 829, 774, 3220}  # uuid, inet, cidr, macaddr, macaddr8, pg_lsn
    | {600, 601, 602, 603, 604, 628, 718}  # geometry: parentheses, braces, angle brackets
    | {3904, 3906, 3908, 3910, 3912, 3926, 4451, 4532, 4533, 4534, 4535, 4536}  # ranges, multiranges
)
"""Types whose text SQLite never reads as a number. The same is true of arrays: they have braces."""


def affinity(declared_type: str, *, strict: bool = False) -> str:
    """The affinity of a declared type, by SQLite's rules:
    https://www.sqlite.org/datatype3.html#determination_of_column_affinity.

    >>> affinity("NUMERIC_TEXT(12,2)"), affinity("numeric(12,2)"), affinity("timestamp"), affinity("")
    ('TEXT', 'NUMERIC', 'NUMERIC', 'BLOB')
    """
    declared = declared_type.upper()
    if strict and declared == "ANY":
        return BLOB
    for letters, kind in (("INT", INTEGER), ("CHAR", TEXT), ("CLOB", TEXT), ("TEXT", TEXT), ("BLOB", BLOB)):
        if letters in declared:
            return kind
    if not declared:
        return BLOB
    return REAL if any(letters in declared for letters in ("REAL", "FLOA", "DOUB")) else NUMERIC


class SQLiteValues(Values):
    @override
    def check_column(self, type_oid: int, column: TargetColumn) -> None:
        if column.storage in _allowed(type_oid) or self.read_as(type_oid, column) is not None:
            return
        name = type_name(type_oid)
        raise TargetRelationError(
            f'column "{column.name}" declared "{column.declared_type}" cannot hold type {name} exactly',
            detail=f"The column has {column.storage} affinity, which changes values as it stores them.",
            hint=f"Declare the column as {_declaration(type_oid)} to keep every value of type {name}.",
            column=column.name,
        )

    @override
    def read_as(self, type_oid: int, column: TargetColumn) -> int | None:
        declared = _DECLARES.get(column.declared_type.partition("(")[0].upper())
        if type_oid == declared:
            return None
        if converts(type_oid, declared):
            return declared
        into = _STANDS_FOR.get(column.storage)
        return into if column.storage not in _allowed(type_oid) and converts(type_oid, into) else None

    @override
    def bind_values(self, type_oid: int, column: TargetColumn, values: pa.Array) -> list[Any]:
        into = self.read_as(type_oid, column)
        if into is not None:
            type_oid, values = into, converted(into, column, values)
        arrow_type = values.type
        if pa.types.is_boolean(arrow_type):
            values = pc.if_else(values, "t", "f") if column.storage == TEXT else values.cast(pa.int8())
        elif pa.types.is_integer(arrow_type):
            values = values.cast(pa.string()) if column.storage == TEXT else values
        elif pa.types.is_floating(arrow_type):
            return _bind_floats(values)
        elif type_oid == _TIMESTAMPTZ:
            values = _complete_offset(values)
        else:
            values = _sized(column, values)
        bound: list[Any] = values.to_pylist()
        return bound

    @override
    def unrepresentable_values(self, type_oid: int, column: TargetColumn, values: pa.Array) -> pa.Array:
        if self.read_as(type_oid, column) is not None:
            return refused_one_by_one(lambda some: self.bind_values(type_oid, column, some), values)
        word, sized, _ = column.declared_type.partition("(")
        if not sized or not pa.types.is_string(values.type):
            return none_of(values)
        if word == _DECLARED_NUMERIC:
            return declared_columns.unfit_digits(column, values)
        return declared_columns.too_long(column, values) if word == _DECLARED_VARCHAR else none_of(values)

    @override
    def accepts(self, type_oid: int, type_modifier: int, column: TargetColumn, values: pa.Array) -> bool:
        """False where values are read as another type, or the size is not the publisher's."""
        if column.storage not in _allowed(type_oid) or self.read_as(type_oid, column) is not None:
            return False
        is_sized = "(" in column.declared_type
        return not is_sized or column.declared_type == declaration(type_oid, declared_type(type_oid, type_modifier))


@cache
def _allowed(type_oid: int) -> frozenset[str]:
    arrow_type = family_of(type_oid).arrow_type
    if pa.types.is_binary(arrow_type) or type_oid in _NEVER_A_NUMBER or type_name(type_oid).endswith("[]"):
        return _ALL
    if pa.types.is_boolean(arrow_type) or type_oid == _BIGINT:
        return _ALL - {REAL}
    if pa.types.is_integer(arrow_type):
        return _ALL
    if pa.types.is_floating(arrow_type):
        return frozenset({REAL, NUMERIC, BLOB})
    return _EXACT_TEXT


def _declaration(type_oid: int) -> str:
    arrow_type = family_of(type_oid).arrow_type
    if pa.types.is_floating(arrow_type):
        return "REAL"
    if pa.types.is_boolean(arrow_type) or pa.types.is_integer(arrow_type):
        return "INTEGER"
    return "NUMERIC_TEXT or TEXT" if type_name(type_oid) == "numeric" else "TEXT"


def declaration(type_oid: int, type_name: str) -> str:
    """A declaration that :func:`check_column` accepts and that shows a reader the column's type. It
    is never ``INTEGER``: as the only column of a primary key, such a column would be an alias of
    the rowid, and SQLite would replace NULL by a generated value.

    >>> [declaration(23, "integer"), declaration(1700, "numeric(10,2)"), declaration(1184, "timestamp with time zone")]
    ['INT', 'NUMERIC_TEXT(10,2)', 'TIMESTAMPTZ_TEXT']
    """
    arrow_type = family_of(type_oid).arrow_type
    if type_oid in _DECLARED:
        return _DECLARED[type_oid]
    if pa.types.is_integer(arrow_type):
        return "BIGINT"
    if type_oid in _SIZED:
        return type_name.upper()
    if type_oid == _NUMERIC:
        return f"{_DECLARED_NUMERIC}{type_name.removeprefix('numeric')}"
    word = type_name.partition("(")[0]
    # A name that contains INT would have integer affinity.
    named = type_oid in BUILT_IN_TYPES and word.isalnum() and "int" not in word and word != "text"
    return f"{word.upper()}_TEXT" if named else "TEXT"


_NUMERIC: Final = 1700
_DECLARED_NUMERIC, _DECLARED_VARCHAR = "NUMERIC_TEXT", "CHARACTER VARYING"
_SIZED: Final = frozenset({1042, 1043})
_DECLARED: Final = {
    16: "BOOLEAN_INTEGER",
    17: "BLOB",
    21: "SMALLINT",
    23: "INT",
    700: "REAL",
    701: "DOUBLE PRECISION",
    1083: "TIME_TEXT",
    1114: "TIMESTAMP_TEXT",
    1184: "TIMESTAMPTZ_TEXT",
    1266: "TIMETZ_TEXT",
}


def _sized(column: TargetColumn, values: pa.Array) -> pa.Array:
    """SQLite ignores a declared size. Blanks at the end may be removed, as in PostgreSQL."""
    word, sized, _ = column.declared_type.partition("(")
    if sized and word == _DECLARED_NUMERIC:
        declared_columns.check_digits(column, values)
    elif sized and word == _DECLARED_VARCHAR:
        declared_columns.check_text_length(column, values)
        return pc.utf8_slice_codeunits(values, 0, declared_columns.declared_length(column.declared_type))
    return values


def _bind_floats(values: pa.Array) -> list[Any]:
    if pa.types.is_float32(values.type):
        values = values.cast(pa.string()).cast(pa.float64())
    bound: list[Any] = values.to_pylist()
    if pc.any(pc.is_nan(values)).as_py():
        # SQLite converts a NaN that is bound as a float to NULL.
        return ["NaN" if value is not None and math.isnan(value) else value for value in bound]
    return bound


def _complete_offset(values: pa.Array) -> pa.Array:
    # The replication session runs in UTC, so the offset is +00. It is before " BC", and infinity
    # has no offset.
    if pc.all(pc.ends_with(values, "+00")).as_py():
        return pc.binary_join_element_wise(values, ":00", "")
    return pc.replace_substring_regex(values, r"\+00( BC)?$", r"+00:00\1")
