"""Bulk writes to PostgreSQL: COPY for new rows, and a join with an array of rows for the others.

::

    COPY t (a, b) FROM STDIN
    UPDATE ONLY t SET b = s.b FROM unnest('{"(1,x)","(2,y)"}'::t[]) AS s WHERE t.a = s.a
    DELETE FROM ONLY t USING unnest('{"(1,)","(2,)"}'::t[]) AS s WHERE t.a = s.a

The array is one parameter, and its elements have the type of the table's rows. So the server reads
each value with the input function and the modifier of its column, whatever its type is, and gives
it the column's collation. *Rejected:* an array for each column; there is none of arrays, and a cast
from text cuts a value that is too long. *Rejected:* COPY into a temporary table; it needs a
privilege, it bloats the catalogs, a transaction that uses it cannot be prepared, and below a
thousand rows it is slower.

Invariants:

- A table with a trigger that fires is written row by row: a trigger may read the table, and may
  count statements.
- A key is compared by :meth:`Matching.finds`, as in a statement for one row.
- No parameter is longer than a few megabytes, unless a few values are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import sqlalchemy as sa

from subscriber.errors import ApplyError
from subscriber.targets.loader import LoadColumn
from subscriber.targets.postgresql.column_values import column_texts
from subscriber.targets.postgresql.loading import copying
from subscriber.targets.postgresql.row_texts import copy_data, row_array
from subscriber.targets.postgresql.table_rules import takes_many_rows
from subscriber.targets.postgresql.transactions import PostgreSQLTransactions
from subscriber.targets.roles.bulk import BulkColumn
from subscriber.targets.roles.errors import Errors
from subscriber.targets.roles.matching import Matching
from subscriber.targets.roles.origins import Origins
from subscriber.targets.target_table import TargetTable

_LEAST_ROWS: Final = 8
"""From this many rows on one statement is quicker than a statement for each row."""
_BYTES_AT_A_TIME: Final = 4 * 2**20
"""The bytes of the values of one statement, if they are spread evenly over the rows."""
_MOST_CHARACTERS: Final = 2**28
"""The length of the longest array. The server's limit is 1 GiB, and a lost connection."""
_ROWS: Final = "subscriber_rows"


class PostgreSQLBulk:
    """See :class:`~subscriber.targets.roles.bulk.Bulk`."""

    def __init__(
        self,
        engine: sa.Engine,
        errors: Errors,
        transactions: PostgreSQLTransactions,
        matching: Matching,
        origins: Origins,
    ) -> None:
        self._engine = engine
        self._errors = errors
        self._transactions = transactions
        self._matching = matching
        self._origins = origins

    def least_rows(self, connection: sa.Connection, table: TargetTable, key: Sequence[LoadColumn]) -> int | None:
        """See :meth:`Bulk.least_rows`; None where only the partitions have keys."""
        if key and self._matching.routing(table) is not None:
            return None
        if not all(self._matching.tells_apart(one.type_oid, one.column) for one in key):
            return None
        with self._errors.reporting():
            takes = takes_many_rows(connection, table, fires=self._transactions.fires, as_rows=bool(key))
        return _LEAST_ROWS if takes else None

    def insert(self, connection: sa.Connection, table: TargetTable, written: Sequence[BulkColumn]) -> int:
        """See :meth:`Bulk.insert`."""
        with copying(connection, table, [one.column.name for one in written]) as write:
            for part in _parts(written):
                write(copy_data([column_texts(one.column, one.values) for one in part]))
        return len(written[0].values)

    def update(
        self, connection: sa.Connection, table: TargetTable, key: Sequence[BulkColumn], written: Sequence[BulkColumn]
    ) -> int:
        """See :meth:`Bulk.update`; a row that has nothing to set gets a new version, too."""
        clause, rows = table.clause(), self._rows(table)
        columns = {one.column.name: one for one in key}
        for one in written:
            own = columns.setdefault(one.column.name, one)
            if not own.values.equals(one.values):
                raise ValueError("an UPDATE of many rows cannot change their key")
        new: dict[str, Any] = {one.column.name: rows.c[one.column.name] for one in written}
        same = key[0].column.name
        statement = sa.update(clause).values(new or {same: clause.c[same]})
        found = statement.where(*self._found(connection, clause, rows, key))
        return self._run(connection, table, self._matching.own_rows(table, found, clause), list(columns.values()))

    def delete(self, connection: sa.Connection, table: TargetTable, key: Sequence[BulkColumn]) -> int:
        """See :meth:`Bulk.delete`."""
        clause = table.clause()
        found = sa.delete(clause).where(*self._found(connection, clause, self._rows(table), key))
        return self._run(connection, table, self._matching.own_rows(table, found, clause), key)

    def _rows(self, table: TargetTable) -> sa.TableValuedAlias:
        """The rows of the array, with the table's columns. Their type has the table's name."""
        row_type = self._engine.dialect.identifier_preparer.format_table(table.clause())
        array = sa.cast(sa.bindparam(None, type_=sa.types.NullType()), _Named(f"{row_type}[]"))
        return sa.func.unnest(array).table_valued(*(column.name for column in table.columns), name=_ROWS)

    def _found(
        self, connection: sa.Connection, clause: sa.TableClause, rows: sa.FromClause, key: Sequence[BulkColumn]
    ) -> Iterator[sa.ColumnElement[bool]]:
        """The conditions that the key of a row is that of a row of the array, and that no other
        origin wrote the row last.
        """
        for one in key:
            name = one.column.name
            yield self._matching.finds(one.column, clause.c[name], rows.c[name])
        differs = self._origins.others(connection)
        if differs is not None:
            yield differs.is_not(sa.true())

    def _run(
        self, connection: sa.Connection, table: TargetTable, statement: sa.UpdateBase, columns: Sequence[BulkColumn]
    ) -> int:
        """Execute a statement on rows of these columns; returns how many rows it has changed."""
        sql = str(statement.compile(dialect=self._engine.dialect))
        found = 0
        for part in _parts(columns):
            texts = {one.column.name: column_texts(one.column, one.values) for one in part}
            array = row_array([texts.get(column.name) for column in table.columns])
            if len(array) > _MOST_CHARACTERS:
                raise ApplyError("the values are too long for one statement", sqlstate="54000")
            with self._errors.reporting():
                found += connection.exec_driver_sql(sql, (array,)).rowcount
        return found


class _Named(sa.types.UserDefinedType[Any]):
    """A type that is given by its SQL."""

    cache_ok = True

    def __init__(self, name: str) -> None:
        self.name = name

    def get_col_spec(self, **_: object) -> str:
        return self.name


def _parts(columns: Sequence[BulkColumn]) -> Iterator[list[BulkColumn]]:
    """The rows in parts of about :data:`_BYTES_AT_A_TIME` bytes."""
    rows = len(columns[0].values)
    parts = 1 + sum(one.values.nbytes for one in columns) // _BYTES_AT_A_TIME
    step = max(1, -(-rows // parts))
    for start in range(0, rows, step):
        yield [BulkColumn(one.column, one.type_oid, one.values.slice(start, step)) for one in columns]
