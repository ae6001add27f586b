"""Virtual generated columns in a filter are what they are generated from (rule B29;
``expand_generated_columns_in_expr``).
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
    """The expression with every virtual generated column written out.

    Raises:
        UsageError: as the analysis of what a column is generated from; the server has accepted it.
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
    """``build_generation_expression``: as the column's type, and with its collation."""
    assert column.expression is not None
    made = analysis.expression(parse(column.expression, major))
    converted = analysis.coercions.coerce_to_target(
        made, column.type_oid, column.type_modifier, "assignment", "implicit"
    )
    if converted is None:  # the server has accepted it
        raise UsageError(f'the expression of generated column "{column.name}" does not fit its type', sqlstate="42804")
    converted = analysis.collations.assign(converted)
    if column.collation and column.collation != converted.collation:
        converted = tree.Collate(converted.type_oid, column.collation, converted)
    return converted
