"""The target's side of a comparison: its rows in batches, as columns of canonical text.

The rows are read in no particular order, over one connection or, in ranges, over several.
A target that has PostgreSQL's text is read with COPY, any other as its role reading reads tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
import pyarrow as pa
import sqlalchemy as sa
from psycopg import sql

from subscriber.protocol.messages import Relation
from subscriber.publisher.copy_out import BLOCK_BYTES, CopyBlock
from subscriber.publisher.copy_plan import CSV_DELIMITER, CSV_QUOTE
from subscriber.stages.blocks import parse_csv
from subscriber.targets import Target
from subscriber.targets.roles.reading import TableRange
from subscriber.targets.target_table import TargetTable
from subscriber.verify.canonical_columns import ComparedColumn
from subscriber.verify.row_batch import RowBatch, Values
from subscriber.verify.row_digests import Choice


@dataclass(frozen=True, slots=True)
class TargetSide:
    """What is needed to read a table of the target.

    Attributes:
        table: the table.
        relation: the publisher's columns that are compared.
        columns: the same columns, as they are compared.
        key: the places of the key's columns; empty for a table without a key.
        choice: how rows are put into buckets.
    """

    table: TargetTable
    relation: Relation
    columns: tuple[ComparedColumn, ...]
    key: tuple[int, ...]
    choice: Choice

    def ranges(self, target: Target, connection: sa.Connection, count: int) -> Sequence[TableRange]:
        """Ranges that several connections read; none if one connection is to read all rows.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database's error.
        """
        return () if self._is_copied(target) else target.reading.ranges(connection, self.table, count)

    def batches(self, target: Target, connection: sa.Connection, part: TableRange | None = None) -> Iterator[RowBatch]:
        """The rows of a range; all rows if it is None.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database's error; ``target.reporting()`` translates
            it.
        """
        if self._is_copied(target):
            for block in _copied(connection, self.table, self.columns):
                yield RowBatch(block.rows, parse_csv(self.relation, block), _CopiedTexts(self.columns), self.key)
            return
        for read in target.reading.rows(connection, self.table, [one.column for one in self.columns], part):
            yield RowBatch(read.rows, read.columns, _TargetTexts(self.columns), self.key)

    def _is_copied(self, target: Target) -> bool:
        return target.capabilities.postgresql_text and bool(self.columns)


@dataclass(frozen=True, slots=True)
class _TargetTexts:
    """Makes the texts of values that a driver returned."""

    columns: Sequence[ComparedColumn]

    def stored(self, column: int, values: Values) -> pa.Array:
        return self.columns[column].target_values(values)

    def canonical(self, column: int, texts: pa.Array) -> pa.Array:
        return self.columns[column].target_text(texts)


class _CopiedTexts(_TargetTexts):
    """Makes the texts of values that PostgreSQL wrote."""

    def stored(self, column: int, values: Values) -> pa.Array:
        del column
        assert isinstance(values, pa.Array)
        return values.cast(pa.string())


def _copied(connection: sa.Connection, table: TargetTable, columns: Sequence[ComparedColumn]) -> Iterator[CopyBlock]:
    """The rows of a table, some at a time, as COPY writes them."""
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
    try:
        yield from _blocks(driver, query)
    except psycopg.Error as error:
        lost = driver.broken
        raise sa.exc.DBAPIError.instance(
            "COPY", None, error, psycopg.Error, connection_invalidated=lost, dialect=connection.dialect
        ) from None


def _blocks(driver: psycopg.Connection[Any], query: sql.Composed) -> Iterator[CopyBlock]:
    # As in the publisher's session, names in values have their schema.
    driver.execute("SELECT set_config('search_path', '', true)")
    with driver.cursor() as cursor, cursor.copy(query) as copy:
        rows: list[bytes] = []
        size = 0
        for row in copy:
            rows.append(bytes(row))
            size += len(row)
            if size >= BLOCK_BYTES:
                yield CopyBlock(b"".join(rows), len(rows))
                rows, size = [], 0
        if rows:
            yield CopyBlock(b"".join(rows), len(rows))
