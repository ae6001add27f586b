"""Bulk writes to SQLite: INSERT with many rows, and the driver's ``executemany``.

The driver reads the rows of an UPDATE or DELETE from an iterator, which reuses one tuple. A list of
tuples costs half as much as the writing. *Rejected:* UPDATE with ``json_each``, which takes longer.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa

from subscriber.targets.generic.bulk import GenericBulk
from subscriber.targets.loader import LoadColumn, RowStatement
from subscriber.targets.roles.bulk import BulkColumn
from subscriber.targets.roles.matching import Matching
from subscriber.targets.roles.values import Values
from subscriber.targets.roles.writing import Writing
from subscriber.targets.sqlite.errors import SQLiteErrors
from subscriber.targets.sqlite.many_rows import insert_rows
from subscriber.targets.target_table import TargetTable

_LEAST_ROWS: Final = 64
"""From this many rows on the time to sort them is less than the time that is saved."""


class SQLiteBulk(GenericBulk):
    """See :class:`~subscriber.targets.roles.bulk.Bulk`."""

    def __init__(
        self, engine: sa.Engine, errors: SQLiteErrors, values: Values, matching: Matching, writing: Writing
    ) -> None:
        super().__init__(engine, matching, writing)
        self._errors = errors
        self._values = values

    def least_rows(self, connection: sa.Connection, table: TargetTable, key: Sequence[LoadColumn]) -> int:
        """See :meth:`Bulk.least_rows`."""
        del connection, table, key  # the statements are those for one row
        return _LEAST_ROWS

    def _execute(self, connection: sa.Connection, statement: RowStatement, columns: Sequence[BulkColumn]) -> int:
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        bound = self._bound(columns)
        try:
            return driver.executemany(statement.sql, statement.rows(bound, len(bound[0]))).rowcount
        except sqlite3.Error as error:
            raise self._errors.translate_driver(error) from None

    def _insert(self, connection: sa.Connection, statement: RowStatement, columns: Sequence[BulkColumn]) -> int:
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        bound = self._bound(columns)
        try:
            return insert_rows(driver, statement, bound, len(bound[0]))
        except sqlite3.Error as error:
            raise self._errors.translate_driver(error) from None

    def _bound(self, columns: Sequence[BulkColumn]) -> list[list[Any]]:
        return [self._values.bind_values(one.type_oid, one.column, one.values) for one in columns]
