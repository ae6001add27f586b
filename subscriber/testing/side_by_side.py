"""Expected and printed lines side by side, for people.

`subscriber.testing.session.expect` decides which lines are equal. This module pairs them::

    compared lines of both sides ── which of them agree ──▶ lines that agree share a row, in the order of each side
                                                            lines between them: changed, missing, unexpected, aside

Rows of a table without a defined order agree at any place, and each side keeps its order. So a row
of the page may show two different rows of such a table without a mark.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import Enum
from itertools import pairwise, takewhile
from typing import Final

from subscriber.testing.session.expect import compared_lines
from subscriber.testing.session.session_file import SessionStatement


class LineMark(Enum):
    """AGREES: it is on both sides, or has no counterpart. ASIDE: it is not compared. MISSING: it
    was not printed. UNEXPECTED: only printed. CHANGED: it differs from the line beside it.
    """

    AGREES = "agrees"
    ASIDE = "aside"
    MISSING = "missing"
    UNEXPECTED = "unexpected"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class PairedLine:
    """A line without blanks at the end; a changed one differs from ``start`` to ``stop``."""

    text: str
    mark: LineMark
    start: int = 0
    stop: int = 0


_LANDMARK: Final = re.compile(r"(?P<separator>-+(\+-+)*$)|(?P<footer>\(\d+ rows?\)$)|(?P<label>[A-Z]+):  ")

Pair = tuple[PairedLine | None, PairedLine | None]
"""The expected and the printed line. None: only the other side has a line here."""


def side_by_side(statement: SessionStatement, printed: str | None) -> list[Pair]:
    """The lines of both sides in pairs; marked exactly if the comparison fails for them."""
    expected = _without_blanks(statement.expected)
    if printed is None:
        return [(PairedLine(text, LineMark.AGREES), None) for text in expected]
    actual = _without_blanks(printed.split("\n"))
    return list(_pairs(_Sides(statement.text, expected, actual)))


class _Sides:
    """Expected lines, printed lines, places that agree in pairs, places that are not compared."""

    def __init__(self, statement_text: str, left: list[str], right: list[str]) -> None:
        self.left, self.right = left, right
        compared = compared_lines(statement_text, left)
        other_compared = compared if left == right else compared_lines(statement_text, right)
        places, other_places = _places(compared, left), _places(other_compared, right)
        blocks = SequenceMatcher(None, compared, other_compared, autojunk=False).get_matching_blocks()
        here = sorted(place for start, _, size in blocks for place in places[start : start + size])
        there = sorted(place for _, start, size in blocks for place in other_places[start : start + size])
        self.agreeing = list(zip(here, there, strict=True))
        self.left_aside = set(range(len(left))).difference(places)
        self.right_aside = set(range(len(right))).difference(other_places)


def _pairs(sides: _Sides) -> Iterator[Pair]:
    edges = [(-1, -1), *sides.agreeing, (len(sides.left), len(sides.right))]
    for (left, right), (next_left, next_right) in pairwise(edges):
        if left >= 0:
            yield PairedLine(sides.left[left], LineMark.AGREES), PairedLine(sides.right[right], LineMark.AGREES)
        yield from _between(sides, range(left + 1, next_left), range(right + 1, next_right))


def _between(sides: _Sides, left: range, right: range) -> Iterator[Pair]:
    """Pairs of lines that do not agree, each of the same kind, as far as the order allows it."""
    kinds = [_kind(sides.left[place], aside=place in sides.left_aside) for place in left]
    other_kinds = [_kind(sides.right[place], aside=place in sides.right_aside) for place in right]
    matcher = SequenceMatcher(None, kinds, other_kinds, autojunk=False)
    for what, start, stop, other_start, other_stop in matcher.get_opcodes():
        here, there = left[start:stop], right[other_start:other_stop]
        if what == "equal":
            for place, other_place in zip(here, there, strict=True):
                yield _beside(sides.left[place], sides.right[other_place], aside=place in sides.left_aside)
            continue
        for place in here:
            yield PairedLine(sides.left[place], LineMark.ASIDE if place in sides.left_aside else LineMark.MISSING), None
        for place in there:
            yield (
                None,
                PairedLine(sides.right[place], LineMark.ASIDE if place in sides.right_aside else LineMark.UNEXPECTED),
            )


def _kind(line: str, *, aside: bool) -> str:
    """The kind of a line: not compared, a separator, a footer, a message's label, or other."""
    if aside:
        return "aside"
    landmark = _LANDMARK.match(line)
    if landmark is None:
        return ""
    return landmark["label"] or str(landmark.lastgroup)


def _beside(text: str, other: str, *, aside: bool) -> Pair:
    if aside:
        return PairedLine(text, LineMark.ASIDE), PairedLine(other, LineMark.ASIDE)
    start = _same_beginning(text, other)
    end = _same_beginning(text[start:][::-1], other[start:][::-1])
    return PairedLine(text, LineMark.CHANGED, start, len(text) - end), PairedLine(
        other, LineMark.CHANGED, start, len(other) - end
    )


def _same_beginning(text: str, other: str) -> int:
    return sum(1 for _ in takewhile(lambda both: both[0] == both[1], zip(text, other, strict=False)))


def _places(compared: Sequence[str], lines: Sequence[str]) -> list[int]:
    """The place of each compared line in the output: bags of rows have another order."""
    where: defaultdict[str, deque[int]] = defaultdict(deque)
    for place, line in enumerate(lines):
        where[line].append(place)
    return [where[line].popleft() for line in compared]


def _without_blanks(lines: Sequence[str]) -> list[str]:
    return [line.rstrip(" ") for line in lines if line.strip(" ")]
