"""Execute a statement on the driver's cursor, for the many statements of small transactions.

SQLAlchemy prepares a context and a result for each execution, which takes longer than a statement
of SQLite. Here only the row count is read, so one cursor is used for the whole batch, where the
driver's cursor itself reports the row count (:attr:`Capabilities.driver_cursor`)::

    Connection.exec_driver_sql   context, events, cursor, dialect.do_execute, result, error      every statement
    DriverCursor.execute                                dialect.do_execute,         error      every statement
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from subscriber.apply.statements.row_statements import CompiledStatement, Parameter
from subscriber.base.errors import ConflictError
from subscriber.postgres.protocol.changes import ChangeGroup
from subscriber.postgres.types.registry import family_of
from subscriber.targets import Target
from subscriber.targets.base.loading import BulkColumn


class DriverCursor:
    def __init__(self, target: Target, connection: sa.Connection) -> None:
        self._connection = connection
        self._dialect = connection.dialect
        self._is_direct = target.capabilities.driver_cursor
        self._cursor: Any = None

    def execute(self, sql: str, rows: Rows) -> int:
        """Execute SQL in the driver's style for all rows with one call; returns the row count."""
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
        """SQLAlchemy's error, without parameters, which are values (names_are_data)."""
        lost = self._dialect.is_disconnect(error, self._connection.connection, self._cursor)  # type: ignore[arg-type]
        wrapped = sa.exc.DBAPIError.instance(
            sql, None, error, self._dialect.loaded_dbapi.Error, connection_invalidated=lost, dialect=self._dialect
        )
        if lost:
            self._connection.invalidate(error)
        assert isinstance(wrapped, sa.exc.SQLAlchemyError)
        return wrapped


# Parameters ---------------------------------------------------------------------------------------

Row = tuple[Any, ...] | dict[str, Any]
Rows = list[tuple[Any, ...]] | list[dict[str, Any]]


def bind_rows(target: Target, statement: CompiledStatement, group: ChangeGroup) -> Rows:
    """The parameters of ``statement`` for each change of ``group``, converted column by column.

    Raises:
        UnsupportedValue: a column cannot store a value.
        ConflictError: 23502, a NULL for a column that would store a generated value instead.
    """
    if not statement.parameters:
        return [()] * len(group)
    columns = [bind_column(target, parameter, group) for parameter in statement.parameters]
    if statement.names is None:
        return list(zip(*columns, strict=True))
    return [dict(zip(statement.names, row, strict=True)) for row in zip(*columns, strict=True)]


def bind_column(target: Target, parameter: Parameter, group: ChangeGroup) -> list[Any]:
    values = _sent(parameter, group)
    if values is None:
        return [None] * len(group)
    return target.values.bind_values(parameter.type_oid, parameter.column, values)


def bulk_columns(parameters: Iterable[Parameter], group: ChangeGroup) -> list[BulkColumn]:
    """The values of parameters for :class:`~subscriber.targets.base.loading.Bulk`."""
    columns = []
    for parameter in parameters:
        values = _sent(parameter, group)
        if values is None:
            values = pa.nulls(len(group), family_of(parameter.type_oid).arrow_type)
        columns.append(BulkColumn(parameter.column, parameter.type_oid, values))
    return columns


def _sent(parameter: Parameter, group: ChangeGroup) -> pa.Array | None:
    """The values of a parameter as they were decoded; None if it is a NULL that was not sent."""
    batch = {"old": group.old, "new": group.new, None: None}[parameter.side]
    column = parameter.column
    values = None if batch is None else batch.column(column.name)
    if column.null_is_generated and parameter.side != "old" and (values is None or values.null_count):
        raise ConflictError(
            f'null value in column "{column.name}" violates not-null constraint',
            sqlstate="23502",
            column=column.name,
            detail="The target would replace the null with a generated value.",
        )
    return values
