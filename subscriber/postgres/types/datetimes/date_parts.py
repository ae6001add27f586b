"""The fields of a date, time or interval (``ParseDateTime``), their words (``datetktbl``) and
numbers.

PostgreSQL reads numbers with ``strtoint``, ``atoi`` and 32-bit arithmetic. What does not fit is an
error or another number, and both must be the same here.
"""

from __future__ import annotations

import re
from enum import Enum, IntFlag, auto
from typing import Final, NamedTuple

from subscriber.base.errors import DataException
from subscriber.postgres.types.datetimes.date_values import SECOND, rint


class FieldMask(IntFlag):
    """The fields of a date or time that have been read so far; a repeated field is an error."""

    YEAR = auto()
    MONTH = auto()
    DAY = auto()
    DAY_OF_YEAR = auto()
    TIME = auto()
    ZONE = auto()
    DST_OFFSET = auto()
    """An hour of daylight saving time, which the abbreviation includes or the word ``dst`` adds."""
    DST = auto()
    CHANGING_ZONE = auto()
    """An abbreviation that has had several offsets."""
    HALF_DAY = auto()
    ERA = auto()
    DAY_OF_WEEK = auto()
    DATE = YEAR | MONTH | DAY


class Word(Enum):
    RESERVED = auto()
    MONTH = auto()
    DAY_OF_WEEK = auto()
    HALF_DAY = auto()
    ERA = auto()
    DST = auto()
    IGNORED = auto()
    UNIT = auto()
    ISO_TIME = auto()


_MONTHS: Final = (
    ("jan", "january"), ("feb", "february"), ("mar", "march"), ("apr", "april"), ("may",), ("jun", "june"), ("jul", "july"),
    ("aug", "august"), ("sep", "sept", "september"), ("oct", "october"), ("nov", "november"), ("dec", "december"),
)  # fmt: skip
_DAYS: Final = (
    "fri", "friday", "mon", "monday", "sat", "saturday", "sun", "sunday", "thu", "thur", "thurs", "thursday", "tue", "tues", "tuesday",
    "wed", "wednesday", "weds",
)  # fmt: skip
_UNITS: Final = ("d", "dow", "doy", "h", "isodow", "isoyear", "m", "mm", "s", "y")
_RESERVED: Final = ("allballs", "epoch", "now", "today", "tomorrow", "yesterday", "infinity", "+infinity", "-infinity")

WORDS: Final[dict[str, tuple[Word, str | int]]] = {
    **{name: (Word.MONTH, number) for number, names in enumerate(_MONTHS, start=1) for name in names},
    **{name: (Word.DAY_OF_WEEK, name) for name in _DAYS},
    **{name: (Word.UNIT, name) for name in _UNITS},
    **dict.fromkeys(("j", "jd", "julian"), (Word.UNIT, "julian")),
    **{name: (Word.RESERVED, name.removeprefix("+")) for name in _RESERVED},
    **{name: (Word.HALF_DAY, name) for name in ("am", "pm")},
    **{name: (Word.ERA, name) for name in ("ad", "bc")},
    **{name: (Word.IGNORED, name) for name in ("at", "on")},
    "dst": (Word.DST, 3600),
    "t": (Word.ISO_TIME, "time"),
}


_MOST_FIELDS: Final = 25
_SPACES: Final = frozenset(" \t\n\v\f\r")
_DIGITS: Final = frozenset("0123456789")
_LETTERS: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_DELIMITERS: Final = frozenset("!\"#$%&'()*,/:;<=>?@[\\]^_`{|}~")
"""Punctuation that may separate fields and cannot begin a field."""
_BETWEEN: Final = _SPACES | _DELIMITERS
_IN_TIME: Final = _DIGITS | {":", "."}
_IN_ZONE: Final = _DIGITS | {":", ".", "-"}
_IN_NAME: Final = _DIGITS | _LETTERS | frozenset("+-/_.:")


class Guess(Enum):
    """The probable meaning of a field. The guess is often wrong, as in the server."""

    NUMBER = auto()
    """Digits, possibly with a point."""
    DATE = auto()
    """Digits and two delimiters, or digits and text; or the name of a time zone."""
    TIME = auto()
    """Digits and colons."""
    STRING = auto()
    """Letters."""
    SPECIAL = auto()
    """A sign and letters."""
    ZONE = auto()
    """A sign and digits."""


class Part(NamedTuple):
    guess: Guess
    text: str


def parts_of(text: str, room: int) -> list[Part] | None:
    """The fields of a text; None if a part of it cannot be a field, or if the text exceeds the
    server's buffer of ``room`` characters. Each field needs one character more than its length.
    """
    found: list[Part] = []
    reader, used = _Reader(text), 0
    # After the last possible field, only blanks are allowed.
    while reader.skip(_BETWEEN if len(found) < _MOST_FIELDS else _SPACES):
        part = reader.part() if len(found) < _MOST_FIELDS else None
        # A field of n characters fits if n + 1 characters of the buffer are free before it.
        if part is None or used + len(part.text) >= room:
            return None
        used += len(part.text) + 1
        found.append(part)
    return found


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def skip(self, delimiters: frozenset[str]) -> bool:
        """Skip delimiters; whether there is more text."""
        self._span(delimiters)
        return self._at < len(self._text)

    def part(self) -> Part | None:
        character = self._following
        if character in _DIGITS:
            return self._of_digits()
        if character in _LETTERS:
            return self._of_letters()
        self._at += 1
        if character == ".":
            return Part(Guess.NUMBER, character + self._span(_DIGITS))
        if character not in {"+", "-"}:
            return None
        self._span(_SPACES)
        if self._following in _DIGITS:
            return Part(Guess.ZONE, character + self._span(_IN_ZONE))
        if self._following in _LETTERS:
            return Part(Guess.SPECIAL, character + self._span(_LETTERS).lower())
        return None

    def _of_digits(self) -> Part:
        field = self._span(_DIGITS)
        delimiter = self._following
        if delimiter == ":":
            return Part(Guess.TIME, field + self._span(_IN_TIME))
        if delimiter not in {"-", "/", "."}:
            return Part(Guess.NUMBER, field)
        self._at += 1
        if self._following not in _DIGITS:  # the month is a word
            return Part(Guess.DATE, field + delimiter + self._span(_DIGITS | _LETTERS | {delimiter}).lower())
        field += delimiter + self._span(_DIGITS)
        if self._following == delimiter:
            return Part(Guess.DATE, field + self._span(_DIGITS | {delimiter}))
        return Part(Guess.NUMBER if delimiter == "." else Guess.DATE, field)

    def _of_letters(self) -> Part:
        field = self._span(_LETTERS).lower()
        following = self._following
        # A digit or + after an unknown word belongs to the name of a time zone, as in GMT+5.
        in_name = following in {"-", "/", "."} or ((following == "+" or following in _DIGITS) and field not in WORDS)
        return Part(Guess.DATE, field + self._span(_IN_NAME).lower()) if in_name else Part(Guess.STRING, field)

    @property
    def _following(self) -> str:
        return self._text[self._at : self._at + 1]

    def _span(self, allowed: frozenset[str]) -> str:
        begin = self._at
        while self._at < len(self._text) and self._text[self._at] in allowed:
            self._at += 1
        return self._text[begin : self._at]


GREATEST_INT: Final = 2**31 - 1
_GREATEST_ZONE_HOUR: Final = 15
_NUMBER: Final = re.compile(r"[ \t\n\v\f\r]*[-+]?[0-9]+")


class BadFormat(Exception):
    """The text is not a date or time (22007); the caller's message has the type's name."""


def field_overflow() -> DataException:
    return DataException("date/time field value out of range", sqlstate="22008")


def integer(text: str) -> tuple[int, str]:
    """``strtoint``: the number at the beginning, 0 without digits, and the rest."""
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
    return (value + 2**31) % 2**32 - 2**31


def fraction(text: str) -> float:
    """The fraction of a text that begins with a point (``ParseFraction``)."""
    if text == ".":
        return 0.0
    if not all("0" <= digit <= "9" for digit in text[1:]):
        raise BadFormat
    return float(text)


def microseconds(text: str) -> int:
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
    """``date2j`` of January 1. Of a large year it overflows to that of some other day."""
    year = wrapped(year + 4799)
    century = _quotient(year, 100)
    days = year * 365 - 32_167 + _quotient(year, 4) - century + _quotient(century, 4)
    return wrapped(days + 7834 * 14 // 256 + 1)


def _quotient(value: int, divisor: int) -> int:
    return value // divisor if value >= 0 else -(-value // divisor)
