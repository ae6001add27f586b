"""How MariaDB and MySQL store PostgreSQL's values, and which columns would change them.

The session is strict, so the server refuses a value that does not fit its column. Even so it
changes some values without an error: decimals with too many digits, microseconds that a column
cannot store, blanks at the end of CHAR, and the case of letters in keys. Such columns are refused
when the relation is opened, and such values when they are bound (invariant refuse_not_guess).

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

Integers, DOUBLE, DECIMAL, DATETIME(6) and texts also accept values of other types
(:mod:`subscriber.targets.conversion`). Texts are VARCHAR and the four TEXT types. In a primary key
they need a binary collation (``..._bin``), because a row is found by ``=``. One known loss remains:
the sign of a floating-point negative zero.
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
from subscriber.postgres.schema.publisher_tables import PublisherColumn
from subscriber.postgres.types.oids import type_name
from subscriber.postgres.types.registry import family_of
from subscriber.targets import conversion, declared_columns
from subscriber.targets.base.values import Values, none_of, refused_one_by_one
from subscriber.targets.conversion import converted, converts
from subscriber.targets.target_table import TargetColumn

INEXACT_KEY: Final = " of a key that ignores case"
"""The suffix of a key column's storage, if its collation ignores what PostgreSQL distinguishes."""

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
BLOBS: Final = frozenset({"varbinary", "tinyblob", "blob", "mediumblob", "longblob"})

_BIGINT, _BPCHAR, _VARCHAR, _DATE, _TIME, _TIMESTAMP, _TIMESTAMPTZ, _NUMERIC, _UUID = (
    20, 1042, 1043, 1082, 1083, 1114, 1184, 1700, 2950,
)  # fmt: skip
_READ_ALL: Final = frozenset({"decimal", "double", "date", "datetime", "uuid"})
"""Columns that accept every value that :func:`as_stored` does not refuse."""
LONGEST_ACCEPTED: Final = 4_000
"""The greatest length of a text or of bytes, in bytes, for :func:`accepts`."""
_LONGEST_TINY: Final = 255
_SHORT: Final = frozenset({1083, 1266, 1114, 1184, 1186, 2950, 869, 650, 829, 774, 3220})
"""Types whose texts are never longer than :data:`_SHORT_LENGTH`: times, uuid, networks, pg_lsn."""
_SHORT_LENGTH: Final = 80
_KEY_LENGTH: Final = 255
"""The length of a key column without a length, in characters or bytes: indexes require one."""
_LONGEST_KEY: Final = 768
"""The characters of the longest column that a key can have."""
_NAME, _CHAR, _LONGEST_NAME = 19, 18, 63
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
"""The PostgreSQL type as which a column reads values of other types."""

_CHAR_HOLDS: Final = frozenset({_BPCHAR, _DATE, _TIME, _TIMESTAMP, _TIMESTAMPTZ, _UUID})
"""Types whose text has no significant blanks at the end. CHAR removes blanks at the end."""


def declaration(type_oid: int, type_name: str, *, key: bool, collation: str) -> str:
    """The declaration of a column for a type.

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
    if type_oid in (_BPCHAR, _VARCHAR) and size and size[0] <= (_LONGEST_KEY if key else _KEY_LENGTH):
        return size[0]
    return _KEY_LENGTH if key else None


def holds_every_length(column: PublisherColumn, longest: int) -> bool:
    """Whether a column of up to ``longest`` bytes holds the longest value of a type."""
    if column.type_oid in _SHORT:
        return longest >= _SHORT_LENGTH
    if column.type_oid in (_NAME, _CHAR):
        return longest >= _LONGEST_NAME
    size = re.findall(r"\((\d+)\)$", column.type_name)
    return column.type_oid in (_BPCHAR, _VARCHAR) and bool(size) and longest >= 4 * int(size[0])


class MariaDBValues(Values):
    @override
    def check_column(self, type_oid: int, column: TargetColumn) -> None:
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

    @override
    def read_as(self, type_oid: int, column: TargetColumn) -> int | None:
        storage = column.storage.removesuffix(INEXACT_KEY)
        into = _STANDS_FOR.get(storage)
        return into if storage not in _allowed(type_oid) and converts(type_oid, into) else None

    @override
    def bind_values(self, type_oid: int, column: TargetColumn, values: pa.Array) -> list[Any]:
        bound: list[Any] = self.as_stored(type_oid, column, values).to_pylist()
        return bound

    def as_stored(self, type_oid: int, column: TargetColumn, values: pa.Array) -> pa.Array:
        """:meth:`bind_values` as an array: integers, double precision numbers, bytes or texts."""
        into = self.read_as(type_oid, column)
        if into is not None:
            type_oid, values = into, converted(into, column, values)
        if pa.types.is_boolean(values.type):
            values = pc.if_else(values, "t", "f") if column.storage in TEXTS else values.cast(pa.int8())
        elif pa.types.is_floating(values.type):
            values = _finite(column, values)
        elif column.storage == "decimal":
            declared_columns.check_number(column, values.cast(pa.string()))
        elif column.storage in TIMES or column.storage == "date":
            declared_columns.check_moment(column, values, pc.match_substring_regex(values, HELD_MOMENT))
            if type_oid == _TIMESTAMPTZ:
                values = pc.replace_substring_regex(values, r"\+00$", "")
        elif column.storage in SIZED or column.storage in BYTES:
            _check_length(column, values)
        return values

    @override
    def unrepresentable_values(self, type_oid: int, column: TargetColumn, values: pa.Array) -> pa.Array:
        """Also what the server refuses in its strict mode, but for some that stop the subscription:
        a time zone's gap, the range of TIMESTAMP, which depends on the version, and a text that is
        too long only in the column's character set.
        """
        if self.read_as(type_oid, column) is not None:
            refused = refused_one_by_one(lambda some: self.as_stored(type_oid, column, some), values)
        elif pa.types.is_boolean(values.type):
            return none_of(values)
        elif pa.types.is_floating(values.type):
            refused = pc.invert(pc.fill_null(pc.is_finite(values), True))
        elif column.storage == "decimal":
            refused = declared_columns.unfit_numbers(column, values.cast(pa.string()))
        elif column.storage in TIMES or column.storage == "date":
            refused = pc.fill_null(pc.invert(pc.match_substring_regex(values, HELD_MOMENT)), False)
        elif column.storage in SIZED or column.storage in BYTES or column.storage in _BLOB_BYTES:
            return _too_long(column, values)
        else:
            refused = none_of(values)
        if pa.types.is_integer(values.type) and column.storage in INTEGERS:
            # The types of both are the same for bigint, which has no greater values.
            refused = pc.or_(refused, declared_columns.out_of_range(values.cast(pa.int64()), *_integer_range(column)))
        return refused

    @override
    def accepts(self, type_oid: int, type_modifier: int, column: TargetColumn, values: pa.Array) -> bool:
        """Whether unconverted values fit in any character set. False for times and CHAR."""
        if column.storage not in _allowed(type_oid):
            return False
        try:
            stored = self.as_stored(type_oid, column, values)
        except UnsupportedValue:
            return False
        if pa.types.is_integer(stored.type):
            if column.storage not in INTEGERS:
                return True
            return not pc.any(declared_columns.out_of_range(stored.cast(pa.int64()), *_integer_range(column))).as_py()
        if column.storage in TEXTS | BLOBS:
            return _is_short(column, stored)
        return column.storage in _READ_ALL and "unsigned" not in column.declared_type

    @override
    def readable(self, column: TargetColumn) -> sa.ColumnElement[Any]:
        """Times without trailing zeros in the fraction, as in PostgreSQL."""
        name: sa.ColumnClause[Any] = sa.column(column.name)
        if column.storage not in TIMES | {"time"}:
            return name
        return sa.func.regexp_replace(sa.cast(name, sa.CHAR()), r"\.?0+$", "").label(column.name)


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
        return BLOBS
    native = {
        _NUMERIC: {"decimal"},
        _DATE: {"date"},
        _TIME: {"time"},
        _TIMESTAMP: {"datetime"},
        _TIMESTAMPTZ: TIMES,
        _UUID: {"uuid"},
    }.get(type_oid, set())
    return TEXTS | native | ({"char"} if type_oid in _CHAR_HOLDS else set())


def _integer_range(column: TargetColumn) -> tuple[int, int]:
    greatest = greatest_integer(column)
    return 0 if "unsigned" in column.declared_type else -greatest - 1, greatest


def _is_short(column: TargetColumn, values: pa.Array) -> bool:
    is_binary = pa.types.is_binary(values.type)
    if not (is_binary or pc.all(pc.string_is_ascii(values.cast(pa.string()))).as_py() in (True, None)):
        return False
    longest = pc.max(pc.binary_length(values)).as_py() or 0
    return bool(longest <= (_LONGEST_TINY if column.storage.startswith("tiny") else LONGEST_ACCEPTED))


def _check_length(column: TargetColumn, values: pa.Array) -> None:
    # If a text is too long only because of blanks, they are removed without an error. Where the
    # length is in bytes, only such a text is: in another character set it may have fewer bytes.
    if column.storage in BYTES:
        values = values.filter(pc.fill_null(pc.ends_with(values.cast(pa.string()), " "), False))
    if pc.any(_too_long(column, values)).as_py():
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
    """The SQL that converts COPY's text in a user variable; None if MariaDB reads it itself."""
    arrow_type = family_of(type_oid).arrow_type
    if pa.types.is_boolean(arrow_type) and column.storage in INTEGERS:
        return f"{variable} = 't'"
    if pa.types.is_binary(arrow_type):
        return f"UNHEX(SUBSTR({variable}, 3))"
    if type_oid == _TIMESTAMPTZ and column.storage in TIMES:
        return f"TRIM(TRAILING '+00' FROM {variable})"
    return None


def greatest_integer(column: TargetColumn) -> int:
    bits = _BITS[column.storage.removesuffix(INEXACT_KEY)]
    return (1 << (bits if "unsigned" in column.declared_type else bits - 1)) - 1


_BLOB_BYTES: Final = {"tinyblob": 255, "blob": 65_535, "mediumblob": 16_777_215}


def _too_long(column: TargetColumn, values: pa.Array) -> pa.Array:
    if pa.types.is_binary(values.type):
        length = (
            declared_columns.declared_length(column.declared_type)
            if column.storage in SIZED
            else _BLOB_BYTES[column.storage]
        )
        lengths = pc.binary_length(values)
    else:
        texts = values.cast(pa.string())
        if column.storage in TEXTS and column.storage in BYTES:
            length = BYTES[column.storage]
            # In another character set than utf8mb4, a character may have only one byte. A text that
            # ends with a blank would be truncated without an error.
            bytes_, characters = pc.binary_length(texts), pc.utf8_length(texts)
            lengths = pc.if_else(pc.ends_with(texts, " "), bytes_, characters)
        else:
            length, lengths = declared_columns.declared_length(column.declared_type), pc.utf8_length(texts)
    return none_of(values) if length is None else pc.fill_null(pc.greater(lengths, length), False)
