"""The typed tree of an expression: PostgreSQL's nodes (``primnodes.h``) that a row filter may
contain (rule B26), under PostgreSQL's names.

Every node has a type, and every implicit conversion is a node. A function is identified by its
signature in ``pg_proc``, such as ``int4gt(int4,int4)``, an operator by its function.

*Rejected:* sqlglot's tree. Its nodes have no types, and the meaning of ``a = b`` depends on types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, Self

BOOL = 16

Form = Literal["call", "cast", "implicit", "sql"]
"""``CoercionForm``: ``f(a)``, ``a::t``, implicit, or SQL syntax: ``EXTRACT (x FROM y)``."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A node of the typed tree, with the OIDs of type and collation of its value (0 for none)."""

    type_oid: int
    collation: int

    @property
    def children(self) -> tuple[Expression, ...]:
        """The child nodes, in the order in which they are evaluated."""
        return tuple(child for one in fields(self) for child in _nodes(getattr(self, one.name)))

    def mapped(self, change: Callable[[Expression], Expression]) -> Self:
        """The node with another node in place of each child."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return replace(self, **{name: _mapped(value, change) for name, value in values.items() if any(_nodes(value))})


def _nodes(value: Any) -> Iterator[Expression]:
    if isinstance(value, Expression):
        yield value
    elif isinstance(value, tuple):
        for one in value:
            yield from _nodes(one)


def _mapped(value: Any, change: Callable[[Expression], Expression]) -> Any:
    return tuple(_mapped(one, change) for one in value) if isinstance(value, tuple) else change(value)


@dataclass(frozen=True, slots=True)
class Var(Expression):
    """A column; ``type_modifier`` is ``atttypmod``."""

    name: str
    type_modifier: int = -1


@dataclass(frozen=True, slots=True)
class Const(Expression):
    """The text for the input function of the type; None is NULL."""

    text: str | None
    type_modifier: int = -1


@dataclass(frozen=True, slots=True)
class ComputedConst(Expression):
    """A computed constant, in the Python form of its type; None is NULL."""

    value: Any
    type_modifier: int = -1


@dataclass(frozen=True, slots=True)
class Call(Expression):
    """A call of a function or an operator (``FuncExpr``, ``OpExpr``), or a cast that calls a
    function.

    ``arguments`` are converted to the types that the function takes; a VARIADIC array is one.
    ``operator`` has its schema outside ``pg_catalog``; None for a function. ``input_collation`` is
    an OID, 0 for none. ``form``, ``variadic`` and ``default_count``, the number of last arguments
    that are defaults and were not written, are used only for printing.
    """

    function: str
    arguments: tuple[Expression, ...]
    operator: str | None = None
    input_collation: int = 0
    form: Form = "call"
    variadic: bool = False
    default_count: int = 0


@dataclass(frozen=True, slots=True)
class DistinctExpr(Call):
    """IS DISTINCT FROM; ``function`` is that of ``=``. IS NOT DISTINCT FROM is under a NOT."""


@dataclass(frozen=True, slots=True)
class NullIfExpr(Call):
    """``function`` is that of the type's ``=``."""


@dataclass(frozen=True, slots=True)
class ScalarArrayOpExpr(Call):
    """ANY (``use_or``) or ALL. IN is ``= ANY``, NOT IN is ``<> ALL``."""

    use_or: bool = True


@dataclass(frozen=True, slots=True)
class RowCompareExpr(Expression):
    """A comparison of rows by ``<``, ``<=``, ``>`` or ``>=``. For each column: the operator's
    function, which is called for the first column that differs, that of its ``=``, and the
    collation.
    """

    kind: Literal["<", "<=", ">", ">="]
    functions: tuple[str, ...]
    equals: tuple[str, ...]
    left: tuple[Expression, ...]
    right: tuple[Expression, ...]
    input_collations: tuple[int, ...]

    @property
    def children(self) -> tuple[Expression, ...]:
        return tuple(side for pair in zip(self.left, self.right, strict=True) for side in pair)


@dataclass(frozen=True, slots=True)
class BoolExpr(Expression):
    """AND, OR or NOT."""

    kind: Literal["and", "or", "not"]
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class RelabelType(Expression):
    """The same value with another type."""

    argument: Expression
    type_modifier: int = -1
    form: Form = "implicit"


@dataclass(frozen=True, slots=True)
class CollateExpr(Expression):
    """A COLLATE clause."""

    argument: Expression


@dataclass(frozen=True, slots=True)
class CaseExpr(Expression):
    """``CASE x WHEN y`` has the condition ``x = y`` and the operand x, which is evaluated once and
    is :class:`CaseTestExpr` in conditions. ``default`` is a NULL constant without ELSE.
    """

    operand: Expression | None
    whens: tuple[tuple[Expression, Expression], ...]
    default: Expression


@dataclass(frozen=True, slots=True)
class CaseTestExpr(Expression):
    """The operand of the nearest enclosing CASE that has one."""


@dataclass(frozen=True, slots=True)
class ArrayExpr(Expression):
    """``ARRAY[…]``; ``nested`` says that the elements are arrays."""

    elements: tuple[Expression, ...]
    nested: bool = False


@dataclass(frozen=True, slots=True)
class RowExpr(Expression):
    fields: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class CoalesceExpr(Expression):
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class MinMaxExpr(Expression):
    """GREATEST or LEAST. ``less`` is the function of the type's ``<``; empty if there is none,
    which the server reports only when it evaluates the expression.
    """

    greatest: bool
    arguments: tuple[Expression, ...]
    less: str
    input_collation: int = 0


@dataclass(frozen=True, slots=True)
class NullTest(Expression):
    """IS NULL or IS NOT NULL. Of a row constructor: whether all fields are NULL, or none is."""

    argument: Expression
    is_null: bool


@dataclass(frozen=True, slots=True)
class BooleanTest(Expression):
    """IS [NOT] TRUE, FALSE or UNKNOWN (``value`` None)."""

    argument: Expression
    value: bool | None
    negated: bool


@dataclass(frozen=True, slots=True)
class Refused(Expression):
    """A node that a publication may not contain (rule B27), by PostgreSQL's name, such as
    ``SubLink``. :func:`~subscriber.postgres.expressions.check_filter.validate` refuses it after the
    analysis.
    """

    KINDS: ClassVar[tuple[str, ...]] = ("SubLink", "CoerceViaIO", "ArrayCoerceExpr", "SubscriptingRef", "FieldSelect")

    what: str
    arguments: tuple[Expression, ...] = ()
    function: str | None = None
