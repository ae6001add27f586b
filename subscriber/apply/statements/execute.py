"""Execute a statement on the driver's cursor, for the many statements of small transactions.

SQLAlchemy prepares a context and a result for each execution, which takes longer than a statement
of SQLite. The statements of apply are compiled already, and only their row count is read. So they
are executed on one cursor for the whole batch, by the dialect's functions, and an error of the
driver becomes SQLAlchemy's error::

    Connection.exec_driver_sql   context, events, cursor, dialect.do_execute, result, error      every statement
    DriverCursor.execute                                dialect.do_execute,         error      every statement

This needs a driver whose cursor itself reports the row count (:attr:`Capabilities.driver_cursor`).
Other statements are executed by SQLAlchemy.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from subscriber.apply.statements.bind import Row, Rows
from subscriber.targets import Target


class DriverCursor:
    """Executes statements that change rows through one connection.

    Args:
        target: the target of the connection.
        connection: a connection in a transaction.
    """

    def __init__(self, target: Target, connection: sa.Connection) -> None:
        self._connection = connection
        self._dialect = connection.dialect
        self._is_direct = target.capabilities.driver_cursor
        self._cursor: Any = None

    def execute(self, sql: str, rows: Rows) -> int:
        """Execute a statement once for each row, with one call; returns the row count.

        Args:
            sql: SQL in the driver's parameter style.
            rows: the parameters, at least one row.

        Raises:
            SQLAlchemyError: the driver refused.
        """
        if not self._is_direct:
            found: int = self._connection.exec_driver_sql(sql, rows).rowcount
            return found
        if len(rows) == 1:
            return self.execute_row(sql, rows[0])
        cursor = self._open()
        try:
            self._dialect.do_executemany(cursor, sql, rows)
        except self._dialect.loaded_dbapi.Error as error:
            raise self._wrapped(error, sql) from None
        return int(cursor.rowcount)

    def execute_row(self, sql: str, row: Row) -> int:
        """Execute a statement for one row; returns the row count.

        Raises:
            SQLAlchemyError: the driver refused.
        """
        if not self._is_direct:
            found: int = self._connection.exec_driver_sql(sql, row).rowcount
            return found
        cursor = self._open()
        try:
            self._dialect.do_execute(cursor, sql, row)
        except self._dialect.loaded_dbapi.Error as error:
            raise self._wrapped(error, sql) from None
        return int(cursor.rowcount)

    def _open(self) -> Any:
        if self._cursor is None:
            self._cursor = self._connection.connection.cursor()
        return self._cursor

    def _wrapped(self, error: Exception, sql: str) -> sa.exc.SQLAlchemyError:
        """SQLAlchemy's error; a lost connection is not used again.

        It has no parameters, because they are values of rows (invariant names_are_data).
        """
        lost = self._dialect.is_disconnect(error, self._connection.connection, self._cursor)  # type: ignore[arg-type]
        wrapped = sa.exc.DBAPIError.instance(
            sql, None, error, self._dialect.loaded_dbapi.Error, connection_invalidated=lost, dialect=self._dialect
        )
        if lost:
            self._connection.invalidate(error)
        assert isinstance(wrapped, sa.exc.SQLAlchemyError)
        return wrapped
