"""Loading into SQLite with the driver's connection, which reads rows from an iterator."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import sqlalchemy as sa

from subscriber.targets.generic.loading import GenericLoading
from subscriber.targets.loader import LoadColumn, bind_block, insert_statement, read_block
from subscriber.targets.roles.values import Values
from subscriber.targets.roles.writing import Writing
from subscriber.targets.sqlite.errors import SQLiteErrors
from subscriber.targets.sqlite.many_rows import insert_rows
from subscriber.targets.target_table import TargetTable


class SQLiteLoading(GenericLoading):
    """See :class:`~subscriber.targets.roles.loading.Loading`."""

    def __init__(self, engine: sa.Engine, errors: SQLiteErrors, values: Values, writing: Writing) -> None:
        super().__init__(engine, errors, values, writing)
        self._driver_errors = errors

    @contextmanager
    def loader(
        self, connection: sa.Connection, table: TargetTable, columns: Sequence[LoadColumn]
    ) -> Iterator[Callable[[bytes], None]]:
        """See :meth:`Loading.loader`."""
        statement = insert_statement(self._engine.dialect, self._writing, table, columns)
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)

        def load(block: bytes) -> None:
            batch = read_block(block)
            bound = bind_block(self._values, columns, batch)
            try:
                insert_rows(driver, statement, bound, batch.num_rows)
            except sqlite3.Error as error:
                raise self._driver_errors.translate_driver(error) from None

        yield load
