"""Conversion between text and integers of any length.

Python's own conversions refuse integers of more than 4,300 digits with a bare ``ValueError``. So
every number that a user may have written is converted here. The caller refuses those that are too
large, with PostgreSQL's message.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

_SURELY_SHORT: Final = 640
"""The number of digits that Python converts under every ``sys.set_int_max_str_digits``."""


def parse_int(text: str, base: int = 10) -> int:
    """An integer from its digits, with or without a sign. Raises ``ValueError`` as ``int`` does.

    >>> parse_int("-12"), parse_int("ff", 16)
    (-12, 255)
    """
    if base == 10 and len(text) > _SURELY_SHORT and text.lstrip("+-").isdecimal():
        return int(Decimal(text))
    return int(text, base)


def digits_of(number: int) -> str:
    """The decimal digits of an integer of any length."""
    return str(Decimal(number))
