"""A filter over the columns of a frame: true, false or null a row, as
``pgoutput_row_filter_exec_expr`` has it before NULL becomes false.

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
from subscriber.filters import functions
from subscriber.filters.analyze import tree
from subscriber.filters.evaluate.operations import Operation, operation
from subscriber.filters.evaluate.row_values import Rows, array_from
from subscriber.filters.evaluate.simplify import simplify

assert functions  # importing it has registered every function


class Filter:
    """A compiled filter; made by :func:`compile_filter`, there is one an expression and process. It
    pickles as its expression.

    Attributes:
        expression: what it was made of.
        columns: names of the columns that its value depends on. Those that constants made
            irrelevant are not among them.
    """

    def __init__(
        self, expression: tree.Expression, compiled: Operation, columns: frozenset[str], server_version: int
    ) -> None:
        self.expression = expression
        self._server_version = server_version
        self.columns = columns
        self._compiled = compiled

    def evaluate(self, columns: Mapping[str, pa.Array], count: int) -> pa.BooleanArray:
        """The filter for each row.

        Args:
            columns: at least :attr:`columns`, by name, as they are in a frame: decoded, or
                PostgreSQL's text.
            count: how many rows.

        Raises:
            RowFilterError: for a row that the server would stop at as well.
        """
        try:
            return array_from(self._compiled.evaluate(Rows(columns, count)), count, pa.bool_())
        except DataException as error:
            raise _row_filter_error(error) from None

    def first_failure(self, columns: Mapping[str, pa.Array], count: int) -> tuple[int, RowFilterError] | None:
        """The first row for which :meth:`evaluate` raises, and what it raises for that row alone;
        None if there is none.
        """
        passed, failed = 0, count + 1  # the least number of rows that raises is above the one, and at most the other
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
    """A filter of an analysed expression.

    Args:
        expression: as :func:`subscriber.filters.check_filter` gives it.
        server_version: the publisher's, as libpq gives it: a few functions have changed.

    Raises:
        RowFilterError: a constant part cannot be computed; the server says so when it meets the
            first row.
        NotSupportedError: a type or a function that is not computed here.
    """
    try:
        return _compiled(expression, server_version)
    except DataException as error:
        raise _row_filter_error(error) from None


def _row_filter_error(error: DataException) -> RowFilterError:
    """What a type or a function says of a value, as the filter's error."""
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
