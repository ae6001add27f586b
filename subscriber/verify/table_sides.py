"""The two sides of a comparison: the rows of a table in batches, in no particular order, as columns
of canonical text. A target that has PostgreSQL's text is read with COPY.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

import psycopg
import pyarrow as pa
import sqlalchemy as sa
from psycopg import sql

from subscriber.base.errors import SubscriberError
from subscriber.postgres.protocol.messages import Relation
from subscriber.publisher.copy_out import BLOCK_BYTES, CopyBlock, CopyReader
from subscriber.publisher.copy_plan import CSV_DELIMITER, CSV_QUOTE, CopyRange
from subscriber.publisher.snapshot import SnapshotSession
from subscriber.stream.decode.blocks import parse_csv
from subscriber.targets import Target
from subscriber.targets.base.catalog import TableRange
from subscriber.targets.target_table import TargetTable
from subscriber.verify.canonical_text import CanonicalColumn, ColumnValues, canonical, text_of, texts_of
from subscriber.verify.row_digests import BucketChoice, RowBatch, RowTexts

_NO_LIMIT: Final = 1 << 62
"""The result of a task is small, whatever it reads."""


@dataclass(frozen=True, slots=True)
class PublisherSide:
    """What tasks need to read a publisher's table; ``key`` has the places of the key's columns."""

    reader: CopyReader
    relation: Relation
    columns: tuple[CanonicalColumn, ...]
    key: tuple[int, ...]
    choice: BucketChoice

    def batches(
        self, part: CopyRange, stop: threading.Event, session: SnapshotSession | None = None
    ) -> Iterator[RowBatch]:
        """The rows of a range; errors as of :meth:`CopyReader.read_range`."""
        if not part.piece.row_slots:
            yield from self._whole(part, stop, session)
            return
        with closing(self.reader.read_range(part, _NO_LIMIT, session)) as items:  # type: ignore[type-var]
            for item in items:
                if isinstance(item, CopyRange):
                    yield from self._whole(item, stop, None)  # the session of the range is in use
                else:
                    yield self._batch(item)

    def _whole(self, part: CopyRange, stop: threading.Event, session: SnapshotSession | None) -> Iterator[RowBatch]:
        with closing(self.reader.read_whole(part, stop, session)) as blocks:
            for block in blocks:
                yield self._batch(block)

    def _batch(self, block: CopyBlock) -> RowBatch:
        values = parse_csv(self.relation, block) if self.columns else []
        return RowBatch(block.rows, values, self, self.key)

    def stored(self, column: int, values: ColumnValues) -> pa.Array:
        assert isinstance(values, pa.Array)
        compared = self.columns[column]
        try:
            return compared.stored(values)
        except SubscriberError as error:
            raise error.replace(relation=self.relation.qualified_name, column=compared.name) from None

    def canonical(self, column: int, texts: pa.Array) -> pa.Array:
        compared = self.columns[column]
        try:
            return compared.publisher_text(texts)
        except SubscriberError as error:
            raise error.replace(relation=self.relation.qualified_name, column=compared.name) from None


@dataclass(frozen=True, slots=True)
class TargetSide:
    """What is needed to read a table of the target; ``relation`` has the publisher's columns."""

    table: TargetTable
    relation: Relation
    columns: tuple[CanonicalColumn, ...]
    key: tuple[int, ...]
    choice: BucketChoice

    def ranges(self, target: Target, connection: sa.Connection, count: int) -> Sequence[TableRange]:
        """Ranges that several connections read; none if one connection is to read all rows."""
        if self._is_copied(target) or self.table.read_from is not None:
            return ()
        return target.reader.ranges(connection, self.table, count)

    def batches(self, target: Target, connection: sa.Connection, part: TableRange | None = None) -> Iterator[RowBatch]:
        """The rows of a range, or all; ``target.reporting()`` translates errors."""
        if self._is_copied(target):
            for block in _copied(connection, self.table, self.columns):
                yield RowBatch(block.rows, parse_csv(self.relation, block), _CopiedTexts(self.columns), self.key)
            return
        for read in target.reader.rows(connection, self.table, [one.column for one in self.columns], part):
            yield RowBatch(read.rows, read.columns, _TargetTexts(self.columns), self.key)

    def _is_copied(self, target: Target) -> bool:
        return target.capabilities.postgresql_text and bool(self.columns)


@dataclass(frozen=True, slots=True)
class _TargetTexts:
    """Makes the texts of values that a driver returned."""

    columns: Sequence[CanonicalColumn]

    def stored(self, column: int, values: ColumnValues) -> pa.Array:
        return texts_of(self.columns[column].compared_as, values)

    def canonical(self, column: int, texts: pa.Array) -> pa.Array:
        return canonical(self.columns[column].compared_as, texts)


class _CopiedTexts(_TargetTexts):
    """Makes the texts of values that PostgreSQL wrote."""

    def stored(self, column: int, values: ColumnValues) -> pa.Array:
        del column
        assert isinstance(values, pa.Array)
        return values.cast(pa.string())


def target_texts(
    target: Target, connection: sa.Connection, table: TargetTable, types: Mapping[str, int]
) -> Iterator[RowTexts]:
    """The rows as PostgreSQL's text of ``types``, not canonical. ``target.reporting()`` translates
    the database's errors.
    """
    if target.capabilities.postgresql_text:
        query, values = _query(connection, table, list(types))
        command = sql.SQL("COPY {} TO STDOUT").format(query)
        with _driver(connection).cursor() as cursor, cursor.copy(command, values) as copy:
            for row in copy.rows():
                yield tuple(text_of(oid, text) for oid, text in zip(types.values(), row, strict=True))
        return
    columns = {column.name: column for column in table.columns}
    for read in target.reader.rows(connection, table, [columns[name] for name in types]):
        lists = (values.to_pylist() if isinstance(values, pa.Array) else values for values in read.columns)
        texts = [[text_of(oid, value) for value in values] for oid, values in zip(types.values(), lists, strict=True)]
        yield from zip(*texts, strict=True) if texts else [()] * read.rows


def _driver(connection: sa.Connection) -> psycopg.Connection[Any]:
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    return driver


def _query(
    connection: sa.Connection, table: TargetTable, columns: Sequence[str]
) -> tuple[sql.Composable, Sequence[Any]]:
    """The rows that a reader reads, with the values that the driver binds."""
    if table.read_from is not None:
        read: list[sa.ColumnElement[Any]] = [sa.column(name) for name in columns]
        query = sa.select(*read).select_from(table.read_from)
        compiled = query.compile(dialect=connection.dialect, compile_kwargs={"render_postcompile": True})
        values = [compiled.params[name] for name in compiled.positiontup or ()]
        return sql.SQL("({})").format(sql.SQL(compiled.string)), values
    name = [table.name] if table.schema is None else [table.schema, table.name]
    # Tables that inherit from it are other tables of the subscription; partitions are not.
    only = sql.SQL("ONLY " if table.kind == "table" else "")
    wanted = [sql.SQL("{} = {}").format(sql.Identifier(name), sql.Literal(value)) for name, value in table.only]
    rows = sql.SQL("(SELECT {} FROM {}{}{})").format(
        sql.SQL(", ").join(map(sql.Identifier, columns)),
        only,
        sql.Identifier(*name),
        sql.SQL(" WHERE {}").format(sql.SQL(" AND ").join(wanted)) if wanted else sql.SQL(""),
    )
    return rows, ()


def _copied(connection: sa.Connection, table: TargetTable, columns: Sequence[CanonicalColumn]) -> Iterator[CopyBlock]:
    driver = _driver(connection)
    query, values = _query(connection, table, [column.name for column in columns])
    command = sql.SQL("COPY {} TO STDOUT (FORMAT csv, DELIMITER {}, QUOTE {})").format(
        query, sql.Literal(CSV_DELIMITER), sql.Literal(CSV_QUOTE)
    )
    try:
        # As in the publisher's session, names in values have their schema.
        driver.execute("SELECT set_config('search_path', '', true)")
        with driver.cursor() as cursor, cursor.copy(command, values) as copy:
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
    except psycopg.Error as error:
        lost = driver.broken
        raise sa.exc.DBAPIError.instance(
            "COPY", None, error, psycopg.Error, connection_invalidated=lost, dialect=connection.dialect
        ) from None
