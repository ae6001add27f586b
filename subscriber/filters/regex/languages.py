"""Regular expressions as the languages that they are: what an automaton is made of. Nothing here
knows of captures or preferences.
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
    """One after the other; without items the empty string."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Any one of the branches."""

    branches: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """``least`` to ``most`` times; None is any number."""

    item: Expression
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Anchor:
    """A place between characters: nothing is consumed.

    The first four are the begin and end of the string, and of lines as well; the others have to do
    with words.
    """

    kind: Literal["begin", "end", "line begin", "line end", "word begin", "word end", "boundary", "no boundary"]


@dataclass(frozen=True, slots=True)
class Look:
    """Whether ``item`` is ahead of a place, or behind it, or is not."""

    item: Expression
    ahead: bool
    negative: bool


Expression: TypeAlias = Character | Sequence | Choice | Repeat | Anchor | Look

EMPTY = Sequence(())


def repeated(item: Expression, least: int, most: int | None) -> Expression:
    """The item, so many times."""
    return item if (least, most) == (1, 1) else Repeat(item, least, most)


def sequence(*items: Expression) -> Expression:
    """The items one after the other."""
    return items[0] if len(items) == 1 else Sequence(items)


def below(expression: Expression) -> tuple[Expression, ...]:
    """The expressions that it consists of."""
    match expression:
        case Sequence(items):
            return items
        case Choice(branches):
            return branches
        case Repeat(item) | Look(item):
            return (item,)
    return ()


def parts(expression: Expression) -> Iterator[Expression]:
    """The expression and all below it."""
    yield expression
    for part in below(expression):
        yield from parts(part)


def without_conditions(expression: Expression) -> Expression:
    """The expression without anchors and looks: what a back reference may match, as far as an
    automaton can tell.
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
