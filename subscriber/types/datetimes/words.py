"""The words of dates and times (``datetktbl``), and the fields that a date or time can have."""

from __future__ import annotations

from enum import Enum, IntFlag, auto
from typing import Final


class Has(IntFlag):
    """The fields of a date or time that have been read so far; a repeated field is an error."""

    YEAR = auto()
    MONTH = auto()
    DAY = auto()
    DAY_OF_YEAR = auto()
    TIME = auto()
    ZONE = auto()
    DST_OFFSET = auto()
    """An hour of daylight saving time, which the zone's abbreviation includes or the word ``dst``
    adds.
    """
    DST = auto()
    """The word ``dst``."""
    CHANGING_ZONE = auto()
    """An abbreviation that has had several offsets."""
    HALF_DAY = auto()
    ERA = auto()
    DAY_OF_WEEK = auto()
    DATE = YEAR | MONTH | DAY


class Word(Enum):
    """The kinds of words."""

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
"""For each word its kind and its meaning."""
