"""Bulk writes to DuckDB: the changed rows are an Arrow table, which one statement joins.

::

    INSERT INTO t (a, b) SELECT CAST(c0 AS …), CAST(c1 AS …) FROM subscriber_block
    UPDATE t SET b = CAST(c1 AS …) FROM subscriber_block WHERE t.a = CAST(c0 AS …)
    DELETE FROM t USING subscriber_block WHERE t.a = CAST(c0 AS …)

A single statement takes about a millisecond for its one row. A statement that joins takes two
milliseconds, a few microseconds for each row, and the time to read the key of every row of the
table. *Rejected:* an upsert (INSERT … ON CONFLICT). It would insert a row that is missing.

Invariants:

- A value is converted by ``duckdb_values.as_stored`` and cast to the column's type, as in the
  initial copy. A key is compared by :meth:`Matching.finds`, as in a statement for one row.
- Different keys of the publisher are different in the target (:func:`duckdb_values.is_own_type`).
  DuckDB would update a row only once if two rows of the block matched it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import sqlalchemy as sa

from subscriber.targets.declared_columns import Declared
from subscriber.targets.duckdb import values as duckdb_values
from subscriber.targets.duckdb.errors import DuckDBErrors
from subscriber.targets.duckdb.loading import block_name_is_free
from subscriber.targets.loader import LoadColumn
from subscriber.targets.roles.bulk import BulkColumn
from subscriber.targets.roles.matching import Matching
from subscriber.targets.target_table import TargetColumn, TargetTable

Columns = tuple[TargetColumn, ...]

_LEAST_ROWS: Final = 16
"""From this many rows on one statement is quicker than a statement for each row, whatever the
action is and however short the rows are.
"""
_ROWS_READ: Final = 200_000
"""The rows of a table whose keys DuckDB reads in the time of a statement for one row."""
_MOST_STATEMENTS: Final = 1_000
"""The statements of each kind that are remembered."""
_BLOCK: Final = sa.table("subscriber_block")

_SIZE: Final = sa.text(
    "SELECT estimated_size FROM duckdb_tables() WHERE database_name = current_database()"
    " AND schema_name = :schema AND table_name = :table"
)


class DuckDBBulk:
    """See :class:`~subscriber.targets.roles.bulk.Bulk`."""

    def __init__(self, engine: sa.Engine, errors: DuckDBErrors, matching: Matching) -> None:
        self._engine = engine
        self._errors = errors
        self._matching = matching
        # To compile a statement for forty columns takes longer than to execute it for a hundred
        # rows.
        self._insert_sql = lru_cache(_MOST_STATEMENTS)(self._compiled_insert)
        self._update_sql = lru_cache(_MOST_STATEMENTS)(self._compiled_update)
        self._delete_sql = lru_cache(_MOST_STATEMENTS)(self._compiled_delete)

    def least_rows(self, connection: sa.Connection, table: TargetTable, key: Sequence[LoadColumn]) -> int | None:
        """See :meth:`Bulk.least_rows`; an INSERT does not read the table."""
        if not all(duckdb_values.is_own_type(one.type_oid, one.column) for one in key):
            return None
        with self._errors.reporting():
            if not block_name_is_free(connection):
                return None
            if not key:
                return _LEAST_ROWS
            size = connection.execute(_SIZE, {"schema": table.schema, "table": table.name}).scalar_one()
        return max(_LEAST_ROWS, int(size) // _ROWS_READ)

    def insert(self, connection: sa.Connection, table: TargetTable, written: Sequence[BulkColumn]) -> int:
        """See :meth:`Bulk.insert`."""
        return self._run(connection, self._insert_sql(table, _columns(written)), written)

    def update(
        self, connection: sa.Connection, table: TargetTable, key: Sequence[BulkColumn], written: Sequence[BulkColumn]
    ) -> int:
        """See :meth:`Bulk.update`; if no column is to be set, the rows are only counted."""
        return self._run(connection, self._update_sql(table, _columns(key), _columns(written)), [*key, *written])

    def delete(self, connection: sa.Connection, table: TargetTable, key: Sequence[BulkColumn]) -> int:
        """See :meth:`Bulk.delete`."""
        return self._run(connection, self._delete_sql(table, _columns(key)), key)

    def _compiled_insert(self, table: TargetTable, written: Columns) -> str:
        rows = sa.select(*_values(written)).select_from(_BLOCK)
        return self._compiled(sa.insert(table.clause()).from_select([one.name for one in written], rows))

    def _compiled_update(self, table: TargetTable, key: Columns, written: Columns) -> str:
        clause, values = table.clause(), _values([*key, *written])
        found = self._found(clause, key, values)
        if not written:
            return self._compiled(sa.select(sa.func.count()).select_from(clause, _BLOCK).where(*found))
        new = {one.name: value for one, value in zip(written, values[len(key) :], strict=True)}
        return self._compiled(sa.update(clause).values(new).where(*found))

    def _compiled_delete(self, table: TargetTable, key: Columns) -> str:
        clause = table.clause()
        return self._compiled(sa.delete(clause).where(*self._found(clause, key, _values(key))))

    def _compiled(self, statement: sa.ClauseElement) -> str:
        return str(statement.compile(dialect=self._engine.dialect))

    def _found(
        self, clause: sa.TableClause, key: Columns, values: Sequence[sa.ColumnElement[Any]]
    ) -> list[sa.ColumnElement[bool]]:
        """The conditions that the key of a row is that of a row of the block."""
        return [self._matching.finds(one, clause.c[one.name], value) for one, value in zip(key, values, strict=False)]

    def _run(self, connection: sa.Connection, sql: str, columns: Sequence[BulkColumn]) -> int:
        """Execute a statement on a block of these columns; returns the number that it reports."""
        arrays = [duckdb_values.as_stored(one.type_oid, one.column, one.values) for one in columns]
        driver: Any = connection.connection.driver_connection
        # DuckDB finds this table by the variable's name, as in subscriber.targets.duckdb.loading.
        subscriber_block = pa.Table.from_arrays(arrays, names=[_name(number) for number in range(len(arrays))])
        with self._errors.reporting_driver():
            found: int = driver.execute(sql).fetchone()[0]
        del subscriber_block
        return found


def _columns(columns: Sequence[BulkColumn]) -> Columns:
    return tuple(one.column for one in columns)


def _values(columns: Sequence[TargetColumn]) -> list[sa.ColumnElement[Any]]:
    """The SQL of the values of a block's columns."""
    return [
        sa.cast(sa.column(_name(number), _selectable=_BLOCK), Declared(one.declared_type))
        for number, one in enumerate(columns)
    ]


def _name(number: int) -> str:
    return f"c{number}"
