"""The messages of a segment as rows: for people and Spark (:func:`read_rows`), and for decoding
(:func:`read_messages`).

The first rows are the relation messages that the segment needs, so that a segment can be read
without the segments before it. Each row has the end of its transaction, which is in a message after
it: in the segment itself for a run of transactions, else in the last segment of the entry
(:func:`read_finish`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from subscriber.journal.builder import rows_of
from subscriber.journal.reader import Reading
from subscriber.journal.segment import Kind, Segment
from subscriber.journal.segment_file import checked, described_relations, finish_message, opened
from subscriber.journal.storage import Storage
from subscriber.lsn import INVALID_LSN, LSN
from subscriber.protocol.decode import decode
from subscriber.protocol.messages import (
    Begin,
    BeginPrepare,
    Commit,
    CommitPrepared,
    LogicalMessage,
    Prepare,
    Relation,
    RollbackPrepared,
)

ROW_SCHEMA: Final = pa.schema(
    [
        pa.field("finish_lsn", pa.int64()),
        pa.field("xid", pa.int64()),
        pa.field("commit_timestamp", pa.timestamp("us", "UTC")),
        pa.field("lsn", pa.int64()),
        pa.field("action", pa.string()),
        pa.field("relation", pa.string()),
        pa.field("message", pa.binary()),
    ]
)
"""One row is one message of the journal.

``finish_lsn``: end of the commit record of the message's transaction, which is the place in commit
order; ``xid``: the transaction (0 outside of a transaction); ``commit_timestamp``: when the
publisher committed the transaction; ``lsn``: the position of the change itself; ``action``: the
message's type byte; ``relation``: ``schema.table`` of R, I, U and D messages; ``message``: the
pgoutput bytes.
"""

MESSAGE_SCHEMA: Final = pa.schema(
    [pa.field("lsn", pa.int64()), pa.field("message", pa.binary()), pa.field("finish_lsn", pa.int64())]
)
"""The columns that decoding needs, with their meaning in :data:`ROW_SCHEMA`. ``finish_lsn`` is 0 in
a run of transactions.
"""

BATCH_ROWS: Final = 16_384
"""Rows in a batch: enough that numpy's cost for each call is negligible, and few enough that they
fit in the CPU cache.
"""

POSTGRESQL_EPOCH_US: Final = 946_684_800_000_000
"""2000-01-01 UTC, from which the publisher counts, in microseconds since 1970-01-01 UTC."""

_RELATION_ID_AT: Final = 1


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of a transaction, as the publisher sent it.

    Attributes:
        lsn: end LSN, which is the transaction's place in commit order.
        xid: the transaction; 0 outside of a transaction.
        timestamp: microseconds since 2000-01-01 UTC; 0 if there is none.
    """

    lsn: LSN
    xid: int
    timestamp: int


def read_finish(storage: Storage, reading: Reading) -> Finish | None:
    """The end of the transaction that is being read; None for a run of transactions, whose rows
    contain their ends.

    Raises:
        JournalCorrupt, JournalUnavailable: as :func:`read_rows`.
    """
    last = reading.finish
    if last.kind is Kind.TRANSACTIONS and not last.xid:
        return None
    with opened(storage, last) as file:
        finish = _finish_of(decode(finish_message(file)), last.xid)
    return None if finish is None else replace(finish, lsn=reading.end)


def read_rows(storage: Storage, reading: Reading, finish: Finish | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of one segment as batches of :data:`ROW_SCHEMA`, each of at most :data:`BATCH_ROWS`
    rows.

    Args:
        storage: the files of the journal.
        reading: the segment, and the entry that it is read for.
        finish: the result of :func:`read_finish` for ``reading``.

    Raises:
        JournalCorrupt: the file is missing, or its content was changed.
        JournalUnavailable: the file cannot be reached now.
    """
    segment = reading.segment
    with opened(storage, segment) as file:
        names: dict[int, str] = {}
        described = described_relations(file)
        if described.num_rows:
            yield _rows(described, names, finish or Finish(reading.end, segment.xid, 0))
        for batch in checked(file, segment):
            finishes = None if finish else _finishes(batch, segment)
            for offset in range(0, batch.num_rows, BATCH_ROWS):
                yield _rows(batch.slice(offset, BATCH_ROWS), names, finish or finishes, offset)


def read_messages(storage: Storage, reading: Reading, finish: Finish | None = None) -> Iterator[pa.RecordBatch]:
    """The messages of one segment as batches of :data:`MESSAGE_SCHEMA`, each of at most
    :data:`BATCH_ROWS` rows, for decoding. The first are the relation messages that the segment
    needs.

    Args:
        storage: the files of the journal.
        reading: the segment, and the entry that it is read for.
        finish: the result of :func:`read_finish` for ``reading``.

    Raises:
        JournalCorrupt, JournalUnavailable: as :func:`read_rows`.
    """
    # A run of transactions has no prepared transaction, so nothing asks for its end LSN.
    end = INVALID_LSN if finish is None else finish.lsn
    with opened(storage, reading.segment) as file:
        for batch in (described_relations(file), *checked(file, reading.segment)):
            for offset in range(0, batch.num_rows, BATCH_ROWS):
                part = batch.slice(offset, BATCH_ROWS)
                ends = pa.array(np.full(part.num_rows, end, np.int64))
                yield pa.RecordBatch.from_arrays([*part.columns, ends], schema=MESSAGE_SCHEMA)


def _rows(
    batch: pa.RecordBatch, names: dict[int, str], finish: Finish | Sequence[tuple[int, Finish]] | None, offset: int = 0
) -> pa.RecordBatch:
    messages = batch.column("message")
    rows = batch.num_rows
    offsets = np.frombuffer(messages.buffers()[1], np.int32, rows + 1, messages.offset * 4)
    buffer = np.frombuffer(messages.buffers()[2], np.uint8)
    types = buffer[offsets[:-1]]
    if isinstance(finish, Finish):
        lsns, xids, times = (np.full(rows, value, np.int64) for value in (finish.lsn, finish.xid, finish.timestamp))
    else:
        lsns, xids, times = _spread(finish or (), offset, rows)
    return pa.record_batch(
        [
            pa.array(lsns),
            pa.array(xids),
            pa.array(times + POSTGRESQL_EPOCH_US, mask=times == 0).cast(pa.timestamp("us", "UTC")),
            batch.column("lsn"),
            _letters(types),
            _relation_names(messages, types, buffer, offsets, names),
            messages,
        ],
        schema=ROW_SCHEMA,
    )


def _letters(types: npt.NDArray[np.uint8]) -> pa.StringArray:
    offsets = np.arange(len(types) + 1, dtype=np.int32)
    return pa.StringArray.from_buffers(len(types), pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(types)))


def _relation_names(
    messages: pa.BinaryArray,
    types: npt.NDArray[np.uint8],
    buffer: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int32],
    names: dict[int, str],
) -> pa.StringArray:
    """``schema.table`` for each row that names one relation; ``names`` is updated from the relation
    messages.
    """
    named = np.isin(types, np.frombuffer(b"RIUD", np.uint8))
    ids = np.full(len(types), -1, np.int64)
    at = offsets[:-1][named] + _RELATION_ID_AT
    ids[named] = sum(buffer[at + byte].astype(np.int64) << (24 - 8 * byte) for byte in range(4))
    pieces, begin = [], 0
    for row in np.flatnonzero(types == ord("R")).tolist():
        relation = decode(messages[row].as_py())
        assert isinstance(relation, Relation)
        if names.get(relation.relation_id, relation.qualified_name) != relation.qualified_name:
            pieces.append(_names_of(ids[begin:row], names))  # renamed: the rows so far have the old name
            begin = row
        names[relation.relation_id] = relation.qualified_name
    return pa.concat_arrays([*pieces, _names_of(ids[begin:], names)])


def _names_of(ids: npt.NDArray[np.int64], names: dict[int, str]) -> pa.StringArray:
    distinct, codes = np.unique(ids, return_inverse=True)
    dictionary = pa.array([names.get(int(key)) for key in distinct], pa.string())
    return dictionary.take(pa.array(codes.reshape(-1)))


def _finishes(batch: pa.RecordBatch, segment: Segment) -> list[tuple[int, Finish]]:
    """For every transaction of the batch: its last row, and its :class:`Finish`."""
    messages = batch.column("message")
    found, xid = [], segment.xid
    for row in rows_of(messages, b"BCbPKrM"):
        message = decode(messages[row].as_py())
        if isinstance(message, Begin | BeginPrepare):
            xid = message.xid
        finish = _finish_of(message, xid)
        if finish is not None:
            found.append((row, finish))
    return found


def _finish_of(message: object, xid: int) -> Finish | None:
    match message:
        case Commit(end_lsn=end, commit_timestamp=timestamp) | CommitPrepared(end_lsn=end, commit_timestamp=timestamp):
            return Finish(LSN(end), xid, timestamp)
        case Prepare(end_lsn=end, prepare_timestamp=timestamp):
            return Finish(LSN(end), xid, timestamp)
        case RollbackPrepared(end_lsn=end, rollback_timestamp=timestamp):
            return Finish(LSN(end), xid, timestamp)
        case LogicalMessage(transactional=False, lsn=lsn):
            return Finish(LSN(lsn), 0, 0)
    return None


def _spread(finishes: Sequence[tuple[int, Finish]], offset: int, rows: int) -> tuple[npt.NDArray[np.int64], ...]:
    """The end LSN, xid and timestamp of each row, from the first finish at or after the row."""
    last_rows = np.array([row for row, _ in finishes], np.int64)
    which = np.searchsorted(last_rows, np.arange(offset, offset + rows), side="left")
    columns = (
        np.array([value for _, finish in finishes for value in (finish.lsn, finish.xid, finish.timestamp)], np.int64)
        .reshape(-1, 3)
        .T
    )
    return tuple(column[which] for column in columns)
