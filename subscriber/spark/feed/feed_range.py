"""Up to where a batch of the feed may go, and where transactions are by their time.

A batch ends before the first transaction in which the table has another shape: the batches before
it can be read with the columns that the query has, and the one that begins there is refused. So a
query that is started again with the new columns never meets rows of the old ones. Segments are
looked at for relation messages only, unless rows are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from subscriber.base.errors import UsageError
from subscriber.base.lsn import LSN
from subscriber.postgres.protocol.decode_message import decode
from subscriber.postgres.protocol.messages import Relation
from subscriber.spark.feed.feed_publications import FeedPublications
from subscriber.spark.feed.feed_rows import FeedTables, message_types
from subscriber.spark.feed.feed_schema import RowSchema
from subscriber.spark.feed.table_shape import described
from subscriber.stream.journal.message_rows import (
    POSTGRESQL_EPOCH_US,
    read_finish,
    read_last_finish,
    read_rows,
)
from subscriber.stream.journal.reader import JournalReader, SegmentRange
from subscriber.stream.journal.segment import EntryKind
from subscriber.stream.journal.storage import Storage

_CHANGES: Final = np.frombuffer(b"IUD", np.uint8)
_ENDS: Final = np.frombuffer(b"CKrM", np.uint8)
"""Messages after which a batch may end: a message outside of a transaction is one of them."""


def batch_end(
    journal: JournalReader,
    schema: RowSchema,
    start: LSN,
    end: LSN,
    max_rows: int | None,
    publications: FeedPublications,
) -> LSN:
    """The end of a batch in (``start``, ``end``] in which every table has its shape, with at most
    ``max_rows`` rows, but at least one transaction. UsageError: the first transaction has a table
    with another shape.
    """
    walk = _Walk(schema, start, max_rows, publications)
    for planned in journal.plan(start, end):
        relations = described(journal.storage, planned.segment)
        if max_rows is None and not any(walk.misfits(one, planned.segment.begin, planned.end) for one in relations):
            walk.reached = planned.end
            continue
        for rows in read_rows(journal.storage, planned, read_finish(journal.storage, planned)):
            if walk.ends_within(rows):
                return walk.before(start)
    return end


class _Walk:
    """Goes through rows to the first transaction that must not be in the batch.

    ``reached`` is the end of the last transaction that may be in it.
    """

    def __init__(self, schema: RowSchema, start: LSN, max_rows: int | None, publications: FeedPublications) -> None:
        self.reached = start
        self._schema = schema
        self._publications = publications
        self._tables = FeedTables(schema, publications)
        self._max_rows = max_rows
        self._rows = self._rows_before = 0
        self._finish = 0
        self._misfitting: dict[str, Relation] = {}
        self._refusal: UsageError | None = None

    def misfits(self, relation: Relation, begin: LSN, end: LSN) -> Relation | None:
        """As which table a relation has changes in (``begin``, ``end``] that do not fit."""
        shapes = self._publications.shapes(relation, begin, end)
        return next((one for one in shapes if self._schema.wants(one) and not self._schema.fits(one)), None)

    def before(self, start: LSN) -> LSN:
        if self.reached == start and self._refusal is not None:
            raise self._refusal
        return self.reached

    def ends_within(self, batch: pa.RecordBatch) -> bool:
        """Whether the batch of the query ends before or in these rows."""
        types, finishes = message_types(batch), batch.column("finish_lsn").to_numpy()
        of_tables = self._tables.changes(batch)
        refused = self._first_misfit(batch, types)
        counted = np.where(
            of_tables.to_numpy(zero_copy_only=False) & np.isin(types, _CHANGES), 1 + (types == ord("U")), 0
        )
        begins = np.flatnonzero(np.diff(finishes, prepend=-1))
        counts = np.add.reduceat(counted, begins)
        ended = np.logical_or.reduceat(np.isin(types, _ENDS), begins)
        for finish, count, has_end in zip(finishes[begins].tolist(), counts.tolist(), ended.tolist(), strict=True):
            if finish != self._finish:
                self._finish, self._rows_before = finish, self._rows
            self._rows += count
            if refused is not None and finish == refused[0]:
                self._refusal = self._schema.changed(refused[1], finish)
                return True
            if self._max_rows is not None and self._rows_before and self._rows > self._max_rows:
                return True
            if has_end:
                self.reached = LSN(finish)
        return False

    def _first_misfit(self, batch: pa.RecordBatch, types: NDArray[np.uint8]) -> tuple[int, Relation] | None:
        """The transaction of the first change of a table that has another shape, and that shape."""
        messages, names, finishes = (batch.column(name) for name in ("message", "relation", "finish_lsn"))
        described = np.flatnonzero(types == ord("R"))
        begin = 0
        for row in (*described.tolist(), len(types)):
            for name, relation in self._misfitting.items():
                is_change = np.isin(types[begin:row], _CHANGES)
                of_table = pc.equal(names.slice(begin, row - begin), name)
                hits = np.flatnonzero(is_change & pc.fill_null(of_table, False).to_numpy(zero_copy_only=False))
                if hits.size:
                    return finishes[begin + int(hits[0])].as_py(), relation
            if row < len(types):
                shape = decode(messages[row].as_py())
                assert isinstance(shape, Relation)
                self._misfitting.pop(shape.qualified_name, None)
                end = finishes[row].as_py()
                misfit = self.misfits(shape, LSN(end - 1), end)
                if misfit is not None:
                    self._misfitting[shape.qualified_name] = misfit
            begin = row
        return None


def first_after(journal: JournalReader, start: LSN, microseconds: int, *, inclusive: bool) -> LSN | None:
    """The end of the first transaction after ``start`` that was committed after a time, or at it if
    ``inclusive``, in microseconds since 1970. None: there is none.

    Transactions are in the order of their commit records; their times need not be.
    """
    for planned in journal.plan(start, journal.latest(start)):
        for lsns, times in _commits(journal.storage, planned):
            found = np.flatnonzero(times >= microseconds if inclusive else times > microseconds)
            if found.size:
                return LSN(int(lsns[found[0]]))
    return None


def committed_at(journal: JournalReader, lsn: LSN) -> datetime | None:
    """When the transaction that ends at ``lsn`` was committed; None if the journal has none."""
    entry = next((one for one in journal.listed() if one.end == lsn), None)
    if entry is not None and entry.kind is EntryKind.TRANSACTIONS:  # the end of a segment, as most offsets
        finish = read_last_finish(journal.storage, entry.segments[-1])
        return _moment(finish.timestamp + POSTGRESQL_EPOCH_US) if finish is not None and finish.timestamp else None
    planned = journal.plan(LSN(lsn - 1), lsn)
    if not planned:
        return None
    times = [int(times[-1]) for lsns, times in _commits(journal.storage, planned[-1]) if len(times) and lsns[-1] == lsn]
    return _moment(times[-1]) if times else None


def _moment(microseconds: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=microseconds)


def _commits(storage: Storage, planned: SegmentRange) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The ends and times, in microseconds since 1970, of a segment's transactions."""
    if planned.finish.kind is EntryKind.ROLLBACK_PREPARED:
        return
    finish = read_finish(storage, planned)
    if finish is not None:
        yield np.array([finish.lsn]), np.array([finish.timestamp + POSTGRESQL_EPOCH_US])
        return
    for rows in read_rows(storage, planned):
        commits = np.flatnonzero(message_types(rows) == ord("C"))
        lsns, times = rows.column("finish_lsn").to_numpy(), rows.column("commit_timestamp").cast(pa.int64())
        yield lsns[commits], times.to_numpy(zero_copy_only=False)[commits].astype(np.int64)
