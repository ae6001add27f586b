"""Checks that a row filter contains only what a publication allows (rules B23-B27).

The checks have the order of the server: ``check_simple_rowfilter_expr_walker``.
"""

from __future__ import annotations

from subscriber.filters.analyze import tree
from subscriber.filters.analyze.column_references import ONLY_SIMPLE, invalid
from subscriber.filters.analyze.typeinfo import FIRST_NORMAL_OID
from subscriber.filters.builtins import Catalog


def validate(node: tree.Expression, catalog: Catalog) -> None:
    """Check a filter.

    Raises:
        NotSupportedError: 0A000, ``invalid publication WHERE expression``. The detail states what
            is not allowed.
    """
    detail = _by_kind(node, catalog)
    if detail is None and node.type_oid >= FIRST_NORMAL_OID:
        detail = "User-defined types are not allowed."
    if detail is None and not all(_is_immutable(one, catalog) for one in _functions(node)):
        detail = "User-defined or built-in mutable functions are not allowed."
    if detail is None and max(node.collation, *_input_collations(node), 0) >= FIRST_NORMAL_OID:
        detail = "User-defined collations are not allowed."
    if detail is not None:
        raise invalid(detail)
    for child in _walked(node):
        validate(child, catalog)


def _by_kind(node: tree.Expression, catalog: Catalog) -> str | None:
    own_operator = "User-defined operators are not allowed."
    match node:
        case tree.Refused(what="SystemColumn"):
            return "System columns are not allowed."
        case tree.Refused(what="Row"):
            return "User-defined types are not allowed."
        case tree.Refused():
            return ONLY_SIMPLE
        case tree.Call() if node.operator is not None and not _is_built_in_operator(node.operator):
            return own_operator
        case tree.RowComparison() if not all(catalog.function_of(one).is_built_in for one in node.functions):
            return own_operator
    return None


def _is_built_in_operator(name: str) -> bool:
    return "." not in name


def _functions(node: tree.Expression) -> tuple[str, ...]:
    match node:
        case tree.Call():
            return (node.function,)
        case tree.RowComparison():
            return node.functions
    return ()


def _is_immutable(signature: str, catalog: Catalog) -> bool:
    function = catalog.function_of(signature)
    return function.is_built_in and function.volatility == "i"


def _input_collations(node: tree.Expression) -> tuple[int, ...]:
    match node:
        case tree.Call() | tree.MinMax():
            return (node.input_collation,)
    return (0,)


def _walked(node: tree.Expression) -> tuple[tree.Expression, ...]:
    """Return the child nodes in the order of ``expression_tree_walker``."""
    match node:
        case tree.RowComparison():
            return (*node.left, *node.right)
    return node.children
