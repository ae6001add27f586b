"""All rows of a table, as DuckDB writes them into Arrow arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import sqlalchemy as sa

from subscriber.targets.duckdb.errors import DuckDBErrors
from subscriber.targets.duckdb.values import DECIMAL
from subscriber.targets.generic.reading import BATCH_BYTES, GenericReading
from subscriber.targets.roles.reading import ReadRows, TableRange
from subscriber.targets.roles.values import Values
from subscriber.targets.target_table import TargetColumn, TargetTable

_ROWS_OF_A_VECTOR: Final = 2048
"""The number of rows that DuckDB reads at once."""
_VECTORS: Final = 10
"""The number of vectors that are given at once, unless they are large."""


class DuckDBReading(GenericReading):
    """See :class:`~subscriber.targets.roles.reading.Reading`.

    Args:
        engine: the target's engine.
        errors: how errors are translated.
        values: how values are read.
    """

    def __init__(self, engine: sa.Engine, errors: DuckDBErrors, values: Values) -> None:
        super().__init__(values)
        self._dialect = engine.dialect
        self._errors = errors

    def value(self, column: TargetColumn) -> sa.ColumnElement[Any]:
        """See :meth:`GenericReading.value`; numbers of DECIMAL as text, because Arrow writes small
        ones with an exponent.
        """
        if column.storage != DECIMAL:
            return super().value(column)
        return sa.cast(sa.column(column.name), sa.Text()).label(column.name)

    def rows(
        self,
        connection: sa.Connection,
        table: TargetTable,
        columns: Sequence[TargetColumn],
        part: TableRange | None = None,
    ) -> Iterator[ReadRows]:
        """See :meth:`Reading.rows`; one process has the file open, so there are no ranges."""
        assert part is None

        sql = str(self.query(table, columns).compile(dialect=self._dialect, compile_kwargs={"literal_binds": True}))
        driver: Any = connection.connection.driver_connection
        with self._errors.reporting_driver():
            some: list[pa.RecordBatch] = []
            for batch in driver.sql(sql).to_arrow_reader(_ROWS_OF_A_VECTOR):
                some.append(batch)
                if len(some) == _VECTORS or sum(one.nbytes for one in some) >= BATCH_BYTES:
                    yield _together(some, len(columns))
                    some = []
            if some:
                yield _together(some, len(columns))


def _together(some: Sequence[pa.RecordBatch], columns: int) -> ReadRows:
    rows = sum(batch.num_rows for batch in some)
    return ReadRows(rows, [pa.concat_arrays([batch.column(place) for batch in some]) for place in range(columns)])
