"""Statements that write to SQLite, for one row and for many. Texts are compared exactly, whatever
collation a column has. RESTRICT is checked against the foreign keys of every table (rule C30).

New rows are written by INSERT with many rows in VALUES, which takes six tenths of the time of
``executemany``::

    INSERT INTO t (a, b) VALUES (?, ?), (?, ?), (?, ?), …      as many rows as MOST_PARAMETERS allows
    INSERT INTO t (a, b) VALUES (?, ?)                         for each of the rows that are left

An UPDATE or DELETE is executed by the driver's ``executemany``. It reads the rows from an iterator,
which reuses one tuple: a list of tuples costs half as much as the writing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final, cast

import pyarrow as pa
import sqlalchemy as sa
from typing_extensions import override

from subscriber.postgres.types.equality import EXACT
from subscriber.postgres.types.registry import family_of
from subscriber.targets.base import loading
from subscriber.targets.base.values import Values
from subscriber.targets.base.writing import Matching, Writing, Written
from subscriber.targets.sqlite.catalog import SQLiteColumn, SQLiteTable, has_table
from subscriber.targets.sqlite.errors import SQLiteErrors
from subscriber.targets.sqlite.transactions import asked
from subscriber.targets.sqlite.values import INTEGER, TEXT
from subscriber.targets.target_table import TargetColumn, TargetTable

_BINARY: Final = "BINARY"


class SQLiteMatching(Matching):
    @override
    def comparable(self, column: TargetColumn, clause: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
        return sa.collate(clause, _BINARY)

    @override
    def equals(
        self, column: TargetColumn, clause: sa.ColumnElement[Any], value: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        """In Turso, a comparison with a collation of its own does not use the key's index."""
        collation = _key_collation(column)
        collates = isinstance(column, SQLiteColumn) and column.has_collations and collation is not None
        return (sa.collate(clause, collation) if collates and collation else clause) == value

    @override
    def found_as_written(self, type_oid: int, table: TargetTable, column: TargetColumn) -> bool:
        watched = isinstance(table, SQLiteTable) and table.may_watch_columns
        return not watched and self.equality(type_oid, column) == EXACT and self.tells_apart(type_oid, column)

    @override
    def tells_apart(self, type_oid: int, column: TargetColumn) -> bool:
        if column.storage == INTEGER:
            return bool(pa.types.is_integer(family_of(type_oid).arrow_type))
        return column.storage == TEXT and _key_collation(column) == _BINARY


def _key_collation(column: TargetColumn) -> str | None:
    return column.key_collation if isinstance(column, SQLiteColumn) else None


# Writing ---------------------------------------------------------------------------------------


class SQLiteWriting(Writing):
    @override
    def or_fail(self, table: TargetTable, statement: Written) -> Written:
        """OR ABORT overrides the ON CONFLICT clauses of constraints, also for triggers."""
        resolves = isinstance(table, SQLiteTable) and table.resolves_conflicts
        return statement.prefix_with("OR ABORT") if resolves else statement

    @override
    def referencing(self, connection: sa.Connection, table: TargetTable, truncated: Sequence[TargetTable]) -> set[str]:
        query = sa.text(
            "SELECT DISTINCT t.name FROM pragma_table_list AS t, pragma_foreign_key_list(t.name, :database) AS f"
            " WHERE t.schema = coalesce(:place, 'main') AND t.type = 'table' AND f.\"table\" = :name COLLATE NOCASE"
        )
        place = {"place": table.schema, "database": table.schema, "name": table.name}
        found = set(connection.execute(asked(connection, query), place).scalars())
        return found - {other.name for other in truncated if other.schema == table.schema}

    @override
    def restart_identities(self, connection: sa.Connection, tables: Sequence[TargetTable]) -> None:
        for table in tables:
            if has_table(connection, table.schema or "main", "sqlite_sequence"):
                sequence = sa.table("sqlite_sequence", sa.column("name"), schema=table.schema)
                connection.execute(sa.delete(sequence).where(sequence.c.name == table.name))


# Many rows -------------------------------------------------------------------------------------

MOST_PARAMETERS: Final = 999
"""Every version of SQLite allows as many in one statement."""
_MOST_STATEMENTS: Final = 100


def insert_rows(
    driver: sqlite3.Connection, statement: loading.RowStatement, bound: Sequence[Sequence[Any]], rows: int
) -> int:
    width = len(statement.order)
    done = inserted = 0
    many = _many_rows(statement.sql, width)
    if many is not None:
        values: list[Any] = [None] * (rows * width)
        for place, index in enumerate(statement.order):
            values[place::width] = bound[index]
        step = MOST_PARAMETERS // width
        cursor = driver.cursor()
        for done in range(step, rows + 1, step):
            inserted += cursor.execute(many, values[(done - step) * width : done * width]).rowcount
    if done < rows:
        left = [column[done:] for column in bound]
        inserted += driver.executemany(statement.sql, statement.rows(left, rows - done)).rowcount
    return inserted


def driver_of(connection: sa.Connection) -> sqlite3.Connection:
    driver: Any = connection.connection.driver_connection  # Turso's has the same functions
    assert driver is not None
    return cast("sqlite3.Connection", driver)


@lru_cache(_MOST_STATEMENTS)
def _many_rows(sql: str, width: int) -> str | None:
    """The statement for as many rows as possible; None for one, or without VALUES at its end."""
    row = f"({', '.join('?' * width)})"
    start = sql.removesuffix(row)
    step = MOST_PARAMETERS // width if width else 1
    return None if start == sql or step < 2 else start + ", ".join([row] * step)


# Loading ---------------------------------------------------------------------------------------


class SQLiteLoading(loading.Loading):
    def __init__(self, engine: sa.Engine, errors: SQLiteErrors, values: Values, writing: Writing) -> None:
        super().__init__(engine, errors, values, writing)
        self._driver_errors = errors

    @override
    @contextmanager
    def loader(
        self, connection: sa.Connection, table: TargetTable, columns: Sequence[loading.LoadColumn]
    ) -> Iterator[Callable[[bytes], None]]:
        statement = loading.insert_statement(self._engine.dialect, self._writing, table, columns)

        def load(block: bytes) -> None:
            batch = loading.read_block(block)
            bound = loading.bind_block(self._values, columns, batch)
            with self._driver_errors.reporting_driver():
                insert_rows(driver_of(connection), statement, bound, batch.num_rows)

        yield load


# Bulk ------------------------------------------------------------------------------------------

_LEAST_ROWS: Final = 64
"""From this many rows on the time to sort them is less than the time that is saved."""


class SQLiteBulk(loading.RowBulk):
    def __init__(
        self, engine: sa.Engine, errors: SQLiteErrors, values: Values, matching: Matching, writing: Writing
    ) -> None:
        super().__init__(engine, matching, writing)
        self._errors = errors
        self._values = values

    @override
    def least_rows(self, connection: sa.Connection, table: TargetTable, key: Sequence[loading.LoadColumn]) -> int:
        return _LEAST_ROWS

    @override
    def _execute(
        self, connection: sa.Connection, statement: loading.RowStatement, columns: Sequence[loading.BulkColumn]
    ) -> int:
        bound = self._bound(columns)
        with self._errors.reporting_driver():
            return driver_of(connection).executemany(statement.sql, statement.rows(bound, len(bound[0]))).rowcount

    @override
    def _insert(
        self, connection: sa.Connection, statement: loading.RowStatement, columns: Sequence[loading.BulkColumn]
    ) -> int:
        bound = self._bound(columns)
        with self._errors.reporting_driver():
            return insert_rows(driver_of(connection), statement, bound, len(bound[0]))

    def _bound(self, columns: Sequence[loading.BulkColumn]) -> list[list[Any]]:
        return [self._values.bind_values(one.type_oid, one.column, one.values) for one in columns]
