"""Split the text of a date, time or interval into fields (``ParseDateTime``).

Each field has a first guess of its meaning. Words are converted to lower case.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, NamedTuple

from subscriber.types.datetimes.words import WORDS

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
    """A field of a text, and the guess of its meaning."""

    guess: Guess
    text: str


def parts_of(text: str, room: int) -> list[Part] | None:
    """The fields of a text. None if a part of it cannot be a field, or if the text exceeds the
    server's buffer.

    Args:
        text: the text as it was written.
        room: the size of the server's buffer in characters; each field needs one character more
            than its length.
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
    """A text that is read from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def skip(self, delimiters: frozenset[str]) -> bool:
        """Skip delimiters. The result is whether there is more text."""
        self._span(delimiters)
        return self._at < len(self._text)

    def part(self) -> Part | None:
        """Read the field that begins here; None if no field can begin here."""
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
        """The next character; an empty string at the end."""
        return self._text[self._at : self._at + 1]

    def _span(self, allowed: frozenset[str]) -> str:
        begin = self._at
        while self._at < len(self._text) and self._text[self._at] in allowed:
            self._at += 1
        return self._text[begin : self._at]
