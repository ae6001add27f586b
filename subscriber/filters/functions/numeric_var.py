"""Arithmetic of numeric with a chosen number of decimals: ``NumericVar`` of PostgreSQL 18.

A product that must be rounded omits digits that are too far to the right, in groups of eight
decimal digits as in the server. One step is exact here and not in the server: the division by a
divisor of more than 48 digits, which the server computes to 16 digits more than it keeps.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Final, NamedTuple

from subscriber.filters.functions.integers import division_by_zero
from subscriber.types.numeric import EXACT, checked, scale_of

GROUP: Final = 4
"""The number of decimal digits that the server keeps together."""
LOG10_OF_2: Final = 0.301029995663981
_PAIR_BASE: Final = 10**8
_ROOM: Final = 10
"""The number of bytes for a sum of products of two digits to that base, of which there are at most
about ten thousand.
"""
_GUARD_DIGITS: Final = 2


class Number(NamedTuple):
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
        digits = int((units.bit_length() - 1) * LOG10_OF_2)  # the power of ten below it, or one less
        return (digits + int(units >= 10 ** (digits + 1)) - self.scale) // GROUP

    def groups(self) -> tuple[int, int, int]:
        """The digits from the first to the last group that is not zero, as an integer; the number
        of groups; the weight of the first group.
        """
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
    """The number that a numeric is."""
    scale = scale_of(value)
    return Number(int(value.scaleb(scale, EXACT)), scale)


def decimal_of(number: Number) -> Decimal:
    """The numeric that a number is."""
    return checked(EXACT.create_decimal(number.units).scaleb(-number.scale, EXACT))


def _half_away(dividend: int, divisor: int) -> int:
    """The quotient rounded to the nearest integer, halves away from zero; the divisor must be
    positive.
    """
    found = (2 * abs(dividend) + divisor) // (2 * divisor)
    return found if dividend >= 0 else -found


def rounded(number: Number, scale: int) -> Number:
    """Round a number to a scale (``round_var``)."""
    if scale >= number.scale:
        return Number(number.units * 10 ** (scale - number.scale), scale)
    return Number(_half_away(number.units, 10 ** (number.scale - scale)), scale)


def _aligned(left: Number, right: Number) -> tuple[int, int, int]:
    scale = max(left.scale, right.scale)
    return left.units * 10 ** (scale - left.scale), right.units * 10 ** (scale - right.scale), scale


def sum_of(left: Number, right: Number) -> Number:
    """Add two numbers, exactly (``add_var``)."""
    one, other, scale = _aligned(left, right)
    return Number(one + other, scale)


def difference(left: Number, right: Number) -> Number:
    """Subtract a number from another, exactly (``sub_var``)."""
    return sum_of(left, Number(-right.units, right.scale))


def compared(left: Number, right: Number) -> int:
    """-1, 0 or 1, as the first number is less, equal or greater (``cmp_var``)."""
    one, other, _ = _aligned(left, right)
    return (one > other) - (one < other)


def divided(left: Number, right: Number, scale: int) -> Number:
    """Divide and round (``div_var`` with rounding)."""
    if not right.units:
        raise division_by_zero()
    shift = scale - left.scale + right.scale
    dividend, divisor = left.units * 10 ** max(shift, 0), right.units * 10 ** max(-shift, 0)
    return Number(_half_away(dividend if divisor > 0 else -dividend, abs(divisor)), scale)


def divided_by_integer(left: Number, divisor: int, scale: int) -> Number:
    """Divide by an integer and round (``div_var_int``)."""
    return divided(left, Number(divisor, 0), scale)


def _truncated(dividend: int, divisor: int) -> int:
    """Divide integers as C does, towards zero."""
    return dividend // divisor if dividend >= 0 else -(-dividend // divisor)


def product(left: Number, right: Number, scale: int) -> Number:
    """Multiply to a scale, without the digits that the server omits (``mul_var``)."""
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


def square_root(number: Number, scale: int) -> Number:
    """The square root of a positive number (``sqrt_var``).

    One digit more is computed, truncated from the exact root. A last digit of 5 or more rounds up.
    """
    shift = 2 * scale + 2 - number.scale
    whole = number.units * 10**shift if shift >= 0 else number.units // 10**-shift
    return Number((math.isqrt(whole) + 5) // 10, scale)
