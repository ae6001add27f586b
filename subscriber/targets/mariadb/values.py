"""How MariaDB and MySQL store PostgreSQL's values, and which columns would change them.

The session is strict, so the server refuses a value that does not fit its column. Even in strict
mode, MariaDB changes some values without an error: decimals with too many digits, microseconds that
a column cannot store, blanks at the end of CHAR, and the case of letters in keys. Such columns are
refused when the relation is opened, and such values are refused when they are bound (invariant
refuse_not_guess).

========================  ==================================  ========================================
PostgreSQL                bound as                            columns
========================  ==================================  ========================================
boolean                   1, 0 (``t``, ``f`` as text)         integers, texts
smallint ... bigint, oid  integer                             integers, DECIMAL, texts, DOUBLE (32 bit)
real, double precision    float; NaN, infinities are refused  DOUBLE (no size: DOUBLE(10,2) rounds)
bytea                     bytes                               BLOBs, VARBINARY
numeric                   exact text                          DECIMAL, texts
date                      text; year 1 to 9999                DATE, texts, CHAR
time                      text                                TIME(6), texts, CHAR
timestamp                 text; year 1 to 9999                DATETIME(6), texts, CHAR
timestamptz               text; the time in UTC               DATETIME(6), TIMESTAMP(6), texts, CHAR
uuid                      text                                UUID, texts, CHAR
character                 text; CHAR removes trailing blanks  texts, CHAR
everything else           text                                texts
========================  ==================================  ========================================

Integers, DOUBLE, DECIMAL, DATETIME(6) and texts also accept values of other types, as PostgreSQL's
input functions read them (:mod:`subscriber.targets.conversion`). Texts are VARCHAR and the four
TEXT types. In a primary key they need a binary collation (``..._bin``), because a row is found by
``=``. One known loss remains: the sign of a floating-point negative zero.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from subscriber.errors import TargetRelationError, UnsupportedValue
from subscriber.targets import conversion
from subscriber.targets.conversion import converted, converts
from subscriber.targets.declared_columns import check_moment, check_number, declared_length
from subscriber.targets.target_table import TargetColumn
from subscriber.types import family_of, type_name

INEXACT_KEY: Final = " of a key that ignores case"
"""The suffix of the storage of a text column in a primary key, if the column's collation treats
values as equal that PostgreSQL distinguishes.
"""

TEXTS: Final = frozenset({"varchar", "tinytext", "text", "mediumtext", "longtext"})
INTEGERS: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
_BITS: Final = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
STORED_ALIKE: Final = TEXTS | INTEGERS | {"decimal", "date", "uuid", "varbinary"}
"""Key columns in which any two equal values are stored identically, if texts are compared exactly.

Not included are CHAR, in which letters of different case may be equal, DOUBLE, and columns that can
be ``ON UPDATE CURRENT_TIMESTAMP``, which changes them if SET does not name them.
"""
SIZED: Final = frozenset({"varchar", "char", "varbinary"})
BYTES: Final = {"tinytext": 255, "text": 65_535, "mediumtext": 16_777_215}
"""The maximum length, in bytes, of text types that are declared without a length."""
TIMES: Final = frozenset({"datetime", "timestamp"})
HELD_MOMENT: Final = r"^\d{4}-[^B]*$"
"""The dates and timestamps that MariaDB has: from year 1 to 9999."""
_BLOBS: Final = frozenset({"varbinary", "tinyblob", "blob", "mediumblob", "longblob"})

_BIGINT, _BPCHAR, _VARCHAR, _DATE, _TIME, _TIMESTAMP, _TIMESTAMPTZ, _NUMERIC, _UUID = (
    20, 1042, 1043, 1082, 1083, 1114, 1184, 1700, 2950,
)  # fmt: skip
_READ_ALL: Final = frozenset({"decimal", "double", "date", "datetime", "uuid"})
"""Columns that accept every value that :func:`as_stored` does not refuse."""
LONGEST_ACCEPTED: Final = 4_000
"""The greatest length of a text or of bytes, in bytes, for :func:`accepts`."""
_LONGEST_TINY: Final = 255
_SHORT: Final = frozenset({1083, 1266, 1114, 1184, 1186, 2950, 869, 650, 829, 774, 3220})
"""Date and time types (except date), uuid, network addresses and pg_lsn: their texts are never
longer than :data:`_SHORT_LENGTH`.
"""
_SHORT_LENGTH: Final = 80
_KEY_LENGTH: Final = 255
"""The length of a key column, in characters or bytes. Indexes require a length; a longer value is
refused.
"""
_LARGEST_PRECISION, _LARGEST_SCALE = 65, 30

_STANDS_FOR: Final = {
    "smallint": conversion.SMALLINT,
    "int": conversion.INTEGER,
    "bigint": conversion.BIGINT,
    "double": conversion.DOUBLE,
    "decimal": conversion.NUMERIC,
    "datetime": conversion.TIMESTAMP,
    **dict.fromkeys(TEXTS, conversion.TEXT),
}
"""For columns that convert values of other types: the PostgreSQL type as which the values are read.
"""

_CHAR_HOLDS: Final = frozenset({_BPCHAR, _DATE, _TIME, _TIMESTAMP, _TIMESTAMPTZ, _UUID})
"""Types whose text has no significant blanks at the end. CHAR removes blanks at the end."""


def declaration(type_oid: int, type_name: str, *, key: bool, collation: str) -> str:
    """The declaration of a column for a type.

    Args:
        type_oid: the type.
        type_name: the type's name as ``format_type`` returns it.
        key: the column is part of a key.
        collation: the collation of texts: a binary one that does not ignore blanks at the end.

    >>> declaration(1700, "numeric(10,2)", key=False, collation="c"), declaration(25, "text", key=True, collation="c")
    ('DECIMAL(10,2)', 'VARCHAR(255) CHARACTER SET utf8mb4 COLLATE c')
    """
    arrow_type = family_of(type_oid).arrow_type
    if pa.types.is_boolean(arrow_type):
        return "BOOLEAN"
    if pa.types.is_integer(arrow_type):
        return {16: "SMALLINT", 32: "INT"}.get(arrow_type.bit_width, "BIGINT")
    if pa.types.is_floating(arrow_type):
        return "DOUBLE"
    if pa.types.is_binary(arrow_type):
        return f"VARBINARY({_KEY_LENGTH})" if key else "LONGBLOB"
    if type_oid == _DATE:
        return "DATE"
    size = [int(number) for number in re.findall(r"\d+", type_name.partition("(")[2])]
    if type_oid == _NUMERIC and len(size) == 2 and "-" not in type_name and _fits(*size):
        return f"DECIMAL({size[0]},{size[1]})"
    length = _length(type_oid, size, key=key)
    return f"{'LONGTEXT' if length is None else f'VARCHAR({length})'} CHARACTER SET utf8mb4 COLLATE {collation}"


def _fits(precision: int, scale: int) -> bool:
    return scale <= precision <= _LARGEST_PRECISION and scale <= _LARGEST_SCALE


def _length(type_oid: int, size: list[int], *, key: bool) -> int | None:
    if type_oid in _SHORT:
        return _SHORT_LENGTH
    if type_oid in (_BPCHAR, _VARCHAR) and size and size[0] <= _KEY_LENGTH:
        return size[0]
    return _KEY_LENGTH if key else None


def check_column(type_oid: int, column: TargetColumn) -> None:
    """Refuse a column that would change values of the type (see the table above).

    Raises:
        TargetRelationError: with the column's name, its declared type, and a declaration that
            works.
    """
    storage = column.storage.removesuffix(INEXACT_KEY)
    name = type_name(type_oid)
    held = storage in _allowed(type_oid) or converts(type_oid, _STANDS_FOR.get(storage))
    rounds = (storage in TIMES | {"time"} and "(6)" not in column.declared_type) or (
        storage == "double" and "(" in column.declared_type
    )
    if not held or rounds:
        declared = declaration(type_oid, name, key=False, collation="utf8mb4_bin")
        if type_oid == _NUMERIC:
            declared = f"DECIMAL(precision,scale) or {declared}"
        raise TargetRelationError(
            f'column "{column.name}" declared "{column.declared_type}" cannot hold type {name} exactly',
            hint=f"Declare the column as {declared} to keep every value of type {name}.",
            column=column.name,
        )
    # The other texts that CHAR can store have letters of only one case.
    if storage != column.storage and (storage in TEXTS or type_oid == _BPCHAR):
        raise TargetRelationError(
            f'key column "{column.name}" does not distinguish upper and lower case',
            detail="Rows are found by this column, and PostgreSQL distinguishes such values.",
            hint="Give the column a binary collation, such as COLLATE utf8mb4_nopad_bin.",
            column=column.name,
        )


@cache
def _allowed(type_oid: int) -> frozenset[str]:
    arrow_type = family_of(type_oid).arrow_type
    if pa.types.is_boolean(arrow_type):
        return INTEGERS | TEXTS
    if pa.types.is_integer(arrow_type):
        exact = set() if type_oid == _BIGINT or arrow_type.bit_width > 32 else {"double"}
        return INTEGERS | TEXTS | {"decimal"} | exact
    if pa.types.is_floating(arrow_type):
        return frozenset({"double"})
    if pa.types.is_binary(arrow_type):
        return _BLOBS
    native = {
        _NUMERIC: {"decimal"},
        _DATE: {"date"},
        _TIME: {"time"},
        _TIMESTAMP: {"datetime"},
        _TIMESTAMPTZ: TIMES,
        _UUID: {"uuid"},
    }.get(type_oid, set())
    return TEXTS | native | ({"char"} if type_oid in _CHAR_HOLDS else set())


def accepts(type_oid: int, column: TargetColumn, values: pa.Array) -> bool:
    """Whether a column is known to accept these values.

    They are not converted to another type of PostgreSQL, and fit the column whatever its character
    set is. Times and CHAR are left out.
    """
    if column.storage not in _allowed(type_oid):
        return False
    try:
        stored = as_stored(type_oid, column, values)
    except UnsupportedValue:
        return False
    if pa.types.is_integer(stored.type):
        return column.storage not in INTEGERS or _in_range(column, stored)
    if column.storage in TEXTS | _BLOBS:
        return _is_short(column, stored)
    return column.storage in _READ_ALL and "unsigned" not in column.declared_type


def _in_range(column: TargetColumn, values: pa.Array) -> bool:
    bounds = pc.min_max(values.cast(pa.int64())).as_py()
    greatest = greatest_integer(column)
    least = 0 if "unsigned" in column.declared_type else -greatest - 1
    return bounds["min"] is None or least <= bounds["min"] <= bounds["max"] <= greatest


def _is_short(column: TargetColumn, values: pa.Array) -> bool:
    is_binary = pa.types.is_binary(values.type)
    if not (is_binary or pc.all(pc.string_is_ascii(values.cast(pa.string()))).as_py() in (True, None)):
        return False
    longest = pc.max(pc.binary_length(values)).as_py() or 0
    return bool(longest <= (_LONGEST_TINY if column.storage.startswith("tiny") else LONGEST_ACCEPTED))


def bind_values(type_oid: int, column: TargetColumn, values: pa.Array) -> list[Any]:
    """The values to bind (see the table above).

    Raises:
        UnsupportedValue: the column cannot store a value exactly.
    """
    bound: list[Any] = as_stored(type_oid, column, values).to_pylist()
    return bound


def as_stored(type_oid: int, column: TargetColumn, values: pa.Array) -> pa.Array:
    """The values to bind as an array: integers, double precision numbers, bytes or texts.

    Raises:
        UnsupportedValue: the column cannot store a value exactly.
    """
    into = conversion_of(type_oid, column)
    if into is not None:
        type_oid, values = into, converted(into, column, values)
    if pa.types.is_boolean(values.type):
        values = pc.if_else(values, "t", "f") if column.storage in TEXTS else values.cast(pa.int8())
    elif pa.types.is_floating(values.type):
        values = _finite(column, values)
    elif column.storage == "decimal":
        check_number(column, values.cast(pa.string()))
    elif column.storage in TIMES or column.storage == "date":
        check_moment(column, values, pc.match_substring_regex(values, HELD_MOMENT))
        if type_oid == _TIMESTAMPTZ:
            values = pc.replace_substring_regex(values, r"\+00$", "")
    elif column.storage in SIZED:
        _check_length(column, values)
    elif column.storage in BYTES:
        _check_bytes(column, values)
    return values


def conversion_of(type_oid: int, column: TargetColumn) -> int | None:
    """The PostgreSQL type as which values of another type are read before they are bound.

    None if values are not converted.
    """
    storage = column.storage.removesuffix(INEXACT_KEY)
    into = _STANDS_FOR.get(storage)
    return into if storage not in _allowed(type_oid) and converts(type_oid, into) else None


def _check_length(column: TargetColumn, values: pa.Array) -> None:
    # If a text is too long only because of blanks, they are removed without an error.
    length = declared_length(column.declared_type)
    lengths = pc.binary_length(values) if pa.types.is_binary(values.type) else pc.utf8_length(values.cast(pa.string()))
    longest = pc.max(lengths).as_py()
    if length is not None and longest is not None and longest > length:
        raise UnsupportedValue(f"value too long for type {column.declared_type}", sqlstate="22001", column=column.name)


def _check_bytes(column: TargetColumn, values: pa.Array) -> None:
    # The same is true here: only a text that ends with a blank is truncated without an error. In
    # another character set it may have fewer bytes.
    blank = pc.fill_null(pc.ends_with(values.cast(pa.string()), " "), False)
    longest = pc.max(pc.binary_length(values.cast(pa.string()).filter(blank))).as_py()
    if longest is not None and longest > BYTES[column.storage]:
        raise UnsupportedValue(f"value too long for type {column.declared_type}", sqlstate="22001", column=column.name)


def _finite(column: TargetColumn, values: pa.Array) -> pa.Array:
    if pa.types.is_float32(values.type):
        # 0.1 and not 0.10000000149011612, as PostgreSQL prints it.
        values = values.cast(pa.string()).cast(pa.float64())
    if not pc.all(pc.is_finite(values)).as_py() and values.null_count < len(values):
        raise UnsupportedValue(
            f'column "{column.name}" holds finite numbers only', sqlstate="22003", column=column.name
        )
    return values


def from_text(type_oid: int, column: TargetColumn, variable: str) -> str | None:
    """The SQL that converts COPY's text in a user variable to a column's value.

    None if MariaDB reads the text itself.

    Args:
        type_oid: the type.
        column: the target's column.
        variable: the name of the user variable, such as ``@c1``.
    """
    arrow_type = family_of(type_oid).arrow_type
    if pa.types.is_boolean(arrow_type) and column.storage in INTEGERS:
        return f"{variable} = 't'"
    if pa.types.is_binary(arrow_type):
        return f"UNHEX(SUBSTR({variable}, 3))"
    if type_oid == _TIMESTAMPTZ and column.storage in TIMES:
        return f"TRIM(TRAILING '+00' FROM {variable})"
    return None


def greatest_integer(column: TargetColumn) -> int:
    """The largest value of an integer column."""
    bits = _BITS[column.storage.removesuffix(INEXACT_KEY)]
    return (1 << (bits if "unsigned" in column.declared_type else bits - 1)) - 1
