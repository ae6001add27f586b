"""Runs automata: finds the places where a match that begins at a given place may end.

An expression becomes a nondeterministic automaton (Thompson's construction). It is run as a
deterministic automaton that is built during use: the sets of states, and the set that each
character leads to, are remembered. The time for a string is therefore proportional to its length,
whatever the expression is. Anchors and lookaround constraints are conditions on empty transitions.
A set of states is extended by the empty transitions whose conditions hold at a place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from subscriber.errors import NotSupportedError
from subscriber.filters.regex.characters import EVERYTHING, WORD, CharacterSet, contains
from subscriber.filters.regex.languages import (
    Anchor,
    Character,
    Choice,
    Expression,
    Look,
    Repeat,
    Sequence,
    sequence,
)

MOST_STATES: Final = 10_000
"""The largest number of states.

Slightly above this number PostgreSQL reports "regular expression is too complex". Its exact limit
depends on its optimizer.
"""

_MOST_REMEMBERED: Final = 20_000
"""The largest number of remembered transitions of an automaton.

Above it, the automaton forgets all of them before the next string, so that the memory does not
depend on the number of strings.
"""

_UNKNOWN: Final[Any] = object()

Condition: TypeAlias = Anchor | Look
States: TypeAlias = frozenset[int]


class Subject:
    """A string that is searched, with the conditions that are known to hold at its places.

    Attributes:
        text: the string.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._known: dict[tuple[Condition, int], bool] = {}
        self._behind: dict[Look, frozenset[int]] = {}

    def holds(self, condition: Condition, place: int, automata: dict[Look, Automaton]) -> bool:
        """Return whether a condition holds at a place."""
        known = self._known.get((condition, place))
        if known is None:
            known = (
                self._looks(condition, place, automata) if isinstance(condition, Look) else self._at(condition, place)
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

    def _looks(self, look: Look, place: int, automata: dict[Look, Automaton]) -> bool:
        automaton = automata[look]
        if look.ahead:
            return (automaton.first_end(self, place) is not None) != look.negative
        if look not in self._behind:
            self._behind[look] = frozenset(automaton.ends(self, 0))
        return (place in self._behind[look]) != look.negative


class _Arrived:
    """A set of states directly after a character.

    The empty transitions that extend it depend on the conditions that hold at the place.
    """

    __slots__ = ("closed", "states")

    def __init__(self, states: States) -> None:
        self.states = states
        self.closed: dict[tuple[bool, ...], _Closed] = {}


class _Closed:
    """A set of states with all states that empty transitions lead to.

    It records whether a match may end in this set, and the set that each character leads to.
    """

    __slots__ = ("is_end", "next", "states")

    def __init__(self, states: States, *, is_end: bool) -> None:
        self.states = states
        self.is_end = is_end
        self.next: dict[str, _Arrived | None] = {}


class Automaton:
    """The automaton of an expression."""

    def __init__(self, expression: Expression) -> None:
        self._empty: list[list[tuple[int, Condition | None]]] = []
        self._steps: list[list[tuple[CharacterSet, int]]] = []
        self._first, self._last = self._build(expression)
        self._conditions = tuple(
            dict.fromkeys(condition for steps in self._empty for _, condition in steps if condition is not None)
        )
        self._looks = {one: _of_look(one) for one in self._conditions if isinstance(one, Look)}
        self._begin_again()

    def _begin_again(self) -> None:
        self._remembered = 0
        self._arrived: dict[States, _Arrived] = {}
        self._closed: dict[States, _Closed] = {}
        self._start = _Arrived(frozenset({self._first}))

    def ends(self, subject: Subject, begin: int) -> list[int]:
        """Return all places where a match that begins at ``begin`` may end, in ascending order."""
        return list(self._ends(subject, begin))

    def first_end(self, subject: Subject, begin: int) -> int | None:
        """Return the first place where a match that begins at ``begin`` may end; None if there is
        none.
        """
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

    def _build(self, expression: Expression) -> tuple[int, int]:
        """Return the first and the last state of the automaton for an expression."""
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
            case Choice(branches):
                last = self._state()
                for branch in branches:
                    begin, end = self._build(branch)
                    self._empty[first].append((begin, None))
                    self._empty[end].append((last, None))
                return first, last
            case Repeat(item, least, most):
                return first, self._build_repeat(first, item, least, most)
            case Anchor() | Look():
                last = self._state()
                self._empty[first].append((last, expression))
                return first, last

    def _build_repeat(self, first: int, item: Expression, least: int, most: int | None) -> int:
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


def _of_look(look: Look) -> Automaton:
    if look.ahead:
        return Automaton(look.item)
    return Automaton(sequence(ANYTHING, look.item))


ANYTHING: Final[Expression] = Repeat(Character(EVERYTHING), 0, None)
"""``.*``, which in front of an expression finds a match that begins anywhere."""
