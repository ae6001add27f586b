"""Defines the syntax tree of an expression: PostgreSQL's raw parse nodes (``parsenodes.h``), before
names are looked up.

``gram.y`` translates some constructs into others, for instance TRIM into ``btrim`` and ``a LIKE b``
into ``a ~~ b``. The parser makes the same translations. BETWEEN stays a node here, and is
translated by the analysis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the syntax tree.

    Attributes:
        position: the index of the first character of the node in the text.
    """

    position: int


@dataclass(frozen=True, slots=True)
class ColumnRef(Node):
    """A column reference: ``a``, ``t.a``, ``s.t.a``. The last part is None for ``*``."""

    parts: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Constant(Node):
    """A constant (``A_Const``): integer, float, string, bits (``b101``), boolean (``true``),
    null.
    """

    kind: Literal["integer", "float", "string", "bits", "boolean", "null"]
    value: str


@dataclass(frozen=True, slots=True)
class ParamRef(Node):
    """A parameter: ``$1``."""

    text: str


@dataclass(frozen=True, slots=True)
class TypeName(Node):
    """A type name as it is written.

    Attributes:
        names: the name of the type, optionally with its schema.
        modifiers: the type modifiers in parentheses.
        array: whether brackets follow the name.
    """

    names: tuple[str, ...]
    modifiers: tuple[Node, ...] = ()
    array: bool = False


@dataclass(frozen=True, slots=True)
class TypeCast(Node):
    """A cast: ``CAST (a AS t)``, ``a::t``, ``t 'a'``."""

    argument: Node
    type: TypeName


@dataclass(frozen=True, slots=True)
class CollateClause(Node):
    """A COLLATE clause: ``a COLLATE c``."""

    argument: Node
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Indirection(Node):
    """Field selections and subscripts: ``(a).b``, ``(a)[1]``.

    A string is a field, and None is ``*``. A tuple is a subscript with one or two bounds; a bound
    that is not written is None.
    """

    argument: Node
    parts: tuple[str | tuple[Node | None, ...] | None, ...]


@dataclass(frozen=True, slots=True)
class FunctionCall(Node):
    """A function call: ``f(…)``.

    Attributes:
        names: the name of the function, optionally with its schema.
        arguments: the arguments; positional arguments come first.
        argument_names: the name of each argument; None for a positional argument.
        star: whether the call is ``f(*)``.
        variadic: whether the last argument is marked VARIADIC.
        decorated: DISTINCT, ORDER BY, FILTER or WITHIN GROUP, which only aggregates accept.
        over: whether the function is called as a window function.
        special: whether the call is written in SQL syntax, such as ``EXTRACT (x FROM y)``. Such a
            call is also printed in SQL syntax.
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
    """An operator with its operands (``A_Expr``). The left operand is None for a prefix
    operator.
    """

    names: tuple[str, ...]
    left: Node | None
    right: Node


@dataclass(frozen=True, slots=True)
class AnyAll(Node):
    """A comparison with the elements of an array: ``a = ANY (b)``, ``a = ALL (b)``."""

    names: tuple[str, ...]
    left: Node
    right: Node
    use_or: bool


@dataclass(frozen=True, slots=True)
class InList(Node):
    """A comparison with a list: ``a IN (…)``, ``a NOT IN (…)``."""

    left: Node
    values: tuple[Node, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class Between(Node):
    """A range test: ``a [NOT] BETWEEN [SYMMETRIC] b AND c``."""

    argument: Node
    low: Node
    high: Node
    negated: bool
    symmetric: bool


@dataclass(frozen=True, slots=True)
class DistinctFrom(Node):
    """A comparison that treats NULL as a value: ``a IS [NOT] DISTINCT FROM b``."""

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
    """AND, OR or NOT with its operands."""

    kind: Literal["and", "or", "not"]
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class NullTest(Node):
    """A test for NULL: ``a IS [NOT] NULL``."""

    argument: Node
    is_null: bool


@dataclass(frozen=True, slots=True)
class BooleanTest(Node):
    """A test of a boolean: ``a IS [NOT] TRUE``. The value is None for UNKNOWN."""

    argument: Node
    value: bool | None
    negated: bool


@dataclass(frozen=True, slots=True)
class Case(Node):
    """A CASE expression."""

    operand: Node | None
    whens: tuple[tuple[Node, Node], ...]
    default: Node | None


@dataclass(frozen=True, slots=True)
class CasePlaceholder(Node):
    """The operand of the enclosing CASE, in a condition that the analysis has written out as
    ``operand = value``.
    """


@dataclass(frozen=True, slots=True)
class ArrayLiteral(Node):
    """An array constructor: ``ARRAY[…]``."""

    elements: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class RowLiteral(Node):
    """A row constructor: ``ROW (…)`` or ``(a, b)``."""

    fields: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Coalesce(Node):
    """A COALESCE expression."""

    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class MinMax(Node):
    """A GREATEST or LEAST expression."""

    greatest: bool
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class SessionValue(Node):
    """A value of the session (``SQLValueFunction``): CURRENT_DATE, CURRENT_USER and others."""

    name: str


@dataclass(frozen=True, slots=True)
class NotSimple(Node):
    """An expression that can be parsed but that no row filter may contain: sub-selects, SQL/JSON,
    XML.

    Attributes:
        what: PostgreSQL's name for the construct.
    """

    what: str
    arguments: tuple[Node, ...] = ()
