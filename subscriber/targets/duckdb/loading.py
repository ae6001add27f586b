"""Loading into DuckDB, which reads the Arrow memory of a block directly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
import sqlalchemy as sa

from subscriber.errors import (
    TargetRelationError,
)
from subscriber.targets.duckdb import values as duckdb_values
from subscriber.targets.duckdb.errors import DuckDBErrors
from subscriber.targets.generic.loading import GenericLoading
from subscriber.targets.loader import LoadColumn, read_block
from subscriber.targets.roles.values import Values
from subscriber.targets.roles.writing import Writing
from subscriber.targets.target_table import (
    TargetColumn,
    TargetTable,
)

_BLOCK_TABLE: Final = "SELECT 1 FROM information_schema.tables WHERE lower(table_name) = 'subscriber_block'"


class DuckDBLoading(GenericLoading):
    """See :class:`~subscriber.targets.roles.loading.Loading`."""

    def __init__(self, engine: sa.Engine, errors: DuckDBErrors, values: Values, writing: Writing) -> None:
        super().__init__(engine, errors, values, writing)
        self._driver_errors = errors

    @contextmanager
    def loader(
        self, connection: sa.Connection, table: TargetTable, columns: Sequence[LoadColumn]
    ) -> Iterator[Callable[[bytes], None]]:
        """See :meth:`Loading.loader`; DuckDB reads the Arrow memory of the block directly.

        Raises:
            TargetRelationError: 42P07, the target has a table or view named ``subscriber_block``.
        """
        with self._errors.reporting():
            if not block_name_is_free(connection):
                raise TargetRelationError(
                    'the name "subscriber_block" is already in use',
                    sqlstate="42P07",
                    hint="The initial copy uses this name for its blocks: rename the table or view.",
                )
        driver: Any = connection.connection.driver_connection
        insert = self._insert_from_block(table, [one.column for one in columns])

        def load(block: bytes) -> None:
            batch = read_block(block)
            arrays = [
                duckdb_values.as_stored(one.type_oid, one.column, values)
                for one, values in zip(columns, batch.columns, strict=True)
            ]
            names = [f"c{number}" for number in range(len(arrays))]
            # DuckDB finds this table by the variable's name, unless the database has a table of
            # that name. The table is not registered, because DuckDB keeps a registered object until
            # the commit.
            subscriber_block = pa.Table.from_arrays(arrays, names=names)
            with self._driver_errors.reporting_driver():
                driver.execute(insert)
            del subscriber_block

        yield load

    def _insert_from_block(self, table: TargetTable, columns: Sequence[TargetColumn]) -> str:
        quote = self._engine.dialect.identifier_preparer
        names = ", ".join(quote.quote(column.name) for column in columns)
        casts = ", ".join(f"CAST(c{number} AS {column.declared_type})" for number, column in enumerate(columns))
        return f"INSERT INTO {quote.format_table(table.clause())} ({names}) SELECT {casts} FROM subscriber_block"


def block_name_is_free(connection: sa.Connection) -> bool:
    """Whether the database has no table or view that DuckDB would read in place of the block."""
    return connection.exec_driver_sql(_BLOCK_TABLE).first() is None
