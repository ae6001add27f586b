"""Sets of characters, the expressions over them, and the automata that find where a match ends.

A set is ordered and disjoint ranges of code points; classes are those of collation "C". An
expression describes only the set of strings that match: no captures and no preferences.

It becomes a nondeterministic automaton (Thompson's construction), which is run as a deterministic
one that is built during use: the sets of states, and the set that each character leads to, are
remembered. So the time for a string is proportional to its length, whatever the expression is.
Anchors and lookaround constraints are conditions on empty transitions.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

from subscriber.base.errors import NotSupportedError

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
    merged: list[tuple[int, int]] = []
    for first, last in sorted(one for ranges in sets for one in ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(merged[-1][1], last)
        else:
            merged.append((first, last))
    return tuple(merged)


def complement(ranges: CharacterSet) -> CharacterSet:
    result = []
    begin = 0
    for first, last in ranges:
        if begin < first:
            result.append((begin, first - 1))
        begin = last + 1
    return (*result, (begin, _LAST)) if begin <= _LAST else tuple(result)


def with_both_cases(ranges: CharacterSet) -> CharacterSet:
    """The set, extended by the other case of its ASCII letters."""
    swapped = []
    for first, last in ranges:
        for letters, distance in ((_UPPER[0], 32), (_LOWER[0], -32)):
            begin, end = max(first, letters[0]), min(last, letters[1])
            if begin <= end:
                swapped.append((begin + distance, end + distance))
    return union([ranges, tuple(swapped)])


@lru_cache(maxsize=65536)
def contains(ranges: CharacterSet, character: str) -> bool:
    code = ord(character)
    place = bisect_right(ranges, (code, _LAST + 1))
    return place > 0 and ranges[place - 1][1] >= code


@dataclass(frozen=True, slots=True)
class Character:
    ranges: CharacterSet


@dataclass(frozen=True, slots=True)
class Sequence:
    """Items one after another; without items it is the empty string."""

    items: tuple[Language, ...]


@dataclass(frozen=True, slots=True)
class Alternatives:
    branches: tuple[Language, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """``least`` to ``most`` times; None is any number."""

    item: Language
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Anchor:
    """A condition on a place, without a character: begin and end of a string, line or word."""

    kind: Literal["begin", "end", "line begin", "line end", "word begin", "word end", "boundary", "no boundary"]


@dataclass(frozen=True, slots=True)
class Lookaround:
    """A lookaround: whether ``item`` matches, or does not match, ahead of a place or behind it."""

    item: Language
    ahead: bool
    negative: bool


Language: TypeAlias = Character | Sequence | Alternatives | Repeat | Anchor | Lookaround

EMPTY = Sequence(())


def repeated(item: Language, least: int, most: int | None) -> Language:
    return item if (least, most) == (1, 1) else Repeat(item, least, most)


def sequence(*items: Language) -> Language:
    return items[0] if len(items) == 1 else Sequence(items)


def below(expression: Language) -> tuple[Language, ...]:
    match expression:
        case Sequence(items):
            return items
        case Alternatives(branches):
            return branches
        case Repeat(item) | Lookaround(item):
            return (item,)
    return ()


def parts(expression: Language) -> Iterator[Language]:
    yield expression
    for part in below(expression):
        yield from parts(part)


def without_conditions(expression: Language) -> Language:
    """Without anchors and lookarounds: at least all that a back reference may match."""
    match expression:
        case Sequence(items):
            return Sequence(tuple(map(without_conditions, items)))
        case Alternatives(branches):
            return Alternatives(tuple(map(without_conditions, branches)))
        case Repeat(item, least, most):
            return Repeat(without_conditions(item), least, most)
        case Anchor() | Lookaround():
            return EMPTY
    return expression


MOST_STATES: Final = 10_000
"""A little above, PostgreSQL reports "regular expression is too complex"; its limit varies."""

_MOST_REMEMBERED: Final = 20_000
"""Above it, an automaton forgets its transitions before the next string, to bound memory."""

_UNKNOWN: Final[Any] = object()

Condition: TypeAlias = Anchor | Lookaround
States: TypeAlias = frozenset[int]


class Subject:
    """A string that is searched, with the conditions that are known to hold at its places."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._known: dict[tuple[Condition, int], bool] = {}
        self._behind: dict[Lookaround, frozenset[int]] = {}

    def holds(self, condition: Condition, place: int, automata: dict[Lookaround, Automaton]) -> bool:
        known = self._known.get((condition, place))
        if known is None:
            known = (
                self._looks(condition, place, automata)
                if isinstance(condition, Lookaround)
                else self._at(condition, place)
            )
            self._known[condition, place] = known
        return known

    def _at(self, anchor: Anchor, place: int) -> bool:
        text = self.text
        match anchor.kind:
            case "begin":
                return place == 0
            case "end":
                return place == len(text)
            case "line begin":
                return place == 0 or text[place - 1] == "\n"
            case "line end":
                return place == len(text) or text[place] == "\n"
        before = place > 0 and contains(WORD, text[place - 1])
        after = place < len(text) and contains(WORD, text[place])
        match anchor.kind:
            case "word begin":
                return after and not before
            case "word end":
                return before and not after
            case "boundary":
                return before != after
        return before == after

    def _looks(self, look: Lookaround, place: int, automata: dict[Lookaround, Automaton]) -> bool:
        automaton = automata[look]
        if look.ahead:
            return (automaton.first_end(self, place) is not None) != look.negative
        if look not in self._behind:
            self._behind[look] = frozenset(automaton.ends(self, 0))
        return (place in self._behind[look]) != look.negative


class _Arrived:
    """A set of states after a character, to be extended by the conditions that hold there."""

    __slots__ = ("closed", "states")

    def __init__(self, states: States) -> None:
        self.states = states
        self.closed: dict[tuple[bool, ...], _Closed] = {}


class _Closed:
    """A set of states with those that empty transitions reach, and the set after each character."""

    __slots__ = ("is_end", "next", "states")

    def __init__(self, states: States, *, is_end: bool) -> None:
        self.states = states
        self.is_end = is_end
        self.next: dict[str, _Arrived | None] = {}


class Automaton:
    def __init__(self, expression: Language) -> None:
        self._empty: list[list[tuple[int, Condition | None]]] = []
        self._steps: list[list[tuple[CharacterSet, int]]] = []
        self._first, self._last = self._build(expression)
        self._conditions = tuple(
            dict.fromkeys(condition for steps in self._empty for _, condition in steps if condition is not None)
        )
        self._looks = {one: _of_look(one) for one in self._conditions if isinstance(one, Lookaround)}
        self._begin_again()

    def _begin_again(self) -> None:
        self._remembered = 0
        self._arrived: dict[States, _Arrived] = {}
        self._closed: dict[States, _Closed] = {}
        self._start = _Arrived(frozenset({self._first}))

    def ends(self, subject: Subject, begin: int) -> list[int]:
        """All places where a match that begins at ``begin`` may end, in ascending order."""
        return list(self._ends(subject, begin))

    def first_end(self, subject: Subject, begin: int) -> int | None:
        """The first place where a match that begins at ``begin`` may end."""
        return next(self._ends(subject, begin), None)

    def _ends(self, subject: Subject, begin: int) -> Iterator[int]:
        text = subject.text
        if self._remembered > _MOST_REMEMBERED:
            self._begin_again()
        closed = self._close(self._start, subject, begin)
        if closed.is_end:
            yield begin
        for place in range(begin, len(text)):
            character = text[place]
            arrived = closed.next.get(character, _UNKNOWN)
            if arrived is _UNKNOWN:
                arrived = self._step(closed, character)
            if arrived is None:
                return
            closed = self._close(arrived, subject, place + 1)
            if closed.is_end:
                yield place + 1

    def _close(self, arrived: _Arrived, subject: Subject, place: int) -> _Closed:
        holding = (
            tuple(subject.holds(condition, place, self._looks) for condition in self._conditions)
            if self._conditions
            else ()
        )
        closed = arrived.closed.get(holding)
        if closed is None:
            true = {condition for condition, holds in zip(self._conditions, holding, strict=True) if holds}
            reached = set(arrived.states)
            pending = list(reached)
            while pending:
                for target, condition in self._empty[pending.pop()]:
                    if target not in reached and (condition is None or condition in true):
                        reached.add(target)
                        pending.append(target)
            states = frozenset(reached)
            closed = self._closed.setdefault(states, _Closed(states, is_end=self._last in states))
            arrived.closed[holding] = closed
            self._remembered += 1
        return closed

    def _step(self, closed: _Closed, character: str) -> _Arrived | None:
        states = frozenset(
            target for state in closed.states for ranges, target in self._steps[state] if contains(ranges, character)
        )
        arrived = self._arrived.setdefault(states, _Arrived(states)) if states else None
        closed.next[character] = arrived
        self._remembered += 1
        return arrived

    # --- construction

    def _state(self) -> int:
        if len(self._empty) >= MOST_STATES:
            raise NotSupportedError(
                "a regular expression of this size cannot be evaluated by the subscriber",
                hint="Use smaller repetition counts.",
            )
        self._empty.append([])
        self._steps.append([])
        return len(self._empty) - 1

    def _build(self, expression: Language) -> tuple[int, int]:
        """The first and the last state of the automaton for an expression."""
        first = self._state()
        match expression:
            case Character(ranges):
                last = self._state()
                self._steps[first].append((ranges, last))
                return first, last
            case Sequence(items):
                last = first
                for item in items:
                    begin, end = self._build(item)
                    self._empty[last].append((begin, None))
                    last = end
                return first, last
            case Alternatives(branches):
                last = self._state()
                for branch in branches:
                    begin, end = self._build(branch)
                    self._empty[first].append((begin, None))
                    self._empty[end].append((last, None))
                return first, last
            case Repeat(item, least, most):
                return first, self._build_repeat(first, item, least, most)
            case Anchor() | Lookaround():
                last = self._state()
                self._empty[first].append((last, expression))
                return first, last

    def _build_repeat(self, first: int, item: Language, least: int, most: int | None) -> int:
        last = first
        for _ in range(least):
            begin, end = self._build(item)
            self._empty[last].append((begin, None))
            last = end
        if most is None:
            middle = self._state()
            self._empty[last].append((middle, None))
            begin, end = self._build(item)
            self._empty[middle].append((begin, None))
            self._empty[end].append((middle, None))
            return middle
        final = self._state()
        for _ in range(most - least):
            self._empty[last].append((final, None))
            begin, end = self._build(item)
            self._empty[last].append((begin, None))
            last = end
        self._empty[last].append((final, None))
        return final


def _of_look(look: Lookaround) -> Automaton:
    if look.ahead:
        return Automaton(look.item)
    return Automaton(sequence(ANYTHING, look.item))


ANYTHING: Final[Language] = Repeat(Character(EVERYTHING), 0, None)
"""``.*``, which in front of an expression finds a match that begins anywhere."""
