"""Defines the expressions from which automata are built.

An expression describes only the set of strings that match. It contains no captures and no
preferences.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from subscriber.filters.regex.characters import CharacterSet


@dataclass(frozen=True, slots=True)
class Character:
    """One character of a set."""

    ranges: CharacterSet


@dataclass(frozen=True, slots=True)
class Sequence:
    """A sequence of items. Without items it is the empty string."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Alternatives."""

    branches: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A repetition, ``least`` to ``most`` times. None means any number."""

    item: Expression
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Anchor:
    """A condition on a place between characters. It consumes no characters.

    The first four kinds are the begin and end of the string and of a line. The other kinds concern
    words.
    """

    kind: Literal["begin", "end", "line begin", "line end", "word begin", "word end", "boundary", "no boundary"]


@dataclass(frozen=True, slots=True)
class Look:
    """A lookaround constraint: whether ``item`` matches, or does not match, ahead of a place or
    behind it.
    """

    item: Expression
    ahead: bool
    negative: bool


Expression: TypeAlias = Character | Sequence | Choice | Repeat | Anchor | Look

EMPTY = Sequence(())


def repeated(item: Expression, least: int, most: int | None) -> Expression:
    """Return a repetition of the item."""
    return item if (least, most) == (1, 1) else Repeat(item, least, most)


def sequence(*items: Expression) -> Expression:
    """Return a sequence of the items."""
    return items[0] if len(items) == 1 else Sequence(items)


def below(expression: Expression) -> tuple[Expression, ...]:
    """Return the expressions directly below an expression."""
    match expression:
        case Sequence(items):
            return items
        case Choice(branches):
            return branches
        case Repeat(item) | Look(item):
            return (item,)
    return ()


def parts(expression: Expression) -> Iterator[Expression]:
    """Yield the expression and all expressions below it."""
    yield expression
    for part in below(expression):
        yield from parts(part)


def without_conditions(expression: Expression) -> Expression:
    """Return the expression without anchors and lookaround constraints.

    It describes the text that a back reference may match, as far as an automaton can decide this.
    """
    match expression:
        case Sequence(items):
            return Sequence(tuple(map(without_conditions, items)))
        case Choice(branches):
            return Choice(tuple(map(without_conditions, branches)))
        case Repeat(item, least, most):
            return Repeat(without_conditions(item), least, most)
        case Anchor() | Look():
            return EMPTY
    return expression
