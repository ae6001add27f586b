"""The typed tree of an expression: PostgreSQL's own nodes (``primnodes.h``), as far as a row filter
may have them (rule B26).

Every node knows its type, and every conversion that PostgreSQL makes without being asked is a node.
A function is named by its signature, ``int4gt(int4,int4)``: name and argument types as ``pg_proc``
has them, which is its key there. An operator is its function.

*Rejected:* sqlglot's own tree for all that follows. It has no types, and what ``a = b`` means
depends on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

BOOL = 16
"""The type of every filter."""

Form = Literal["call", "cast", "implicit", "sql"]
"""``CoercionForm``: how a call was written: ``f(a)``, ``a::t``, not at all, or in words of SQL such
as ``EXTRACT (x FROM y)``.
"""


@dataclass(frozen=True, slots=True)
class Expression:
    """What all nodes have.

    Attributes:
        type_oid: of the value.
        collation: of the value, an OID; 0 where the type has none.
    """

    type_oid: int
    collation: int

    @property
    def children(self) -> tuple[Expression, ...]:
        """The nodes below, in the order in which they are evaluated."""
        return ()


@dataclass(frozen=True, slots=True)
class Column(Expression):
    """``Var``: a column of the table.

    Attributes:
        name: the column's.
        type_modifier: as ``atttypmod``.
    """

    name: str
    type_modifier: int = -1


@dataclass(frozen=True, slots=True)
class Constant(Expression):
    """``Const``.

    Attributes:
        text: what the type's input function is given; None is NULL.
        type_modifier: what it is given with it.
    """

    text: str | None
    type_modifier: int = -1


@dataclass(frozen=True, slots=True)
class Known(Expression):
    """A constant as it is computed with: what :mod:`..evaluation.simplify` makes of one, and of
    what consists of constants.

    Attributes:
        value: in the form of its type; None is NULL.
        type_modifier: of the constant.
    """

    value: Any
    type_modifier: int = -1


@dataclass(frozen=True, slots=True)
class Call(Expression):
    """``OpExpr`` and ``FuncExpr``: a function of values; also a cast that is one.

    Attributes:
        function: its signature.
        arguments: already of the types that it takes; those of a VARIADIC call are one array.
        operator: how it was written, such as ``>``, or None; of one outside ``pg_catalog``, with
            its schema.
        input_collation: what a comparison or a function of text goes by, an OID; 0 for none.
        form: how it was written, for printing only.
        variadic: the last argument is the array of a VARIADIC call, for printing only.
        default_count: how many of the last arguments were not written but are the function's
            defaults, for printing only.
    """

    function: str
    arguments: tuple[Expression, ...]
    operator: str | None = None
    input_collation: int = 0
    form: Form = "call"
    variadic: bool = False
    default_count: int = 0

    @property
    def children(self) -> tuple[Expression, ...]:
        """See :attr:`Expression.children`."""
        return self.arguments


@dataclass(frozen=True, slots=True)
class Distinct(Call):
    """``DistinctExpr``: IS DISTINCT FROM; ``function`` is that of the type's ``=``. IS NOT DISTINCT
    FROM is a Not around it.
    """


@dataclass(frozen=True, slots=True)
class NullIf(Call):
    """``NullIfExpr``; ``function`` is that of ``=``."""


@dataclass(frozen=True, slots=True)
class ArrayComparison(Call):
    """``ScalarArrayOpExpr``: ``value operator ANY (array)`` or ``ALL``; IN is ``= ANY``, NOT IN is
    ``<> ALL``.

    Attributes:
        use_or: ANY.
    """

    use_or: bool = True


@dataclass(frozen=True, slots=True)
class RowComparison(Expression):
    """``RowCompareExpr``: ``<``, ``<=``, ``>``, ``>=`` of rows (``=`` and ``<>`` are written out
    with AND and OR).

    Attributes:
        kind: the operator.
        functions: for each column the function of the operator of that kind, used at the first
            column that differs.
        equals: for each column the function of its ``=``.
        left: the columns of the first row.
        right: those of the second.
        input_collations: for each column.
    """

    kind: Literal["<", "<=", ">", ">="]
    functions: tuple[str, ...]
    equals: tuple[str, ...]
    left: tuple[Expression, ...]
    right: tuple[Expression, ...]
    input_collations: tuple[int, ...]

    @property
    def children(self) -> tuple[Expression, ...]:
        """See :attr:`Expression.children`."""
        return tuple(side for pair in zip(self.left, self.right, strict=True) for side in pair)


@dataclass(frozen=True, slots=True)
class Boolean(Expression):
    """``BoolExpr``."""

    kind: Literal["and", "or", "not"]
    arguments: tuple[Expression, ...]

    @property
    def children(self) -> tuple[Expression, ...]:
        """See :attr:`Expression.children`."""
        return self.arguments


@dataclass(frozen=True, slots=True)
class Relabel(Expression):
    """``RelabelType``: the same value taken for another type."""

    argument: Expression
    type_modifier: int = -1
    form: Form = "implicit"

    @property
    def children(self) -> tuple[Expression, ...]:
        """See :attr:`Expression.children`."""
        return (self.argument,)


@dataclass(frozen=True, slots=True)
class Collate(Expression):
    """``CollateExpr``; its collation is :attr:`collation`."""

    argument: Expression

    @property
    def children(self) -> tuple[Expression, ...]:
        """See :attr:`Expression.children`."""
        return (self.argument,)


@dataclass(frozen=True, slots=True)
class Case(Expression):
    """``CaseExpr``; ``CASE x WHEN y`` is written out as ``x = y``, and x is evaluated once.

    Attributes:
        operand: ``x``, or None. Conditions refer to it by :class:`CaseOperand`.
        whens: conditions and results.
        default: NULL where there is no ELSE.
    """

    operand: Expression | None
    whens: tuple[tuple[Expression, Expression], ...]
    default: Expression

    @property
    def children(self) -> tuple[Expression, ...]:
        """See :attr:`Expression.children`."""
        first = () if self.operand is None else (self.operand,)
        return (*first, *(part for when in self.whens for part in when), self.default)


@dataclass(frozen=True, slots=True)
class CaseOperand(Expression):
    """``CaseTestExpr``: the value of the nearest Case around it that has an operand."""


@dataclass(frozen=True, slots=True)
class ArrayConstructor(Expression):
    """``ArrayExpr``: ``ARRAY[…]``.

    Attributes:
        elements: of the element type, or arrays themselves.
        nested: they are arrays.
    """

    elements: tuple[Expression, ...]
    nested: bool = False

    @property
    def children(self) -> tuple[Expression, ...]:
        """See :attr:`Expression.children`."""
        return self.elements


@dataclass(frozen=True, slots=True)
class RowConstructor(Expression):
    """``RowExpr``."""

    fields: tuple[Expression, ...]

    @property
    def children(self) -> tuple[Expression, ...]:
        """See :attr:`Expression.children`."""
        return self.fields


@dataclass(frozen=True, slots=True)
class Coalesce(Expression):
    """``CoalesceExpr``."""

    arguments: tuple[Expression, ...]

    @property
    def children(self) -> tuple[Expression, ...]:
        """See :attr:`Expression.children`."""
        return self.arguments


@dataclass(frozen=True, slots=True)
class MinMax(Expression):
    """``MinMaxExpr``: GREATEST and LEAST.

    Attributes:
        greatest: GREATEST.
        arguments: all of the type.
        less: the function of the type's ``<``; "" where it has none, which the server says when it
            evaluates.
        input_collation: what it compares by.
    """

    greatest: bool
    arguments: tuple[Expression, ...]
    less: str
    input_collation: int = 0

    @property
    def children(self) -> tuple[Expression, ...]:
        """See :attr:`Expression.children`."""
        return self.arguments


@dataclass(frozen=True, slots=True)
class NullTest(Expression):
    """``NullTest``: IS NULL, or IS NOT NULL; of a row constructor, whether all fields are (not)
    NULL.
    """

    argument: Expression
    is_null: bool

    @property
    def children(self) -> tuple[Expression, ...]:
        """See :attr:`Expression.children`."""
        return (self.argument,)


@dataclass(frozen=True, slots=True)
class BooleanTest(Expression):
    """``BooleanTest``: IS [NOT] TRUE, FALSE, UNKNOWN.

    Attributes:
        argument: what is tested.
        value: None is UNKNOWN.
        negated: NOT.
    """

    argument: Expression
    value: bool | None
    negated: bool

    @property
    def children(self) -> tuple[Expression, ...]:
        """See :attr:`Expression.children`."""
        return (self.argument,)


@dataclass(frozen=True, slots=True)
class Refused(Expression):
    """Any node that a publication may not have (rule B27): it has a type, so that the analysis goes
    on, and is refused afterwards.

    Attributes:
        what: the node, in PostgreSQL's words, such as ``SubLink`` or ``CoerceViaIO``.
        arguments: what is below it.
        function: the signature of the function behind it, where there is one.
    """

    KINDS: ClassVar[tuple[str, ...]] = ("SubLink", "CoerceViaIO", "ArrayCoerceExpr", "SubscriptingRef", "FieldSelect")

    what: str
    arguments: tuple[Expression, ...] = ()
    function: str | None = None

    @property
    def children(self) -> tuple[Expression, ...]:
        """See :attr:`Expression.children`."""
        return self.arguments
