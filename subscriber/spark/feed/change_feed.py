"""The typed change feed as a stream: where it begins, how far a batch goes, and the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from subscriber.base.errors import NotSupportedError, UsageError
from subscriber.base.lsn import LSN, format_lsn, parse_lsn
from subscriber.spark.feed.feed_options import FeedBound, FeedOptions
from subscriber.spark.feed.feed_publications import SERVER_PUBLICATIONS, FeedPublications, feed_publications
from subscriber.spark.feed.feed_range import batch_end, committed_at, first_after
from subscriber.spark.feed.feed_rows import FeedRows, divided_origin, ordered
from subscriber.spark.feed.feed_schema import FeedSchema, RowSchema
from subscriber.spark.feed.json_rows import JsonSchema
from subscriber.spark.feed.net_changes import net_changes
from subscriber.spark.feed.table_shape import NoChanges, table_shapes
from subscriber.spark.journal_frames import JournalPartition
from subscriber.spark.journal_stream import JournalStreamReader, Offset, check_kept, newest
from subscriber.spark.told_errors import told, told_while_reading
from subscriber.stream.decode.decode_frames import JOINED_ROWS
from subscriber.stream.decode.publication_history import PublicationHistory, read_publication_history
from subscriber.stream.journal.message_rows import read_rows
from subscriber.stream.journal.named_consumers import advance, list_named, register
from subscriber.stream.journal.reader import JournalReader, SegmentRange
from subscriber.stream.journal.segment import EntryKind
from subscriber.stream.journal.storage import open_storage

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.streaming.datasource import ReadLimit

    from subscriber.postgres.protocol.messages import Relation
    from subscriber.postgres.publication.publishing import Publishing

ALL_BYTES: Final = 2**62


def resolved(options: FeedOptions) -> RowSchema:
    """The feed's schema: the table as described where the feed begins, or JSON for several."""
    journal = JournalReader(open_storage(options.journal))
    publications = feed_publications(journal, whole_carrier=options.whole_carrier)
    if options.snapshot and publications.newest is not None:
        raise NotSupportedError(
            "startingSnapshot of emulated publications is not possible",
            detail="The snapshot would be ahead of the target, and the publications may be altered before the target is there.",
            hint="Copy the table from the target, and begin with the changes after its progress.",
        )
    # A query may go on from a checkpoint although the journal was trimmed beyond its first start.
    begin = max(begin_of(options, journal), journal.control().begin)
    if options.table is None:
        check_publications(options, journal, publications, begin, LSN(begin + 1))
        return JsonSchema(options.tables)
    shapes = table_shapes(journal, options.table, begin, publications)
    try:
        shape = _published(options) if options.snapshot else next(shapes)
    except NoChanges:
        if options.connection is None:
            raise
        shape = _published(options, publications.newest)
    schema = FeedSchema(shape, options.unsupported, options.evolves)
    if options.evolves and not options.snapshot:
        for shape in shapes:
            later = schema.with_columns_of(shape)
            if later is None:
                break
            schema = later
    schema.check_names()
    key_of(schema, options)
    return schema


def _published(options: FeedOptions, publishing: Publishing | None = None) -> Relation:
    from subscriber.spark.feed.published_shape import published_shape  # with libpq, which few streams need

    return published_shape(options, publishing)


def check_publications(
    options: FeedOptions, journal: JournalReader, publications: FeedPublications, start: LSN, end: LSN
) -> None:
    """UsageError: a feed of publications would have other changes in (``start``, ``end``]."""
    if options.table is None and options.publications is not None:
        publications.check_names(options.publications, journal.control(), start, end)


def key_of(schema: RowSchema, options: FeedOptions) -> tuple[str, ...]:
    """The columns that identify a row; UsageError if the options need them and they are unknown."""
    if not isinstance(schema, FeedSchema):
        return ()
    relation = schema.relation
    identity = tuple(column.name for column in relation.columns if column.is_identity)
    if options.key is not None:
        for name in options.key:
            if name not in identity:
                raise UsageError(
                    f'option "keyColumns" names "{name}", which is no column of the replica identity',
                    hint=f"The identity of {relation.qualified_name} is {', '.join(identity) or 'nothing'}.",
                    relation=relation.qualified_name,
                    column=name,
                )
        return options.key
    if (options.net_changes or options.split_key_changes) and (relation.replica_identity == "f" or not identity):
        raise UsageError(
            f'the stream does not say which columns are the key of "{relation.qualified_name}"',
            hint='Name them with option("keyColumns", "…"); deduplicationMode and keyChanges need them.',
            relation=relation.qualified_name,
        )
    return identity


def begin_of(options: FeedOptions, journal: JournalReader) -> LSN:
    """Changes with a greater end LSN are read."""
    begin = journal.control().begin
    if options.start is None and options.consumer is not None:
        known = (one.lsn for one in list_named(journal.storage) if one.name == options.consumer and not one.dropped)
        return max(next(known, begin), begin)
    if options.start is None:
        return begin
    return before(options.start, journal, begin)


def before(bound: FeedBound, journal: JournalReader, begin: LSN) -> LSN:
    """The position before the first transaction from a lower bound on."""
    if bound.version is not None:
        return LSN(max(bound.version - bound.inclusive, 0))
    if bound.microseconds is not None:
        found = first_after(journal, begin, bound.microseconds, inclusive=bound.inclusive)
        if found is not None:
            return LSN(found - 1)
    return newest(journal)


class ChangeFeedReader(JournalStreamReader):
    """The stream of a table. A consumer's position follows what Spark has committed."""

    def __init__(self, options: FeedOptions, schema: RowSchema) -> None:
        super().__init__(
            options.journal, options.max_bytes, ALL_BYTES if options.net_changes else options.partition_bytes
        )
        self._options = options.for_streams()
        self._schema = schema
        self._is_registered = False
        self._publications = SERVER_PUBLICATIONS

    def begin(self) -> LSN:
        begin = begin_of(self._options, self._journal)
        check_kept(self._journal, begin)
        self._register(begin)
        return begin

    def offset(self, lsn: LSN) -> Offset:
        """The end LSN of a transaction, and when it was committed."""
        moment = committed_at(self._journal, lsn)
        return {**super().offset(lsn), **({} if moment is None else {"commitTimestamp": moment.isoformat()})}

    def limit(self) -> LSN | None:
        self._publications = feed_publications(self._journal, whole_carrier=self._options.whole_carrier)
        last = super().limit()
        return self._publications.end if last is None else LSN(min(last, self._publications.end))

    def within(self, start: LSN, end: LSN) -> LSN:
        check_publications(self._options, self._journal, self._publications, start, end)
        return batch_end(self._journal, self._schema, start, end, self._options.max_rows, self._publications)

    @told
    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        # Spark asks for a new micro-batch when the one before it is committed. It calls commit only
        # when the new one has rows, which may be days later.
        self._passed(parse_lsn(start["lsn"]))
        return super().latestOffset(start, limit)

    @told
    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        self._register(parse_lsn(start["lsn"]))
        return super().partitions(start, end)

    @told
    def commit(self, end: dict[str, Any]) -> None:
        self._passed(parse_lsn(end["lsn"]))

    @told_while_reading
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from partition_rows(partition.value, self._schema, self._options)

    def _passed(self, lsn: LSN) -> None:
        self._register(lsn)
        if self._options.consumer is not None:
            advance(self._journal.storage, self._options.consumer, lsn)

    def _register(self, start: LSN) -> None:
        """Keep what the query still has to read, from its first position on."""
        if self._options.consumer is not None and not self._is_registered:
            register(self._journal.storage, self._options.consumer, start)
            self._is_registered = True


def partition_rows(partition: JournalPartition, schema: RowSchema, options: FeedOptions) -> Iterator[pa.RecordBatch]:
    """The rows of a partition, in the publisher's order; of net changes, which are of one
    partition, in the order of the rows' last changes.
    """
    if not options.net_changes or not isinstance(schema, FeedSchema):
        yield from _rows(partition, schema, options)
        return
    images = replace(options, compute_updates=True, split_key_changes=False)
    batches = list(_rows(partition, schema, images))
    if batches:
        yield net_changes(batches, schema, key_of(schema, options), compute_updates=options.compute_updates)


def _rows(partition: JournalPartition, schema: RowSchema, options: FeedOptions) -> Iterator[pa.RecordBatch]:
    storage = open_storage(partition.url)
    history = None if options.whole_carrier else read_publication_history(storage)
    feed = FeedRows(schema, options, key_of(schema, options), FeedPublications(history))
    for one, finish in partition.ranges:
        if history is not None:
            _check_prepared(one, history)
        segment = one.segment
        origin = divided_origin(storage, segment) if segment.parts > 1 else None
        for batch in ordered(read_rows(storage, one, finish, JOINED_ROWS), segment, origin):
            rows = feed.rows(batch)
            if rows.num_rows:
                yield rows


def _check_prepared(one: SegmentRange, history: PublicationHistory) -> None:
    """Refuse a transaction during which the publications were altered between PREPARE and COMMIT
    PREPARED: a target may have applied it at either place.
    """
    prepared = one.segment.end
    if one.segment.kind is EntryKind.PREPARED and history.at(prepared) != history.at(one.end):
        raise NotSupportedError(
            f"the publications were altered while the transaction was prepared that ends at {format_lsn(one.end)}",
            detail="The feed does not know by which of them the target has applied it.",
            hint=f'Begin after it, with option("startingLsn", "{format_lsn(one.end)}") and a new checkpoint, and copy what it has changed.',
            lsn=one.end,
        )
