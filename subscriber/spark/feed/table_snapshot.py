"""``startingSnapshot``: the rows that a table has at one LSN, before the stream of its changes.

::

    initialOffset   {"snapshot": "pending"}
    latestOffset    a snapshot at the consistent point L of a temporary slot ──▶ {"lsn": L}
    partitions      ranges of the table, read by COPY in this snapshot           rows: insert, version L
    next batches    changes of the journal after L

Transactions that end up to L are in the snapshot, and the others are streamed (rule D6): no row is
missing, and none comes twice. The snapshot exists as long as the process that plans the query. A
micro-batch that reads it cannot be repeated later, so a query that ends before Spark has committed
it is refused when it is started again.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from subscriber.base.errors import PublisherNotReady, UsageError
from subscriber.base.lsn import LSN, parse_lsn
from subscriber.postgres.protocol.messages import Relation
from subscriber.publisher.client import PublisherClient
from subscriber.publisher.connection import Connection
from subscriber.publisher.copy_out import CopyReader
from subscriber.publisher.copy_plan import CopyRange, plan_copy, table_files
from subscriber.publisher.snapshot import CopySession, exported_snapshot
from subscriber.spark.feed.change_feed import ChangeFeedReader
from subscriber.spark.feed.feed_options import FeedOptions
from subscriber.spark.feed.feed_rows import FeedRows
from subscriber.spark.feed.feed_schema import RowSchema
from subscriber.spark.feed.published_shape import APPLICATION_NAME, publisher_of
from subscriber.spark.journal_stream import Offset, newest
from subscriber.spark.told_errors import told, told_while_reading
from subscriber.stream.decode.blocks import decode_csv
from subscriber.stream.journal.reader import JournalReader

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.streaming.datasource import ReadLimit

_PENDING: Final = {"snapshot": "pending"}


@dataclass(frozen=True, slots=True)
class SnapshotRange:
    """A range of the table. Rows are numbered within it."""

    reader: CopyReader = field(repr=False)
    relation: Relation
    part: CopyRange
    number: int
    lsn: LSN


class _OpenSnapshot:
    """A snapshot of the publisher, which exists until :meth:`close`."""

    def __init__(self, options: FeedOptions, schema: RowSchema, journal: JournalReader) -> None:
        assert options.connection is not None
        assert options.table is not None
        self._stack = contextlib.ExitStack()
        with self._stack:
            with publisher_of(options) as connection:
                _check_system(connection, journal)
                files = table_files(connection, [options.table]).get(options.table, ())
            snapshot = self._stack.enter_context(exported_snapshot(options.connection, APPLICATION_NAME))
            self.lsn = snapshot.lsn
            session = self._stack.enter_context(
                CopySession(
                    options.connection, APPLICATION_NAME, snapshot.name, publications=options.publications or ()
                )
            )
            with session.transaction() as connection:
                published = session.published(connection)
                plan = plan_copy(connection, published, *options.table, options.partition_bytes, files)
            if not schema.fits(plan.relation):
                raise schema.changed(plan.relation, self.lsn)
            if plan.hidden_from is not None:
                raise PublisherNotReady(
                    f'row security of table "{plan.relation.qualified_name}" hides rows from role "{plan.hidden_from}"',
                    hint="Give the role of the connection BYPASSRLS: the stream has all rows.",
                    relation=plan.relation.qualified_name,
                )
            reader = CopyReader(options.connection, APPLICATION_NAME, snapshot.name, plan.query, "csv")
            self.ranges = [
                SnapshotRange(reader, plan.relation, part, number, self.lsn) for number, part in enumerate(plan.ranges)
            ]
            self._stack = self._stack.pop_all()

    def close(self) -> None:
        self._stack.close()


def _check_system(connection: Connection, journal: JournalReader) -> None:
    control = journal.control()
    found = PublisherClient(connection).system_identifier()
    if found != control.system_identifier:
        raise UsageError(
            f'the journal is of system {control.system_identifier}, and option "connection" leads to system {found}',
            sqlstate="55000",
            hint="Give the connection string of the journal's publisher.",
        )


class SnapshotFeedReader(ChangeFeedReader):
    """The rows of a snapshot, then the stream."""

    _snapshot: _OpenSnapshot | None = None

    @told
    def initialOffset(self) -> Offset:
        self._register(newest(self._journal))
        return dict(_PENDING)

    @told
    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        if start != _PENDING:
            self._close()
            return super().latestOffset(start, limit)
        if self._snapshot is None:
            self._register(newest(self._journal))
            self._snapshot = _OpenSnapshot(self._options, self._schema, self._journal)
        return self.offset(self._snapshot.lsn)

    @told
    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        from pyspark.sql.datasource import InputPartition

        if start != _PENDING:
            return super().partitions(start, end)
        if self._snapshot is None or self._snapshot.lsn != parse_lsn(end["lsn"]):
            raise UsageError(
                "the query ended before it had read its snapshot, which is gone",
                sqlstate="55000",
                hint="Remove its checkpoint, and what it has written, and start it again.",
            )
        return [InputPartition(one) for one in self._snapshot.ranges]

    @told
    def commit(self, end: dict[str, Any]) -> None:
        self._close()
        super().commit(end)

    def stop(self) -> None:
        self._close()

    @told_while_reading
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition.value, SnapshotRange):
            yield from _snapshot_rows(partition.value, self._schema, self._options)
        else:
            yield from super().read(partition)

    def _close(self) -> None:
        if self._snapshot is not None:
            self._snapshot.close()
            self._snapshot = None


def _snapshot_rows(one: SnapshotRange, schema: RowSchema, options: FeedOptions) -> Iterator[pa.RecordBatch]:
    feed = FeedRows(schema, options)
    count = one.number << 32
    with contextlib.closing(one.reader.read_whole(one.part, threading.Event())) as blocks:
        for block in blocks:
            if block.rows:
                yield feed.snapshot_rows(one.relation, decode_csv(one.relation, block), one.lsn, count)
                count += block.rows
