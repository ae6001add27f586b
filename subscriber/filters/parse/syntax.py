"""The syntax tree of an expression: PostgreSQL's raw parse nodes (``parsenodes.h``), before anybody
knows what a name means.

Where ``gram.y`` writes a construct as another one (BETWEEN later on, TRIM as ``btrim``,
``a LIKE b`` as ``a ~~ b``), it is done here, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Node:
    """What all nodes have.

    Attributes:
        position: index of its first character in the text.
    """

    position: int


@dataclass(frozen=True, slots=True)
class ColumnRef(Node):
    """``a``, ``t.a``, ``s.t.a``; the last part is None for ``*``."""

    parts: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Constant(Node):
    """``A_Const``: integer, float, string, bits (``b101``), boolean (``true``), null."""

    kind: Literal["integer", "float", "string", "bits", "boolean", "null"]
    value: str


@dataclass(frozen=True, slots=True)
class ParamRef(Node):
    """``$1``."""

    text: str


@dataclass(frozen=True, slots=True)
class TypeName(Node):
    """A type as it is written.

    Attributes:
        names: its name, with a schema or not.
        modifiers: what stands in parentheses.
        array: it has brackets.
    """

    names: tuple[str, ...]
    modifiers: tuple[Node, ...] = ()
    array: bool = False


@dataclass(frozen=True, slots=True)
class TypeCast(Node):
    """``CAST (a AS t)``, ``a::t``, ``t 'a'``."""

    argument: Node
    type: TypeName


@dataclass(frozen=True, slots=True)
class CollateClause(Node):
    """``a COLLATE c``."""

    argument: Node
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Indirection(Node):
    """``(a).b``, ``(a)[1]``: a string is a field, None is ``*``, a tuple a subscript (of one or two
    bounds, a missing one is None).
    """

    argument: Node
    parts: tuple[str | tuple[Node | None, ...] | None, ...]


@dataclass(frozen=True, slots=True)
class FunctionCall(Node):
    """``f(…)``.

    Attributes:
        names: the function's.
        arguments: positional ones first.
        argument_names: of each, None for a positional one.
        star: ``f(*)``.
        variadic: the last argument is marked so.
        decorated: DISTINCT, ORDER BY, FILTER or WITHIN GROUP: only aggregates have that.
        over: it is called as a window function.
        special: it was written in words of SQL, such as ``EXTRACT (x FROM y)``, and is printed so.
    """

    names: tuple[str, ...]
    arguments: tuple[Node, ...] = ()
    argument_names: tuple[str | None, ...] = ()
    star: bool = False
    variadic: bool = False
    decorated: str | None = None
    over: bool = False
    special: bool = False


@dataclass(frozen=True, slots=True)
class Operation(Node):
    """``A_Expr`` of an operator; left is None for a prefix operator."""

    names: tuple[str, ...]
    left: Node | None
    right: Node


@dataclass(frozen=True, slots=True)
class AnyAll(Node):
    """``a = ANY (b)``, ``a = ALL (b)``."""

    names: tuple[str, ...]
    left: Node
    right: Node
    use_or: bool


@dataclass(frozen=True, slots=True)
class InList(Node):
    """``a IN (…)``, ``a NOT IN (…)``."""

    left: Node
    values: tuple[Node, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class Between(Node):
    """``a [NOT] BETWEEN [SYMMETRIC] b AND c``."""

    argument: Node
    low: Node
    high: Node
    negated: bool
    symmetric: bool


@dataclass(frozen=True, slots=True)
class DistinctFrom(Node):
    """``a IS [NOT] DISTINCT FROM b``."""

    left: Node
    right: Node
    negated: bool


@dataclass(frozen=True, slots=True)
class NullIf(Node):
    """``NULLIF (a, b)``."""

    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class BooleanExpression(Node):
    """AND, OR, NOT."""

    kind: Literal["and", "or", "not"]
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class NullTest(Node):
    """``a IS [NOT] NULL``."""

    argument: Node
    is_null: bool


@dataclass(frozen=True, slots=True)
class BooleanTest(Node):
    """``a IS [NOT] TRUE``; the value is None for UNKNOWN."""

    argument: Node
    value: bool | None
    negated: bool


@dataclass(frozen=True, slots=True)
class Case(Node):
    """CASE."""

    operand: Node | None
    whens: tuple[tuple[Node, Node], ...]
    default: Node | None


@dataclass(frozen=True, slots=True)
class CasePlaceholder(Node):
    """The operand of the CASE around it, in a condition that the analysis has written out."""


@dataclass(frozen=True, slots=True)
class ArrayLiteral(Node):
    """``ARRAY[…]``."""

    elements: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class RowLiteral(Node):
    """``ROW (…)`` or ``(a, b)``."""

    fields: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Coalesce(Node):
    """COALESCE."""

    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class MinMax(Node):
    """GREATEST, LEAST."""

    greatest: bool
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class SessionValue(Node):
    """``SQLValueFunction``: CURRENT_DATE, CURRENT_USER and the like."""

    name: str


@dataclass(frozen=True, slots=True)
class NotSimple(Node):
    """What parses, and no row filter may have: sub-selects, SQL/JSON, XML.

    Attributes:
        what: in PostgreSQL's word.
    """

    what: str
    arguments: tuple[Node, ...] = ()
