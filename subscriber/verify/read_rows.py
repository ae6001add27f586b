"""The rows of a table at the publisher and in the target, streamed in the order of a key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import psycopg
import sqlalchemy as sa
from psycopg import sql

from subscriber.publisher.sql_connection import Connection
from subscriber.schema.published_table import PublishedTable
from subscriber.targets import Target
from subscriber.targets.target_table import TargetTable

_ROWS_AT_ONCE: Final = 1000

TextRow = tuple[str | None, ...]


def publisher_rows(
    publisher: Connection, table: PublishedTable, columns: Sequence[str], key: Sequence[str] = (), *, only: bool
) -> Iterator[TextRow]:
    """The rows that a table publishes, in the text that the output functions of their types write.

    Args:
        publisher: a connection to the publisher.
        table: the table; its filters select the rows.
        columns: the columns to read.
        key: the columns to order by.
        only: leave out tables that inherit from it, which are published as separate tables.

    Raises:
        psycopg.Error: the server's error.
    """
    # The filters are expressions from the publisher's catalog.
    either = sql.SQL(" OR ").join(sql.SQL("({})").format(sql.SQL(text)) for text in table.filters)
    source = sql.SQL("{}{}{}").format(
        sql.SQL("ONLY " if only else ""),
        sql.Identifier(table.schema, table.name),
        sql.SQL(" WHERE {}").format(either) if table.filters else sql.SQL(""),
    )
    return _copy(publisher, source, columns, key)


def target_rows(
    target: Target, connection: sa.Connection, table: TargetTable, columns: Sequence[str], key: Sequence[str] = ()
) -> Iterator[tuple[Any, ...]]:
    """The rows of a target's table as its driver returns them.

    :func:`~subscriber.verify.canonical_text.text_of` converts their values to text.

    Args:
        target: the database.
        connection: a connection to the target.
        table: the table.
        columns: the columns to read.
        key: the columns to order by.

    Raises:
        psycopg.Error, sqlalchemy.exc.SQLAlchemyError: the database's error; ``target.reporting()``
        translates it.
    """
    if target.capabilities.postgresql_text:
        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        name = [table.name] if table.schema is None else [table.schema, table.name]
        yield from _copy(driver, sql.Identifier(*name), columns, key)
        return
    # Columns without a type return the driver's values as they are stored.
    here = {column.name: column for column in table.columns}
    query: sa.Select[*tuple[Any, ...]] = sa.select(*(target.values.readable(here[name]) for name in columns))
    query = query.select_from(table.clause())
    query = query.order_by(*(sa.column(name) for name in key))
    yield from map(tuple, connection.execution_options(yield_per=_ROWS_AT_ONCE).execute(query))


def _copy(
    connection: Connection, source: sql.Composable, columns: Sequence[str], key: Sequence[str]
) -> Iterator[TextRow]:
    """Rows in the text of their types' output functions; ``::text`` would remove the trailing
    spaces of character(n).
    """
    listed = sql.SQL(", ").join(map(sql.Identifier, columns))
    order = sql.SQL(" ORDER BY {}").format(sql.SQL(", ").join(map(sql.Identifier, key))) if key else sql.SQL("")
    query = sql.SQL("COPY (SELECT {} FROM {}{}) TO STDOUT").format(listed, source, order)
    with connection.cursor() as cursor, cursor.copy(query) as copy:
        yield from copy.rows()
