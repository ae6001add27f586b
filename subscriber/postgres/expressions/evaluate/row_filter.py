"""Evaluates a filter over the columns of a frame: true, false or null for each row, as in
``pgoutput_row_filter_exec_expr`` before NULL becomes false.

::

    tree.Expression ──simplify──▶ constants computed ──operation──▶ Operation ──evaluate──▶ one boolean a row
                                  once, as the server does          Arrow kernels; the rows that are undecided, for what may raise
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import pyarrow as pa

from subscriber.base.errors import DataException, RowFilterError
from subscriber.postgres.expressions.analyze import tree
from subscriber.postgres.expressions.evaluate.operations import Operation, PublisherCollations, operation
from subscriber.postgres.expressions.evaluate.row_values import FrameRows, array_from
from subscriber.postgres.expressions.evaluate.simplify import simplify


class CompiledFilter:
    """A compiled filter, pickled as its expression; ``columns`` are those that the result depends
    on.
    """

    def __init__(
        self,
        expression: tree.Expression,
        compiled: Operation,
        columns: frozenset[str],
        server_version: int,
        collations: PublisherCollations,
    ) -> None:
        self.expression = expression
        self._server_version = server_version
        self._collations = collations
        self.columns = columns
        self._compiled = compiled

    def evaluate(self, columns: Mapping[str, pa.Array], count: int) -> pa.BooleanArray:
        """The value for each row, from :attr:`columns` decoded or as PostgreSQL's text."""
        try:
            return array_from(self._compiled.evaluate(FrameRows(columns, count)), count, pa.bool_())
        except DataException as error:
            raise _row_filter_error(error) from None

    def first_failure(self, columns: Mapping[str, pa.Array], count: int) -> tuple[int, RowFilterError] | None:
        """The first row for which :meth:`evaluate` raises an error, and the row's own error."""
        passed, failed = 0, count + 1  # the first error is behind row ``passed``, at most at ``failed``
        while failed - passed > 1:
            middle = (passed + failed) // 2
            if middle <= count and self._error(columns, 0, middle) is None:
                passed = middle
            else:
                failed = middle
        error = None if failed > count else self._error(columns, failed - 1, 1)
        return None if error is None else (failed - 1, error)

    def _error(self, columns: Mapping[str, pa.Array], begin: int, count: int) -> RowFilterError | None:
        try:
            self.evaluate({name: columns[name].slice(begin, count) for name in self.columns}, count)
        except RowFilterError as error:
            return error
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        return (compile_filter, (self.expression, self._server_version, self._collations))


def compile_filter(
    expression: tree.Expression, server_version: int = 180000, collations: PublisherCollations = ()
) -> CompiledFilter:
    """Compile an expression. ``collations`` are those of the publisher that do not compare by
    bytes. RowFilterError: a constant part cannot be computed, which the server reports at the first
    row. NotSupportedError: a type, a function, or the library of a collation is missing here.
    """
    used = _used_collations(expression)
    try:
        return _compiled(expression, server_version, tuple(one for one in collations if one.oid in used))
    except DataException as error:
        raise _row_filter_error(error) from None


def _row_filter_error(error: DataException) -> RowFilterError:
    if isinstance(error, RowFilterError):
        return error
    return RowFilterError(error.message, sqlstate=error.sqlstate, detail=error.detail, hint=error.hint)


@lru_cache(maxsize=1024)
def _compiled(expression: tree.Expression, server_version: int, collations: PublisherCollations) -> CompiledFilter:
    simple = simplify(expression, server_version, collations)
    compiled = operation(simple, server_version, collations)
    return CompiledFilter(expression, compiled, frozenset(_columns(simple)), server_version, collations)


def _used_collations(node: tree.Expression) -> frozenset[int]:
    own: tuple[int, ...] = ()
    if isinstance(node, tree.Call | tree.MinMaxExpr):
        own = (node.input_collation,)
    elif isinstance(node, tree.RowCompareExpr):
        own = node.input_collations
    return frozenset(own).union(*map(_used_collations, node.children))


def _columns(node: tree.Expression) -> list[str]:
    below = [name for child in node.children for name in _columns(child)]
    return [node.name, *below] if isinstance(node, tree.Var) else below
