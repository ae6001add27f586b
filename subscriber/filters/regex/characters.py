"""Sets of characters, as ordered and disjoint ranges of code points.

Character classes are those of collation "C".
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, TypeAlias

CharacterSet: TypeAlias = tuple[tuple[int, int], ...]
"""Ranges of code points as pairs (first, last)."""

_LAST: Final = 0x10FFFF
EVERYTHING: Final[CharacterSet] = ((0, _LAST),)
NEWLINE: Final[CharacterSet] = ((10, 10),)

_DIGIT: Final = ((0x30, 0x39),)
_UPPER: Final = ((0x41, 0x5A),)
_LOWER: Final = ((0x61, 0x7A),)
_ALPHA: Final = (*_UPPER, *_LOWER)
_ALNUM: Final = (*_DIGIT, *_ALPHA)
WORD: Final[CharacterSet] = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))

CLASSES: Final[dict[str, CharacterSet]] = {
    "alnum": _ALNUM,
    "alpha": _ALPHA,
    "ascii": ((0, 0x7F),),
    "blank": ((9, 9), (0x20, 0x20)),
    "cntrl": ((0, 0x1F), (0x7F, 0x9F)),
    "digit": _DIGIT,
    "graph": ((0x21, 0x7E),),
    "lower": _LOWER,
    "print": ((0x20, 0x7E),),
    "punct": ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)),
    "space": ((9, 13), (0x20, 0x20)),
    "upper": _UPPER,
    "xdigit": ((0x30, 0x39), (0x41, 0x46), (0x61, 0x66)),
    "word": WORD,
}
FIXED_CLASSES: Final = frozenset({"ascii", "blank", "cntrl", "xdigit"})
"""The classes that are the same in every locale."""


def union(sets: Iterable[CharacterSet]) -> CharacterSet:
    """Return the characters that are in any of the sets."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(one for ranges in sets for one in ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(merged[-1][1], last)
        else:
            merged.append((first, last))
    return tuple(merged)


def complement(ranges: CharacterSet) -> CharacterSet:
    """Return the characters that are not in the set."""
    result = []
    begin = 0
    for first, last in ranges:
        if begin < first:
            result.append((begin, first - 1))
        begin = last + 1
    return (*result, (begin, _LAST)) if begin <= _LAST else tuple(result)


def with_both_cases(ranges: CharacterSet) -> CharacterSet:
    """Return the set, extended by the other case of its ASCII letters."""
    swapped = []
    for first, last in ranges:
        for letters, distance in ((_UPPER[0], 32), (_LOWER[0], -32)):
            begin, end = max(first, letters[0]), min(last, letters[1])
            if begin <= end:
                swapped.append((begin + distance, end + distance))
    return union([ranges, tuple(swapped)])


@lru_cache(maxsize=65536)
def contains(ranges: CharacterSet, character: str) -> bool:
    """Return whether the character is in the set."""
    code = ord(character)
    place = bisect_right(ranges, (code, _LAST + 1))
    return place > 0 and ranges[place - 1][1] >= code
