"""Expected and printed lines side by side, for people.

`subscriber.scenario.session.expect` decides which lines are equal. This module pairs them::

    compared lines of both sides ── which of them agree ──▶ lines that agree share a row, in the order of each side
                                                            lines between them: changed, missing, unexpected, aside

The rows of a table without a defined order agree at any place. So a row of the page may show two
different rows of such a table without a mark: each side keeps the order in which it was written or
printed.
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

from subscriber.scenario.session.expect import compared_lines
from subscriber.scenario.session.session_file import Statement


class Mark(Enum):
    """The mark of a line.

    AGREES: the line is on both sides, or there is nothing to compare it with.

    ASIDE: the line is not compared.

    MISSING: the line is expected and was not printed.

    UNEXPECTED: the line was printed and is not expected.

    CHANGED: the line differs from the line beside it.
    """

    AGREES = "agrees"
    ASIDE = "aside"
    MISSING = "missing"
    UNEXPECTED = "unexpected"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of one side.

    Attributes:
        text: the line as written or printed, without blanks at the end.
        mark: its mark.
        start: in a changed line, where it begins to differ from the line beside it.
        stop: in a changed line, where both are equal again.
    """

    text: str
    mark: Mark
    start: int = 0
    stop: int = 0


_LANDMARK: Final = re.compile(r"(?P<separator>-+(\+-+)*$)|(?P<footer>\(\d+ rows?\)$)|(?P<label>[A-Z]+):  ")

Pair = tuple[Line | None, Line | None]
"""The expected and the printed line. None: only the other side has a line here."""


def side_by_side(statement: Statement, printed: str | None) -> list[Pair]:
    """The lines of both sides in pairs. Blank lines, which have no meaning, are left out.

    A line is marked as missing, unexpected or changed exactly if the comparison fails for it.

    Args:
        statement: the statement with its expected lines.
        printed: what was printed. None: the scenario ended before the statement, so no line
            differs.
    """
    expected = _without_blanks(statement.expected)
    if printed is None:
        return [(Line(text, Mark.AGREES), None) for text in expected]
    actual = _without_blanks(printed.split("\n"))
    return list(_pairs(_Sides(statement.text, expected, actual)))


class _Sides:
    """The lines of both sides, and which of them agree.

    Attributes:
        left: expected lines.
        right: printed lines.
        agreeing: pairs of places on the left and on the right, each in ascending order.
        left_aside: places of expected lines that are not compared.
        right_aside: places of printed lines that are not compared.
    """

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
            yield Line(sides.left[left], Mark.AGREES), Line(sides.right[right], Mark.AGREES)
        yield from _between(sides, range(left + 1, next_left), range(right + 1, next_right))


def _between(sides: _Sides, left: range, right: range) -> Iterator[Pair]:
    """Pairs of lines that do not agree.

    Each line is paired with a line of the same kind, as far as the order allows it.
    """
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
            yield Line(sides.left[place], Mark.ASIDE if place in sides.left_aside else Mark.MISSING), None
        for place in there:
            yield None, Line(sides.right[place], Mark.ASIDE if place in sides.right_aside else Mark.UNEXPECTED)


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
        return Line(text, Mark.ASIDE), Line(other, Mark.ASIDE)
    start = _same_beginning(text, other)
    end = _same_beginning(text[start:][::-1], other[start:][::-1])
    return Line(text, Mark.CHANGED, start, len(text) - end), Line(other, Mark.CHANGED, start, len(other) - end)


def _same_beginning(text: str, other: str) -> int:
    """The number of characters at the beginning that are equal."""
    return sum(1 for _ in takewhile(lambda both: both[0] == both[1], zip(text, other, strict=False)))


def _places(compared: Sequence[str], lines: Sequence[str]) -> list[int]:
    """The place of each compared line in the output.

    The order of comparison differs from the order of the output only within a table without a
    defined order.
    """
    where: defaultdict[str, deque[int]] = defaultdict(deque)
    for place, line in enumerate(lines):
        where[line].append(place)
    return [where[line].popleft() for line in compared]


def _without_blanks(lines: Sequence[str]) -> list[str]:
    return [line.rstrip(" ") for line in lines if line.strip(" ")]
