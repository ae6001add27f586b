"""Comparison of publisher and target: table by table, row by row, column by column, in PostgreSQL's
text format.

::

    publisher ── COPY (SELECT …) TO STDOUT ──▶ text of each column ─┐
                                                                    ├─▶ cancel equal rows ─▶ what is left differs
    target ────── SELECT … ──▶ values ───────▶ text of each column ─┘

The publisher's text is the text that the output functions of its types write; replication sends the
same text. The target's values are converted to that text by rules that belong to this package. If
the code that wrote the values also converted them back, its mistakes would stay hidden.

Both sides are streamed. The memory that is needed depends neither on the size of the tables nor on
the number of differences (:mod:`subscriber.verify.row_differences`). No value of a row leaves this
package except the keys of differing rows.

:func:`compare_tables` opens the connections. :func:`compare_table` uses connections that the caller
has opened, so that the caller chooses the snapshots that are compared.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from subscriber.errors import TargetRelationError, UsageError
from subscriber.publisher.published_tables import ServerPublications
from subscriber.publisher.publisher import connect_publisher
from subscriber.publisher.sql_connection import Connection, features_of
from subscriber.schema.published_table import PublishedTable
from subscriber.targets import Target
from subscriber.targets.target_table import TargetTable
from subscriber.verify.canonical_text import text_of
from subscriber.verify.read_rows import TextRow, publisher_rows, target_rows
from subscriber.verify.row_differences import Key, RowDifferences, compare_rows, in_order

KEYS_SHOWN: Final = 10
"""The default number of keys of each kind that a comparison reports."""


@dataclass(frozen=True, slots=True)
class TableComparison:
    """The comparison of a table at the publisher and in the target.

    Attributes:
        table: the table that was compared.
        rows: the differences between the rows: counts and keys.
    """

    table: PublishedTable
    rows: RowDifferences

    @property
    def is_equal(self) -> bool:
        """Whether both sides have the same rows."""
        return self.rows.is_equal

    @property
    def keys(self) -> tuple[Key, ...]:
        """The first keys of all rows that differ; empty for a table without a key."""
        keys = (*self.rows.missing_keys, *self.rows.unexpected_keys, *self.rows.changed_keys)
        return tuple(heapq.nsmallest(KEYS_SHOWN, keys, key=in_order))

    def __str__(self) -> str:
        rows = self.rows
        text = (
            f'table "{self.table.qualified_name}": {rows.publisher_rows} rows at the publisher, {rows.target_rows} in the target; '
            f"{rows.missing} missing, {rows.unexpected} unexpected, {rows.changed} changed"
        )
        if rows.columns:
            text += f" (in {', '.join(rows.columns)})"
        if self.keys:
            text += f"; keys {', '.join('(' + ', '.join(map(str, key)) + ')' for key in self.keys)}"
        return text


def compare_tables(publisher_conninfo: str, target: Target, tables: Iterable[PublishedTable]) -> list[TableComparison]:
    """Compare tables of a publisher with the tables of the same names in a target.

    Each side is read in one transaction. The target must have caught up, and neither side may be
    written meanwhile.

    Args:
        publisher_conninfo: libpq's connection string.
        target: the database that the tables were replicated to.
        tables: the tables to compare, for instance from :func:`published_tables`.

    Returns:
        A comparison for each table, in the order given.

    Raises:
        UsageError: 42P01, the publisher has no such table.
        TargetRelationError: the target has no such table, or lacks one of the columns.
        PublisherError: the publisher cannot be read.
        TargetError: the target cannot be read.
    """
    with _reading(publisher_conninfo) as publisher, target.reporting(), target.engine.connect() as connection:
        return [compare_table(publisher, target, connection, table) for table in tables]


def published_tables(publisher_conninfo: str, publications: Sequence[str]) -> list[PublishedTable]:
    """The tables that publications of a publisher publish, with their row filters (combined with
    OR, rule B17) and column lists.

    Raises:
        NotSupportedError: two publications publish different columns of a table.
        PublisherError: the publisher cannot be read.
    """
    with _reading(publisher_conninfo) as publisher:
        return ServerPublications(publisher, publications).published_tables()


def compare_table(
    publisher: Connection,
    target: Target,
    connection: sa.Connection,
    table: PublishedTable,
    *,
    most_keys: int = KEYS_SHOWN,
) -> TableComparison:
    """Compare one table, over connections that the caller has opened.

    The publisher's rows that pass the table's filters are compared with all rows of the target's
    table. All columns of the published table are compared, except generated columns.

    Args:
        publisher: a connection to the publisher, in a transaction whose snapshot is compared.
        target: the database that the table was replicated to.
        connection: a connection to the target.
        table: the table to compare.
        most_keys: the largest number of keys reported for each of missing, unexpected and changed
            rows.

    Raises:
        UsageError: 42P01, the publisher has no such table.
        TargetRelationError: the target has no such table, or lacks one of the columns.
        psycopg.Error: the publisher cannot be read.
        sqlalchemy.exc.SQLAlchemyError: the target cannot be read; ``target.reporting()`` translates
        it.
    """
    types, partitioned = _columns(publisher, table)
    there = _target_table(target, connection, table, types)
    columns = tuple(types)
    key = there.key if there.key is not None and set(there.key) <= set(columns) else ()
    ours = publisher_rows(publisher, table, columns, key, only=not partitioned)
    theirs = target_rows(target, connection, there, columns, key)
    differences = compare_rows(_texts(ours, types), _texts(theirs, types), columns, key, most_keys=most_keys)
    return TableComparison(table, differences)


def _texts(rows: Iterable[Sequence[Any]], types: dict[str, int]) -> Iterator[TextRow]:
    for row in rows:
        yield tuple(text_of(oid, value) for oid, value in zip(types.values(), row, strict=True))


@contextmanager
def _reading(conninfo: str) -> Iterator[Connection]:
    with connect_publisher(conninfo, "subscriber compare") as publisher, publisher.transaction():
        publisher.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield publisher


def _columns(publisher: Connection, table: PublishedTable) -> tuple[dict[str, int], bool]:
    """The columns to compare with their types, and whether the table is partitioned."""
    generated = " AND attgenerated = ''" if features_of(publisher).generated_columns else ""
    found = publisher.execute(
        "SELECT attname::text, atttypid::int8, relkind = 'p' FROM pg_class c"
        " JOIN pg_namespace n ON n.oid = relnamespace JOIN pg_attribute ON attrelid = c.oid"
        f" WHERE nspname = %s AND relname = %s AND attnum > 0 AND NOT attisdropped{generated}"
        " ORDER BY attnum".encode(),
        table.key,
    ).fetchall()
    if not found:
        raise UsageError(f'relation "{table.qualified_name}" does not exist at the publisher', sqlstate="42P01")
    chosen = {column: oid for column, oid, _ in found if table.columns is None or column in table.columns}
    return chosen, found[0][2]


def _target_table(
    target: Target, connection: sa.Connection, table: PublishedTable, types: dict[str, int]
) -> TargetTable:
    name = table.qualified_name
    found = target.shapes.reflect(connection, *table.key)
    if found is None:
        raise TargetRelationError(f'relation "{name}" does not exist in the target', relation=name)
    for column in types:
        if found.column(column) is None:
            raise TargetRelationError(
                f'relation "{name}" of the target has no column "{column}"', relation=name, column=column
            )
    return found
