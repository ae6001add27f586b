"""``spark.readStream.format("pgoutput")``: a journal as a public source of Spark.

With the option ``table`` it is the typed change feed of a table (:mod:`subscriber.spark.feed`).
Without it, it is the raw feed, whose rows are the messages of the journal: those of
:data:`~subscriber.stream.journal.message_rows.ROW_SCHEMA`, in commit order within a partition and
from partition to partition. docs/spark.md has the options of both.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from subscriber.base.errors import NotSupportedError
from subscriber.base.lsn import LSN
from subscriber.base.without_pandas import use_arrow_without_pandas
from subscriber.spark.feed.change_batch import ChangeFeedBatchReader
from subscriber.spark.feed.change_feed import ChangeFeedReader, resolved
from subscriber.spark.feed.feed_options import FeedOptions, RawOptions, feed_options, is_typed, raw_options
from subscriber.spark.feed.feed_schema import RowSchema, check_given
from subscriber.spark.journal_frames import JournalPartition
from subscriber.spark.journal_stream import JournalStreamReader
from subscriber.spark.python_check import check_python_of_spark
from subscriber.spark.told_errors import told, told_while_reading
from subscriber.stream.journal.message_rows import read_rows
from subscriber.stream.journal.storage import open_storage

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_STREAM_PROCESS: Final = "pyspark.sql.streaming.python_streaming_source_runner"
SPARK_SCHEMA: Final = (
    "finish_lsn long, xid long, commit_timestamp timestamp, lsn long, action string, relation string, message binary"
)


class PgoutputSource(DataSource):
    _feed: RowSchema | None = None

    @classmethod
    def name(cls) -> str:
        check_python_of_spark()  # Spark asks for the name when the source is registered
        return "pgoutput"

    @told
    def schema(self) -> StructType | str:
        if not is_typed(self.options):
            raw_options(self.options)
            return SPARK_SCHEMA
        return self._resolved().spark

    @told
    def reader(self, schema: StructType) -> DataSourceReader:
        if not is_typed(self.options):
            raise NotSupportedError(
                'spark.read of format "pgoutput" needs the option "table" or "tables"',
                hint="Name a table, or use spark.readStream; with .trigger(availableNow=True) it ends at what the journal has.",
            )
        check_given(self._resolved(), schema)
        return ChangeFeedBatchReader(feed_options(self.options), self._resolved())

    @told
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        if _is_stream_process():
            use_arrow_without_pandas()
        if not is_typed(self.options):
            return PgoutputStreamReader(raw_options(self.options))
        options = feed_options(self.options)
        check_given(self._resolved(), schema)
        return _reader_class(options)(options, self._resolved())

    def _resolved(self) -> RowSchema:
        # Spark asks for the schema, and then sends this object to the processes that plan and read.
        if self._feed is None:
            self._feed = resolved(feed_options(self.options))
        return self._feed


def _is_stream_process() -> bool:
    """Whether Spark has started this process for a stream of this source, and runs nothing else."""
    started = sys.modules["__main__"].__spec__
    return started is not None and started.name == _STREAM_PROCESS


def _reader_class(options: FeedOptions) -> type[ChangeFeedReader]:
    if not options.snapshot:
        return ChangeFeedReader
    # Spark starts a process for each stream. Few of them need what COPY needs.
    from subscriber.spark.feed.table_snapshot import SnapshotFeedReader

    return SnapshotFeedReader


class PgoutputStreamReader(JournalStreamReader):
    """The raw feed."""

    def __init__(self, options: RawOptions) -> None:
        super().__init__(options.journal, options.max_bytes, options.partition_bytes, two_phase=options.two_phase)
        self._start = options.start

    def begin(self) -> LSN:
        return self._journal.control().begin if self._start is None else self._start

    @told_while_reading
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        planned: JournalPartition = partition.value
        storage = open_storage(planned.url)
        for one, finish in planned.ranges:
            yield from read_rows(storage, one, finish)
