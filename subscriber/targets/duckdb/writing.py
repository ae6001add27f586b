"""Statements that write to DuckDB, for one row and for many.

Many rows are an Arrow table, which DuckDB reads from memory, and which one statement joins::

    INSERT INTO t (a, b) SELECT CAST(c0 AS …), CAST(c1 AS …) FROM subscriber_block
    UPDATE t SET b = CAST(c1 AS …) FROM subscriber_block WHERE t.a = CAST(c0 AS …)
    DELETE FROM t USING subscriber_block WHERE t.a = CAST(c0 AS …)

A single statement takes about a millisecond for its one row. A statement that joins takes two
milliseconds, a few microseconds for each row, and the time to read the key of every row of the
table. *Rejected:* an upsert (INSERT … ON CONFLICT). It would insert a row that is missing.

Invariants:

- A value is converted by :meth:`DuckDBValues.as_block` and cast to the column's type. A key is
  compared by :meth:`Matching.finds`, as in a statement for one row.
- Different keys of the publisher are different in the target (:meth:`Matching.tells_apart`). DuckDB
  would update a row only once if two rows of the block matched it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import sqlalchemy as sa
from typing_extensions import override

from subscriber.base.errors import TargetRelationError
from subscriber.postgres.types.equality import EXACT, Equality
from subscriber.targets.base.loading import Bulk, BulkColumn, LoadColumn, Loading, read_block
from subscriber.targets.base.writing import Matching, Writing
from subscriber.targets.declared_columns import Declared
from subscriber.targets.duckdb.catalog import restart_sequences
from subscriber.targets.duckdb.errors import DuckDBErrors
from subscriber.targets.duckdb.values import DECIMAL, STORED_ALIKE, VARCHAR, DuckDBValues, is_own_type
from subscriber.targets.target_table import TargetColumn, TargetTable

_BYTE_BY_BYTE: Final = "binary"
"""The collation that compares bytes: no collation at all."""


class DuckDBMatching(Matching):
    @override
    def equality(self, type_oid: int, column: TargetColumn) -> Equality:
        """A DECIMAL is compared like numeric."""
        return EXACT if column.storage == DECIMAL else super().equality(type_oid, column)

    @override
    def comparable(self, column: TargetColumn, clause: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
        """Texts are compared by their bytes, whatever the collation of column or database."""
        return sa.collate(clause, _BYTE_BY_BYTE) if column.storage == VARCHAR else clause

    @override
    def equals(
        self, column: TargetColumn, clause: sa.ColumnElement[Any], value: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        """DuckDB's indexes ignore collations, but ``=`` uses them."""
        return self.comparable(column, clause) == value

    @override
    def tells_apart(self, type_oid: int, column: TargetColumn) -> bool:
        return is_own_type(type_oid, column)

    @override
    def found_as_written(self, type_oid: int, table: TargetTable, column: TargetColumn) -> bool:
        """DuckDB does not have triggers."""
        return column.storage in STORED_ALIKE and self.equality(type_oid, column) == EXACT


# Writing ---------------------------------------------------------------------------------------

_REFERENCES: Final = sa.text(
    "SELECT DISTINCT table_name FROM duckdb_constraints() WHERE database_name = current_database()"
    " AND schema_name = :schema AND constraint_type = 'FOREIGN KEY' AND referenced_table = :table"
)


class DuckDBWriting(Writing):
    @override
    def referencing(self, connection: sa.Connection, table: TargetTable, truncated: Sequence[TargetTable]) -> set[str]:
        # A foreign key and its referenced table are in the same schema.
        found = set(connection.execute(_REFERENCES, {"schema": table.schema, "table": table.name}).scalars())
        return found - {other.name for other in truncated if other.schema == table.schema}

    @override
    def restart_identities(self, connection: sa.Connection, tables: Sequence[TargetTable]) -> None:
        """Not undone by a rollback. From MINVALUE, or from MAXVALUE if a sequence counts down."""
        for table in tables:
            restart_sequences(connection, table)


# Many rows: the block is an Arrow table --------------------------------------------------------

_BLOCK_TABLE: Final = "SELECT 1 FROM information_schema.tables WHERE lower(table_name) = 'subscriber_block'"


_BLOCK: Final = sa.table("subscriber_block")


class DuckDBLoading(Loading):
    def __init__(self, engine: sa.Engine, errors: DuckDBErrors, values: DuckDBValues, writing: Writing) -> None:
        super().__init__(engine, errors, values, writing)
        self._execute = _BlockExecutor(errors, values)

    @override
    @contextmanager
    def loader(
        self, connection: sa.Connection, table: TargetTable, columns: Sequence[LoadColumn]
    ) -> Iterator[Callable[[bytes], None]]:
        with self._errors.reporting():
            if not block_name_is_free(connection):
                raise TargetRelationError(
                    'the name "subscriber_block" is already in use',
                    sqlstate="42P07",
                    hint="The initial copy uses this name for its blocks: rename the table or view.",
                )
        insert = _insert_sql(self._engine.dialect, table, [one.column for one in columns])

        def load(block: bytes) -> None:
            batch = read_block(block).columns
            written = [BulkColumn(one.column, one.type_oid, values) for one, values in zip(columns, batch, strict=True)]
            self._execute(connection, insert, written)

        yield load


class _BlockExecutor:
    def __init__(self, errors: DuckDBErrors, values: DuckDBValues) -> None:
        self._errors = errors
        self._values = values

    def __call__(self, connection: sa.Connection, sql: str, columns: Sequence[BulkColumn]) -> int:
        """Execute a statement on a block of these columns; returns the number that it reports."""
        arrays = [self._values.as_block(one.type_oid, one.column, one.values) for one in columns]
        driver: Any = connection.connection.driver_connection
        # DuckDB finds this table by the variable's name, unless the database has a table of that
        # name. The table is not registered, because DuckDB keeps a registered object until the
        # commit.
        subscriber_block = pa.Table.from_arrays(arrays, names=[_name(number) for number in range(len(arrays))])
        with self._errors.reporting_driver():
            found: int = driver.execute(sql).fetchone()[0]
        del subscriber_block
        return found


def block_name_is_free(connection: sa.Connection) -> bool:
    """Whether the database has no table or view that DuckDB would read in place of the block."""
    return connection.exec_driver_sql(_BLOCK_TABLE).first() is None


def _insert_sql(dialect: sa.Dialect, table: TargetTable, written: Sequence[TargetColumn]) -> str:
    rows = sa.select(*_values(written)).select_from(_BLOCK)
    return str(sa.insert(table.clause()).from_select([one.name for one in written], rows).compile(dialect=dialect))


Columns = tuple[TargetColumn, ...]

_LEAST_ROWS: Final = 16
"""From this many rows on one statement is quicker, whatever the action and the rows are."""
_ROWS_READ: Final = 200_000
"""The rows of a table whose keys DuckDB reads in the time of a statement for one row."""
_MOST_STATEMENTS: Final = 1_000
_SIZE: Final = sa.text(
    "SELECT estimated_size FROM duckdb_tables() WHERE database_name = current_database()"
    " AND schema_name = :schema AND table_name = :table"
)


class DuckDBBulk(Bulk):
    def __init__(self, engine: sa.Engine, errors: DuckDBErrors, values: DuckDBValues, matching: Matching) -> None:
        self._dialect = engine.dialect
        self._errors = errors
        self._matching = matching
        self._execute = _BlockExecutor(errors, values)
        # To compile a statement for forty columns takes longer than to execute it for a hundred
        # rows.
        self._insert_sql = lru_cache(_MOST_STATEMENTS)(self._compiled_insert)
        self._update_sql = lru_cache(_MOST_STATEMENTS)(self._compiled_update)
        self._delete_sql = lru_cache(_MOST_STATEMENTS)(self._compiled_delete)

    @override
    def least_rows(self, connection: sa.Connection, table: TargetTable, key: Sequence[LoadColumn]) -> int | None:
        """An INSERT does not read the table."""
        if not all(self._matching.tells_apart(one.type_oid, one.column) for one in key):
            return None
        with self._errors.reporting():
            if not block_name_is_free(connection):
                return None
            if not key:
                return _LEAST_ROWS
            size = connection.execute(_SIZE, {"schema": table.schema, "table": table.name}).scalar_one()
        return max(_LEAST_ROWS, int(size) // _ROWS_READ)

    @override
    def insert(self, connection: sa.Connection, table: TargetTable, written: Sequence[BulkColumn]) -> int:
        return self._execute(connection, self._insert_sql(table, _columns(written)), written)

    @override
    def update(
        self, connection: sa.Connection, table: TargetTable, key: Sequence[BulkColumn], written: Sequence[BulkColumn]
    ) -> int:
        """If no column is to be set, the rows are only counted."""
        return self._execute(connection, self._update_sql(table, _columns(key), _columns(written)), [*key, *written])

    @override
    def delete(self, connection: sa.Connection, table: TargetTable, key: Sequence[BulkColumn]) -> int:
        return self._execute(connection, self._delete_sql(table, _columns(key)), key)

    def _compiled_insert(self, table: TargetTable, written: Columns) -> str:
        return _insert_sql(self._dialect, table, written)

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
        return str(statement.compile(dialect=self._dialect))

    def _found(
        self, clause: sa.TableClause, key: Columns, values: Sequence[sa.ColumnElement[Any]]
    ) -> list[sa.ColumnElement[bool]]:
        return [self._matching.finds(one, clause.c[one.name], value) for one, value in zip(key, values, strict=False)]


def _columns(columns: Sequence[BulkColumn]) -> Columns:
    return tuple(one.column for one in columns)


def _values(columns: Sequence[TargetColumn]) -> list[sa.ColumnElement[Any]]:
    return [
        sa.cast(sa.column(_name(number), _selectable=_BLOCK), Declared(one.declared_type))
        for number, one in enumerate(columns)
    ]


def _name(number: int) -> str:
    return f"c{number}"
