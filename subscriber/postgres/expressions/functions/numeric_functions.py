"""numeric: arithmetic, rounding, functions and casts, exact to the last digit that PostgreSQL
shows.

::

    + - * %      exact; the scale is the larger scale of the operands, for * the sum of both scales
    /            rounded (halves away from zero) to at least 16 significant digits, and to at least the scale of each operand (select_div_scale)
    sqrt         rounded in the same way, to at least 16 significant digits

``exp``, ``ln``, ``log`` and ``power`` (``^``) are in ``numeric_powers``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from subscriber.base.errors import RowFilterError
from subscriber.postgres.expressions.functions import function_table
from subscriber.postgres.expressions.functions.integer_functions import division_by_zero, out_of_range
from subscriber.postgres.expressions.functions.integer_functions import out_of_range as integer_out_of_range
from subscriber.postgres.types import numeric

_GREATEST_SHOWN_SCALE: Final = 1000
_SIGNIFICANT_DIGITS: Final = 16
_GROUP: Final = 4
"""The number of decimal digits in one of PostgreSQL's base-10000 digits."""

_NAN: Final = Decimal("NaN")
_INFINITY: Final = Decimal("Infinity")
_ZERO: Final = Decimal(0)
_ONE: Final = Decimal(1)


# Scale --------------------------------------------------------------------------------------------

function_table.elementwise("numeric(numeric,int4)")(numeric.coerced)


# Comparisons --------------------------------------------------------------------------------------

function_table.register_values("numeric_{}(numeric,numeric)", numeric.compare)
function_table.register_extremes("numeric_larger(numeric,numeric)", "numeric_smaller(numeric,numeric)", numeric.compare)


# Arithmetic ---------------------------------------------------------------------------------------


def _finite(left: Decimal, right: Decimal) -> bool:
    return left.is_finite() and right.is_finite()


@function_table.elementwise("numeric_add(numeric,numeric)")
def _add(left: Decimal, right: Decimal) -> Decimal:
    # Decimal has PostgreSQL's rules for NaN and the infinities.
    total = numeric.EXACT.add(left, right)
    return numeric.checked(total) if total.is_finite() else total


@function_table.elementwise("numeric_sub(numeric,numeric)")
def _subtract(left: Decimal, right: Decimal) -> Decimal:
    difference = numeric.EXACT.subtract(left, right)
    return numeric.checked(difference) if difference.is_finite() else difference


@function_table.elementwise("numeric_mul(numeric,numeric)")
def _multiply(left: Decimal, right: Decimal) -> Decimal:
    product = numeric.EXACT.multiply(left, right)
    return numeric.checked(product) if product.is_finite() else product


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
    """``select_div_scale``: the number of decimals of a quotient of finite values."""
    (first_left, weight_left), (first_right, weight_right) = _first_group(left), _first_group(right)
    weight = weight_left - weight_right - (1 if first_left <= first_right else 0)
    scale = max(_SIGNIFICANT_DIGITS - _GROUP * weight, numeric.scale_of(left), numeric.scale_of(right), 0)
    return min(scale, _GREATEST_SHOWN_SCALE)


def _whole(value: Decimal, scale: int) -> int:
    """A finite value in units of the scale, which must not be less than the value's scale."""
    return int(value.scaleb(scale, numeric.EXACT))


def quotient(left: Decimal, right: Decimal, scale: int) -> Decimal:
    """The quotient of finite values with this many decimals; halves are rounded away from zero."""
    common = max(numeric.scale_of(left), numeric.scale_of(right))
    dividend, divisor = abs(_whole(left, common)) * 10**scale, abs(_whole(right, common))
    units = (2 * dividend + divisor) // (2 * divisor)
    negative = left.is_signed() != right.is_signed() and units != 0
    return numeric.EXACT.create_decimal(-units if negative else units).scaleb(-scale, numeric.EXACT)


def _special_quotient(left: Decimal, right: Decimal) -> Decimal:
    """The quotient of two values of which at least one is NaN or infinite."""
    if left.is_nan() or right.is_nan() or (left.is_infinite() and right.is_infinite()):
        return _NAN
    if right.is_infinite():
        return _ZERO
    if not right:
        raise division_by_zero()
    return left if right > 0 else -left


@function_table.elementwise("numeric_div(numeric,numeric)")
def divide(left: Decimal, right: Decimal) -> Decimal:
    if not _finite(left, right):
        return _special_quotient(left, right)
    if not right:
        raise division_by_zero()
    return numeric.checked(quotient(left, right, quotient_scale(left, right)))


@function_table.elementwise("numeric_div_trunc(numeric,numeric)", "div(numeric,numeric)")
def _divide_whole(left: Decimal, right: Decimal) -> Decimal:
    if not _finite(left, right):
        return _special_quotient(left, right)
    if not right:
        raise division_by_zero()
    common = max(numeric.scale_of(left), numeric.scale_of(right))
    units = abs(_whole(left, common)) // abs(_whole(right, common))
    return numeric.checked(numeric.EXACT.create_decimal(-units if left.is_signed() != right.is_signed() else units))


@function_table.elementwise("numeric_mod(numeric,numeric)", "mod(numeric,numeric)")
def _modulo(left: Decimal, right: Decimal) -> Decimal:
    if left.is_nan() or right.is_nan():
        return _NAN
    if not right:
        raise division_by_zero()
    if left.is_infinite():
        return _NAN
    if right.is_infinite():
        return left
    common = max(numeric.scale_of(left), numeric.scale_of(right))
    units = abs(_whole(left, common)) % abs(_whole(right, common))
    return numeric.checked(
        numeric.EXACT.create_decimal(-units if left.is_signed() else units).scaleb(-common, numeric.EXACT)
    )


function_table.elementwise("numeric_uminus(numeric)", raises=False)(
    lambda value: value.copy_negate() if value and not value.is_nan() else value
)
function_table.elementwise("numeric_uplus(numeric)", raises=False)(lambda value: value)
function_table.elementwise("numeric_abs(numeric)", "abs(numeric)", raises=False)(lambda value: value.copy_abs())


@function_table.elementwise("sign(numeric)", raises=False)
def _sign(value: Decimal) -> Decimal:
    if value.is_nan() or not value:
        return value if value.is_nan() else _ZERO
    return -_ONE if value.is_signed() else _ONE


function_table.elementwise("numeric_inc(numeric)")(lambda value: _add(value, _ONE))


# Rounding and scale -------------------------------------------------------------------------------


def _limited(scale: int) -> int:
    return min(max(scale, -numeric.MOST_WHOLE_DIGITS - 1), numeric.GREATEST_SCALE)


@function_table.elementwise("round(numeric,int4)")
def _round(value: Decimal, scale: int) -> Decimal:
    return numeric.checked(numeric.at_scale(value, _limited(scale))) if value.is_finite() else value


function_table.elementwise("round(numeric)")(lambda value: _round(value, 0))


@function_table.elementwise("trunc(numeric,int4)")
def _truncate(value: Decimal, scale: int) -> Decimal:
    return numeric.checked(numeric.at_scale(value, _limited(scale), ROUND_DOWN)) if value.is_finite() else value


function_table.elementwise("trunc(numeric)")(lambda value: _truncate(value, 0))
function_table.elementwise("ceil(numeric)", "ceiling(numeric)")(
    lambda value: numeric.checked(numeric.at_scale(value, 0, ROUND_CEILING)) if value.is_finite() else value
)
function_table.elementwise("floor(numeric)")(
    lambda value: numeric.checked(numeric.at_scale(value, 0, ROUND_FLOOR)) if value.is_finite() else value
)
function_table.elementwise("scale(numeric)", raises=False)(
    lambda value: numeric.scale_of(value) if value.is_finite() else None
)


@function_table.elementwise("trim_scale(numeric)", raises=False)
def _trimmed(value: Decimal) -> Decimal:
    return numeric.rescaled_up(value.normalize(numeric.EXACT)) if value.is_finite() else value


function_table.elementwise("min_scale(numeric)", raises=False)(
    lambda value: numeric.scale_of(_trimmed(value)) if value.is_finite() else None
)


# Functions ----------------------------------------------------------------------------------------


@function_table.elementwise("sqrt(numeric)", "numeric_sqrt(numeric)")
def _square_root(value: Decimal) -> Decimal:
    if value.is_nan():
        return value
    if value < 0:
        raise RowFilterError("cannot take square root of a negative number", sqlstate="2201F")
    if value.is_infinite():
        return value
    _, weight = _first_group(value)
    half = (weight + 1) * _GROUP
    scale = max(_SIGNIFICANT_DIGITS - (half // 2 - 1), numeric.scale_of(value), 0)
    scale = min(scale, _GREATEST_SHOWN_SCALE)
    # Compute one digit more than is shown, truncated from the exact root. A last digit of 5 or more
    # rounds up.
    units = math.isqrt(_whole(value, 2 * scale + 2))
    return numeric.checked(numeric.EXACT.create_decimal((units + 5) // 10).scaleb(-scale, numeric.EXACT))


def _units(left: Decimal, right: Decimal) -> tuple[int, int, int]:
    scale = max(numeric.scale_of(left), numeric.scale_of(right))
    return _whole(left, scale), _whole(right, scale), scale


@function_table.elementwise("gcd(numeric,numeric)")
def _common_divisor(left: Decimal, right: Decimal) -> Decimal:
    if not _finite(left, right):
        return _NAN
    one, other, scale = _units(left, right)
    return numeric.checked(numeric.EXACT.create_decimal(math.gcd(one, other)).scaleb(-scale, numeric.EXACT))


@function_table.elementwise("lcm(numeric,numeric)")
def _common_multiple(left: Decimal, right: Decimal) -> Decimal:
    if not _finite(left, right):
        return _NAN
    one, other, scale = _units(left, right)
    return numeric.checked(numeric.EXACT.create_decimal(math.lcm(one, other)).scaleb(-scale, numeric.EXACT))


@function_table.elementwise("factorial(int8)")
def _factorial(number: int) -> Decimal:
    if number < 0:
        raise RowFilterError("factorial of a negative number is undefined", sqlstate="22003")
    if number > 32_177:
        raise numeric.overflow()
    return numeric.checked(numeric.EXACT.create_decimal(math.factorial(number)))


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


function_table.elementwise("int2(numeric)")(_cast_to_integer("smallint", 16))
function_table.elementwise("int4(numeric)")(_cast_to_integer("integer", 32))
function_table.elementwise("int8(numeric)")(_cast_to_integer("bigint", 64))
function_table.elementwise("numeric(int2)", "numeric(int4)", "numeric(int8)", raises=False)(Decimal)


def _float_digits(digits: int) -> Callable[[float], Decimal]:
    """A function that casts a float to numeric, with the digits that its type always preserves."""

    def cast(value: float) -> Decimal:
        if math.isnan(value):
            return _NAN
        if math.isinf(value):
            return _INFINITY if value > 0 else -_INFINITY
        return numeric.numeric_in(f"{value:.{digits}g}")

    return cast


function_table.elementwise("numeric(float8)")(_float_digits(15))
function_table.elementwise("numeric(float4)")(_float_digits(6))


def _cast_to_float(name: str, arrow_type: pa.DataType) -> Callable[[Decimal], float]:
    def cast(value: Decimal) -> float:
        # Arrow's parser rounds only once, to the nearest value of the type.
        result: float = pc.cast(pa.scalar(numeric.numeric_out(value)), arrow_type).as_py()
        if (math.isinf(result) and value.is_finite()) or (result == 0 and value):
            raise RowFilterError(f"value out of range for type {name}", sqlstate="22003")
        return result

    return cast


function_table.elementwise("float4(numeric)")(_cast_to_float("real", pa.float32()))
function_table.elementwise("float8(numeric)")(_cast_to_float("double precision", pa.float64()))


_INT4: Final = 2**31
_EXACT_BUCKETS: Final = 160000
"""The first version that does not round before it takes the integer part."""


@function_table.elementwise("width_bucket(numeric,numeric,numeric,int4)", context=True)
def _bucket(context: function_table.Context, operand: Decimal, low: Decimal, high: Decimal, count: int) -> int:
    if count <= 0:
        raise _bucket_error("count must be greater than zero")
    if operand.is_nan() or low.is_nan() or high.is_nan():
        raise _bucket_error("operand, lower bound, and upper bound cannot be NaN")
    if low.is_infinite() or high.is_infinite():
        raise _bucket_error("lower and upper bounds must be finite")
    if low == high:
        raise _bucket_error("lower bound cannot equal upper bound")
    if (operand < low) if low < high else (operand > low):
        return 0
    if (operand >= high) if low < high else (operand <= high):
        found = count + 1
    else:
        part = numeric.EXACT.multiply(numeric.EXACT.subtract(operand, low), Decimal(count))
        width = numeric.EXACT.subtract(high, low)
        if context.server_version < _EXACT_BUCKETS:
            found = math.floor(quotient(part, width, quotient_scale(part, width))) + 1
        else:
            found = int(numeric.EXACT.divide_int(part, width)) + 1
    if found > _INT4 - 1:
        raise integer_out_of_range("integer")
    return found


def _bucket_error(message: str) -> RowFilterError:
    return RowFilterError(message, sqlstate="2201G")
