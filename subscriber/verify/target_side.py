"""The target's side of a comparison: its rows in batches, as columns of canonical text.

The rows are read in one pass, in no particular order, over a connection that the caller has opened.
A target that has PostgreSQL's text is read with COPY, any other by its driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Final

import psycopg
import pyarrow as pa
import sqlalchemy as sa
from psycopg import sql

from subscriber.protocol.messages import Relation
from subscriber.publisher.copy_out import BLOCK_BYTES, CopyBlock
from subscriber.publisher.copy_plan import CSV_DELIMITER, CSV_QUOTE
from subscriber.stages.blocks import parse_csv
from subscriber.targets import Target
from subscriber.targets.target_table import TargetTable
from subscriber.verify.canonical_columns import ComparedColumn
from subscriber.verify.row_batch import RowBatch, Values

_ROWS_OF_A_FETCH: Final = 500
_FETCHES: Final = 40
"""The number of fetches that are one batch."""


def target_batches(
    target: Target,
    connection: sa.Connection,
    table: TargetTable,
    relation: Relation,
    columns: Sequence[ComparedColumn],
    key: Sequence[int],
) -> Iterator[RowBatch]:
    """The rows of a target's table.

    Args:
        target: the database.
        connection: a connection to it.
        table: the table.
        relation: the publisher's columns that are compared.
        columns: the same columns, as they are compared.
        key: the places of the key's columns; empty for a table without a key.

    Raises:
        psycopg.Error, sqlalchemy.exc.SQLAlchemyError: the database's error; ``target.reporting()``
        translates it.
    """
    read = _copied if target.capabilities.postgresql_text and columns else _selected
    texts = _TargetTexts(columns)
    for rows, values in read(target, connection, table, relation, columns):
        yield RowBatch(rows, values, texts, key)


@dataclass(frozen=True, slots=True)
class _TargetTexts:
    """Makes the texts of the target's values."""

    columns: Sequence[ComparedColumn]

    def stored(self, column: int, values: Values) -> pa.Array:
        return self.columns[column].target_values(values)

    def canonical(self, column: int, texts: pa.Array) -> pa.Array:
        return self.columns[column].target_text(texts)


def _selected(
    target: Target,
    connection: sa.Connection,
    table: TargetTable,
    relation: Relation,
    columns: Sequence[ComparedColumn],
) -> Iterator[tuple[int, Sequence[Sequence[Any]]]]:
    """The driver's values of each column, some rows at a time."""
    del relation
    # Columns without a type return the driver's values as they are stored.
    read: list[sa.ColumnElement[Any]] = [target.values.readable(one.column) for one in columns]
    query: sa.Select[Any] = sa.select(*read or [sa.literal_column("1")]).select_from(table.clause())
    with closing(connection.execution_options(yield_per=_ROWS_OF_A_FETCH).execute(query)) as result:
        fetched = _fetched(result)
        while some := list(islice(fetched, _FETCHES)):
            rows = sum(len(first) for first, *_ in some)
            yield rows, [list(chain.from_iterable(parts)) for parts in zip(*some, strict=True)] if columns else []


def _fetched(result: sa.CursorResult[Any]) -> Iterator[Sequence[Sequence[Any]]]:
    """The columns of a few hundred rows at a time.

    They are the driver's tuples, because SQLAlchemy's rows take three times as long. So do larger
    fetches: Python's garbage collector runs when some hundreds of new tuples are held.
    """
    cursor = result.cursor
    assert cursor is not None
    while rows := result.cursor_strategy.fetchmany(result, cursor, _ROWS_OF_A_FETCH):
        yield list(zip(*rows, strict=True))


def _copied(
    target: Target,
    connection: sa.Connection,
    table: TargetTable,
    relation: Relation,
    columns: Sequence[ComparedColumn],
) -> Iterator[tuple[int, Sequence[pa.Array]]]:
    """The texts of each column, some rows at a time, as COPY writes them."""
    del target
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    name = [table.name] if table.schema is None else [table.schema, table.name]
    # Tables that inherit from it are other tables of the subscription; partitions are not.
    only = sql.SQL("ONLY " if table.kind == "table" else "")
    query = sql.SQL("COPY (SELECT {} FROM {}{}) TO STDOUT (FORMAT csv, DELIMITER {}, QUOTE {})").format(
        sql.SQL(", ").join(sql.Identifier(column.name) for column in columns),
        only,
        sql.Identifier(*name),
        sql.Literal(CSV_DELIMITER),
        sql.Literal(CSV_QUOTE),
    )
    with driver.cursor() as cursor, cursor.copy(query) as copy:
        rows: list[bytes] = []
        size = 0
        for row in copy:
            rows.append(bytes(row))
            size += len(row)
            if size >= BLOCK_BYTES:
                yield len(rows), parse_csv(relation, CopyBlock(b"".join(rows), len(rows)))
                rows, size = [], 0
        if rows:
            yield len(rows), parse_csv(relation, CopyBlock(b"".join(rows), len(rows)))
