"""The typed change feed as a batch read: ``spark.read.format("pgoutput")``.

Filters on ``_commit_version`` become the range that is read. Lower bounds of ``_commit_timestamp``
narrow it; Spark evaluates them, too, because the times of transactions need not be in the order of
their commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from subscriber.base.lsn import LSN
from subscriber.spark.feed.change_feed import ALL_BYTES, before, begin_of, check_publications, partition_rows
from subscriber.spark.feed.feed_options import FeedBound, FeedOptions, microseconds_of
from subscriber.spark.feed.feed_publications import feed_publications
from subscriber.spark.feed.feed_range import first_after
from subscriber.spark.feed.feed_schema import RowSchema
from subscriber.spark.journal_frames import JournalPartition, plan_partitions
from subscriber.spark.journal_stream import check_kept, newest
from subscriber.spark.told_errors import told, told_while_reading
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.storage import open_storage

if TYPE_CHECKING:
    import pyarrow as pa

_VERSION: Final = ("_commit_version",)
_TIMESTAMP: Final = ("_commit_timestamp",)
_LOWER: Final = (GreaterThan, GreaterThanOrEqual, EqualTo)
_UPPER: Final = (LessThan, LessThanOrEqual, EqualTo)


class _PushFilters:
    """Spark refuses a reader with pushFilters while ``spark.sql.python.filterPushdown.enabled`` is
    false, its default; it looks at ``__func__``. A reader without filters is right as well.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, reader: ChangeFeedBatchReader) -> None:
        self._reader = reader

    def __call__(self, filters: Sequence[Filter]) -> Iterable[Filter]:
        return [one for one in filters if not self._reader.narrow(one)]


class ChangeFeedBatchReader(DataSourceReader):
    def __init__(self, options: FeedOptions, schema: RowSchema) -> None:
        self._options = options.for_batches()
        self._schema = schema
        self._journal = JournalReader(open_storage(options.journal))
        self._lower: list[FeedBound] = []
        self._upper: list[FeedBound] = [] if options.end is None else [options.end]
        self.pushFilters = _PushFilters(self)  # type: ignore[method-assign]

    def narrow(self, one: Filter) -> bool:
        """Narrow the range by a filter. Returns whether no row of the range fails it.

        The net change of a row depends on the range, so then the range is not narrowed.
        """
        if self._options.net_changes or not isinstance(one, (*_LOWER, *_UPPER)):
            return False
        inclusive = isinstance(one, EqualTo | GreaterThanOrEqual | LessThanOrEqual)
        if one.attribute == _VERSION and isinstance(one.value, int):
            bound = FeedBound(LSN(one.value), inclusive=inclusive)
        elif one.attribute == _TIMESTAMP and isinstance(one.value, datetime) and one.value.tzinfo is not None:
            bound = FeedBound(microseconds=microseconds_of(one.value), inclusive=inclusive)
        else:
            return False
        if isinstance(one, _LOWER):
            self._lower.append(bound)
        if isinstance(one, _UPPER) and bound.version is not None:
            self._upper.append(bound)
        return bound.version is not None

    @told
    def partitions(self) -> Sequence[InputPartition]:
        journal, options = self._journal, self._options
        first = journal.control().begin
        start = begin_of(options, journal)
        check_kept(journal, start)
        start = max([start, *(before(bound, journal, first) for bound in self._lower)])
        publications = feed_publications(journal, whole_carrier=options.whole_carrier)
        end = min([newest(journal), publications.end, *(_last(bound, journal, first) for bound in self._upper)])
        if start >= end:
            return [InputPartition(JournalPartition(options.journal, ()))]
        check_publications(options, journal, publications, start, end)
        size = ALL_BYTES if options.net_changes else options.partition_bytes
        return [
            InputPartition(one) for one in plan_partitions(journal, options.journal, start, end, size, two_phase=False)
        ]

    @told_while_reading
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from partition_rows(partition.value, self._schema, self._options)


def _last(bound: FeedBound, journal: JournalReader, begin: LSN) -> LSN:
    """The position of the last transaction up to an upper bound."""
    if bound.version is not None:
        return LSN(max(bound.version - (not bound.inclusive), 0))
    assert bound.microseconds is not None
    found = first_after(journal, begin, bound.microseconds, inclusive=not bound.inclusive)
    return newest(journal) if found is None else LSN(found - 1)
