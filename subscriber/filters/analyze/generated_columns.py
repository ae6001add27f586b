"""Replaces virtual generated columns in a filter by their generation expressions (rule B29).

The model is ``expand_generated_columns_in_expr``.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from subscriber.errors import UsageError
from subscriber.filters.analyze import tree
from subscriber.filters.analyze.analyzer import Analysis
from subscriber.filters.parse.parser import parse
from subscriber.schema.publisher_tables import PublisherColumn


def expand_generated_columns(node: tree.Expression, analysis: Analysis, major: int) -> tree.Expression:
    """Return the expression with every virtual generated column replaced by its generation
    expression.

    Raises:
        UsageError: the analysis of a generation expression failed, although the server has accepted
            the expression.
    """
    if isinstance(node, tree.Column):
        column = analysis.table.column(node.name)
        if column is None or column.generated != "virtual" or column.expression is None:
            return node
        return _generation_expression(column, analysis, major)
    changed = {
        field.name: _expanded(getattr(node, field.name), analysis, major)
        for field in fields(node)
        if _holds_nodes(getattr(node, field.name))
    }
    return replace(node, **changed) if changed else node


def _holds_nodes(value: object) -> bool:
    if isinstance(value, tuple):
        return any(map(_holds_nodes, value))
    return isinstance(value, tree.Expression)


def _expanded(value: Any, analysis: Analysis, major: int) -> Any:
    if isinstance(value, tuple):
        return tuple(_expanded(one, analysis, major) for one in value)
    return expand_generated_columns(value, analysis, major)


def _generation_expression(column: PublisherColumn, analysis: Analysis, major: int) -> tree.Expression:
    """Return the generation expression of a column (``build_generation_expression``).

    The expression is converted to the type of the column and has the collation of the column.
    """
    assert column.expression is not None
    made = analysis.expression(parse(column.expression, major))
    converted = analysis.coercions.coerce_to_target(
        made, column.type_oid, column.type_modifier, "assignment", "implicit"
    )
    if converted is None:  # cannot happen: the server has accepted the expression
        raise UsageError(f'the expression of generated column "{column.name}" does not fit its type', sqlstate="42804")
    converted = analysis.collations.assign(converted)
    if column.collation and column.collation != converted.collation:
        converted = tree.Collate(converted.type_oid, column.collation, converted)
    return converted
