"""An expression of PostgreSQL, computed by the subscriber: ``value("abs(-3)")`` is ``"3"``.

The expression goes the whole way of a row filter: parser, analysis and evaluation. It is computed
twice, from constants and from columns that hold the same values, and both must agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Final

import pyarrow as pa

from subscriber.base.errors import SubscriberError
from subscriber.postgres.expressions.analyze import tree
from subscriber.postgres.expressions.check_filter import analyze_filter
from subscriber.postgres.expressions.evaluate.operations import operation
from subscriber.postgres.expressions.evaluate.row_values import FrameRows, listed, required_form
from subscriber.postgres.expressions.evaluate.simplify import simplify
from subscriber.postgres.expressions.functions import FUNCTIONS
from subscriber.postgres.expressions.functions.function_table import Implementation
from subscriber.postgres.schema.publisher_tables import PublisherTable
from tests.publications import table, tables

TABLE: Final = table("public.t", {"a": "int4", "b": "text"}, key=["a"])


def value(expression: str, version: int = 180000) -> str | None:
    """The value as psql prints it; None is NULL."""
    constants, columns = _both_ways(expression, version)
    assert constants == columns, "constants and columns give different values"
    assert not isinstance(constants, tuple), constants
    return constants


def failure(expression: str, version: int = 180000) -> tuple[str, str]:
    """The SQLSTATE and the message of the error that the expression raises."""
    constants, columns = _both_ways(expression, version)
    assert constants == columns, "constants and columns raise different errors"
    assert isinstance(constants, tuple), f"no error, but {constants}"
    return constants


def implementation(signature: str) -> Implementation:
    """The function with this signature."""
    return FUNCTIONS[signature]


Outcome = str | tuple[str, str] | None
"""A value as text, or the SQLSTATE and the message of an error."""


def _both_ways(expression: str, version: int) -> tuple[Outcome, Outcome]:
    node = analyzed(expression, version)
    columns: dict[str, pa.Array] = {}
    return _outcome(node, {}, version), _outcome(_with_columns(node, columns), columns, version)


def analyzed(expression: str, version: int = 180000, of: PublisherTable = TABLE) -> tree.Expression:
    """The typed tree of an expression of any type."""
    found = analyze_filter(f"({expression}) IS NOT NULL", of, tables(of, version=version))
    assert isinstance(found, tree.NullTest)
    return found.argument


def _outcome(node: tree.Expression, columns: Mapping[str, pa.Array], version: int) -> Outcome:
    try:
        computed = operation(simplify(node, version), version)
        (found,) = listed(computed.evaluate(FrameRows(columns, 1)), 1)
    except SubscriberError as error:
        return error.sqlstate, error.message
    return None if found is None else required_form(node.type_oid).to_text(found)


def _with_columns(node: tree.Expression, columns: dict[str, pa.Array]) -> tree.Expression:
    """The same expression with a column in place of every constant."""
    if isinstance(node, tree.Const):
        name = f"constant {len(columns)}"
        form = required_form(node.type_oid)
        printed = None if node.text is None else form.to_text(form.from_text(node.text, node.type_modifier))
        columns[name] = pa.array([printed], pa.string())
        return tree.Var(node.type_oid, node.collation, name)
    changed: dict[str, Any] = {}
    for field in fields(node):
        below = getattr(node, field.name)
        if isinstance(below, tree.Expression):
            changed[field.name] = _with_columns(below, columns)
        elif isinstance(below, tuple) and below and isinstance(below[0], tree.Expression):
            changed[field.name] = tuple(_with_columns(one, columns) for one in below)
    return replace(node, **changed)
