"""The typed change feed of a journal without Spark's JVM: what Spark calls is called here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import Filter
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from subscriber.postgres.protocol.messages import Relation
from subscriber.spark.feed.change_batch import ChangeFeedBatchReader
from subscriber.spark.feed.change_feed import ChangeFeedReader
from subscriber.spark.feed.feed_schema import FeedSchema
from subscriber.spark.source import PgoutputSource

Row = dict[str, Any]


def feed_source(folder: Path, table: str | None = "public.t", **options: str) -> PgoutputSource:
    """The source with these options; ``table`` is None for several tables."""
    return PgoutputSource({"journal": str(folder), **({} if table is None else {"table": table}), **options})


def feed_reader(folder: Path, table: str | None = "public.t", **options: str) -> ChangeFeedReader:
    source = feed_source(folder, table, **options)
    schema = source.schema()
    assert isinstance(schema, StructType)
    reader = source.streamReader(schema)
    assert isinstance(reader, ChangeFeedReader)
    return reader


def relation_of(reader: ChangeFeedReader) -> Relation:
    """The description by which the feed of one table has its columns."""
    assert isinstance(reader._schema, FeedSchema)
    return reader._schema.relation


def batches_of(reader: ChangeFeedReader, limit: ReadLimit | None = None) -> list[list[Row]]:
    """The rows of each micro-batch up to the end of the journal."""
    reader.prepareForTriggerAvailableNow()
    offset = reader.initialOffset()
    batches = []
    while (end := reader.latestOffset(offset, limit or reader.getDefaultReadLimit())) != offset:
        partitions = reader.partitions(offset, end)
        batches.append([row for one in partitions for batch in reader.read(one) for row in batch.to_pylist()])
        offset = end
    return batches


def rows_of_feed(folder: Path, table: str | None = "public.t", **options: str) -> list[Row]:
    return [row for batch in batches_of(feed_reader(folder, table, **options)) for row in batch]


def batch_read(
    folder: Path, *filters: Filter, table: str | None = "public.t", **options: str
) -> tuple[list[Row], list[Filter]]:
    """The rows of a batch read, and the filters that Spark has to evaluate."""
    source = feed_source(folder, table, **options)
    schema = source.schema()
    assert isinstance(schema, StructType)
    reader = source.reader(schema)
    assert isinstance(reader, ChangeFeedBatchReader)
    left = list(reader.pushFilters(list(filters)))
    rows = [row for one in reader.partitions() for batch in reader.read(one) for row in batch.to_pylist()]
    return rows, left


class FoldedTable:
    """A table as the rows of its feed make it. Without a ``key`` it is a bag of rows."""

    def __init__(self, columns: Sequence[str], key: Sequence[str] = ()) -> None:
        self.columns = columns
        self.key = key
        self.rows: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self.bag: Counter[tuple[Any, ...]] = Counter()

    def fold(self, rows: Iterable[Row]) -> None:
        """Apply rows in their order. A row that should be there, or should not, is an error."""
        left: tuple[Any, ...] | None = None
        for row in rows:
            values = tuple(row[name] for name in self.columns)
            match row["_change_type"]:
                case "truncate":
                    self.rows.clear()
                    self.bag.clear()
                case "insert" | "update_postimage":
                    self._enter(values, row, left if row["_change_type"] == "update_postimage" else None)
                case "delete" | "update_preimage":
                    left = self._leave(values, row)

    def _enter(self, values: tuple[Any, ...], row: Row, before: tuple[Any, ...] | None) -> None:
        if before is not None:
            absent = [name in row["_unchanged"] for name in self.columns]
            values = tuple(old if was else new for was, old, new in zip(absent, before, values, strict=True))
        else:
            assert row["_unchanged"] == []
        if not self.key:
            self.bag[values] += 1
            return
        key = self._key(values)
        assert key not in self.rows
        self.rows[key] = values

    def _leave(self, values: tuple[Any, ...], row: Row) -> tuple[Any, ...]:
        if self.key:
            found = self.rows.pop(self._key(values))
            for name, value, kept in zip(self.columns, values, found, strict=True):
                assert name in row["_unchanged"] or value == kept
            return found
        assert self.bag[values] > 0
        self.bag[values] -= 1
        return values

    def _key(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(values[self.columns.index(name)] for name in self.key)


def changes(rows: list[Row], *columns: str) -> list[tuple[Any, ...]]:
    """The kind of each change with some of its columns."""
    return [(row["_change_type"], *(row[column] for column in columns)) for row in rows]
