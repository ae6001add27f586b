"""numeric: arithmetic, rounding, functions and casts, exact to the last digit that PostgreSQL
shows.

The value type and its text are in :mod:`subscriber.types.numeric`.

::

    + - * %      exact; the scale is the larger scale of the operands, for * the sum of both scales
    /            rounded (halves away from zero) to at least 16 significant digits, and to at least the scale of each operand (select_div_scale)
    sqrt         rounded in the same way, to at least 16 significant digits

``exp``, ``ln``, ``log`` and ``power`` (``^``) are in :mod:`.numeric_powers`, ``width_bucket`` is in
:mod:`.numeric_buckets`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from subscriber.errors import RowFilterError
from subscriber.filters.functions.comparison import register_extremes, register_order
from subscriber.filters.functions.function_table import FunctionTable
from subscriber.filters.functions.integers import division_by_zero, out_of_range
from subscriber.types.numeric import (
    EXACT,
    GREATEST_SCALE,
    MOST_WHOLE_DIGITS,
    at_scale,
    checked,
    coerced,
    compare,
    numeric_in,
    numeric_out,
    overflow,
    rescaled_up,
    scale_of,
)

FUNCTIONS: Final = FunctionTable()

_GREATEST_SHOWN_SCALE: Final = 1000
_SIGNIFICANT_DIGITS: Final = 16
_GROUP: Final = 4
"""The number of decimal digits in one of PostgreSQL's base-10000 digits."""

_NAN: Final = Decimal("NaN")
_INFINITY: Final = Decimal("Infinity")
_ZERO: Final = Decimal(0)
_ONE: Final = Decimal(1)


# Scale --------------------------------------------------------------------------------------------


FUNCTIONS.elementwise("numeric(numeric,int4)")(coerced)


# Comparisons --------------------------------------------------------------------------------------


@FUNCTIONS.elementwise("numeric_eq(numeric,numeric)", raises=False)
def _equal(left: Decimal, right: Decimal) -> bool:
    return left == right or (left.is_nan() and right.is_nan())


@FUNCTIONS.elementwise("numeric_ne(numeric,numeric)", raises=False)
def _not_equal(left: Decimal, right: Decimal) -> bool:
    return not _equal(left, right)


@FUNCTIONS.elementwise("numeric_lt(numeric,numeric)", raises=False)
def _less(left: Decimal, right: Decimal) -> bool:
    return not left.is_nan() and (right.is_nan() or left < right)


@FUNCTIONS.elementwise("numeric_gt(numeric,numeric)", raises=False)
def _greater(left: Decimal, right: Decimal) -> bool:
    return not right.is_nan() and (left.is_nan() or left > right)


@FUNCTIONS.elementwise("numeric_le(numeric,numeric)", raises=False)
def _less_or_equal(left: Decimal, right: Decimal) -> bool:
    return not _greater(left, right)


@FUNCTIONS.elementwise("numeric_ge(numeric,numeric)", raises=False)
def _greater_or_equal(left: Decimal, right: Decimal) -> bool:
    return not _less(left, right)


register_order(FUNCTIONS, "numeric_cmp(numeric,numeric)", compare)
register_extremes(FUNCTIONS, "numeric_larger(numeric,numeric)", "numeric_smaller(numeric,numeric)", compare)


# Arithmetic ---------------------------------------------------------------------------------------


def _finite(left: Decimal, right: Decimal) -> bool:
    return left.is_finite() and right.is_finite()


@FUNCTIONS.elementwise("numeric_add(numeric,numeric)")
def _add(left: Decimal, right: Decimal) -> Decimal:
    # Decimal has PostgreSQL's rules for NaN and the infinities.
    total = EXACT.add(left, right)
    return checked(total) if total.is_finite() else total


@FUNCTIONS.elementwise("numeric_sub(numeric,numeric)")
def _subtract(left: Decimal, right: Decimal) -> Decimal:
    difference = EXACT.subtract(left, right)
    return checked(difference) if difference.is_finite() else difference


@FUNCTIONS.elementwise("numeric_mul(numeric,numeric)")
def _multiply(left: Decimal, right: Decimal) -> Decimal:
    product = EXACT.multiply(left, right)
    return checked(product) if product.is_finite() else product


def _first_group(value: Decimal) -> tuple[int, int]:
    """The first base-10000 digit, as PostgreSQL stores it, and its weight."""
    if not value:
        return 0, 0
    highest = value.adjusted()
    weight = highest // _GROUP
    count = highest - _GROUP * weight + 1
    digits = value.as_tuple().digits[:count]
    return int("".join(map(str, digits)).ljust(count, "0")), weight


def quotient_scale(left: Decimal, right: Decimal) -> int:
    """The number of decimals of a quotient of finite values (``select_div_scale``)."""
    (first_left, weight_left), (first_right, weight_right) = _first_group(left), _first_group(right)
    weight = weight_left - weight_right - (1 if first_left <= first_right else 0)
    scale = max(_SIGNIFICANT_DIGITS - _GROUP * weight, scale_of(left), scale_of(right), 0)
    return min(scale, _GREATEST_SHOWN_SCALE)


def _whole(value: Decimal, scale: int) -> int:
    """A finite value as an integer, in units of the scale, which must not be less than the value's
    scale.
    """
    return int(value.scaleb(scale, EXACT))


def quotient(left: Decimal, right: Decimal, scale: int) -> Decimal:
    """The quotient of finite values with this number of decimals; halves are rounded away from
    zero.
    """
    common = max(scale_of(left), scale_of(right))
    dividend, divisor = abs(_whole(left, common)) * 10**scale, abs(_whole(right, common))
    units = (2 * dividend + divisor) // (2 * divisor)
    negative = left.is_signed() != right.is_signed() and units != 0
    return EXACT.create_decimal(-units if negative else units).scaleb(-scale, EXACT)


def _special_quotient(left: Decimal, right: Decimal) -> Decimal:
    """The quotient of two values of which at least one is NaN or infinite."""
    if left.is_nan() or right.is_nan() or (left.is_infinite() and right.is_infinite()):
        return _NAN
    if right.is_infinite():
        return _ZERO
    if not right:
        raise division_by_zero()
    return left if right > 0 else -left


@FUNCTIONS.elementwise("numeric_div(numeric,numeric)")
def _divide(left: Decimal, right: Decimal) -> Decimal:
    if not _finite(left, right):
        return _special_quotient(left, right)
    if not right:
        raise division_by_zero()
    return checked(quotient(left, right, quotient_scale(left, right)))


@FUNCTIONS.elementwise("numeric_div_trunc(numeric,numeric)", "div(numeric,numeric)")
def _divide_whole(left: Decimal, right: Decimal) -> Decimal:
    if not _finite(left, right):
        return _special_quotient(left, right)
    if not right:
        raise division_by_zero()
    common = max(scale_of(left), scale_of(right))
    units = abs(_whole(left, common)) // abs(_whole(right, common))
    return checked(EXACT.create_decimal(-units if left.is_signed() != right.is_signed() else units))


@FUNCTIONS.elementwise("numeric_mod(numeric,numeric)", "mod(numeric,numeric)")
def _modulo(left: Decimal, right: Decimal) -> Decimal:
    if left.is_nan() or right.is_nan():
        return _NAN
    if not right:
        raise division_by_zero()
    if left.is_infinite():
        return _NAN
    if right.is_infinite():
        return left
    common = max(scale_of(left), scale_of(right))
    units = abs(_whole(left, common)) % abs(_whole(right, common))
    return checked(EXACT.create_decimal(-units if left.is_signed() else units).scaleb(-common, EXACT))


@FUNCTIONS.elementwise("numeric_uminus(numeric)", raises=False)
def _negate(value: Decimal) -> Decimal:
    return value.copy_negate() if value and not value.is_nan() else value


@FUNCTIONS.elementwise("numeric_uplus(numeric)", raises=False)
def _same(value: Decimal) -> Decimal:
    return value


@FUNCTIONS.elementwise("numeric_abs(numeric)", "abs(numeric)", raises=False)
def _absolute(value: Decimal) -> Decimal:
    return value.copy_abs()


@FUNCTIONS.elementwise("sign(numeric)", raises=False)
def _sign(value: Decimal) -> Decimal:
    if value.is_nan() or not value:
        return value if value.is_nan() else _ZERO
    return -_ONE if value.is_signed() else _ONE


@FUNCTIONS.elementwise("numeric_inc(numeric)")
def _increment(value: Decimal) -> Decimal:
    return _add(value, _ONE)


# Rounding and scale -------------------------------------------------------------------------------


def _limited(scale: int) -> int:
    return min(max(scale, -MOST_WHOLE_DIGITS - 1), GREATEST_SCALE)


@FUNCTIONS.elementwise("round(numeric,int4)")
def _round(value: Decimal, scale: int) -> Decimal:
    return checked(at_scale(value, _limited(scale))) if value.is_finite() else value


@FUNCTIONS.elementwise("round(numeric)")
def _round_whole(value: Decimal) -> Decimal:
    return _round(value, 0)


@FUNCTIONS.elementwise("trunc(numeric,int4)")
def _truncate(value: Decimal, scale: int) -> Decimal:
    return checked(at_scale(value, _limited(scale), ROUND_DOWN)) if value.is_finite() else value


@FUNCTIONS.elementwise("trunc(numeric)")
def _truncate_whole(value: Decimal) -> Decimal:
    return _truncate(value, 0)


@FUNCTIONS.elementwise("ceil(numeric)", "ceiling(numeric)")
def _ceiling(value: Decimal) -> Decimal:
    return checked(at_scale(value, 0, ROUND_CEILING)) if value.is_finite() else value


@FUNCTIONS.elementwise("floor(numeric)")
def _floor(value: Decimal) -> Decimal:
    return checked(at_scale(value, 0, ROUND_FLOOR)) if value.is_finite() else value


@FUNCTIONS.elementwise("scale(numeric)", raises=False)
def _scale(value: Decimal) -> int | None:
    return scale_of(value) if value.is_finite() else None


@FUNCTIONS.elementwise("min_scale(numeric)", raises=False)
def _least_scale(value: Decimal) -> int | None:
    return scale_of(_trimmed(value)) if value.is_finite() else None


@FUNCTIONS.elementwise("trim_scale(numeric)", raises=False)
def _trimmed(value: Decimal) -> Decimal:
    return rescaled_up(value.normalize(EXACT)) if value.is_finite() else value


# Functions ----------------------------------------------------------------------------------------


@FUNCTIONS.elementwise("sqrt(numeric)", "numeric_sqrt(numeric)")
def _square_root(value: Decimal) -> Decimal:
    if value.is_nan():
        return value
    if value < 0:
        raise RowFilterError("cannot take square root of a negative number", sqlstate="2201F")
    if value.is_infinite():
        return value
    _, weight = _first_group(value)
    half = (weight + 1) * _GROUP
    scale = max(_SIGNIFICANT_DIGITS - (half // 2 - 1), scale_of(value), 0)
    scale = min(scale, _GREATEST_SHOWN_SCALE)
    # Compute one digit more than is shown, truncated from the exact root. A last digit of 5 or more
    # rounds up.
    units = math.isqrt(_whole(value, 2 * scale + 2))
    return checked(EXACT.create_decimal((units + 5) // 10).scaleb(-scale, EXACT))


def _units(left: Decimal, right: Decimal) -> tuple[int, int, int]:
    scale = max(scale_of(left), scale_of(right))
    return _whole(left, scale), _whole(right, scale), scale


@FUNCTIONS.elementwise("gcd(numeric,numeric)")
def _common_divisor(left: Decimal, right: Decimal) -> Decimal:
    if not _finite(left, right):
        return _NAN
    one, other, scale = _units(left, right)
    return checked(EXACT.create_decimal(math.gcd(one, other)).scaleb(-scale, EXACT))


@FUNCTIONS.elementwise("lcm(numeric,numeric)")
def _common_multiple(left: Decimal, right: Decimal) -> Decimal:
    if not _finite(left, right):
        return _NAN
    one, other, scale = _units(left, right)
    return checked(EXACT.create_decimal(math.lcm(one, other)).scaleb(-scale, EXACT))


@FUNCTIONS.elementwise("factorial(int8)")
def _factorial(number: int) -> Decimal:
    if number < 0:
        raise RowFilterError("factorial of a negative number is undefined", sqlstate="22003")
    if number > 32_177:
        raise overflow()
    return checked(EXACT.create_decimal(math.factorial(number)))


# Casts --------------------------------------------------------------------------------------------


def _cast_to_integer(name: str, bits: int) -> Callable[[Decimal], int]:
    def cast(value: Decimal) -> int:
        if value.is_nan() or value.is_infinite():
            what = "NaN" if value.is_nan() else "infinity"
            raise RowFilterError(f"cannot convert {what} to {name}", sqlstate="0A000")
        number = int(value.to_integral_value(ROUND_HALF_UP))
        if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
            raise out_of_range(name)
        return number

    return cast


FUNCTIONS.elementwise("int2(numeric)")(_cast_to_integer("smallint", 16))
FUNCTIONS.elementwise("int4(numeric)")(_cast_to_integer("integer", 32))
FUNCTIONS.elementwise("int8(numeric)")(_cast_to_integer("bigint", 64))
FUNCTIONS.elementwise("numeric(int2)", "numeric(int4)", "numeric(int8)", raises=False)(Decimal)


def _float_digits(digits: int) -> Callable[[float], Decimal]:
    """A function that casts a float to numeric, with the number of digits that the float's type
    always preserves.
    """

    def cast(value: float) -> Decimal:
        if math.isnan(value):
            return _NAN
        if math.isinf(value):
            return _INFINITY if value > 0 else -_INFINITY
        return numeric_in(f"{value:.{digits}g}")

    return cast


FUNCTIONS.elementwise("numeric(float8)")(_float_digits(15))
FUNCTIONS.elementwise("numeric(float4)")(_float_digits(6))


def _cast_to_float(name: str, arrow_type: pa.DataType) -> Callable[[Decimal], float]:
    def cast(value: Decimal) -> float:
        # Arrow's parser rounds only once, to the nearest value of the type.
        result: float = pc.cast(pa.scalar(numeric_out(value)), arrow_type).as_py()
        if (math.isinf(result) and value.is_finite()) or (result == 0 and value):
            raise RowFilterError(f"value out of range for type {name}", sqlstate="22003")
        return result

    return cast


FUNCTIONS.elementwise("float4(numeric)")(_cast_to_float("real", pa.float32()))
FUNCTIONS.elementwise("float8(numeric)")(_cast_to_float("double precision", pa.float64()))
