"""The syntax tree of an expression: PostgreSQL's raw parse nodes (``parsenodes.h``), before names
are looked up. Nodes of the typed tree have PostgreSQL's names; here a name is what is written.

As in ``gram.y``, some constructs are read as others: TRIM as ``btrim``, ``a LIKE b`` as ``a ~~ b``.
BETWEEN stays a node here, and is translated by the analysis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Node:
    """A node, with the index of its first character in the text."""

    position: int


@dataclass(frozen=True, slots=True)
class ColumnRef(Node):
    """``a``, ``t.a``, ``s.t.a``; the last part is None for ``*``."""

    parts: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class AConst(Node):
    """``A_Const``, a constant: integer, float, string, bits (``b101``), boolean, null."""

    kind: Literal["integer", "float", "string", "bits", "boolean", "null"]
    value: str


@dataclass(frozen=True, slots=True)
class ParamRef(Node):
    """``$1``."""

    text: str


@dataclass(frozen=True, slots=True)
class TypeName(Node):
    """A type name as written, with its type modifiers; ``array`` says that brackets follow."""

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
    """Fields and subscripts: ``(a).b``, ``(a)[1]``. None is ``*``, a tuple has one or two bounds,
    or None.
    """

    argument: Node
    parts: tuple[str | tuple[Node | None, ...] | None, ...]


@dataclass(frozen=True, slots=True)
class FunctionCall(Node):
    """A function call. ``argument_names`` has None for positional arguments, which come first.
    ``star`` is ``f(*)``; ``decorated`` is DISTINCT, ORDER BY, FILTER or WITHIN GROUP, which only
    aggregates accept; ``over`` a window. ``special``: SQL syntax, as ``EXTRACT (x FROM y)``.
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
class AExpr(Node):
    """``A_Expr``, an operator; the left operand is None for a prefix operator."""

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
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class BooleanExpression(Node):
    """AND, OR or NOT with its operands."""

    kind: Literal["and", "or", "not"]
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class IsNull(Node):
    """``a IS [NOT] NULL``."""

    argument: Node
    is_null: bool


@dataclass(frozen=True, slots=True)
class IsTruth(Node):
    """``a IS [NOT] TRUE``. The value is None for UNKNOWN."""

    argument: Node
    value: bool | None
    negated: bool


@dataclass(frozen=True, slots=True)
class Case(Node):
    operand: Node | None
    whens: tuple[tuple[Node, Node], ...]
    default: Node | None


@dataclass(frozen=True, slots=True)
class CasePlaceholder(Node):
    """The operand of CASE, in a condition that the analysis wrote as ``operand = value``."""


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
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class MinMax(Node):
    """GREATEST or LEAST."""

    greatest: bool
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class SessionValue(Node):
    """``SQLValueFunction``: CURRENT_DATE, CURRENT_USER and others."""

    name: str


@dataclass(frozen=True, slots=True)
class NotSimple(Node):
    """What no row filter may contain, by PostgreSQL's name: sub-selects, SQL/JSON, XML."""

    what: str
    arguments: tuple[Node, ...] = ()
