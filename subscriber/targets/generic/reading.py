"""All rows of a table, for databases whose driver returns Python values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import chain, islice
from typing import Any, Final

import sqlalchemy as sa

from subscriber.targets.roles.reading import ReadRows
from subscriber.targets.roles.values import Values
from subscriber.targets.target_table import TargetColumn, TargetTable

_ROWS_OF_A_FETCH: Final = 500
_FETCHES: Final = 40
"""The number of fetches that are given at once."""


class GenericReading:
    """See :class:`~subscriber.targets.roles.reading.Reading`.

    Args:
        values: how values are read.
    """

    def __init__(self, values: Values) -> None:
        self.values = values

    def query(self, table: TargetTable, columns: Sequence[TargetColumn]) -> sa.Select[Any]:
        """The query for the rows of a table."""
        # Columns without a type return the driver's values as they are stored.
        read: list[sa.ColumnElement[Any]] = [self.values.readable(column) for column in columns]
        return sa.select(*read or [sa.literal_column("1")]).select_from(table.clause())

    def rows(
        self, connection: sa.Connection, table: TargetTable, columns: Sequence[TargetColumn]
    ) -> Iterator[ReadRows]:
        """See :meth:`Reading.rows`."""
        options = connection.execution_options(yield_per=_ROWS_OF_A_FETCH)
        with closing(options.execute(self.query(table, columns))) as result:
            fetched = _fetched(result)
            while some := list(islice(fetched, _FETCHES)):
                rows = sum(len(first) for first, *_ in some)
                together = [list(chain.from_iterable(parts)) for parts in zip(*some, strict=True)]
                yield ReadRows(rows, together if columns else [])


def _fetched(result: sa.CursorResult[Any]) -> Iterator[Sequence[Sequence[Any]]]:
    """The columns of a few hundred rows at a time.

    They are made of the driver's tuples, because SQLAlchemy's rows take three times as long. So do
    larger fetches: Python's garbage collector runs when some hundreds of new tuples are held.
    """
    cursor = result.cursor
    assert cursor is not None
    while rows := result.cursor_strategy.fetchmany(result, cursor, _ROWS_OF_A_FETCH):
        yield list(zip(*rows, strict=True))
