"""How DuckDB stores PostgreSQL's values, and which columns would change them.

DuckDB has most of PostgreSQL's types, including infinities and years before Christ. Otherwise it
casts values and may round them without an error, so columns that would round are refused when the
relation is opened (invariant refuse_not_guess). If a column can store most values of a type, only
the others are refused (a numeric with too many digits, NaN in a DECIMAL, a timestamp after 294247).

========================  ==================================  =====================================
PostgreSQL                bound as                            columns
========================  ==================================  =====================================
boolean                   true, false (``t``, ``f`` as text)  BOOLEAN, integers, VARCHAR
smallint ... bigint, oid  integer                             integers, DECIMAL, VARCHAR, DOUBLE (32 bit)
real                      the single precision number         FLOAT DOUBLE
double precision          float                               DOUBLE
bytea                     blob                                BLOB
numeric                   exact text                          DECIMAL VARCHAR
date, time, timestamp     text, BC in DuckDB's form           the same type, VARCHAR
timestamptz               text, UTC                           TIMESTAMP WITH TIME ZONE, VARCHAR
uuid, json, jsonb         text                                UUID or JSON, VARCHAR
everything else           text                                VARCHAR
========================  ==================================  =====================================

Columns of these types also accept values of other types (:mod:`subscriber.targets.conversion`). A
``real`` in a DOUBLE column is stored as the shortest number that rounds to it, 0.1 and not
0.10000000149011612, as PostgreSQL prints it.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa
from typing_extensions import override

from subscriber.base.errors import TargetRelationError, UnsupportedValue
from subscriber.postgres.types.oids import type_name
from subscriber.postgres.types.registry import family_of
from subscriber.targets import conversion, declared_columns
from subscriber.targets.base.values import Values, none_of, refused_one_by_one
from subscriber.targets.conversion import converted, converts
from subscriber.targets.target_table import TargetColumn

VARCHAR, BOOLEAN, FLOAT, DOUBLE, BLOB, DECIMAL = "VARCHAR", "BOOLEAN", "FLOAT", "DOUBLE", "BLOB", "DECIMAL"
DATE, TIME, TIMESTAMP, TIMESTAMPTZ = "DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"
TEMPORAL: Final = frozenset({DATE, TIME, TIMESTAMP, TIMESTAMPTZ})
STORED_ALIKE: Final = frozenset(
    {VARCHAR, BOOLEAN, BLOB, DECIMAL, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, "UUID"}
    | {f"{sign}{name}" for name in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT") for sign in ("", "U")}
)
"""In other types different values may be equal: the two zeros of a DOUBLE, 1 month and 30 days."""

_NATIVE: Final = {
    1082: DATE,
    1083: TIME,
    1114: TIMESTAMP,
    1184: TIMESTAMPTZ,
    2950: "UUID",
    114: "JSON",
    3802: "JSON",
    1700: DECIMAL,
}
"""Types that are text in Arrow and have a separate type in DuckDB."""
_READS_ALL: Final = STORED_ALIKE | {FLOAT, DOUBLE}
"""Types of which DuckDB reads every value that PostgreSQL has, if it is in their range."""
_FLOAT4, _BIGINT, _NUMERIC, _JSON = 700, 20, 1700, (114, 3802)
_LARGEST_PRECISION: Final = 38
_LAST_MOMENT: Final = "294247-01-10 04:00:54.775806"
_RANGES: Final = {
    f"{sign}{name}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if not sign else (0, 2**bits - 1)
    for name, bits in (("TINYINT", 8), ("SMALLINT", 16), ("INTEGER", 32), ("BIGINT", 64), ("HUGEINT", 128))
    for sign in ("", "U")
}
_STANDS_FOR: Final = {
    BOOLEAN: conversion.BOOLEAN,
    "SMALLINT": conversion.SMALLINT,
    "INTEGER": conversion.INTEGER,
    "BIGINT": conversion.BIGINT,
    FLOAT: conversion.REAL,
    DOUBLE: conversion.DOUBLE,
    DECIMAL: conversion.NUMERIC,
    TIMESTAMP: conversion.TIMESTAMP,
    VARCHAR: conversion.TEXT,
}
"""The PostgreSQL type as which a column reads values of other types."""

_BC: Final = r"^(\S+)(.*) BC$"


def storage(declared: str) -> str:
    """The name of a type without precision and scale; those of nested types are not changed.

    >>> storage("DECIMAL(10,2)"), storage("TIMESTAMP WITH TIME ZONE"), storage("INTEGER[]"), storage("STRUCT(x INTEGER)")
    ('DECIMAL', 'TIMESTAMP WITH TIME ZONE', 'INTEGER[]', 'STRUCT(x INTEGER)')
    """
    return DECIMAL if re.fullmatch(r"DECIMAL\(\d+,\d+\)", declared) else declared


def declaration(type_oid: int, type_name: str) -> str:
    """The declaration of a column for a type; VARCHAR if DuckDB has no exact type.

    >>> declaration(1700, "numeric(10,2)"), declaration(1700, "numeric"), declaration(1184, "timestamp with time zone")
    ('DECIMAL(10,2)', 'VARCHAR', 'TIMESTAMP WITH TIME ZONE')
    """
    arrow_type = family_of(type_oid).arrow_type
    if type_oid == _NUMERIC:
        return _decimal(type_name)
    if type_oid in _NATIVE and type_oid not in _JSON:
        return _NATIVE[type_oid]
    if pa.types.is_boolean(arrow_type):
        return BOOLEAN
    if pa.types.is_integer(arrow_type):
        return {16: "SMALLINT", 32: "INTEGER"}.get(arrow_type.bit_width, "BIGINT")
    if pa.types.is_floating(arrow_type):
        return FLOAT if type_oid == _FLOAT4 else DOUBLE
    return BLOB if pa.types.is_binary(arrow_type) else VARCHAR


def _decimal(type_name: str) -> str:
    sized = re.fullmatch(r"numeric\((\d+),(\d+)\)", type_name)
    if sized is None or int(sized[1]) > _LARGEST_PRECISION or int(sized[2]) > int(sized[1]):
        return VARCHAR
    return f"{DECIMAL}({sized[1]},{sized[2]})"


class DuckDBValues(Values):
    @override
    def check_column(self, type_oid: int, column: TargetColumn) -> None:
        if column.storage in _allowed(type_oid) or converts(type_oid, _STANDS_FOR.get(column.storage)):
            return
        name = type_name(type_oid)
        native = "DECIMAL(precision,scale) or VARCHAR" if type_oid == _NUMERIC else declaration(type_oid, name)
        raise TargetRelationError(
            f'column "{column.name}" declared "{column.declared_type}" cannot hold type {name} exactly',
            hint=f"Declare the column as {native} to keep every value of type {name}.",
            column=column.name,
        )

    @override
    def read_as(self, type_oid: int, column: TargetColumn) -> int | None:
        into = _STANDS_FOR.get(column.storage)
        return into if column.storage not in _allowed(type_oid) and converts(type_oid, into) else None

    @override
    def bind_values(self, type_oid: int, column: TargetColumn, values: pa.Array) -> list[Any]:
        bound: list[Any] = self.as_stored(type_oid, column, values).to_pylist()
        return bound

    def as_stored(self, type_oid: int, column: TargetColumn, values: pa.Array) -> pa.Array:
        """An array that DuckDB casts without changing a value; raises UnsupportedValue."""
        into = self.read_as(type_oid, column)
        if into is not None:
            values = converted(into, column, values)
        if pa.types.is_boolean(values.type):
            return pc.if_else(values, "t", "f") if column.storage == VARCHAR else values
        if pa.types.is_float32(values.type):
            # Bound as Python's float: for FLOAT exactly this number, for DOUBLE the number with the
            # same text.
            return values.cast(pa.float64()) if column.storage == FLOAT else values.cast(pa.string()).cast(pa.float64())
        _check(column, values)
        if column.storage in (DATE, TIMESTAMP, TIMESTAMPTZ) and pc.any(pc.ends_with(values, " BC")).as_py():
            return pc.replace_substring_regex(values, _BC, r"\1 (BC)\2")
        return values

    def as_block(self, type_oid: int, column: TargetColumn, values: pa.Array) -> pa.Array:
        """:meth:`as_stored` for many rows. Arrow reads decimals, dates and timestamps in a part of
        the time that DuckDB needs, but no infinities and no years before 1 or after 9999.
        """
        typed = _typed(column, values) if _NATIVE.get(type_oid) == column.storage else None
        return self.as_stored(type_oid, column, values) if typed is None else typed

    @override
    def unrepresentable_values(self, type_oid: int, column: TargetColumn, values: pa.Array) -> pa.Array:
        if self.read_as(type_oid, column) is not None:
            return refused_one_by_one(lambda some: self.as_stored(type_oid, column, some), values)
        if column.storage == DECIMAL and not pa.types.is_boolean(values.type):
            return declared_columns.unfit_numbers(column, values.cast(pa.string()))
        if column.storage in _RANGES and pa.types.is_integer(values.type):
            return declared_columns.out_of_range(values, *_RANGES[column.storage])
        return pc.fill_null(_late(values), False) if column.storage in (TIMESTAMP, TIMESTAMPTZ) else none_of(values)

    @override
    def accepts(self, type_oid: int, type_modifier: int, column: TargetColumn, values: pa.Array) -> bool:
        """False where values are read as another type, and for JSON, which DuckDB parses."""
        if column.storage not in _allowed(type_oid) or column.storage not in _READS_ALL:
            return False
        try:
            self.as_stored(type_oid, column, values)
        except UnsupportedValue:
            return False
        return True

    @override
    def readable(self, column: TargetColumn) -> sa.ColumnElement[Any]:
        """Dates and times as text: Python has neither infinities nor years before Christ for them,
        and DuckDB would return other values. JSON too, because DuckDB's Python module returns the
        JSON value null as NULL.
        """
        name: sa.ColumnClause[Any] = sa.column(column.name)
        if column.storage == "JSON":
            return sa.cast(name, sa.Text()).label(column.name)
        if column.storage not in TEMPORAL:
            return name
        return sa.func.regexp_replace(sa.cast(name, sa.Text()), r"^(\S+) \(BC\)(.*)$", r"\1\2 BC").label(column.name)


@cache
def _allowed(type_oid: int) -> frozenset[str]:
    arrow_type = family_of(type_oid).arrow_type
    if pa.types.is_boolean(arrow_type):
        return frozenset({*_RANGES, BOOLEAN, VARCHAR})
    if pa.types.is_integer(arrow_type):
        exact = set() if type_oid == _BIGINT or arrow_type.bit_width > 32 else {DOUBLE}
        return frozenset({*_RANGES, DECIMAL, VARCHAR}) | exact
    if pa.types.is_floating(arrow_type):
        return frozenset({FLOAT, DOUBLE} if type_oid == _FLOAT4 else {DOUBLE})
    if pa.types.is_binary(arrow_type):
        return frozenset({BLOB})
    return frozenset({VARCHAR, _NATIVE.get(type_oid, VARCHAR)})


def is_own_type(type_oid: int, column: TargetColumn) -> bool:
    """Whether the type is exactly for these values: a comparison converts only the sent value."""
    arrow_type = family_of(type_oid).arrow_type
    if pa.types.is_boolean(arrow_type):
        return column.storage == BOOLEAN
    if pa.types.is_integer(arrow_type):
        return column.storage in _RANGES or column.storage == DECIMAL
    return column.storage in STORED_ALIKE & _allowed(type_oid)


def _check(column: TargetColumn, values: pa.Array) -> None:
    """DuckDB would round a decimal, and its errors do not name the column."""
    if column.storage == DECIMAL:
        declared_columns.check_number(column, values.cast(pa.string()))
    elif column.storage in _RANGES and pa.types.is_integer(values.type):
        declared_columns.check_range(column, values, *_RANGES[column.storage])
    elif column.storage in (TIMESTAMP, TIMESTAMPTZ):
        declared_columns.check_moment(column, values, pc.invert(_late(values)))


_ARROW: Final = {DATE: pa.date32(), TIMESTAMP: pa.timestamp("us"), TIMESTAMPTZ: pa.timestamp("us", "UTC")}


def _typed(column: TargetColumn, values: pa.Array) -> pa.Array | None:
    """The texts in the column's own type if Arrow reads all of them; otherwise None."""
    if column.storage == DECIMAL:
        precision, scale = declared_columns.declared_precision(column.declared_type)
        return None if precision is None else declared_columns.as_decimals(values, precision, scale)
    arrow_type = _ARROW.get(column.storage)
    if arrow_type is None:
        return None
    try:
        return values.cast(arrow_type)
    except pa.ArrowInvalid:
        return None


def _late(values: pa.Array) -> pa.Array:
    # The compared texts have the same number of digits; a year before Christ never has six digits.
    long_year = pc.match_substring_regex(values, r"^\d{6}")
    if not pc.any(long_year).as_py():
        return long_year
    return pc.and_(long_year, pc.greater(pc.utf8_slice_codeunits(values, 0, len(_LAST_MOMENT)), _LAST_MOMENT))
