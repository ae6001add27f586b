"""Defines the tree of dissection (``struct subre``): how a match is divided into its parts.

Each node has the expression for everything below it. A node with children exists only if the parts
of a match are needed: for captures, for back references, and where a preference for a long match
meets a preference for a short match. Everything else is a leaf.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntFlag
from typing import TypeAlias

from subscriber.filters.regex.languages import Expression


class Traits(IntFlag):
    """The properties of a node (``flags`` of ``struct subre``).

    A preference belongs only to the node itself. MIXED, CAPTURES and REFERS also apply to all nodes
    above it.
    """

    LONGER = 1
    SHORTER = 2
    MIXED = 4
    CAPTURES = 8
    REFERS = 16


PREFERENCES = Traits.LONGER | Traits.SHORTER
MESSY = Traits.MIXED | Traits.CAPTURES | Traits.REFERS
"""The traits that require a separate node."""


def inherited(traits: Traits) -> Traits:
    """Return the traits that a node inherits from children with these traits (``UP``).

    Both preferences together become MIXED.
    """
    mixed = Traits.MIXED if traits & PREFERENCES == PREFERENCES else Traits(0)
    return traits & ~PREFERENCES | mixed


def combined(first: Traits, second: Traits) -> Traits:
    """Return the traits of a sequence of two nodes (``COMBINE``). The first preference decides."""
    return inherited(first | second) | (first & PREFERENCES or second & PREFERENCES)


@dataclass(slots=True, eq=False)
class Leaf:
    """A node whose parts are not needed."""

    expression: Expression
    traits: Traits
    capture: int = 0
    children: tuple[Node, ...] = ()


@dataclass(slots=True, eq=False)
class Pair:
    """A sequence of two children."""

    expression: Expression
    traits: Traits
    children: tuple[Node, Node]
    capture: int = 0


@dataclass(slots=True, eq=False)
class Branches:
    """Alternatives. The first child that fits is taken."""

    expression: Expression
    traits: Traits
    children: tuple[Node, ...]
    capture: int = 0


@dataclass(slots=True, eq=False)
class Iteration:
    """A repetition of the only child, ``least`` to ``most`` times."""

    expression: Expression
    traits: Traits
    children: tuple[Node]
    least: int
    most: int | None
    capture: int = 0


@dataclass(slots=True, eq=False)
class Wrapper:
    """A capture whose content is also a capture."""

    expression: Expression
    traits: Traits
    children: tuple[Node]
    capture: int


@dataclass(slots=True, eq=False)
class Reference:
    """A back reference: the text that the capture with this number matched, ``least`` to ``most``
    times.
    """

    expression: Expression
    traits: Traits
    number: int
    least: int = 1
    most: int | None = 1
    capture: int = 0
    children: tuple[Node, ...] = field(default=())


Node: TypeAlias = Leaf | Pair | Branches | Iteration | Wrapper | Reference
