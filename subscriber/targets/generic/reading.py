"""All rows of a table, for databases whose driver returns Python values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import chain, pairwise
from typing import Any, Final, TypeAlias

import sqlalchemy as sa

from subscriber.targets.roles.reading import ReadRows, TableRange
from subscriber.targets.roles.values import Values
from subscriber.targets.target_table import TargetColumn, TargetTable

_ROWS_OF_A_FETCH: Final = 500
_FETCHES: Final = 40
"""The number of fetches that are given at once."""
_FIRST_ROWS: Final = 10
BATCH_BYTES: Final = 8 * 1024 * 1024
"""The approximate size of the rows that are given at once."""

_Columns: TypeAlias = Sequence[Sequence[Any]]


class GenericReading:
    """See :class:`~subscriber.targets.roles.reading.Reading`.

    Args:
        values: how values are read.
    """

    def __init__(self, values: Values) -> None:
        self.values = values

    def ranges(self, connection: sa.Connection, table: TargetTable, count: int) -> Sequence[TableRange]:
        """See :meth:`Reading.ranges`; none, because it is not known how rows are stored."""
        del connection, table, count
        return ()

    def value(self, column: TargetColumn) -> sa.ColumnElement[Any]:
        """The expression that reads a column. A column without a type returns the driver's values
        as they are stored.
        """
        return self.values.readable(column)

    def query(self, table: TargetTable, columns: Sequence[TargetColumn]) -> sa.Select[Any]:
        """The query for the rows of a table."""
        read: list[sa.ColumnElement[Any]] = [self.value(column) for column in columns]
        return sa.select(*read or [sa.literal_column("1")]).select_from(table.clause())

    def rows(
        self,
        connection: sa.Connection,
        table: TargetTable,
        columns: Sequence[TargetColumn],
        part: TableRange | None = None,
    ) -> Iterator[ReadRows]:
        """See :meth:`Reading.rows`."""
        options = connection.execution_options(yield_per=_ROWS_OF_A_FETCH)
        query = self.query(table, columns)
        if part is not None:
            query = query.where(*_conditions(part))
        with closing(options.execute(query)) as result:
            for some in _batches(result):
                rows = sum(len(first) for first, *_ in some)
                together = [list(chain.from_iterable(parts)) for parts in zip(*some, strict=True)]
                yield ReadRows(rows, together if columns else [])


def ranges_of(connection: sa.Connection, table: TargetTable, column: str, count: int) -> Sequence[TableRange]:
    """Ranges of the values of a column, all of the same width.

    Args:
        connection: a connection to the target.
        table: the table.
        column: the name of a column of integers that is indexed and never NULL.
        count: the largest number of ranges.

    Returns:
        The ranges; none if the table has too few rows for several.
    """
    place: sa.ColumnClause[int] = sa.column(column)
    smallest, largest = connection.execute(
        sa.select(
            sa.select(sa.func.min(place)).select_from(table.clause()).scalar_subquery(),
            sa.select(sa.func.max(place)).select_from(table.clause()).scalar_subquery(),
        )
    ).one()
    if smallest is None or largest - smallest < count:
        return ()
    cuts = [None, *(smallest + (largest - smallest) * number // count for number in range(1, count)), None]
    return [TableRange(column, first, end) for first, end in pairwise(cuts)]


def _conditions(part: TableRange) -> Iterator[sa.ColumnElement[bool]]:
    place: sa.ColumnClause[int] = sa.column(part.column)
    if part.first is not None:
        yield place >= part.first
    if part.end is not None:
        yield place < part.end


def _batches(result: sa.CursorResult[Any]) -> Iterator[Sequence[_Columns]]:
    """Some fetches at a time: the columns of each.

    The columns are made of the driver's tuples, because SQLAlchemy's rows take three times as long.
    So do larger fetches: Python's garbage collector runs when some hundreds of new tuples are held.
    Fetches of large rows are smaller, by the size of the rows that were fetched before.
    """
    cursor = result.cursor
    assert cursor is not None
    some: list[_Columns] = []
    size, count = 0, min(_FIRST_ROWS, _ROWS_OF_A_FETCH)
    while rows := result.cursor_strategy.fetchmany(result, cursor, count):
        some.append(list(zip(*rows, strict=True)))
        of_fetch = _size(rows)
        size += of_fetch
        count = max(1, min(_ROWS_OF_A_FETCH, BATCH_BYTES * len(rows) // max(1, of_fetch)))
        if len(some) == _FETCHES or size >= BATCH_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


def _size(rows: Sequence[Sequence[Any]]) -> int:
    """The approximate size of the texts and binary values of some rows, by a sample of ten."""
    sample = rows[:: max(1, len(rows) // 10)]
    size = sum(len(value) for row in sample for value in row if isinstance(value, str | bytes))
    return size * len(rows) // len(sample)
