"""Loading into PostgreSQL with COPY, which reads the publisher's text unchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import sqlalchemy as sa

from subscriber.targets.generic.loading import GenericLoading
from subscriber.targets.loader import BlockFormat, LoadColumn
from subscriber.targets.postgresql.errors import (
    translate_copy,
)
from subscriber.targets.target_table import (
    TargetTable,
)
from subscriber.types import type_name

_SAME_IN_BINARY: Final = frozenset(
    {16, 17, 20, 21, 23, 25, 114, 700, 701, 1043, 1082, 1083, 1114, 1184, 1700, 2950, 3802}
)
"""Types whose binary format is the same in all versions, with the same checks when it is read. A
receive function also applies the column's length and scale. interval is not in this list: a server
before version 17 reads the infinity of a newer server as a number of years.
"""
_BINARY_HEADER: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_BINARY_END: Final = b"\xff\xff"


class PostgreSQLLoading(GenericLoading):
    """See :class:`~subscriber.targets.roles.loading.Loading`."""

    def block_format(self, columns: Sequence[LoadColumn]) -> BlockFormat:
        """See :meth:`Loading.block_format`; binary if it has the same meaning in every column, else
        text.

        With the binary format the server needs little more than half the time.
        """
        same = all(
            load.type_oid in _SAME_IN_BINARY and load.column.storage == type_name(load.type_oid) and not load.replaced
            for load in columns
        )
        return "binary" if columns and same else "text"

    @contextmanager
    def loader(
        self, connection: sa.Connection, table: TargetTable, columns: Sequence[LoadColumn]
    ) -> Iterator[Callable[[bytes], None]]:
        """See :meth:`Loading.loader`; COPY, which reads the publisher's text unchanged.

        COPY always overrides identity columns.
        """
        if not columns:
            # COPY cannot express rows without any given column.
            yield lambda block: self._insert_defaults(connection, table, block.count(b"\n"))
            return
        names = [load.column.name for load in columns]
        binary = self.block_format(columns) == "binary"
        with copying(connection, table, names, " (FORMAT binary)" if binary else "") as write:
            if binary:
                write(_BINARY_HEADER)
            yield write
            if binary:
                write(_BINARY_END)

    def _insert_defaults(self, connection: sa.Connection, table: TargetTable, count: int) -> None:
        into = connection.dialect.identifier_preparer.format_table(table.clause())
        with self._errors.reporting():
            connection.exec_driver_sql(f"INSERT INTO {into} SELECT FROM generate_series(1, {count})")


@contextmanager
def copying(
    connection: sa.Connection, table: TargetTable, names: Sequence[str], options: str = ""
) -> Iterator[Callable[[bytes], None]]:
    """A COPY into columns of a table; gives the function that sends a part of its data.

    Args:
        connection: the connection, in a transaction.
        table: the table.
        names: the names of the columns, at least one.
        options: COPY's options, as SQL.

    Raises:
        SubscriberError: COPY failed; nothing of it is stored.
    """
    preparer = connection.dialect.identifier_preparer
    into = preparer.format_table(table.clause())
    command = f"COPY {into} ({', '.join(map(preparer.quote, names))}) FROM STDIN{options}"
    command = command.replace("%%", "%")  # a name is quoted for a statement with parameters
    driver: Any = connection.connection.driver_connection
    try:
        with driver.cursor() as cursor, cursor.copy(command.encode()) as copy:
            yield copy.write
    except connection.dialect.loaded_dbapi.Error as error:
        # The driver's error quotes rows, so it must not be printed as the cause.
        raise translate_copy(error, table.name, names) from None
