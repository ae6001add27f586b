"""Roots, powers, logarithms and trigonometry of double precision.

``sqrt`` is exact by IEEE 754. The other functions are those of the C library that Python runs with.
Their results are identical to the server's, bit by bit, if the server has the same C library
(glibc's functions are the same from 2.28 on). Another C library may differ in the last bit. A
filter such as ``exp(a) > 2.5`` can show the difference only for values that are as near to the
limit as that.

These functions are not supported: the functions of degrees (``sind`` and so on); ``erf``, ``erfc``,
``gamma`` and ``lgamma``, which Python computes in a different way; and ``width_bucket``, which
servers of version 15 round in a different way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from subscriber.errors import RowFilterError
from subscriber.filters.functions.floats import overflow, underflow
from subscriber.filters.functions.function_table import FunctionTable
from subscriber.filters.functions.integers import numbers, with_nulls

FUNCTIONS: Final = FunctionTable()


def _power_error(message: str) -> RowFilterError:
    return RowFilterError(message, sqlstate="2201F")


def _logarithm_error(message: str) -> RowFilterError:
    return RowFilterError(message, sqlstate="2201E")


@FUNCTIONS.vectorised("sqrt(float8)", "dsqrt(float8)", raises=True)
def _square_root(value: Any) -> Any:
    plain = np.asarray(numbers(value, 0.0), np.float64)
    if np.any(plain < 0):
        raise _power_error("cannot take square root of a negative number")
    with np.errstate(all="ignore"):
        return with_nulls(np.sqrt(plain), pa.float64(), value)


FUNCTIONS.elementwise("cbrt(float8)", "dcbrt(float8)", raises=False)(math.cbrt)


@FUNCTIONS.elementwise("exp(float8)", "dexp(float8)")
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


FUNCTIONS.elementwise("ln(float8)", "dlog1(float8)")(partial(_logarithm, math.log))
FUNCTIONS.elementwise("log(float8)", "log10(float8)", "dlog10(float8)")(partial(_logarithm, math.log10))


@FUNCTIONS.elementwise("dpow(float8,float8)", "pow(float8,float8)", "power(float8,float8)")
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


FUNCTIONS.elementwise("pi()", raises=False)(lambda: math.pi)


@FUNCTIONS.elementwise("degrees(float8)")
def _degrees(value: float) -> float:
    result = value / (math.pi / 180)
    if math.isinf(result) and math.isfinite(value):
        raise overflow()
    return result


@FUNCTIONS.elementwise("radians(float8)")
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
    FUNCTIONS.elementwise(f"{_name}(float8)")(partial(_periodic, _function))
FUNCTIONS.elementwise("asin(float8)")(partial(_bounded, math.asin, -1.0, 1.0))
FUNCTIONS.elementwise("acos(float8)")(partial(_bounded, math.acos, -1.0, 1.0))
FUNCTIONS.elementwise("atan(float8)", raises=False)(math.atan)
FUNCTIONS.elementwise("atan2(float8,float8)", raises=False)(math.atan2)


def _hyperbolic(function: Callable[[float], float], value: float) -> float:
    try:
        return function(value)
    except OverflowError:
        # The server gives infinity here, with the sign of the function's result.
        return math.inf if function is math.cosh else math.copysign(math.inf, value)


FUNCTIONS.elementwise("sinh(float8)", raises=False)(partial(_hyperbolic, math.sinh))
FUNCTIONS.elementwise("cosh(float8)", raises=False)(partial(_hyperbolic, math.cosh))
FUNCTIONS.elementwise("tanh(float8)", raises=False)(math.tanh)
FUNCTIONS.elementwise("asinh(float8)", raises=False)(math.asinh)
FUNCTIONS.elementwise("acosh(float8)")(partial(_bounded, math.acosh, 1.0, math.inf))


@FUNCTIONS.elementwise("atanh(float8)")
def _inverse_hyperbolic_tangent(value: float) -> float:
    if abs(value) == 1:
        return math.copysign(math.inf, value)
    return _bounded(math.atanh, -1.0, 1.0, value)
