"""Reads some columns of a published table with COPY, for a look at all its values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import psycopg

from subscriber.publisher.copy_plan import quoted
from subscriber.publisher.server_errors import error_of
from subscriber.publisher.sql_connection import Connection
from subscriber.schema.published_table import PublishedTable

_BLOCK_BYTES = 4 * 1024 * 1024


def read_values(
    connection: Connection, table: PublishedTable, columns: Sequence[str], conditions: Sequence[str]
) -> Iterator[bytes]:
    """Whole lines of COPY's text, a few megabytes at a time.

    Args:
        connection: a connection to the publisher.
        table: the table; of its rows, those that its filters publish are read.
        columns: the columns to read.
        conditions: SQL conditions; a row is read if one of them is true.

    Raises:
        PublisherError: the server refused to read the table.
        psycopg.Error: the connection was lost.
    """
    only = "" if table.kind == "partitioned table" else "ONLY "
    source = f"{only}{quoted(table.schema, table.name)} AS {quoted(table.name)}"
    where = f"({' OR '.join(conditions)})"
    if table.filters:
        where = f"({' OR '.join(table.filters)}) AND {where}"
    query = f"COPY (SELECT {', '.join(map(quoted, columns))} FROM {source} WHERE {where}) TO STDOUT"
    waiting = bytearray()
    try:
        with connection.cursor() as cursor, cursor.copy(query.encode()) as copy:
            for data in copy:
                waiting += data
                if len(waiting) >= _BLOCK_BYTES and waiting.endswith(b"\n"):
                    yield bytes(waiting)
                    waiting.clear()
    except psycopg.Error as error:
        if connection.broken or error.sqlstate is None:
            raise
        raise error_of(error) from error
    if waiting:
        yield bytes(waiting)
