"""The tree of dissection (``struct subre``): how a match is divided into its parts.

Each node has the expression of all that is below it. A node exists only where the parts of a match
are of interest: captures, back references, and places where a preference for long meets one for
short. All else is a leaf.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntFlag
from typing import TypeAlias

from subscriber.filters.regex.languages import Expression


class Traits(IntFlag):
    """What is known of a node (``flags`` of ``struct subre``).

    A preference belongs to the node itself; MIXED, CAPTURES and REFERS hold for all nodes above,
    too.
    """

    LONGER = 1
    SHORTER = 2
    MIXED = 4
    CAPTURES = 8
    REFERS = 16


PREFERENCES = Traits.LONGER | Traits.SHORTER
MESSY = Traits.MIXED | Traits.CAPTURES | Traits.REFERS
"""What makes a node worth having."""


def inherited(traits: Traits) -> Traits:
    """What goes up from nodes with these traits together (``UP``): both preferences become a mixed
    one.
    """
    mixed = Traits.MIXED if traits & PREFERENCES == PREFERENCES else Traits(0)
    return traits & ~PREFERENCES | mixed


def combined(first: Traits, second: Traits) -> Traits:
    """The traits of one after the other (``COMBINE``): the first that has a preference decides."""
    return inherited(first | second) | (first & PREFERENCES or second & PREFERENCES)


@dataclass(slots=True, eq=False)
class Leaf:
    """No parts of interest."""

    expression: Expression
    traits: Traits
    capture: int = 0
    children: tuple[Node, ...] = ()


@dataclass(slots=True, eq=False)
class Pair:
    """Two children, one after the other."""

    expression: Expression
    traits: Traits
    children: tuple[Node, Node]
    capture: int = 0


@dataclass(slots=True, eq=False)
class Branches:
    """The first child that fits is taken."""

    expression: Expression
    traits: Traits
    children: tuple[Node, ...]
    capture: int = 0


@dataclass(slots=True, eq=False)
class Iteration:
    """The only child, ``least`` to ``most`` times."""

    expression: Expression
    traits: Traits
    children: tuple[Node]
    least: int
    most: int | None
    capture: int = 0


@dataclass(slots=True, eq=False)
class Wrapper:
    """A capture around a node that is one itself."""

    expression: Expression
    traits: Traits
    children: tuple[Node]
    capture: int


@dataclass(slots=True, eq=False)
class Reference:
    """What the capture of that number matched, ``least`` to ``most`` times."""

    expression: Expression
    traits: Traits
    number: int
    least: int = 1
    most: int | None = 1
    capture: int = 0
    children: tuple[Node, ...] = field(default=())


Node: TypeAlias = Leaf | Pair | Branches | Iteration | Wrapper | Reference
