"""The text of floating-point numbers, as PostgreSQL writes it with ``extra_float_digits`` above 0:
Python's ``repr``, with two differences. An exponent begins at smaller numbers (15 digits before the
point, or 6 for real). And a decimal number exactly between two floating-point numbers is not used:
1e23 is ``9.999999999999999e+22``. Integer arithmetic finds these, and every real.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from ctypes import c_float
from typing import Final

_DOUBLE_BITS: Final = 53
_REAL_BITS: Final = 24
_LEAST_DOUBLE_EXPONENT: Final = -1074
_LEAST_REAL_EXPONENT: Final = -149
_DOUBLE_DIGITS_BEFORE_POINT: Final = 15
_REAL_DIGITS_BEFORE_POINT: Final = 6
_LEAST_PLAIN_EXPONENT: Final = -4
_WHOLE: Final = 1e15
"""The digits of an integral double below this need no search: all of them are significant."""


def double_text(value: float) -> str:
    """The text of a double precision number.

    >>> double_text(1e15), double_text(100.0), double_text(1e23), double_text(-0.0)
    ('1e+15', '100', '9.999999999999999e+22', '-0')
    """
    if -_WHOLE < value < _WHOLE and value == int(value):
        return f"{value:.0f}"
    return _special(value) or _finite(value, _double_digits, _DOUBLE_DIGITS_BEFORE_POINT)


def real_text(value: float) -> str:
    """The text of a real, which is given as a double.

    >>> real_text(16777216.0), real_text(0.10000000149011612)
    ('1.6777216e+07', '0.1')
    """
    return _special(value) or _finite(value, _real_digits, _REAL_DIGITS_BEFORE_POINT)


def rounded_to_real(value: float) -> float:
    return c_float(value).value


def _special(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    return ""


def _finite(value: float, digits_of: Callable[[float], tuple[str, int]], most_before_point: int) -> str:
    digits, exponent = digits_of(abs(value))
    sign = "-" if value < 0 else ""
    if not _LEAST_PLAIN_EXPONENT <= exponent < most_before_point:
        point = "." if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{point}{digits[1:]}e{exponent:+03d}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    decimals = digits[exponent + 1 :]
    return f"{sign}{whole}.{decimals}" if decimals else f"{sign}{whole}"


def _double_digits(value: float) -> tuple[str, int]:
    mantissa, _, power = repr(value).partition("e")
    whole, _, decimals = mantissa.partition(".")
    if decimals == "0":
        decimals = ""
    shift = int(power or 0) - len(decimals)
    number = int(whole + decimals)
    # The number can lie exactly between two doubles only if number / 10^-shift is a finite binary
    # fraction. It is one if 5^-shift divides the number.
    if shift >= 0 or number % 5**-shift == 0:
        return _shortest(value, _DOUBLE_BITS, _LEAST_DOUBLE_EXPONENT)
    return _digits(number, shift)


def _real_digits(value: float) -> tuple[str, int]:
    return _shortest(value, _REAL_BITS, _LEAST_REAL_EXPONENT)


def _shortest(value: float, bits: int, least_exponent: int) -> tuple[str, int]:
    """The decimal number with the fewest digits that is nearer to ``value`` than to every other
    floating-point number. Of several such numbers it is the nearest.

    With ``value`` = mantissa · 2^exponent, the midpoints to its neighbours are (4 · mantissa ± 2) ·
    2^(exponent - 2). The distance to the lower neighbour of a power of two is only half as large.
    """
    _, exponent = math.frexp(value)
    exponent = max(exponent - bits, least_exponent)
    mantissa = int(math.ldexp(value, -exponent))
    below = 1 if mantissa == 1 << (bits - 1) and exponent > least_exponent else 2
    low, middle, high = 4 * mantissa - below, 4 * mantissa, 4 * mantissa + 2
    exponent -= 2
    # A step of 10^shift is about as wide as the interval. The interval contains at most one
    # multiple of ten times that step.
    shift = math.floor(math.log10(high - low) + exponent * math.log10(2)) + 2
    while True:
        unit = 10 ** max(shift, 0) << max(-exponent, 0)
        scale = 10 ** max(-shift, 0) << max(exponent, 0)
        exact = middle * scale
        candidates = [
            number for number in (exact // unit, exact // unit + 1) if low * scale < number * unit < high * scale
        ]
        if candidates:
            nearest = min(candidates, key=lambda number: (abs(number * unit - exact), number % 2))
            return _digits(nearest, shift)
        shift -= 1


def _digits(number: int, shift: int) -> tuple[str, int]:
    digits = str(number)
    return digits.rstrip("0"), len(digits) - 1 + shift
