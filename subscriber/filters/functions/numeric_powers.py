"""exp, ln, log and power of numeric, exact to the last digit that PostgreSQL shows.

This is a port of ``exp_var``, ``ln_var``, ``log_var`` and ``power_var`` of PostgreSQL 18.

The server computes with a few more digits than it shows, and rounds after each step. So its last
digit is not always the correctly rounded digit. Here each step is done as in the server, with the
same numbers of digits::

    number of digits ──── first estimate in double precision
         │
    exp: divide by 2^n, Taylor's series, square n times        ln: n square roots, series of ln((1+z)/(1-z)), multiply by 2^n

A product that must be rounded omits digits that are too far to the right, in groups of eight
decimal digits as in the server. One step is exact here and not in the server: the division by a
divisor of more than 48 digits, which the server computes to 16 digits more than it keeps.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Final, NamedTuple

from subscriber.errors import RowFilterError
from subscriber.filters.functions.function_table import Context, FunctionTable
from subscriber.filters.functions.integers import division_by_zero
from subscriber.filters.functions.integers import out_of_range as integer_out_of_range
from subscriber.filters.functions.numeric import quotient, quotient_scale
from subscriber.types.numeric import EXACT, checked, overflow, scale_of

FUNCTIONS: Final = FunctionTable()

_GROUP: Final = 4
_PAIR_BASE: Final = 10**8
_ROOM: Final = 10
"""The number of bytes for a sum of products of two digits to that base, of which there are at most
about ten thousand.
"""
_GUARD_DIGITS: Final = 2
_SIGNIFICANT_DIGITS: Final = 16
_GREATEST_SHOWN_SCALE: Final = 1000
_GREATEST_SCALE: Final = 2000
"""More decimals than any result has (``NUMERIC_MAX_RESULT_SCALE``)."""
_GREATEST_WEIGHT: Final = 32_767
_LOG10_OF_E: Final = 0.434294481903252
_LOG10_OF_2: Final = 0.301029995663981
_LN_OF_10: Final = 2.302585092994046
_INT4: Final = 2**31

_NAN: Final = Decimal("NaN")
_INFINITY: Final = Decimal("Infinity")
_ZERO: Final = Decimal(0)
_UNIT: Final = Decimal(1)


class _Number(NamedTuple):
    """A number as units of ``10 ** -scale`` (``NumericVar``); the scale may be negative."""

    units: int
    scale: int

    @property
    def weight(self) -> int:
        """The weight of the first group of four digits; 0 is the group directly before the decimal
        point.
        """
        if not self.units:
            return 0
        units = abs(self.units)
        digits = int((units.bit_length() - 1) * _LOG10_OF_2)  # the power of ten below it, or one less
        return (digits + int(units >= 10 ** (digits + 1)) - self.scale) // _GROUP

    def groups(self) -> tuple[int, int, int]:
        """The digits from the first to the last group that is not zero, as an integer; the number
        of groups; the weight of the first group.
        """
        if not self.units:
            return 0, 0, 0
        digits = abs(self.units) * 10 ** (-self.scale % _GROUP)
        last = -(self.scale + -self.scale % _GROUP) // _GROUP
        step = 1 << 15
        while step:  # remove zeros at the end, as many as possible at once
            whole, rest = divmod(digits, 10_000**step) if digits.bit_length() > 13 * step else (0, 1)
            digits, last = (digits, last) if rest else (whole, last + step)
            step = step if not rest else step // 2
        first = self.weight
        return digits, first - last + 1, first

    def leading_groups(self, count: int) -> list[int]:
        """The first groups of four digits, at most ``count`` of them."""
        digits, number, _ = self.groups()
        return [digits // 10_000 ** (number - 1 - place) % 10_000 for place in range(min(count, number))]

    def __float__(self) -> float:
        return float(Decimal(self.units).scaleb(-self.scale, EXACT))


_ONE: Final = _Number(1, 0)
_TWO: Final = _Number(2, 0)


def _number(value: Decimal) -> _Number:
    scale = scale_of(value)
    return _Number(int(value.scaleb(scale, EXACT)), scale)


def _decimal(number: _Number) -> Decimal:
    return checked(EXACT.create_decimal(number.units).scaleb(-number.scale, EXACT))


def _half_away(dividend: int, divisor: int) -> int:
    """The quotient rounded to the nearest integer, halves away from zero; the divisor must be
    positive.
    """
    found = (2 * abs(dividend) + divisor) // (2 * divisor)
    return found if dividend >= 0 else -found


def _rounded(number: _Number, scale: int) -> _Number:
    """Round a number to a scale (``round_var``)."""
    if scale >= number.scale:
        return _Number(number.units * 10 ** (scale - number.scale), scale)
    return _Number(_half_away(number.units, 10 ** (number.scale - scale)), scale)


def _aligned(left: _Number, right: _Number) -> tuple[int, int, int]:
    scale = max(left.scale, right.scale)
    return left.units * 10 ** (scale - left.scale), right.units * 10 ** (scale - right.scale), scale


def _sum(left: _Number, right: _Number) -> _Number:
    one, other, scale = _aligned(left, right)
    return _Number(one + other, scale)


def _difference(left: _Number, right: _Number) -> _Number:
    return _sum(left, _Number(-right.units, right.scale))


def _compared(left: _Number, right: _Number) -> int:
    one, other, _ = _aligned(left, right)
    return (one > other) - (one < other)


def _quotient(left: _Number, right: _Number, scale: int) -> _Number:
    """Divide and round (``div_var`` with rounding)."""
    if not right.units:
        raise division_by_zero()
    shift = scale - left.scale + right.scale
    dividend, divisor = left.units * 10 ** max(shift, 0), right.units * 10 ** max(-shift, 0)
    return _Number(_half_away(dividend if divisor > 0 else -dividend, abs(divisor)), scale)


def _by_integer(left: _Number, divisor: int, scale: int) -> _Number:
    return _quotient(left, _Number(divisor, 0), scale)


def _truncated(dividend: int, divisor: int) -> int:
    """Divide integers as C does, towards zero."""
    return dividend // divisor if dividend >= 0 else -(-dividend // divisor)


def _product(left: _Number, right: _Number, scale: int) -> _Number:
    """Multiply to a scale, without the digits that the server omits (``mul_var``)."""
    exact = _Number(left.units * right.units, left.scale + right.scale)
    if scale >= exact.scale:
        return _rounded(exact, scale)
    (one, one_count, one_weight), (other, other_count, other_weight) = sorted(
        (left.groups(), right.groups()), key=lambda groups: groups[1]
    )
    if not one_count:
        return _rounded(exact, scale)
    one_pairs, other_pairs = (one_count + 1) // 2, (other_count + 1) // 2
    pairs = (one_count + other_count) // 2 + 1
    offset = pairs - one_pairs - other_pairs + 1
    odd = one_count % 2 + other_count % 2
    weight = one_weight + other_weight + 1 + 2 * pairs - one_count - other_count - odd
    most = weight + 1 + _truncated(scale + _GROUP - 1, _GROUP) + _GUARD_DIGITS
    kept = min(pairs, _truncated(most, 2) + 1)
    if kept == pairs:
        return _rounded(exact, scale)
    if kept <= offset:
        return _Number(0, scale)
    # The digits are taken in pairs of groups, from the first group on.
    ones = _pairs(one * 10_000 ** (one_count % 2), one_pairs)[: kept - offset]
    others = _pairs(other * 10_000 ** (other_count % 2), other_pairs)[: kept - offset]
    total = _joined(_sums_of_products(ones, others)[: kept - offset], kept - offset)
    sign = -1 if (left.units < 0) != (right.units < 0) else 1
    return _rounded(_Number(sign * total, -_GROUP * (weight - 2 * kept + 1)), scale)


def _pairs(digits: int, count: int) -> list[int]:
    """The digits of a number to the base of 10 ** 8, from the first digit on."""
    if count <= 1:
        return [digits] * count
    half = count // 2
    high, low = divmod(digits, _PAIR_BASE**half)
    return [*_pairs(high, count - half), *_pairs(low, half)]


def _joined(pairs: list[int], count: int) -> int:
    """The integer of the first ``count`` digits to the base of 10 ** 8.

    Zeros are added if there are fewer digits. A digit may be greater than the base.
    """
    if len(pairs) <= 1:
        return (pairs[0] if pairs else 0) * int(_PAIR_BASE ** (count - len(pairs)))
    half = len(pairs) // 2
    return _joined(pairs[:half], half) * int(_PAIR_BASE ** (count - half)) + _joined(pairs[half:], count - half)


def _sums_of_products(ones: list[int], others: list[int]) -> list[int]:
    """The coefficients of the product of two polynomials.

    They come from a single multiplication of integers, which have enough room for each coefficient.
    """
    one, other = (
        int.from_bytes(b"".join(pair.to_bytes(_ROOM, "big") for pair in pairs), "big") for pairs in (ones, others)
    )
    count = len(ones) + len(others) - 1
    data = (one * other).to_bytes(count * _ROOM, "big")
    return [int.from_bytes(data[at : at + _ROOM], "big") for at in range(0, len(data), _ROOM)]


def _square_root(number: _Number, scale: int) -> _Number:
    """The square root of a positive number (``sqrt_var``).

    One digit more is computed, truncated from the exact root. A last digit of 5 or more rounds up.
    """
    shift = 2 * scale + 2 - number.scale
    whole = number.units * 10**shift if shift >= 0 else number.units // 10**-shift
    return _Number((math.isqrt(whole) + 5) // 10, scale)


# --- exp --------------------------------------------------------------------------------------


def _exp(number: _Number, scale: int) -> _Number:
    estimate = float(number)
    if abs(estimate) >= _GREATEST_SCALE * 3:
        if estimate > 0:
            raise overflow()
        return _Number(0, scale)
    weight = int(estimate * _LOG10_OF_E)
    halvings = 0
    while abs(estimate) > 0.01:
        halvings += 1
        estimate /= 2
    if halvings:
        number = _by_integer(number, 1 << halvings, number.scale + halvings)
    digits = max(1 + weight + scale + int(halvings * _LOG10_OF_2), 0) + 8
    local = digits - 1
    result = _sum(_ONE, number)
    term, count = _by_integer(_product(number, number, local), 2, local), 2
    while term.units:
        result = _sum(result, term)
        count += 1
        term = _by_integer(_product(term, number, local), count, local)
    for _ in range(halvings):
        local = max(digits - result.weight * 2 * _GROUP, 0)
        result = _product(result, result, local)
    return _rounded(result, scale)


@FUNCTIONS.elementwise("exp(numeric)", "numeric_exp(numeric)")
def _exponential(value: Decimal) -> Decimal:
    if not value.is_finite():
        return _ZERO if value == -_INFINITY else value
    number = _number(value)
    weight = max(min(float(number) * _LOG10_OF_E, _GREATEST_SCALE), -_GREATEST_SCALE)
    return _decimal(_exp(number, _shown_scale(int(weight), number.scale)))


def _shown_scale(weight: int, *scales: int) -> int:
    """The number of decimals of a result whose first digit has this weight.

    The result has 16 significant digits, and at least as many decimals as the arguments have.
    """
    return min(max(_SIGNIFICANT_DIGITS - weight, 0, *scales), _GREATEST_SHOWN_SCALE)


# --- ln and log -------------------------------------------------------------------------------


def _near_one(number: _Number) -> bool:
    return _compared(number, _Number(9, 1)) >= 0 and _compared(number, _Number(11, 1)) <= 0


def _ln_weight(number: _Number) -> int:
    """An estimate of log10 of the logarithm (``estimate_ln_dweight``)."""
    if number.units <= 0:
        return 0
    if _near_one(number):
        rest = _difference(number, _ONE)
        return rest.weight * _GROUP + int(math.log10(rest.leading_groups(1)[0])) if rest.units else 0
    first, *second = number.leading_groups(2)
    weight = (number.weight - len(second)) * _GROUP
    estimate = math.log(first * 10_000 + second[0] if second else first) + weight * _LN_OF_10
    return int(math.log10(abs(estimate)))


def _ln(number: _Number, scale: int) -> _Number:
    _check_logarithm(number.units)
    factor, roots = _TWO, 0
    while _compared(number, _Number(9, 1)) <= 0 or _compared(number, _Number(11, 1)) >= 0:
        number = _square_root(number, scale - number.weight * _GROUP // 2 + 8)
        factor = _Number(factor.units * 2, 0)
        roots += 1
    local = scale + int((roots + 1) * _LOG10_OF_2) + 8
    result = _quotient(_difference(number, _ONE), _sum(number, _ONE), local)
    power, square, count = result, _product(result, result, local), 1
    while True:
        count += 2
        power = _product(power, square, local)
        term = _by_integer(power, count, local)
        if not term.units:
            break
        result = _sum(result, term)
        if term.weight < result.weight - local * 2 // _GROUP:
            break
    return _product(result, factor, scale)


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
    number = _number(value)
    return _decimal(_ln(number, _shown_scale(_ln_weight(number), number.scale)))


@FUNCTIONS.elementwise("log(numeric,numeric)", "numeric_log(numeric,numeric)")
def _logarithm(base: Decimal, value: Decimal) -> Decimal:
    if base.is_nan() or value.is_nan():
        return _NAN
    if base.is_infinite() or value.is_infinite():
        _check_logarithm(min(base, value))
        if base.is_infinite():
            return _NAN if value.is_infinite() else _ZERO
        return _INFINITY
    bottom, number = _number(base), _number(value)
    bottom_weight, weight = _ln_weight(bottom), _ln_weight(number)
    result_weight = weight - bottom_weight
    scale = _shown_scale(result_weight, bottom.scale, number.scale)
    ln_of_base = _ln(bottom, max(scale + result_weight - bottom_weight + 8, 0))
    ln_of_value = _ln(number, max(scale + result_weight - weight + 8, 0))
    return _decimal(_quotient(ln_of_value, ln_of_base, scale))


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
    return _decimal(_power_of(_number(base), _number(exponent), context.server_version))


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


def _power_of(base: _Number, exponent: _Number, version: int) -> _Number:
    _, count, weight = exponent.groups()
    is_whole = count <= weight + 1
    if is_whole:
        whole = _rounded(exponent, 0).units
        if -_INT4 <= whole < _INT4:
            return _whole_power(base, whole, exponent.scale, version)
    if not base.units:
        return _Number(0, _SIGNIFICANT_DIGITS)
    negative = False
    if base.units < 0:
        if not is_whole:
            raise _no_real_power()
        negative = _rounded(exponent, 0).units % 2 == 1
        base = _Number(-base.units, base.scale)
    ln_weight = _ln_weight(base)
    local = max(8 - ln_weight, 0)
    estimate = float(_product(_ln(base, local), exponent, local))
    if abs(estimate) > _GREATEST_SCALE * 3.01:
        if estimate > 0:
            raise overflow()
        return _Number(0, _GREATEST_SHOWN_SCALE)
    estimate *= _LOG10_OF_E
    scale = _shown_scale(int(estimate), base.scale, exponent.scale)
    local = max(max(scale + int(estimate), 0) - ln_weight + 8, 0)
    result = _exp(_product(_ln(base, local), exponent, local), scale)
    return _Number(-result.units, result.scale) if negative else result


def _whole_power(base: _Number, exponent: int, exponent_scale: int, version: int) -> _Number:
    """A power with an integer exponent (``power_var_int``).

    It is computed by repeated squaring, with as many digits as the result needs.
    """
    estimate = _weight_of_power(base, exponent)
    if estimate > (_GREATEST_WEIGHT + 1) * _GROUP:
        raise overflow()
    if version < _SCALED_WHOLE_POWERS:
        scale = least = _shown_scale(0, base.scale)
    else:
        scale, least = _shown_scale(int(estimate), base.scale, exponent_scale), _GREATEST_SHOWN_SCALE
    if estimate + 1 < -least:
        return _Number(0, least)
    match exponent:
        case 0:
            return _rounded(_ONE, scale)
        case 1:
            return _rounded(base, scale)
        case -1:
            return _quotient(_ONE, base, scale)
        case 2:
            return _product(base, base, scale)
    if not base.units:
        if exponent < 0:
            raise division_by_zero()
        return _Number(0, scale)
    digits = 1 + scale + int(estimate) + int(math.log(abs(float(exponent)))) + 8
    square, mask = base, abs(exponent)
    result = base if mask & 1 else _ONE
    while mask := mask >> 1:
        local = max(min(digits - 2 * square.weight * _GROUP, 2 * square.scale), 0)
        square = _product(square, square, local)
        if mask & 1:
            local = max(min(digits - (square.weight + result.weight) * _GROUP, square.scale + result.scale), 0)
            result = _product(square, result, local)
        if square.weight > _GREATEST_WEIGHT or result.weight > _GREATEST_WEIGHT:
            if exponent > 0:
                raise overflow()
            return _Number(0, scale)
    return _quotient(_ONE, result, scale) if exponent < 0 else _rounded(result, scale)


def _weight_of_power(base: _Number, exponent: int) -> float:
    """An estimate of log10 of a power."""
    if not base.units:
        return 0.0
    groups = base.leading_groups(4)
    significand = 0.0
    for group in groups:
        significand = significand * 10_000 + group
    return exponent * (math.log10(significand) + (base.weight - len(groups) + 1) * _GROUP)


# --- width_bucket -----------------------------------------------------------------------------

_EXACT_BUCKETS: Final = 160000
"""The first version that does not round before it takes the integer part."""


@FUNCTIONS.elementwise("width_bucket(numeric,numeric,numeric,int4)", context=True)
def _bucket(context: Context, operand: Decimal, low: Decimal, high: Decimal, count: int) -> int:
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
        part = EXACT.multiply(EXACT.subtract(operand, low), Decimal(count))
        width = EXACT.subtract(high, low)
        if context.server_version < _EXACT_BUCKETS:
            found = math.floor(quotient(part, width, quotient_scale(part, width))) + 1
        else:
            found = int(EXACT.divide_int(part, width)) + 1
    if found > _INT4 - 1:
        raise integer_out_of_range("integer")
    return found


def _bucket_error(message: str) -> RowFilterError:
    return RowFilterError(message, sqlstate="2201G")
