"""real and double precision: comparisons, arithmetic, rounding, casts, mathematical functions.

NaN equals itself and is greater than every other value. Arithmetic follows IEEE 754 in the width of
the type, so the results are identical to the server's, bit by bit. If the result is infinite or
zero although the arguments are not, it is an error (22003).

Roots, powers, logarithms and trigonometry are those of the C library that Python runs with. Their
results are identical to the server's if it has the same C library (glibc's functions are the same
from 2.28 on); otherwise the last bit may differ. ``sqrt`` is exact by IEEE 754.

Not supported are ``erf``, ``erfc``, ``gamma`` and ``lgamma``, which Python computes in another way,
and ``width_bucket``, which servers of version 15 round in another way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from subscriber.base.errors import RowFilterError
from subscriber.postgres.expressions.functions import integer_functions
from subscriber.postgres.expressions.functions.function_table import elementwise, vectorised

_ARROW: Final = {"4": pa.float32(), "8": pa.float64()}


def overflow() -> RowFilterError:
    """The error for a result that is too large (22003)."""
    return RowFilterError("value out of range: overflow", sqlstate="22003")


def underflow() -> RowFilterError:
    """The error for a result that is too near to zero (22003)."""
    return RowFilterError("value out of range: underflow", sqlstate="22003")


# Comparisons --------------------------------------------------------------------------------------


def _with_nan(plain: Callable[..., Any], decide: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Arrow's comparison with PostgreSQL's order of NaN: ``decide`` gets which sides are NaN."""

    def compare(left: Any, right: Any) -> Any:
        nan_left, nan_right = pc.is_nan(left), pc.is_nan(right)
        return pc.if_else(pc.or_(nan_left, nan_right), decide(nan_left, nan_right), plain(left, right))

    return compare


_equal = _with_nan(pc.equal, pc.and_)
_less = _with_nan(pc.less, lambda left, right: pc.and_not(right, left))
_greater = _with_nan(pc.greater, pc.and_not)


def _negated(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda left, right: pc.invert(compare(left, right))


_COMPARISONS: Final = {
    "eq": _equal,
    "ne": _negated(_equal),
    "lt": _less,
    "le": _negated(_greater),
    "gt": _greater,
    "ge": _negated(_less),
}


def _order(left: Any, right: Any) -> Any:
    greater, less = (pc.cast(compare(left, right), pa.int32()) for compare in (_greater, _less))
    return pc.subtract(greater, less)


# Arithmetic ---------------------------------------------------------------------------------------


def _add(left: Any, right: Any) -> Any:
    return left + right


def _subtract(left: Any, right: Any) -> Any:
    return left - right


def _multiply(left: Any, right: Any) -> Any:
    return left * right


def _divide(left: Any, right: Any) -> Any:
    if np.any((right == 0) & ~np.isnan(left)):
        raise integer_functions.division_by_zero()
    return left / right


def _check_sum(result: Any, left: Any, right: Any) -> None:
    if np.any(np.isinf(result) & ~np.isinf(left) & ~np.isinf(right)):
        raise overflow()


def _check_product(result: Any, left: Any, right: Any) -> None:
    _check_sum(result, left, right)
    if np.any((result == 0) & (left != 0) & (right != 0)):
        raise underflow()


def _check_quotient(result: Any, left: Any, right: Any) -> None:
    if np.any(np.isinf(result) & ~np.isinf(left)):
        raise overflow()
    if np.any((result == 0) & (left != 0) & ~np.isinf(right)):
        raise underflow()


_ARITHMETIC: Final = {
    "pl": (_add, _check_sum),
    "mi": (_subtract, _check_sum),
    "mul": (_multiply, _check_product),
    "div": (_divide, _check_quotient),
}


def _arithmetic(
    compute: Callable[[Any, Any], Any], check: Callable[[Any, Any, Any], None], width: str, left: Any, right: Any
) -> Any:
    dtype = _ARROW[width].to_pandas_dtype()
    # A value next to a NULL must not raise an error. So both sides are replaced by 1 where either
    # is NULL.
    missing = np.logical_or(*(_missing(value) for value in (left, right)))
    one, other = (
        np.where(missing, dtype(1), np.asarray(integer_functions.numbers(value, 1), dtype)) for value in (left, right)
    )
    with np.errstate(all="ignore"):
        result = compute(one, other)
        check(result, one, other)
    return integer_functions.with_nulls(result, _ARROW[width], left, right)


def _missing(value: Any) -> Any:
    return value.is_null().to_numpy(zero_copy_only=False) if isinstance(value, pa.Array) else np.False_


for _left in _ARROW:
    for _right in _ARROW:
        _types = f"(float{_left},float{_right})"
        _pair = f"float{_left}" if _left == _right else f"float{_left}{_right}"
        for _name, _comparison in _COMPARISONS.items():
            vectorised(f"{_pair}{_name}{_types}")(_comparison)
        vectorised(f"bt{_pair}cmp{_types}")(_order)
        for _name, (_compute, _check) in _ARITHMETIC.items():
            vectorised(f"{_pair}{_name}{_types}", raises=True)(
                partial(_arithmetic, _compute, _check, max(_left, _right))
            )


def _extreme(compare: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    return pc.if_else(compare(left, right), left, right)


for _width in _ARROW:
    _one, _two = f"(float{_width})", f"(float{_width},float{_width})"
    vectorised(f"float{_width}um{_one}")(pc.negate)
    vectorised(f"float{_width}up{_one}")(lambda value: value)
    vectorised(f"float{_width}abs{_one}", f"abs{_one}")(pc.abs)
    vectorised(f"float{_width}larger{_two}")(partial(_extreme, _greater))
    vectorised(f"float{_width}smaller{_two}")(partial(_extreme, _less))


# Rounding -----------------------------------------------------------------------------------------


def _each(compute: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Apply numpy's function, which cannot fail, to a column of double precision."""

    def apply(value: Any) -> Any:
        with np.errstate(all="ignore"):
            return integer_functions.with_nulls(
                compute(np.asarray(integer_functions.numbers(value, 0.0), np.float64)), pa.float64(), value
            )

    return apply


vectorised("round(float8)", "dround(float8)")(_each(np.rint))
vectorised("trunc(float8)", "dtrunc(float8)")(_each(np.trunc))
vectorised("ceil(float8)", "ceiling(float8)")(_each(np.ceil))
vectorised("floor(float8)")(_each(np.floor))
vectorised("sign(float8)")(_each(lambda value: np.where(value > 0, 1.0, np.where(value < 0, -1.0, 0.0))))


# Casts --------------------------------------------------------------------------------------------


def _rounded(value: Any, *, arrow_type: pa.DataType, name: str) -> Any:
    """Round to the nearest integer; a half is rounded to the even integer."""
    limit = 2.0 ** (arrow_type.bit_width - 1)
    with np.errstate(all="ignore"):
        whole = np.rint(np.asarray(integer_functions.numbers(value, 0.0)))
        if not np.all((whole >= -limit) & (whole < limit)):
            raise integer_functions.out_of_range(name)
        return integer_functions.with_nulls(whole.astype(arrow_type.to_pandas_dtype()), arrow_type, value)


def _as_float(value: Any, *, arrow_type: pa.DataType) -> Any:
    return integer_functions.with_nulls(
        np.asarray(integer_functions.numbers(value, 0)).astype(arrow_type.to_pandas_dtype()), arrow_type, value
    )


for _width in _ARROW:
    for _bits, _arrow, _name in (
        ("2", pa.int16(), "smallint"),
        ("4", pa.int32(), "integer"),
        ("8", pa.int64(), "bigint"),
    ):
        vectorised(f"int{_bits}(float{_width})", raises=True)(partial(_rounded, arrow_type=_arrow, name=_name))
        vectorised(f"float{_width}(int{_bits})")(partial(_as_float, arrow_type=_ARROW[_width]))
vectorised("float8(float4)")(partial(_as_float, arrow_type=pa.float64()))


@vectorised("float4(float8)", raises=True)
def _to_real(value: Any) -> Any:
    wide = np.asarray(integer_functions.numbers(value, 0.0))
    with np.errstate(all="ignore"):
        narrow = wide.astype(np.float32)
        if np.any(np.isinf(narrow) & ~np.isinf(wide)):
            raise overflow()
        if np.any((narrow == 0) & (wide != 0)):
            raise underflow()
    return integer_functions.with_nulls(narrow, pa.float32(), value)


def _power_error(message: str) -> RowFilterError:
    return RowFilterError(message, sqlstate="2201F")


def _logarithm_error(message: str) -> RowFilterError:
    return RowFilterError(message, sqlstate="2201E")


@vectorised("sqrt(float8)", "dsqrt(float8)", raises=True)
def _square_root(value: Any) -> Any:
    plain = np.asarray(integer_functions.numbers(value, 0.0), np.float64)
    if np.any(plain < 0):
        raise _power_error("cannot take square root of a negative number")
    with np.errstate(all="ignore"):
        return integer_functions.with_nulls(np.sqrt(plain), pa.float64(), value)


elementwise("cbrt(float8)", "dcbrt(float8)", raises=False)(math.cbrt)


@elementwise("exp(float8)", "dexp(float8)")
def _exponential(value: float) -> float:
    try:
        result = math.exp(value)
    except OverflowError:
        raise overflow() from None
    if result == 0 and value != -math.inf:
        raise underflow()
    return result


def _logarithm(function: Callable[[float], float], value: float) -> float:
    if value == 0:
        raise _logarithm_error("cannot take logarithm of zero")
    if value < 0:
        raise _logarithm_error("cannot take logarithm of a negative number")
    return function(value)


elementwise("ln(float8)", "dlog1(float8)")(partial(_logarithm, math.log))
elementwise("log(float8)", "log10(float8)", "dlog10(float8)")(partial(_logarithm, math.log10))


@elementwise("dpow(float8,float8)", "pow(float8,float8)", "power(float8,float8)")
def _power(base: float, exponent: float) -> float:
    if math.isnan(base) or math.isnan(exponent):
        return 1.0 if base == 1 or exponent == 0 else math.nan
    if base == 0 and exponent < 0:
        raise _power_error("zero raised to a negative power is undefined")
    if base < 0 and math.isfinite(exponent) and exponent != math.floor(exponent):
        raise _power_error("a negative number raised to a non-integer power yields a complex result")
    try:
        result = math.pow(base, exponent)
    except OverflowError:
        raise overflow() from None
    if result == 0 and base != 0 and math.isfinite(base) and math.isfinite(exponent):
        raise underflow()
    return result


elementwise("pi()", raises=False)(lambda: math.pi)


@elementwise("degrees(float8)")
def _degrees(value: float) -> float:
    result = value / (math.pi / 180)
    if math.isinf(result) and math.isfinite(value):
        raise overflow()
    return result


@elementwise("radians(float8)")
def _radians(value: float) -> float:
    result = value * (math.pi / 180)
    if result == 0 and value != 0:
        raise underflow()
    return result


def _out_of_domain() -> RowFilterError:
    return RowFilterError("input is out of range", sqlstate="22003")


def _periodic(function: Callable[[float], float], value: float) -> float:
    if math.isinf(value):
        raise _out_of_domain()
    return function(value)


def _bounded(function: Callable[[float], float], least: float, greatest: float, value: float) -> float:
    if value < least or value > greatest:
        raise _out_of_domain()
    return function(value)


def _cotangent(value: float) -> float:
    tangent = math.tan(value)
    return 1 / tangent if tangent else math.copysign(math.inf, tangent)


for _name, _function in (("sin", math.sin), ("cos", math.cos), ("tan", math.tan), ("cot", _cotangent)):
    elementwise(f"{_name}(float8)")(partial(_periodic, _function))
elementwise("asin(float8)")(partial(_bounded, math.asin, -1.0, 1.0))
elementwise("acos(float8)")(partial(_bounded, math.acos, -1.0, 1.0))
elementwise("atan(float8)", raises=False)(math.atan)
elementwise("atan2(float8,float8)", raises=False)(math.atan2)


# --- degrees ------------------------------------------------------------------------------------

_RADIANS_PER_DEGREE: Final = 0.0174532925199432957692
# The functions of degrees scale the results of the C library, so that those of whole angles are
# exact.
_SIN_30: Final = math.sin(30 * _RADIANS_PER_DEGREE)
_ONE_MINUS_COS_60: Final = 1 - math.cos(60 * _RADIANS_PER_DEGREE)
_ASIN_HALF, _ACOS_HALF, _ATAN_ONE = math.asin(0.5), math.acos(0.5), math.atan(1)


def _sine_to_30(angle: float) -> float:
    return math.sin(angle * _RADIANS_PER_DEGREE) / _SIN_30 / 2


def _cosine_to_60(angle: float) -> float:
    return 1 - (1 - math.cos(angle * _RADIANS_PER_DEGREE)) / _ONE_MINUS_COS_60 / 2


def _sine_to_90(angle: float) -> float:
    return _sine_to_30(angle) if angle <= 30 else _cosine_to_60(90 - angle)


def _cosine_to_90(angle: float) -> float:
    return _cosine_to_60(angle) if angle <= 60 else _sine_to_30(90 - angle)


def _quotient(left: float, right: float) -> float:
    return left / right if right else math.copysign(math.inf, left) * math.copysign(1, right)


def _in_first_quadrant(angle: float) -> tuple[float, bool, bool]:
    """The angle of the first quadrant, whether the sine is negative, and whether the cosine is."""
    if math.isinf(angle):
        raise _out_of_domain()
    angle = math.fmod(angle, 360)
    negative_sine, negative_cosine = angle < 0, False
    angle = -angle if angle < 0 else angle  # -0 keeps its sign
    if angle > 180:
        angle, negative_sine = 360 - angle, not negative_sine
    if angle > 90:
        angle, negative_cosine = 180 - angle, True
    return angle, negative_sine, negative_cosine


@elementwise("sind(float8)")
def _sine(value: float) -> float:
    angle, negative, _ = _in_first_quadrant(value)
    return -_sine_to_90(angle) if negative else _sine_to_90(angle)


@elementwise("cosd(float8)")
def _cosine(value: float) -> float:
    angle, _, negative = _in_first_quadrant(value)
    return -_cosine_to_90(angle) if negative else _cosine_to_90(angle)


@elementwise("tand(float8)")
def _tangent_of_degrees(value: float) -> float:
    angle, *negative = _in_first_quadrant(value)
    found = _quotient(_sine_to_90(angle), _cosine_to_90(angle)) / (_sine_to_90(45) / _cosine_to_90(45))
    return (-found if any(negative) and not all(negative) else found) or 0.0


@elementwise("cotd(float8)")
def _cotangent_of_degrees(value: float) -> float:
    angle, *negative = _in_first_quadrant(value)
    found = _quotient(_cosine_to_90(angle), _sine_to_90(angle)) / (_cosine_to_90(45) / _sine_to_90(45))
    return (-found if any(negative) and not all(negative) else found) or 0.0


def _arc_sine_to_one(value: float) -> float:
    return math.asin(value) / _ASIN_HALF * 30 if value <= 0.5 else 90 - math.acos(value) / _ACOS_HALF * 60


def _arc_cosine_to_one(value: float) -> float:
    return 90 - math.asin(value) / _ASIN_HALF * 30 if value <= 0.5 else math.acos(value) / _ACOS_HALF * 60


def _arc_sine(value: float) -> float:
    return -_arc_sine_to_one(-value) if value < 0 else _arc_sine_to_one(value)


def _arc_cosine(value: float) -> float:
    return 90 + _arc_sine_to_one(-value) if value < 0 else _arc_cosine_to_one(value)


elementwise("asind(float8)")(partial(_bounded, _arc_sine, -1.0, 1.0))
elementwise("acosd(float8)")(partial(_bounded, _arc_cosine, -1.0, 1.0))
elementwise("atand(float8)", raises=False)(lambda value: math.atan(value) / _ATAN_ONE * 45)
elementwise("atan2d(float8,float8)", raises=False)(lambda y, x: math.atan2(y, x) / _ATAN_ONE * 45)


# --- hyperbolic ---------------------------------------------------------------------------------


def _hyperbolic(function: Callable[[float], float], value: float) -> float:
    try:
        return function(value)
    except OverflowError:
        # The server gives infinity here, with the sign of the function's result.
        return math.inf if function is math.cosh else math.copysign(math.inf, value)


elementwise("sinh(float8)", raises=False)(partial(_hyperbolic, math.sinh))
elementwise("cosh(float8)", raises=False)(partial(_hyperbolic, math.cosh))
elementwise("tanh(float8)", raises=False)(math.tanh)
elementwise("asinh(float8)", raises=False)(math.asinh)
elementwise("acosh(float8)")(partial(_bounded, math.acosh, 1.0, math.inf))


@elementwise("atanh(float8)")
def _inverse_hyperbolic_tangent(value: float) -> float:
    if abs(value) == 1:
        return math.copysign(math.inf, value)
    return _bounded(math.atanh, -1.0, 1.0, value)
