"""All rows of a table, as DuckDB writes them into Arrow arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import sqlalchemy as sa

from subscriber.targets.duckdb.errors import DuckDBErrors
from subscriber.targets.duckdb.values import DECIMAL
from subscriber.targets.generic.reading import GenericReading
from subscriber.targets.roles.reading import ReadRows, TableRange
from subscriber.targets.roles.values import Values
from subscriber.targets.target_table import TargetColumn, TargetTable

_ROWS_AT_ONCE: Final = 20_000


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
        import duckdb

        assert part is None

        sql = str(self.query(table, columns).compile(dialect=self._dialect, compile_kwargs={"literal_binds": True}))
        driver: Any = connection.connection.driver_connection
        try:
            for batch in driver.sql(sql).to_arrow_reader(_ROWS_AT_ONCE):
                yield ReadRows(batch.num_rows, batch.columns if columns else [])
        except duckdb.Error as error:
            raise self._errors.translate_driver(error) from None
