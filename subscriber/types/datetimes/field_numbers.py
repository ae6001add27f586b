"""The numbers in the fields of a date or time, read as C reads them.

PostgreSQL uses ``strtoint``, ``atoi`` and 32-bit arithmetic. What does not fit is an error or
another number, and both must be the same here.
"""

from __future__ import annotations

import re
from typing import Final

from subscriber.errors import DataException
from subscriber.types.datetimes.calendar import SECOND, rint

GREATEST_INT: Final = 2**31 - 1
_GREATEST_ZONE_HOUR: Final = 15
_NUMBER: Final = re.compile(r"[ \t\n\v\f\r]*[-+]?[0-9]+")


class BadFormat(Exception):
    """The text is not a date or time. The error is 22007, and its message contains the type's
    name.
    """


def field_overflow() -> DataException:
    """The error for a field that is out of range (22008)."""
    return DataException("date/time field value out of range", sqlstate="22008")


def integer(text: str) -> tuple[int, str]:
    """The number at the beginning of a text, and the rest of the text (``strtoint``).

    The number is 0 if there are no digits.

    Raises:
        OverflowError: the number does not fit C's int.
    """
    match = _NUMBER.match(text)
    if match is None:
        return 0, text
    digits = match[0].strip(" \t\n\v\f\r")
    # A number with more digits than an int has need not be converted.
    value = int(digits) if len(digits.lstrip("+-0")) < 12 else GREATEST_INT + 1
    if not -GREATEST_INT - 1 <= value <= GREATEST_INT:
        raise OverflowError
    return value, text[match.end() :]


def unchecked_integer(digits: str) -> int:
    """The number of a text (``atoi``). As in glibc, it is read as a long and reduced to an int."""
    value = int(digits) if len(digits.lstrip("0")) < 20 else 2**63
    return wrapped(min(value, 2**63 - 1))


def wrapped(value: int) -> int:
    """The value in 32 bits, as C computes it."""
    return (value + 2**31) % 2**32 - 2**31


def fraction(text: str) -> float:
    """The fraction of a text that begins with a point (``ParseFraction``)."""
    if text == ".":
        return 0.0
    if not all("0" <= digit <= "9" for digit in text[1:]):
        raise BadFormat
    return float(text)


def microseconds(text: str) -> int:
    """The fraction of a second, in microseconds."""
    return int(rint(fraction(text) * SECOND))


def zone_offset(text: str) -> int:
    """The offset of a time zone in seconds west of Greenwich (``DecodeTimezone``)."""
    if text[:1] not in {"+", "-"}:
        raise BadFormat
    try:
        hours, rest = integer(text[1:])
        minutes = seconds = 0
        if rest.startswith(":"):
            minutes, rest = integer(rest[1:])
            if rest.startswith(":"):
                seconds, rest = integer(rest[1:])
        elif not rest and len(text) > 3:
            hours, minutes = divmod(hours, 100)
    except OverflowError:
        raise _displacement() from None
    if not 0 <= hours <= _GREATEST_ZONE_HOUR or not 0 <= minutes < 60 or not 0 <= seconds < 60:
        raise _displacement()
    if rest:
        raise BadFormat
    east = hours * 3600 + minutes * 60 + seconds
    return east if text[0] == "-" else -east


def _displacement() -> DataException:
    return DataException("time zone displacement out of range", sqlstate="22009")


def julian_of_new_year(year: int) -> int:
    """The Julian day of January 1 in 32-bit arithmetic (``date2j``).

    If the year is too large, the result overflows and is the number of some other day.
    """
    year = wrapped(year + 4799)
    century = _quotient(year, 100)
    days = year * 365 - 32_167 + _quotient(year, 4) - century + _quotient(century, 4)
    return wrapped(days + 7834 * 14 // 256 + 1)


def _quotient(value: int, divisor: int) -> int:
    return value // divisor if value >= 0 else -(-value // divisor)
