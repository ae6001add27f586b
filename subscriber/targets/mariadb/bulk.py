"""Bulk writes to MariaDB: many rows in one packet.

::

    INSERT INTO t (a, b) VALUES (1, 'x'),(2, 'y'),…
    UPDATE t SET b = 'x' WHERE a = 1;UPDATE t SET b = 'y' WHERE a = 2;…
    DELETE FROM t WHERE a IN (1,2,…)
    DELETE FROM t WHERE a = 1 AND b = 'x';DELETE FROM t WHERE a = 1 AND b = 'y';…

A single statement costs a round trip and the driver's work, several times what the server needs
for it. Several statements in a packet find, store and refuse what they do one by one.

*Rejected:*

- a temporary table and a join. The server takes four fifths of the time, because it changes the
  rows in a second pass; it needs a privilege, and some servers refuse it within a transaction.
- INSERT … ON DUPLICATE KEY UPDATE. It would insert a row that is missing. To lock and count the
  rows first would take half of the time, but a CHECK or a column without a default could refuse
  the row that is not inserted.
- LOAD DATA LOCAL for new rows. It is a third quicker, but it turns errors into warnings, and MySQL
  forbids it unless it is configured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import pyarrow as pa
import sqlalchemy as sa
from pymysql.err import MySQLError

from subscriber.targets.generic.bulk import GenericBulk, in_order
from subscriber.targets.loader import LoadColumn, RowStatement
from subscriber.targets.mariadb.errors import translate_driver
from subscriber.targets.mariadb.statement_texts import literals, packets, pieces
from subscriber.targets.mariadb.values import INTEGERS, as_stored
from subscriber.targets.roles.bulk import BulkColumn
from subscriber.targets.target_table import TargetTable

_LEAST_ROWS: Final = 8
"""From this many rows on one packet is quicker than a packet for each row."""
_PACKET: Final = 256 * 1024
"""Bytes in a packet: below any server's max_allowed_packet, and so many that the number of packets
does not matter.
"""


class MariaDBBulk(GenericBulk):
    """See :class:`~subscriber.targets.roles.bulk.Bulk`."""

    def least_rows(self, connection: sa.Connection, table: TargetTable, key: Sequence[LoadColumn]) -> int:
        """See :meth:`Bulk.least_rows`."""
        del connection, table, key  # the statements are those for one row
        return _LEAST_ROWS

    def delete(self, connection: sa.Connection, table: TargetTable, key: Sequence[BulkColumn]) -> int:
        """See :meth:`Bulk.delete`; an integer is found in a list as it is found alone."""
        if len(key) != 1 or key[0].column.storage not in INTEGERS or not pa.types.is_integer(key[0].values.type):
            return super().delete(connection, table, key)
        driver: Any = connection.connection.driver_connection
        (first, _), order = pieces(self._delete_of(table, (key[0].column,)))
        head = first.removesuffix("= ") + "IN ("
        values = _literals(in_order(key, key), order)
        return _sum(driver.query, packets(head, ["", ""], values, ",", tail=")", most=_PACKET))

    def _execute(self, connection: sa.Connection, statement: RowStatement, columns: Sequence[BulkColumn]) -> int:
        driver: Any = connection.connection.driver_connection
        parts, order = pieces(statement)
        return _sum(driver.query_many, packets("", parts, _literals(columns, order), ";", most=_PACKET))

    def _insert(self, connection: sa.Connection, statement: RowStatement, columns: Sequence[BulkColumn]) -> int:
        driver: Any = connection.connection.driver_connection
        (first, *rest), order = pieces(statement)
        head = first.removesuffix("(")
        return _sum(driver.query, packets(head, ["(", *rest], _literals(columns, order), ",", most=_PACKET))


def _literals(columns: Sequence[BulkColumn], order: Sequence[int]) -> list[pa.Array]:
    values = [literals(as_stored(one.type_oid, one.column, one.values)) for one in columns]
    return [values[index] for index in order]


def _sum(send: Callable[[bytes], int], texts: Iterable[bytes]) -> int:
    """Send all texts; returns the number of rows that were written or found."""
    try:
        return sum(send(text) for text in texts)
    except MySQLError as error:
        raise translate_driver(error) from None
