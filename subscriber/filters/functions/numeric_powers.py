"""exp, ln, log and power of numeric, exact to the last digit that PostgreSQL shows.

This is a port of ``exp_var``, ``ln_var``, ``log_var`` and ``power_var`` of PostgreSQL 18.

The server computes with a few more digits than it shows, and rounds after each step. So its last
digit is not always the correctly rounded digit. Here each step is done as in the server, with the
same numbers of digits::

    number of digits ──── first estimate in double precision
         │
    exp: divide by 2^n, Taylor's series, square n times        ln: n square roots, series of ln((1+z)/(1-z)), multiply by 2^n

The arithmetic of each step is in :mod:`subscriber.filters.functions.numeric_var`.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Final

from subscriber.errors import RowFilterError
from subscriber.filters.functions.function_table import Context, FunctionTable
from subscriber.filters.functions.integers import division_by_zero
from subscriber.filters.functions.numeric_var import (
    GROUP,
    LOG10_OF_2,
    ONE,
    TWO,
    Number,
    compared,
    decimal_of,
    difference,
    divided,
    divided_by_integer,
    number_of,
    product,
    rounded,
    square_root,
    sum_of,
)
from subscriber.types.numeric import overflow

FUNCTIONS: Final = FunctionTable()

_SIGNIFICANT_DIGITS: Final = 16
_GREATEST_SHOWN_SCALE: Final = 1000
_GREATEST_SCALE: Final = 2000
"""More decimals than any result has (``NUMERIC_MAX_RESULT_SCALE``)."""
_GREATEST_WEIGHT: Final = 32_767
_LOG10_OF_E: Final = 0.434294481903252
_LN_OF_10: Final = 2.302585092994046
_INT4: Final = 2**31

_NAN: Final = Decimal("NaN")
_INFINITY: Final = Decimal("Infinity")
_ZERO: Final = Decimal(0)
_UNIT: Final = Decimal(1)


# --- exp --------------------------------------------------------------------------------------


def _exp(number: Number, scale: int) -> Number:
    estimate = float(number)
    if abs(estimate) >= _GREATEST_SCALE * 3:
        if estimate > 0:
            raise overflow()
        return Number(0, scale)
    weight = int(estimate * _LOG10_OF_E)
    halvings = 0
    while abs(estimate) > 0.01:
        halvings += 1
        estimate /= 2
    if halvings:
        number = divided_by_integer(number, 1 << halvings, number.scale + halvings)
    digits = max(1 + weight + scale + int(halvings * LOG10_OF_2), 0) + 8
    local = digits - 1
    result = sum_of(ONE, number)
    term, count = divided_by_integer(product(number, number, local), 2, local), 2
    while term.units:
        result = sum_of(result, term)
        count += 1
        term = divided_by_integer(product(term, number, local), count, local)
    for _ in range(halvings):
        local = max(digits - result.weight * 2 * GROUP, 0)
        result = product(result, result, local)
    return rounded(result, scale)


@FUNCTIONS.elementwise("exp(numeric)", "numeric_exp(numeric)")
def _exponential(value: Decimal) -> Decimal:
    if not value.is_finite():
        return _ZERO if value == -_INFINITY else value
    number = number_of(value)
    weight = max(min(float(number) * _LOG10_OF_E, _GREATEST_SCALE), -_GREATEST_SCALE)
    return decimal_of(_exp(number, _shown_scale(int(weight), number.scale)))


def _shown_scale(weight: int, *scales: int) -> int:
    """The number of decimals of a result whose first digit has this weight.

    The result has 16 significant digits, and at least as many decimals as the arguments have.
    """
    return min(max(_SIGNIFICANT_DIGITS - weight, 0, *scales), _GREATEST_SHOWN_SCALE)


# --- ln and log -------------------------------------------------------------------------------


def _near_one(number: Number) -> bool:
    return compared(number, Number(9, 1)) >= 0 and compared(number, Number(11, 1)) <= 0


def _ln_weight(number: Number) -> int:
    """An estimate of log10 of the logarithm (``estimate_ln_dweight``)."""
    if number.units <= 0:
        return 0
    if _near_one(number):
        rest = difference(number, ONE)
        return rest.weight * GROUP + int(math.log10(rest.leading_groups(1)[0])) if rest.units else 0
    first, *second = number.leading_groups(2)
    weight = (number.weight - len(second)) * GROUP
    estimate = math.log(first * 10_000 + second[0] if second else first) + weight * _LN_OF_10
    return int(math.log10(abs(estimate)))


def _ln(number: Number, scale: int) -> Number:
    _check_logarithm(number.units)
    factor, roots = TWO, 0
    while compared(number, Number(9, 1)) <= 0 or compared(number, Number(11, 1)) >= 0:
        number = square_root(number, scale - number.weight * GROUP // 2 + 8)
        factor = Number(factor.units * 2, 0)
        roots += 1
    local = scale + int((roots + 1) * LOG10_OF_2) + 8
    result = divided(difference(number, ONE), sum_of(number, ONE), local)
    power, square, count = result, product(result, result, local), 1
    while True:
        count += 2
        power = product(power, square, local)
        term = divided_by_integer(power, count, local)
        if not term.units:
            break
        result = sum_of(result, term)
        if term.weight < result.weight - local * 2 // GROUP:
            break
    return product(result, factor, scale)


def _check_logarithm(sign: int | Decimal) -> None:
    if sign <= 0:
        what = "zero" if sign == 0 else "a negative number"
        raise RowFilterError(f"cannot take logarithm of {what}", sqlstate="2201E")


@FUNCTIONS.elementwise("ln(numeric)", "numeric_ln(numeric)")
def _natural_logarithm(value: Decimal) -> Decimal:
    if not value.is_finite():
        if value == -_INFINITY:
            _check_logarithm(value)
        return value
    number = number_of(value)
    return decimal_of(_ln(number, _shown_scale(_ln_weight(number), number.scale)))


@FUNCTIONS.elementwise("log(numeric,numeric)", "numeric_log(numeric,numeric)")
def _logarithm(base: Decimal, value: Decimal) -> Decimal:
    if base.is_nan() or value.is_nan():
        return _NAN
    if base.is_infinite() or value.is_infinite():
        _check_logarithm(min(base, value))
        if base.is_infinite():
            return _NAN if value.is_infinite() else _ZERO
        return _INFINITY
    bottom, number = number_of(base), number_of(value)
    bottom_weight, weight = _ln_weight(bottom), _ln_weight(number)
    result_weight = weight - bottom_weight
    scale = _shown_scale(result_weight, bottom.scale, number.scale)
    ln_of_base = _ln(bottom, max(scale + result_weight - bottom_weight + 8, 0))
    ln_of_value = _ln(number, max(scale + result_weight - weight + 8, 0))
    return decimal_of(divided(ln_of_value, ln_of_base, scale))


@FUNCTIONS.elementwise("log(numeric)", "log10(numeric)")
def _decimal_logarithm(value: Decimal) -> Decimal:
    return _logarithm(Decimal(10), value)


# --- power ------------------------------------------------------------------------------------


_SCALED_WHOLE_POWERS: Final = 160000
"""The first version in which powers with an integer exponent have 16 significant digits. In older
versions they have 16 decimals.
"""


@FUNCTIONS.elementwise("power(numeric,numeric)", "pow(numeric,numeric)", "numeric_power(numeric,numeric)", context=True)
def _power(context: Context, base: Decimal, exponent: Decimal) -> Decimal:
    if not base.is_finite() or not exponent.is_finite():
        return _special_power(base, exponent)
    if not base and exponent < 0:
        raise _power_error("zero raised to a negative power is undefined")
    return decimal_of(_power_of(number_of(base), number_of(exponent), context.server_version))


def _power_error(message: str) -> RowFilterError:
    return RowFilterError(message, sqlstate="2201F")


def _no_real_power() -> RowFilterError:
    return _power_error("a negative number raised to a non-integer power yields a complex result")


def _special_power(base: Decimal, exponent: Decimal) -> Decimal:
    """The power of arguments of which at least one is NaN or infinite, by the rules of POSIX."""
    if base.is_nan():
        return _UNIT if exponent == 0 else _NAN
    if exponent.is_nan():
        return _UNIT if base == 1 else _NAN
    if base == 0 and exponent < 0:
        raise _power_error("zero raised to a negative power is undefined")
    whole = exponent.is_infinite() or exponent == exponent.to_integral_value()
    if base < 0 and not whole:
        raise _no_real_power()
    if base == 1 or exponent == 0 or (base == -1 and exponent.is_infinite()):
        return _UNIT
    if base == 0:
        return _ZERO
    if exponent.is_infinite():
        return _INFINITY if (abs(base) > 1) == (exponent > 0) else _ZERO
    if exponent < 0:
        return _ZERO
    return -_INFINITY if base < 0 and int(exponent) % 2 else _INFINITY


def _power_of(base: Number, exponent: Number, version: int) -> Number:
    _, count, weight = exponent.groups()
    is_whole = count <= weight + 1
    if is_whole:
        whole = rounded(exponent, 0).units
        if -_INT4 <= whole < _INT4:
            return _whole_power(base, whole, exponent.scale, version)
    if not base.units:
        return Number(0, _SIGNIFICANT_DIGITS)
    negative = False
    if base.units < 0:
        if not is_whole:
            raise _no_real_power()
        negative = rounded(exponent, 0).units % 2 == 1
        base = Number(-base.units, base.scale)
    ln_weight = _ln_weight(base)
    local = max(8 - ln_weight, 0)
    estimate = float(product(_ln(base, local), exponent, local))
    if abs(estimate) > _GREATEST_SCALE * 3.01:
        if estimate > 0:
            raise overflow()
        return Number(0, _GREATEST_SHOWN_SCALE)
    estimate *= _LOG10_OF_E
    scale = _shown_scale(int(estimate), base.scale, exponent.scale)
    local = max(max(scale + int(estimate), 0) - ln_weight + 8, 0)
    result = _exp(product(_ln(base, local), exponent, local), scale)
    return Number(-result.units, result.scale) if negative else result


def _whole_power(base: Number, exponent: int, exponent_scale: int, version: int) -> Number:
    """A power with an integer exponent (``power_var_int``).

    It is computed by repeated squaring, with as many digits as the result needs.
    """
    estimate = _weight_of_power(base, exponent)
    if estimate > (_GREATEST_WEIGHT + 1) * GROUP:
        raise overflow()
    if version < _SCALED_WHOLE_POWERS:
        scale = least = _shown_scale(0, base.scale)
    else:
        scale, least = _shown_scale(int(estimate), base.scale, exponent_scale), _GREATEST_SHOWN_SCALE
    if estimate + 1 < -least:
        return Number(0, least)
    match exponent:
        case 0:
            return rounded(ONE, scale)
        case 1:
            return rounded(base, scale)
        case -1:
            return divided(ONE, base, scale)
        case 2:
            return product(base, base, scale)
    if not base.units:
        if exponent < 0:
            raise division_by_zero()
        return Number(0, scale)
    digits = 1 + scale + int(estimate) + int(math.log(abs(float(exponent)))) + 8
    square, mask = base, abs(exponent)
    result = base if mask & 1 else ONE
    while mask := mask >> 1:
        local = max(min(digits - 2 * square.weight * GROUP, 2 * square.scale), 0)
        square = product(square, square, local)
        if mask & 1:
            local = max(min(digits - (square.weight + result.weight) * GROUP, square.scale + result.scale), 0)
            result = product(square, result, local)
        if square.weight > _GREATEST_WEIGHT or result.weight > _GREATEST_WEIGHT:
            if exponent > 0:
                raise overflow()
            return Number(0, scale)
    return divided(ONE, result, scale) if exponent < 0 else rounded(result, scale)


def _weight_of_power(base: Number, exponent: int) -> float:
    """An estimate of log10 of a power."""
    if not base.units:
        return 0.0
    groups = base.leading_groups(4)
    significand = 0.0
    for group in groups:
        significand = significand * 10_000 + group
    return exponent * (math.log10(significand) + (base.weight - len(groups) + 1) * GROUP)
