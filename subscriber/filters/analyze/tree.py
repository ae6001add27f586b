"""Defines the typed tree of an expression: PostgreSQL's nodes (``primnodes.h``) that a row filter
may contain (rule B26).

Every node has a type, and every implicit conversion is a node. A function is identified by its
signature, such as ``int4gt(int4,int4)``. The signature consists of the name and the argument types
in ``pg_proc``, which are unique there. An operator is identified by its function.

*Rejected:* sqlglot's tree. Its nodes have no types, and the meaning of ``a = b`` depends on types.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

BOOL = 16
"""The type of every filter: boolean."""

Form = Literal["call", "cast", "implicit", "sql"]
"""How a call was written (``CoercionForm``): as ``f(a)``, as ``a::t``, as an implicit conversion,
or in SQL syntax such as ``EXTRACT (x FROM y)``.
"""


@dataclass(frozen=True, slots=True)
class Expression:
    """A node of the typed tree.

    Attributes:
        type_oid: the OID of the value's type.
        collation: the OID of the value's collation; 0 if the type has no collation.
    """

    type_oid: int
    collation: int

    @property
    def children(self) -> tuple[Expression, ...]:
        """The child nodes, in the order in which they are evaluated."""
        return ()


@dataclass(frozen=True, slots=True)
class Column(Expression):
    """A column of the table (``Var``).

    Attributes:
        name: the name of the column.
        type_modifier: the type modifier, as in ``atttypmod``.
    """

    name: str
    type_modifier: int = -1


@dataclass(frozen=True, slots=True)
class Constant(Expression):
    """A constant (``Const``).

    Attributes:
        text: the text for the input function of the type; None is NULL.
        type_modifier: the type modifier for the input function.
    """

    text: str | None
    type_modifier: int = -1


@dataclass(frozen=True, slots=True)
class Known(Expression):
    """A constant whose value is known.

    :mod:`..evaluate.simplify` makes this node of a constant, and of an expression of constants.

    Attributes:
        value: the value, in the Python form of its type; None is NULL.
        type_modifier: the type modifier of the constant.
    """

    value: Any
    type_modifier: int = -1


@dataclass(frozen=True, slots=True)
class Call(Expression):
    """A call of a function or an operator (``FuncExpr``, ``OpExpr``), or a cast that calls a
    function.

    Attributes:
        function: the signature of the function.
        arguments: the arguments, already converted to the types that the function takes. The
            arguments in a VARIADIC array are one array.
        operator: the operator, such as ``>``; None for a function. An operator outside
            ``pg_catalog`` includes its schema.
        input_collation: the OID of the collation that the function uses; 0 for none.
        form: how the call was written. It is used only for printing.
        variadic: whether the last argument is the array of a VARIADIC call. It is used only for
            printing.
        default_count: the number of last arguments that were not written and are defaults of the
            function. It is used only for printing.
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
    """IS DISTINCT FROM (``DistinctExpr``). ``function`` is the function of the type's ``=``.

    IS NOT DISTINCT FROM is a :class:`Boolean` NOT around this node.
    """


@dataclass(frozen=True, slots=True)
class NullIf(Call):
    """NULLIF (``NullIfExpr``). ``function`` is the function of the type's ``=``."""


@dataclass(frozen=True, slots=True)
class ArrayComparison(Call):
    """A comparison with the elements of an array (``ScalarArrayOpExpr``).

    This is ``value operator ANY (array)`` or ``value operator ALL (array)``. IN is ``= ANY``, and
    NOT IN is ``<> ALL``.

    Attributes:
        use_or: True for ANY, False for ALL.
    """

    use_or: bool = True


@dataclass(frozen=True, slots=True)
class RowComparison(Expression):
    """A comparison of rows by ``<``, ``<=``, ``>`` or ``>=`` (``RowCompareExpr``).

    ``=`` and ``<>`` of rows are single comparisons that AND and OR combine.

    Attributes:
        kind: the operator.
        functions: for each column, the function of the operator. It is called for the first column
            that differs.
        equals: for each column, the function of its ``=``.
        left: the columns of the first row.
        right: the columns of the second row.
        input_collations: for each column, the OID of the collation that its functions use.
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
    """AND, OR or NOT (``BoolExpr``)."""

    kind: Literal["and", "or", "not"]
    arguments: tuple[Expression, ...]

    @property
    def children(self) -> tuple[Expression, ...]:
        """See :attr:`Expression.children`."""
        return self.arguments


@dataclass(frozen=True, slots=True)
class Relabel(Expression):
    """The same value with another type (``RelabelType``)."""

    argument: Expression
    type_modifier: int = -1
    form: Form = "implicit"

    @property
    def children(self) -> tuple[Expression, ...]:
        """See :attr:`Expression.children`."""
        return (self.argument,)


@dataclass(frozen=True, slots=True)
class Collate(Expression):
    """A COLLATE clause (``CollateExpr``). Its collation is :attr:`collation`."""

    argument: Expression

    @property
    def children(self) -> tuple[Expression, ...]:
        """See :attr:`Expression.children`."""
        return (self.argument,)


@dataclass(frozen=True, slots=True)
class Case(Expression):
    """A CASE expression (``CaseExpr``). ``CASE x WHEN y`` has the condition ``x = y``, and x is
    evaluated once.

    Attributes:
        operand: ``x``, or None. Conditions refer to it by :class:`CaseOperand`.
        whens: pairs of a condition and a result.
        default: the result of ELSE; a NULL constant if there is no ELSE.
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
    """The value of the operand of the nearest enclosing CASE that has an operand
    (``CaseTestExpr``).
    """


@dataclass(frozen=True, slots=True)
class ArrayConstructor(Expression):
    """An array constructor (``ArrayExpr``): ``ARRAY[…]``.

    Attributes:
        elements: values of the element type, or arrays.
        nested: whether the elements are arrays.
    """

    elements: tuple[Expression, ...]
    nested: bool = False

    @property
    def children(self) -> tuple[Expression, ...]:
        """See :attr:`Expression.children`."""
        return self.elements


@dataclass(frozen=True, slots=True)
class RowConstructor(Expression):
    """A row constructor (``RowExpr``)."""

    fields: tuple[Expression, ...]

    @property
    def children(self) -> tuple[Expression, ...]:
        """See :attr:`Expression.children`."""
        return self.fields


@dataclass(frozen=True, slots=True)
class Coalesce(Expression):
    """A COALESCE expression (``CoalesceExpr``)."""

    arguments: tuple[Expression, ...]

    @property
    def children(self) -> tuple[Expression, ...]:
        """See :attr:`Expression.children`."""
        return self.arguments


@dataclass(frozen=True, slots=True)
class MinMax(Expression):
    """GREATEST or LEAST (``MinMaxExpr``).

    Attributes:
        greatest: True for GREATEST, False for LEAST.
        arguments: the arguments, all of the type of the node.
        less: the function of the type's ``<``. It is empty if the type has none; the server reports
            this only when it evaluates the expression.
        input_collation: the OID of the collation that the comparison uses.
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
    """IS NULL or IS NOT NULL (``NullTest``).

    A test of a row constructor tests whether all fields are NULL, or whether no field is NULL.
    """

    argument: Expression
    is_null: bool

    @property
    def children(self) -> tuple[Expression, ...]:
        """See :attr:`Expression.children`."""
        return (self.argument,)


@dataclass(frozen=True, slots=True)
class BooleanTest(Expression):
    """IS [NOT] TRUE, FALSE or UNKNOWN (``BooleanTest``).

    Attributes:
        argument: the value that is tested.
        value: True, False, or None for UNKNOWN.
        negated: whether the test has NOT.
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
    """A node that a publication may not contain (rule B27).

    It has a type, so that the analysis can continue. :mod:`.validate` refuses it afterwards.

    Attributes:
        what: PostgreSQL's name for the node, such as ``SubLink`` or ``CoerceViaIO``.
        arguments: the child nodes.
        function: the signature of the function that the node calls, if there is one.
    """

    KINDS: ClassVar[tuple[str, ...]] = ("SubLink", "CoerceViaIO", "ArrayCoerceExpr", "SubscriptingRef", "FieldSelect")

    what: str
    arguments: tuple[Expression, ...] = ()
    function: str | None = None

    @property
    def children(self) -> tuple[Expression, ...]:
        """See :attr:`Expression.children`."""
        return self.arguments
