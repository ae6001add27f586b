"""The declaration of a column: its text, its precision and length, and checks of values against
them.

Databases round a number that has too many decimal digits for its column, and most of them do not
report this.
"""

from __future__ import annotations

import re
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from subscriber.digits import integer_of
from subscriber.errors import UnsupportedValue
from subscriber.targets.target_table import TargetColumn

_NOT_FINITE: Final = "^(?:NaN|-?Infinity)$"
_NO_WHOLE_DIGITS: Final = r"^NaN$|^-?0*|\..*$"
_LARGEST_DECIMAL: Final = 38
"""The largest precision of Arrow's decimal128. Arrow does not notice that a number is too large
for 128 bits, neither when it reads the digits nor when it appends zeros for the scale.
"""


class Declared(sa.types.UserDefinedType[Any]):
    """A type that is given by the text of its declaration.

    Args:
        declared: the text, which the target receives unchanged.
    """

    cache_ok = True

    def __init__(self, declared: str) -> None:
        self.declared = declared

    def get_col_spec(self, **_: object) -> str:
        """The text of the type for SQLAlchemy's compiler."""
        return self.declared


def check_number(column: TargetColumn, values: pa.Array) -> None:
    """Refuse a numeric (as text) that does not fit the column's declared precision and scale.

    Leading and trailing zeros do not count.

    Raises:
        UnsupportedValue: 22003, with the column's name but without the value.
    """
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
    """Whether all values are numbers that Arrow reads with this precision and scale without a loss.
    It reads them in a fraction of the time that the checks take.

    Args:
        values: numbers as PostgreSQL prints them, without an exponent.
        precision: the digits that the column stores.
        scale: how many of them follow the decimal point.
    """
    longest = pc.max(pc.binary_length(values)).as_py() or 0
    if not 0 < precision <= _LARGEST_DECIMAL or longest + scale > _LARGEST_DECIMAL:
        return False
    try:
        values.cast(pa.decimal128(precision, scale))
    except pa.ArrowInvalid:
        return False
    return True


def check_digits(column: TargetColumn, values: pa.Array) -> None:
    """Refuse a numeric (as text) that has too many digits before the decimal point.

    The limit is the column's declared precision minus its scale.

    Raises:
        UnsupportedValue: 22003, with the column's name but without the value.
    """
    precision, scale = declared_precision(column.declared_type)
    if precision is None:
        return
    allowed = max(precision - scale, 0)
    infinite = pc.any(pc.match_substring(values, "Inf")).as_py()
    longest = pc.max(pc.binary_length(values)).as_py()
    if longest is not None and longest > allowed and not infinite:
        if _fit(values, precision, scale):
            return
        # The digits are counted, not matched: RE2 does not accept a repetition of some hundreds.
        whole = pc.replace_substring_regex(values, _NO_WHOLE_DIGITS, "")
        longest = pc.max(pc.utf8_length(whole)).as_py()
    if infinite or (longest is not None and longest > allowed):
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
    whole = pc.utf8_length(pc.replace_substring_regex(values, _NO_WHOLE_DIGITS, ""))
    excess = pc.or_(pc.match_substring(values, "Inf"), pc.greater(whole, max(precision - scale, 0)))
    return pc.fill_null(excess, False)


def check_range(column: TargetColumn, values: pa.Array, least: int, greatest: int) -> None:
    """Refuse an integer that is out of the column's range.

    Raises:
        UnsupportedValue: 22003, with the column's name but without the value.
    """
    bounds = pc.min_max(values).as_py()
    if bounds["min"] is not None and not least <= bounds["min"] <= bounds["max"] <= greatest:
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


def none_of(values: pa.Array) -> pa.Array:
    """A mask that is false for each value."""
    return pa.repeat(pa.scalar(False), len(values))


def check_text_length(column: TargetColumn, values: pa.Array) -> None:
    """Refuse a text that is longer than the column's declared length.

    As in PostgreSQL, blanks at the end of the text do not count.

    Raises:
        UnsupportedValue: 22001, with the column's name but without the value.
    """
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
    """Refuse a date or timestamp that the column cannot store.

    Args:
        column: the column, for the message.
        values: all values.
        held: for each value, whether the column can store it.

    Raises:
        UnsupportedValue: 22008, with the column's name but without the value.
    """
    if pc.any(pc.and_(pc.is_valid(values), pc.invert(held))).as_py():
        raise UnsupportedValue(
            f'a value of column "{column.name}" is out of range for type "{column.declared_type}"',
            sqlstate="22008",
            column=column.name,
            hint="Declare the column as text to store every date, and the infinities.",
        )


def declared_precision(declared: str) -> tuple[int | None, int]:
    """The precision and the scale in the parentheses of a declaration; the precision may be
    missing.

    >>> declared_precision("DECIMAL(10,2)"), declared_precision("decimal(5)"), declared_precision("decimal(6,3) unsigned")
    ((10, 2), (5, 0), (6, 3))
    """
    sized = re.search(r"\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", declared)
    return (None, 0) if sized is None else (integer_of(sized[1]), integer_of(sized[2] or "0"))


def declared_length(declared: str) -> int | None:
    """The length in the parentheses of a text type's declaration; None if there is none.

    >>> declared_length("varchar(20)"), declared_length("text")
    (20, None)
    """
    sized = re.search(r"\((\d+)\)", declared)
    return None if sized is None else integer_of(sized[1])
