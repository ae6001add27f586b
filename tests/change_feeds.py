"""The typed change feed of a journal without Spark's JVM: what Spark calls is called here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from subscriber.spark.feed.change_feed import ChangeFeedReader
from subscriber.spark.source import PgoutputSource

Row = dict[str, Any]


def feed_source(folder: Path, table: str = "public.t", **options: str) -> PgoutputSource:
    return PgoutputSource({"journal": str(folder), "table": table, **options})


def feed_reader(folder: Path, table: str = "public.t", **options: str) -> ChangeFeedReader:
    source = feed_source(folder, table, **options)
    schema = source.schema()
    assert isinstance(schema, StructType)
    reader = source.streamReader(schema)
    assert isinstance(reader, ChangeFeedReader)
    return reader


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


def rows_of_feed(folder: Path, table: str = "public.t", **options: str) -> list[Row]:
    return [row for batch in batches_of(feed_reader(folder, table, **options)) for row in batch]


def changes(rows: list[Row], *columns: str) -> list[tuple[Any, ...]]:
    """The kind of each change with some of its columns."""
    return [(row["_change_type"], *(row[column] for column in columns)) for row in rows]
