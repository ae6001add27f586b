"""The typed change feed as a stream: where it begins, and the rows of its partitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from subscriber.base.lsn import LSN
from subscriber.spark.feed.feed_options import LATEST, FeedOptions
from subscriber.spark.feed.feed_rows import FeedRows, divided_origin, ordered
from subscriber.spark.feed.feed_schema import FeedSchema
from subscriber.spark.feed.table_shape import table_shape
from subscriber.spark.journal_frames import JournalPartition
from subscriber.spark.journal_stream import JournalStreamReader, check_kept
from subscriber.spark.told_errors import told_while_reading
from subscriber.stream.journal.message_rows import read_rows
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.storage import open_storage

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition


def resolved(options: FeedOptions) -> FeedSchema:
    """The feed's schema: the table as it is described where the feed begins."""
    journal = JournalReader(open_storage(options.journal))
    begin = begin_of(options, journal)
    check_kept(journal, begin)
    schema = FeedSchema(table_shape(journal, options.table, begin), options.unsupported)
    schema.check_names()
    return schema


def begin_of(options: FeedOptions, journal: JournalReader) -> LSN:
    begin = journal.control().begin
    if options.start is None:
        return begin
    if options.start == LATEST:
        return LSN(max([begin, *(entry.end for entry in journal.listed())]))
    return LSN(int(options.start))


class ChangeFeedReader(JournalStreamReader):
    def __init__(self, options: FeedOptions, schema: FeedSchema) -> None:
        super().__init__(options.journal, options.max_bytes, options.partition_bytes)
        self._options = options
        self._schema = schema

    def begin(self) -> LSN:
        return begin_of(self._options, self._journal)

    @told_while_reading
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from partition_rows(partition.value, self._schema, self._options)


def partition_rows(partition: JournalPartition, schema: FeedSchema, options: FeedOptions) -> Iterator[pa.RecordBatch]:
    """The rows of a partition, in the publisher's order."""
    storage = open_storage(partition.url)
    feed = FeedRows(schema, options)
    for one, finish in partition.ranges:
        segment = one.segment
        origin = divided_origin(storage, segment) if segment.parts > 1 else None
        for batch in ordered(read_rows(storage, one, finish), segment, origin):
            rows = feed.rows(batch)
            if rows.num_rows:
                yield rows
