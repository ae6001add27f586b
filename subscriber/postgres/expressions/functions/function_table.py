"""A table of functions: signature → implementation.

A signature is ``name(type,type)`` as in ``pg_proc``, where it is unique: ``int4gt(int4,int4)``,
``array_eq(anyarray,anyarray)``. An operator stands under its function. A filter that uses a
function that is not in the table is refused.

There are two ways to write an implementation, and an import of its module adds it to the table::

    @vectorised("int4gt(int4,int4)")            whole columns: the arguments are Arrow arrays and scalars, the result is an array or a scalar,
    def greater(left, right):                   which is null where any argument is null

    @elementwise("date_part(text,interval)")    one row at a time: the arguments are Python values (see forms); a strict function
    def date_part(field, value):                is not called with None

The vectorised way is for the functions that filters use often. For the others an exact result is
more important than speed.

Some functions depend on the value of a constant argument, such as a regular expression. Their
implementation has ``specialise``; code that validates or compiles a call uses only what
:meth:`Implementation.for_constants` returns for it.

*Rejected:* evaluating filters in SQL. SQLite and DuckDB do not evaluate as PostgreSQL does, and a
PostgreSQL server is not always available.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypedDict, TypeVar, Unpack

import pyarrow.compute as pc

from subscriber.postgres.expressions.functions.collators import Collator
from subscriber.postgres.types.family import Compare, sign

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Context:
    """What a call tells a function that is added with ``context``, as its first argument."""

    argument_types: tuple[int, ...]
    result_type: int
    server_version: int = 180000


@dataclass(frozen=True, slots=True)
class Implementation:
    """The subscriber's implementation of a PostgreSQL function.

    Attributes:
        strict: the function is not called for a NULL argument; the result is NULL then.
        raises: it may raise an error for some values, so it is called only for rows that need its
            result (the second half of ``a <> 0 AND 1/a > 2``).
        context: its first argument is a :class:`Context`.
        bytewise: the result is PostgreSQL's only under the collation "C", which compares bytes and
            knows only the case of ASCII letters.
        specialise: gives the implementation for a call with these constants.
        by_order: gives the function for single values under another order of text; None if the
            collation has more to say than the order of two texts. ``by_case``: for changes of case.
    """

    signature: str
    function: Callable[..., Any]
    vectorised: bool = False
    strict: bool = True
    raises: bool = True
    context: bool = False
    bytewise: bool = False
    specialise: Specialise | None = None
    by_order: ByOrder | None = None
    by_case: ByCase | None = None

    def under(self, collator: Collator) -> Implementation:
        """The implementation under a collation that a library computes."""
        if self.by_order is not None:
            function = self.by_order(collator.compare)
        else:
            assert self.by_case is not None
            function = self.by_case(collator)
        return replace(self, function=function, vectorised=False, specialise=None)

    def for_constants(self, constants: Mapping[int, Any]) -> Implementation:
        """The implementation of a call with folded constants; it still takes all arguments."""
        return self if self.specialise is None else self.specialise(self, constants)


ByOrder = Callable[[Callable[[str, str], int]], Callable[..., Any]]
"""Takes the comparison of two texts, and gives a function over single values."""
ByCase = Callable[[Collator], Callable[..., Any]]
"""Takes the collation, and gives a function over single values."""
Specialise = Callable[[Implementation, Mapping[int, Any]], Implementation]
"""From the table's implementation and constants by position: that of this call."""


FUNCTIONS: Final[dict[str, Implementation]] = {}
"""The implementations of the modules that are imported, by signature."""


class Properties(TypedDict, total=False):
    """The attributes of :class:`Implementation` that a function may be added with."""

    vectorised: bool
    strict: bool
    raises: bool
    context: bool
    bytewise: bool
    specialise: Specialise | None
    by_order: ByOrder | None
    by_case: ByCase | None


def elementwise(*signatures: str, **properties: Unpack[Properties]) -> Callable[[_Function], _Function]:
    """Add a function over single values under these signatures. Each stands in the table once."""

    def add(function: _Function) -> _Function:
        for signature in signatures:
            if signature in FUNCTIONS:
                raise AssertionError(f"{signature} has two implementations")
            FUNCTIONS[signature] = Implementation(signature, function, **properties)
        return function

    return add


def vectorised(*signatures: str, **properties: Unpack[Properties]) -> Callable[[_Function], _Function]:
    """Add a function over columns, which raises no errors by default."""
    properties["vectorised"] = True
    properties.setdefault("raises", False)
    return elementwise(*signatures, **properties)


# --- comparison ---------------------------------------------------------------------------------

_KERNELS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "eq": pc.equal,
    "ne": pc.not_equal,
    "lt": pc.less,
    "le": pc.less_equal,
    "gt": pc.greater,
    "ge": pc.greater_equal,
}
TESTS: Final[dict[str, Callable[[int], bool]]] = {
    "eq": lambda order: order == 0,
    "ne": lambda order: order != 0,
    "lt": lambda order: order < 0,
    "le": lambda order: order <= 0,
    "gt": lambda order: order > 0,
    "ge": lambda order: order >= 0,
}
"""What the operators make of the sign of a comparison."""


def register_columns(
    pattern: str, left_of: Callable[[Any], Any] | None = None, right_of: Callable[[Any], Any] | None = None
) -> None:
    """Add the six comparison operators of a type as functions over columns: ``{}`` in ``pattern``
    is ``eq`` and so on, ``left_of`` and ``right_of`` compute what the Arrow functions compare.
    """

    def register(name: str, kernel: Callable[[Any, Any], Any]) -> None:
        @vectorised(pattern.format(name))
        def compare(left: Any, right: Any) -> Any:
            return kernel(left if left_of is None else left_of(left), right if right_of is None else right_of(right))

    for name, kernel in _KERNELS.items():
        register(name, kernel)


def register_values(pattern: str, compare: Compare, *, cmp: bool = True) -> None:
    """Add the six comparison operators of a type as functions over single values. ``cmp`` is False
    where PostgreSQL's btree support function gives other numbers than -1, 0 and 1.
    """

    def register(name: str, test: Callable[[int], bool]) -> None:
        elementwise(pattern.format(name), raises=False)(lambda left, right: test(compare(left, right)))

    for name, test in TESTS.items():
        register(name, test)
    if cmp:
        register_order(pattern.format("cmp"), compare)


def register_order(signature: str, compare: Compare) -> None:
    """Add a btree support function, which gives -1, 0 or 1."""
    elementwise(signature, raises=False)(lambda left, right: sign(compare(left, right), 0))


def register_extremes(larger: str, smaller: str, compare: Compare) -> None:
    """Add the functions behind max and min. If both arguments are equal, the second is returned."""
    elementwise(larger, raises=False)(lambda left, right: left if compare(left, right) > 0 else right)
    elementwise(smaller, raises=False)(lambda left, right: left if compare(left, right) < 0 else right)
