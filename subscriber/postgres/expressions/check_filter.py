"""Analyzes a publication's row filter, and checks that it contains only what a publication allows
(rules B23-B27) and what the subscriber computes.

The checks have the order of the server: ``check_simple_rowfilter_expr_walker``. Virtual generated
columns are replaced by their expressions (rule B29, ``expand_generated_columns_in_expr``).
"""

from __future__ import annotations

from typing import Final

from subscriber.base.errors import NotSupportedError, UsageError
from subscriber.postgres.expressions.analyze import tree
from subscriber.postgres.expressions.analyze.analyzer import Analysis
from subscriber.postgres.expressions.analyze.column_references import ONLY_SIMPLE, invalid
from subscriber.postgres.expressions.analyze.deparse import deparse
from subscriber.postgres.expressions.analyze.typeinfo import Types
from subscriber.postgres.expressions.builtin_catalog import RECORDED_VERSIONS, Catalog, catalog_of
from subscriber.postgres.expressions.parse.parser import parse
from subscriber.postgres.expressions.supported import check_supported
from subscriber.postgres.schema.publisher_tables import PublisherColumn, PublisherTable, PublisherTables
from subscriber.postgres.types.oids import FIRST_NORMAL_OID


def validate(node: tree.Expression, catalog: Catalog) -> None:
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
        case tree.RowCompareExpr() if not all(catalog.function_of(one).is_built_in for one in node.functions):
            return own_operator
    return None


def _is_built_in_operator(name: str) -> bool:
    return "." not in name


def _functions(node: tree.Expression) -> tuple[str, ...]:
    match node:
        case tree.Call():
            return (node.function,)
        case tree.RowCompareExpr():
            return node.functions
    return ()


def _is_immutable(signature: str, catalog: Catalog) -> bool:
    function = catalog.function_of(signature)
    return function.is_built_in and function.volatility == "i"


def _input_collations(node: tree.Expression) -> tuple[int, ...]:
    match node:
        case tree.Call() | tree.MinMaxExpr():
            return (node.input_collation,)
    return (0,)


def _walked(node: tree.Expression) -> tuple[tree.Expression, ...]:
    """The children in the order of ``expression_tree_walker``."""
    match node:
        case tree.RowCompareExpr():
            return (*node.left, *node.right)
    return node.children


def expand_generated_columns(node: tree.Expression, analysis: Analysis, major: int) -> tree.Expression:
    """The expression with every virtual generated column replaced by its generation expression."""
    if isinstance(node, tree.Var):
        column = analysis.table.column(node.name)
        if column is None or column.generated != "virtual" or column.expression is None:
            return node
        return _generation_expression(column, analysis, major)
    return node.mapped(lambda child: expand_generated_columns(child, analysis, major))


def _generation_expression(column: PublisherColumn, analysis: Analysis, major: int) -> tree.Expression:
    """``build_generation_expression``, with the type and the collation of the column."""
    assert column.expression is not None
    made = analysis.expression(parse(column.expression, major))
    converted = analysis.coercions.coerce_to_target(
        made, column.type_oid, column.type_modifier, "assignment", "implicit"
    )
    if converted is None:  # cannot happen: the server has accepted the expression
        raise UsageError(f'the expression of generated column "{column.name}" does not fit its type', sqlstate="42804")
    converted = analysis.collations.assign(converted)
    if column.collation and column.collation != converted.collation:
        converted = tree.CollateExpr(converted.type_oid, column.collation, converted)
    return converted


def check_filter(text: str, table: PublisherTable, tables: PublisherTables) -> tree.Expression:
    """The expression that ``WHERE (text)`` means, a user's or what ``pg_get_expr`` prints.
    SQLSyntaxError (42601); UsageError for a name or a type (42703, 42883, 42725, 42804 and others);
    NotSupportedError (0A000) for a part that may not be published (rule B23) or is not computed
    exactly.
    """
    found = analyze_filter(text, table, tables)
    check_supported(found, _types(tables), tables)
    return found


def analyze_filter(text: str, table: PublisherTable, tables: PublisherTables) -> tree.Expression:
    """As :func:`check_filter`, but functions that cannot be evaluated here are allowed."""
    types = _types(tables)
    try:
        analysis = Analysis(types.catalog, table, tables)
        found = expand_generated_columns(_as_written(text, analysis, tables), analysis, _major(tables))
        validate(found, types.catalog)
    except UsageError as error:
        if error.sqlstate not in _MISSING or error.detail is not None or _major(tables) <= RECORDED_VERSIONS[-1]:
            raise
        raise error.replace(
            detail=f"The publisher is PostgreSQL {_major(tables)}. The subscriber knows the types, functions, operators and"
            f" casts of PostgreSQL {RECORDED_VERSIONS[-1]}."
        ) from None
    except RecursionError:
        raise NotSupportedError(
            "the row filter is nested too deeply", sqlstate="54001", hint="Write it with fewer levels of parentheses."
        ) from None
    return found


_MISSING: Final = frozenset({"42883", "42704", "42846"})
"""A function, operator, type or cast that does not exist."""


def kept_text(text: str, table: PublisherTable, tables: PublisherTables) -> str:
    """The text in which the catalog stores a filter: what ``pg_get_expr`` would print, with one
    exception.

    The server stores a tree, in which a virtual generated column is replaced by its expression,
    converted to the column's type. The printed text hides the conversion, and with it the rounding
    and the length limit. A filter that uses such a column is therefore stored as the user wrote it.
    """
    found = check_filter(text, table, tables)
    named = columns_of(_as_written(text, Analysis(_types(tables).catalog, table, tables), tables))
    virtual = {column.name for column in table.columns if column.generated == "virtual"}
    return text if named & virtual else filter_text(found, tables)


def filter_text(found: tree.Expression, tables: PublisherTables) -> str:
    """A checked filter as ``pg_get_expr`` and the publisher's catalog show it."""
    return deparse(found, _types(tables))


def columns_of(node: tree.Expression) -> frozenset[str]:
    """The names of the columns that an expression uses (rules B33, B35)."""
    own = {node.name} if isinstance(node, tree.Var) else set()
    return frozenset(own).union(*map(columns_of, node.children))


def _as_written(text: str, analysis: Analysis, tables: PublisherTables) -> tree.Expression:
    """The expression in which virtual generated columns are not yet expanded."""
    return analysis.filter(parse(text, _major(tables)))


def _major(tables: PublisherTables) -> int:
    return tables.server_version // 10000


def _types(tables: PublisherTables) -> Types:
    return Types(catalog_of(tables.server_version, tables.own_objects, tables.search_path))
