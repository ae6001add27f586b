"""exp, ln, log and power of numeric, exact to the last digit that PostgreSQL shows.

This is a port of ``exp_var``, ``ln_var``, ``log_var`` and ``power_var`` of PostgreSQL 18. The
server computes with a few more digits than it shows, and rounds after each step, so its last digit
is not always the correctly rounded one. Each step here has the same numbers of digits::

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

from subscriber.base.errors import RowFilterError
from subscriber.postgres.expressions.functions.function_table import Context, elementwise
from subscriber.postgres.expressions.functions.integer_functions import division_by_zero
from subscriber.postgres.types.numeric import EXACT, checked, overflow, scale_of

GROUP: Final = 4
"""The number of decimal digits that the server keeps together."""
LOG10_OF_2: Final = 0.301029995663981
_PAIR_BASE: Final = 10**8
_ROOM: Final = 10
"""Bytes for a sum of about ten thousand products of two digits to that base at most."""
_GUARD_DIGITS: Final = 2


class Number(NamedTuple):
    """``NumericVar``: a number as units of ``10 ** -scale``; the scale may be negative."""

    units: int
    scale: int

    @property
    def weight(self) -> int:
        """The weight of the first group of four digits; 0 is directly before the decimal point."""
        if not self.units:
            return 0
        units = abs(self.units)
        digits = int((units.bit_length() - 1) * LOG10_OF_2)  # the power of ten below it, or one less
        return (digits + int(units >= 10 ** (digits + 1)) - self.scale) // GROUP

    def groups(self) -> tuple[int, int, int]:
        """First to last nonzero group as an integer, their number, the weight of the first."""
        if not self.units:
            return 0, 0, 0
        digits = abs(self.units) * 10 ** (-self.scale % GROUP)
        last = -(self.scale + -self.scale % GROUP) // GROUP
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


ONE: Final = Number(1, 0)
TWO: Final = Number(2, 0)


def number_of(value: Decimal) -> Number:
    scale = scale_of(value)
    return Number(int(value.scaleb(scale, EXACT)), scale)


def decimal_of(number: Number) -> Decimal:
    return checked(EXACT.create_decimal(number.units).scaleb(-number.scale, EXACT))


def _half_away(dividend: int, divisor: int) -> int:
    """The quotient, halves rounded away from zero; the divisor must be positive."""
    found = (2 * abs(dividend) + divisor) // (2 * divisor)
    return found if dividend >= 0 else -found


def rounded(number: Number, scale: int) -> Number:
    """``round_var``."""
    if scale >= number.scale:
        return Number(number.units * 10 ** (scale - number.scale), scale)
    return Number(_half_away(number.units, 10 ** (number.scale - scale)), scale)


def _aligned(left: Number, right: Number) -> tuple[int, int, int]:
    scale = max(left.scale, right.scale)
    return left.units * 10 ** (scale - left.scale), right.units * 10 ** (scale - right.scale), scale


def sum_of(left: Number, right: Number) -> Number:
    """``add_var``, exact."""
    one, other, scale = _aligned(left, right)
    return Number(one + other, scale)


def difference(left: Number, right: Number) -> Number:
    """``sub_var``, exact."""
    return sum_of(left, Number(-right.units, right.scale))


def compared(left: Number, right: Number) -> int:
    """``cmp_var``: -1, 0 or 1."""
    one, other, _ = _aligned(left, right)
    return (one > other) - (one < other)


def divided(left: Number, right: Number, scale: int) -> Number:
    """``div_var`` with rounding."""
    if not right.units:
        raise division_by_zero()
    shift = scale - left.scale + right.scale
    dividend, divisor = left.units * 10 ** max(shift, 0), right.units * 10 ** max(-shift, 0)
    return Number(_half_away(dividend if divisor > 0 else -dividend, abs(divisor)), scale)


def divided_by_integer(left: Number, divisor: int, scale: int) -> Number:
    """``div_var_int``."""
    return divided(left, Number(divisor, 0), scale)


def _truncated(dividend: int, divisor: int) -> int:
    return dividend // divisor if dividend >= 0 else -(-dividend // divisor)


def product(left: Number, right: Number, scale: int) -> Number:
    """``mul_var``: without the digits that the server omits."""
    exact = Number(left.units * right.units, left.scale + right.scale)
    if scale >= exact.scale:
        return rounded(exact, scale)
    (one, one_count, one_weight), (other, other_count, other_weight) = sorted(
        (left.groups(), right.groups()), key=lambda groups: groups[1]
    )
    if not one_count:
        return rounded(exact, scale)
    one_pairs, other_pairs = (one_count + 1) // 2, (other_count + 1) // 2
    pairs = (one_count + other_count) // 2 + 1
    offset = pairs - one_pairs - other_pairs + 1
    odd = one_count % 2 + other_count % 2
    weight = one_weight + other_weight + 1 + 2 * pairs - one_count - other_count - odd
    most = weight + 1 + _truncated(scale + GROUP - 1, GROUP) + _GUARD_DIGITS
    kept = min(pairs, _truncated(most, 2) + 1)
    if kept == pairs:
        return rounded(exact, scale)
    if kept <= offset:
        return Number(0, scale)
    # The digits are taken in pairs of groups, from the first group on.
    ones = _pairs(one * 10_000 ** (one_count % 2), one_pairs)[: kept - offset]
    others = _pairs(other * 10_000 ** (other_count % 2), other_pairs)[: kept - offset]
    total = _joined(_sums_of_products(ones, others)[: kept - offset], kept - offset)
    sign = -1 if (left.units < 0) != (right.units < 0) else 1
    return rounded(Number(sign * total, -GROUP * (weight - 2 * kept + 1)), scale)


def _pairs(digits: int, count: int) -> list[int]:
    """The digits of a number to the base of 10 ** 8, from the first digit on."""
    if count <= 1:
        return [digits] * count
    half = count // 2
    high, low = divmod(digits, _PAIR_BASE**half)
    return [*_pairs(high, count - half), *_pairs(low, half)]


def _joined(pairs: list[int], count: int) -> int:
    """The first ``count`` digits to the base 10 ** 8 as an integer; a digit may exceed the base."""
    if len(pairs) <= 1:
        return (pairs[0] if pairs else 0) * int(_PAIR_BASE ** (count - len(pairs)))
    half = len(pairs) // 2
    return _joined(pairs[:half], half) * int(_PAIR_BASE ** (count - half)) + _joined(pairs[half:], count - half)


def _sums_of_products(ones: list[int], others: list[int]) -> list[int]:
    """The coefficients of a product of polynomials, by one multiplication of integers."""
    one, other = (
        int.from_bytes(b"".join(pair.to_bytes(_ROOM, "big") for pair in pairs), "big") for pairs in (ones, others)
    )
    count = len(ones) + len(others) - 1
    data = (one * other).to_bytes(count * _ROOM, "big")
    return [int.from_bytes(data[at : at + _ROOM], "big") for at in range(0, len(data), _ROOM)]


def square_root(number: Number, scale: int) -> Number:
    """``sqrt_var``: one digit more is truncated from the exact root; 5 or more rounds up."""
    shift = 2 * scale + 2 - number.scale
    whole = number.units * 10**shift if shift >= 0 else number.units // 10**-shift
    return Number((math.isqrt(whole) + 5) // 10, scale)


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


@elementwise("exp(numeric)", "numeric_exp(numeric)")
def _exponential(value: Decimal) -> Decimal:
    if not value.is_finite():
        return _ZERO if value == -_INFINITY else value
    number = number_of(value)
    weight = max(min(float(number) * _LOG10_OF_E, _GREATEST_SCALE), -_GREATEST_SCALE)
    return decimal_of(_exp(number, _shown_scale(int(weight), number.scale)))


def _shown_scale(weight: int, *scales: int) -> int:
    """At least 16 significant digits, and as many decimals as the arguments have."""
    return min(max(_SIGNIFICANT_DIGITS - weight, 0, *scales), _GREATEST_SHOWN_SCALE)


# --- ln and log -------------------------------------------------------------------------------


def _near_one(number: Number) -> bool:
    return compared(number, Number(9, 1)) >= 0 and compared(number, Number(11, 1)) <= 0


def _ln_weight(number: Number) -> int:
    """``estimate_ln_dweight``: an estimate of log10 of the logarithm."""
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


@elementwise("ln(numeric)", "numeric_ln(numeric)")
def _natural_logarithm(value: Decimal) -> Decimal:
    if not value.is_finite():
        if value == -_INFINITY:
            _check_logarithm(value)
        return value
    number = number_of(value)
    return decimal_of(_ln(number, _shown_scale(_ln_weight(number), number.scale)))


@elementwise("log(numeric,numeric)", "numeric_log(numeric,numeric)")
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


elementwise("log(numeric)", "log10(numeric)")(lambda value: _logarithm(Decimal(10), value))


# --- power ------------------------------------------------------------------------------------


_SCALED_WHOLE_POWERS: Final = 160000
"""From here on powers have 16 significant digits; before they have 16 decimals."""


@elementwise("power(numeric,numeric)", "pow(numeric,numeric)", "numeric_power(numeric,numeric)", context=True)
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
    """``power_var_int``: repeated squaring, with as many digits as the result needs."""
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
