"""Evaluates a filter over the columns of a frame.

The result is true, false or null for each row, as in ``pgoutput_row_filter_exec_expr`` before NULL
becomes false.

::

    tree.Expression ──simplify──▶ constants computed ──operation──▶ Operation ──evaluate──▶ one boolean a row
                                  once, as the server does          Arrow kernels; the rows that are undecided, for what may raise
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import pyarrow as pa

from subscriber.errors import DataException, RowFilterError
from subscriber.filters.analyze import tree
from subscriber.filters.evaluate.operations import Operation, operation
from subscriber.filters.evaluate.row_values import Rows, array_from
from subscriber.filters.evaluate.simplify import simplify


class Filter:
    """A compiled filter, made by :func:`compile_filter`.

    A process has one compiled filter for each expression. A compiled filter is pickled as its
    expression.

    Attributes:
        expression: the expression that was compiled.
        columns: the names of the columns that the result depends on. Columns that constants make
            irrelevant are not included.
    """

    def __init__(
        self, expression: tree.Expression, compiled: Operation, columns: frozenset[str], server_version: int
    ) -> None:
        self.expression = expression
        self._server_version = server_version
        self.columns = columns
        self._compiled = compiled

    def evaluate(self, columns: Mapping[str, pa.Array], count: int) -> pa.BooleanArray:
        """Return the value of the filter for each row.

        Args:
            columns: at least the columns in :attr:`columns`, by name, as they are in a frame:
                decoded, or as PostgreSQL's text.
            count: the number of rows.

        Raises:
            RowFilterError: a row for which the server would fail too.
        """
        try:
            return array_from(self._compiled.evaluate(Rows(columns, count)), count, pa.bool_())
        except DataException as error:
            raise _row_filter_error(error) from None

    def first_failure(self, columns: Mapping[str, pa.Array], count: int) -> tuple[int, RowFilterError] | None:
        """Return the first row for which :meth:`evaluate` raises an error, and the error of that
        row alone.

        Returns:
            None if no row raises an error.
        """
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
        return (compile_filter, (self.expression, self._server_version))


def compile_filter(expression: tree.Expression, server_version: int = 180000) -> Filter:
    """Compile an analyzed expression.

    Args:
        expression: the expression, from :func:`subscriber.filters.check.check_filter`.
        server_version: the version number of the publisher, as libpq reports it. Some functions
            differ between versions.

    Raises:
        RowFilterError: a constant part cannot be computed. The server reports this when it reads
            the first row.
        NotSupportedError: the subscriber does not compute a type or a function.
    """
    try:
        return _compiled(expression, server_version)
    except DataException as error:
        raise _row_filter_error(error) from None


def _row_filter_error(error: DataException) -> RowFilterError:
    """Return an error of a type or a function as an error of the filter."""
    if isinstance(error, RowFilterError):
        return error
    return RowFilterError(error.message, sqlstate=error.sqlstate, detail=error.detail, hint=error.hint)


@lru_cache(maxsize=1024)
def _compiled(expression: tree.Expression, server_version: int) -> Filter:
    simple = simplify(expression, server_version)
    return Filter(expression, operation(simple, server_version), frozenset(_columns(simple)), server_version)


def _columns(node: tree.Expression) -> list[str]:
    below = [name for child in node.children for name in _columns(child)]
    return [node.name, *below] if isinstance(node, tree.Column) else below
