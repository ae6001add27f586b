"""The declaration of a column: its text, precision and length, and checks of values, since
databases round decimal digits unreported. UnsupportedValue has the column's name but not the value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from subscriber.base.digits import parse_int
from subscriber.base.errors import UnsupportedValue
from subscriber.postgres.types.oids import BUILT_IN_TYPES
from subscriber.postgres.types.registry import decode_column
from subscriber.targets.base.values import none_of
from subscriber.targets.target import Target
from subscriber.targets.target_table import TargetColumn

_NOT_FINITE: Final = "^(?:NaN|-?Infinity)$"
_NO_WHOLE_DIGITS: Final = r"^NaN$|^-?0*|\..*$"
_LARGEST_DECIMAL: Final = 38
"""The largest precision of Arrow's decimal128. Arrow does not notice that a number is too large for
128 bits, neither when it reads the digits nor when it appends zeros for the scale.
"""


class Declared(sa.types.UserDefinedType[Any]):
    """A type that is given by the text of its declaration, which the target receives unchanged."""

    cache_ok = True

    def __init__(self, declared: str) -> None:
        self.declared = declared

    def get_col_spec(self, **_: object) -> str:
        return self.declared


def check_number(column: TargetColumn, values: pa.Array) -> None:
    """Refuse a numeric that does not fit precision and scale (22003); outer zeros do not count."""
    precision, scale = declared_precision(column.declared_type)
    if precision is not None and _fit(values, precision, scale):
        return
    if pc.any(pc.match_substring_regex(values, _NOT_FINITE)).as_py():
        raise UnsupportedValue(
            f'column "{column.name}" holds finite numbers only',
            sqlstate="22003",
            column=column.name,
            hint="Declare the column as text to store values that are not finite numbers.",
        )
    if pc.any(pc.match_substring_regex(values, _more_digits(scale))).as_py():
        raise UnsupportedValue(
            f'a value of column "{column.name}" has more decimal digits than "{column.declared_type}" stores',
            sqlstate="22003",
            column=column.name,
            hint="Give the column a larger scale in the target.",
        )
    check_digits(column, values)


def unfit_numbers(column: TargetColumn, values: pa.Array) -> pa.Array:
    """For each value whether :func:`check_number` refuses it; NULL is not refused."""
    precision, scale = declared_precision(column.declared_type)
    if precision is not None and _fit(values, precision, scale):
        return none_of(values)
    unfit = pc.or_(pc.match_substring_regex(values, _NOT_FINITE), pc.match_substring_regex(values, _more_digits(scale)))
    return pc.or_(pc.fill_null(unfit, False), unfit_digits(column, values))


def _more_digits(scale: int) -> str:
    # A number has at most 16,383 digits after the decimal point, but RE2 repeats at most 1,000
    # times.
    return "".join((r"\.", *(r"\d{1000}" for _ in range(scale // 1000)), rf"\d{{{scale % 1000}}}\d*[1-9]"))


def _fit(values: pa.Array, precision: int, scale: int) -> bool:
    return as_decimals(values, precision, scale) is not None


def as_decimals(values: pa.Array, precision: int, scale: int) -> pa.Array | None:
    """The texts as decimals if Arrow reads all of them with this precision and scale, which is
    faster than checks; otherwise None.
    """
    longest = pc.max(pc.binary_length(values)).as_py() or 0
    if not 0 < precision <= _LARGEST_DECIMAL or longest + scale > _LARGEST_DECIMAL:
        return None
    try:
        return values.cast(pa.decimal128(precision, scale))
    except pa.ArrowInvalid:
        return None


def check_digits(column: TargetColumn, values: pa.Array) -> None:
    """Refuse a numeric (as text) with more digits before the point than the column has (22003)."""
    if pc.any(unfit_digits(column, values)).as_py():
        raise UnsupportedValue(
            f'a value of column "{column.name}" has more digits than "{column.declared_type}" stores',
            sqlstate="22003",
            column=column.name,
            hint="Give the column a larger precision in the target.",
        )


def unfit_digits(column: TargetColumn, values: pa.Array) -> pa.Array:
    """For each value whether :func:`check_digits` refuses it; NULL is not refused."""
    precision, scale = declared_precision(column.declared_type)
    if precision is None:
        return none_of(values)
    allowed = max(precision - scale, 0)
    infinite = pc.match_substring(values, "Inf")
    longest = pc.max(pc.binary_length(values)).as_py()
    if not pc.any(infinite).as_py() and (longest is None or longest <= allowed or _fit(values, precision, scale)):
        return none_of(values)
    # The digits are counted, not matched: RE2 does not accept a repetition of some hundreds.
    whole = pc.utf8_length(pc.replace_substring_regex(values, _NO_WHOLE_DIGITS, ""))
    return pc.fill_null(pc.or_(infinite, pc.greater(whole, allowed)), False)


def check_range(column: TargetColumn, values: pa.Array, least: int, greatest: int) -> None:
    """Refuse an integer that is out of the column's range (22003)."""
    if pc.any(out_of_range(values, least, greatest)).as_py():
        raise UnsupportedValue(
            f'a value of column "{column.name}" is out of range for type "{column.declared_type}"',
            sqlstate="22003",
            column=column.name,
            hint="Declare the column as a larger type in the target.",
        )


def out_of_range(values: pa.Array, least: int, greatest: int) -> pa.Array:
    """For each integer whether it is out of a range; NULL is not."""
    bounds = pc.min_max(values).as_py()
    if bounds["min"] is None or least <= bounds["min"] <= bounds["max"] <= greatest:
        return none_of(values)
    below = none_of(values) if least <= bounds["min"] else pc.less(values, least)
    above = none_of(values) if bounds["max"] <= greatest else pc.greater(values, greatest)
    return pc.fill_null(pc.or_(below, above), False)


def check_text_length(column: TargetColumn, values: pa.Array) -> None:
    """Refuse a text longer than declared (22001). As in PostgreSQL, final blanks do not count."""
    length = declared_length(column.declared_type)
    if length is None:
        return
    if pc.any(too_long(column, values)).as_py():
        raise UnsupportedValue(
            f"value too long for type {column.declared_type.lower()}", sqlstate="22001", column=column.name
        )


def too_long(column: TargetColumn, values: pa.Array) -> pa.Array:
    """For each text whether :func:`check_text_length` refuses it; NULL is not refused."""
    length = declared_length(column.declared_type)
    longest = pc.max(pc.utf8_length(values)).as_py()
    if length is None or longest is None or longest <= length:
        return none_of(values)
    return pc.fill_null(pc.greater(pc.utf8_length(pc.utf8_rtrim(values, " ")), length), False)


def check_moment(column: TargetColumn, values: pa.Array, held: pa.Array) -> None:
    """Refuse a date or timestamp that the column cannot store (22008): not ``held``."""
    if pc.any(pc.and_(pc.is_valid(values), pc.invert(held))).as_py():
        raise UnsupportedValue(
            f'a value of column "{column.name}" is out of range for type "{column.declared_type}"',
            sqlstate="22008",
            column=column.name,
            hint="Declare the column as text to store every date, and the infinities.",
        )


def declared_precision(declared: str) -> tuple[int | None, int]:
    """The precision, which may be missing, and the scale of a declaration.

    >>> declared_precision("DECIMAL(10,2)"), declared_precision("decimal(5)"), declared_precision("decimal(6,3) unsigned")
    ((10, 2), (5, 0), (6, 3))
    """
    sized = re.search(r"\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", declared)
    return (None, 0) if sized is None else (parse_int(sized[1]), parse_int(sized[2] or "0"))


def declared_length(declared: str) -> int | None:
    """The length in a text type's declaration; None if there is none."""
    sized = re.search(r"\((\d+)\)", declared)
    return None if sized is None else parse_int(sized[1])


# Extreme values --------------------------------------------------------------------------------
#
# A column that can hold the *probes* of a type, a few of its extreme values, can hold all others.
# Every type whose texts have no greatest length has a probe that is longer than all limits of
# columns.

_LONGEST: Final = 2**24
"""More characters or bytes than any column can have that has a limit: MEDIUMTEXT has one less."""
_FLOATS: Final = ("NaN", "Infinity", "-Infinity")
_PROBES: Final[Mapping[int, Sequence[str]]] = {
    21: ("-32768", "32767"),
    23: ("-2147483648", "2147483647"),
    20: ("-9223372036854775808", "9223372036854775807"),
    26: ("4294967295",),
    16: ("t", "f"),
    28: ("4294967295",),
    29: ("4294967295",),
    2950: ("ffffffff-ffff-ffff-ffff-ffffffffffff",),
    1083: ("23:59:59.999999", "24:00:00"),
    1266: ("23:59:59.999999-15:59:59", "24:00:00-15:59:59"),
    1186: ("-178000000 years -11 mons -2147483647 days -2562047788:00:54.775807", "infinity"),
    114: ('"\\u0000"',),
    1082: ("infinity", "-infinity", "4714-11-24 BC", "5874897-12-31"),
    1114: ("infinity", "-infinity", "4714-11-24 00:00:00 BC", "294276-12-31 23:59:59.999999"),
    1184: ("infinity", "-infinity", "4714-11-24 00:00:00+00 BC", "294276-12-31 23:59:59.999999+00"),
    700: (*_FLOATS, "3.4028235e+38"),
    701: (*_FLOATS, "1.7976931348623157e+308"),
    1700: (*_FLOATS, "9" * 200, "0." + "0" * 200 + "1"),
}
_BYTEA: Final = 17
_UNBOUNDED: Final = frozenset({114})
"""Types with extreme values whose texts have no greatest length nevertheless."""


def may_refuse(target: Target, type_oid: int, column: TargetColumn) -> bool:
    """Whether there are values of a type that a column cannot hold."""
    return _refuses(target, type_oid, column, _probes(type_oid, as_text=target.capabilities.postgresql_text))


def refuses_texts(target: Target, type_oid: int, column: TargetColumn, texts: Sequence[str]) -> bool:
    values = _decoded_texts(type_oid, texts, as_text=target.capabilities.postgresql_text)
    return _refuses(target, type_oid, column, values)


def decoded(type_oid: int, raw: pa.Array, *, as_text: bool) -> pa.Array:
    """Values of COPY's text as :meth:`Values.unrepresentable_values` expects them."""
    return raw.cast(pa.string()) if as_text else decode_column(type_oid, raw, binary=False, column=1)


@lru_cache(maxsize=4)  # each may have many megabytes
def _probes(type_oid: int, *, as_text: bool) -> pa.Array:
    """The extreme values of a type; of a user-defined type, a text that is no number or date."""
    texts = [*_PROBES.get(type_oid, () if type_oid in BUILT_IN_TYPES else ("x",))]
    if type_oid not in _PROBES or type_oid in _UNBOUNDED:
        texts.append("\\x" + "78" * _LONGEST if type_oid == _BYTEA else "x" * _LONGEST)
    return _decoded_texts(type_oid, texts, as_text=as_text)


def _refuses(target: Target, type_oid: int, column: TargetColumn, values: pa.Array) -> bool:
    return bool(pc.any(target.values.unrepresentable_values(type_oid, column, values)).as_py())


def _decoded_texts(type_oid: int, texts: Sequence[str], *, as_text: bool) -> pa.Array:
    return decoded(type_oid, pa.array([text.encode() for text in texts], pa.binary()), as_text=as_text)
