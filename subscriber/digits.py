"""Integers of any length from text and as text. Python's own conversions refuse those of more than
4,300 digits with a bare ``ValueError``.

Whatever a user may have written goes through here: a constant, an option, a value. The caller says
what is too large, in PostgreSQL's words.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

_SURELY_SHORT: Final = 640
"""Digits that every setting of ``sys.set_int_max_str_digits`` allows."""


def integer_of(text: str, base: int = 10) -> int:
    """An integer from its digits, with a sign or without.

    Raises:
        ValueError: the text is none, as from ``int``.

    >>> integer_of("-12"), integer_of("ff", 16)
    (-12, 255)
    """
    if base == 10 and len(text) > _SURELY_SHORT and text.lstrip("+-").isdecimal():
        return int(Decimal(text))
    return int(text, base)


def digits_of(number: int) -> str:
    """An integer's decimal digits.

    >>> digits_of(-12)
    '-12'
    """
    return str(Decimal(number))
