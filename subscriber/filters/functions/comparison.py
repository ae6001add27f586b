"""Adds all comparison operators of a type to a table of functions.

The operators get the names that PostgreSQL's types use for them (``eq``, ``ne``, ``lt`` and so on).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow.compute as pc

from subscriber.filters.functions.function_table import FunctionTable

Compare = Callable[[Any, Any], int]
"""Compares two values. The result is less than, equal to or greater than zero, as the first value
is to the second.
"""

_KERNELS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "eq": pc.equal,
    "ne": pc.not_equal,
    "lt": pc.less,
    "le": pc.less_equal,
    "gt": pc.greater,
    "ge": pc.greater_equal,
}
_TESTS: Final[dict[str, Callable[[int], bool]]] = {
    "eq": lambda order: order == 0,
    "ne": lambda order: order != 0,
    "lt": lambda order: order < 0,
    "le": lambda order: order <= 0,
    "gt": lambda order: order > 0,
    "ge": lambda order: order >= 0,
}


def sign(left: Any, right: Any) -> int:
    """Compare two values by Python's order, for types whose order in Python is that of
    PostgreSQL.
    """
    return int(left > right) - int(left < right)


def register_columns(
    functions: FunctionTable,
    pattern: str,
    left_of: Callable[[Any], Any] | None = None,
    right_of: Callable[[Any], Any] | None = None,
) -> None:
    """Add the six comparison operators of a type as functions over columns.

    Args:
        functions: the table.
        pattern: the signature, with ``{}`` in place of ``eq``, ``ne`` and so on.
        left_of: computes from the first argument's column what the Arrow functions compare; by
            default the column itself.
        right_of: the same for the second argument.
    """

    def register(name: str) -> None:
        kernel = _KERNELS[name]

        def compare(left: Any, right: Any) -> Any:
            return kernel(left if left_of is None else left_of(left), right if right_of is None else right_of(right))

        functions.vectorised(pattern.format(name))(compare)

    for name in _KERNELS:
        register(name)


def register_values(
    functions: FunctionTable, pattern: str, compare: Compare, *, raises: bool = False, cmp: bool = True
) -> None:
    """Add the six comparison operators of a type as functions over single values.

    With ``cmp``, the type's btree support function is added, too. Pass False if PostgreSQL's
    function gives other numbers than -1, 0 and 1.
    """

    def register(name: str, test: Callable[[int], bool]) -> None:
        functions.elementwise(pattern.format(name), raises=raises)(lambda left, right: test(compare(left, right)))

    for name, test in _TESTS.items():
        register(name, test)
    if cmp:
        register_order(functions, pattern.format("cmp"), compare, raises=raises)


def register_order(functions: FunctionTable, signature: str, compare: Compare, *, raises: bool = False) -> None:
    """Add a btree support function, which gives -1, 0 or 1."""
    functions.elementwise(signature, raises=raises)(lambda left, right: sign(compare(left, right), 0))


def register_extremes(
    functions: FunctionTable, larger: str, smaller: str, compare: Compare, *, raises: bool = False
) -> None:
    """Add the functions behind max and min. If both arguments are equal, the second is
    returned.
    """
    functions.elementwise(larger, raises=raises)(lambda left, right: left if compare(left, right) > 0 else right)
    functions.elementwise(smaller, raises=raises)(lambda left, right: left if compare(left, right) < 0 else right)
