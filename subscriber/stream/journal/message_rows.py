"""The messages of a segment as rows: for people and Spark (:func:`read_rows`), and for decoding
(:func:`read_messages`).

The first rows are the relation messages that the segment needs from segments before it. Each row
has the end of its transaction, which is in a message after it (:func:`read_finish`).

A segment without a file, because it was merged (:mod:`subscriber.stream.journal.compaction`) or is
a part of a run of transactions, is taken out of the file that covers it.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from subscriber.base.errors import RECREATE_SLOT, JournalCorrupt, JournalUnavailable, ProtocolError
from subscriber.base.lsn import INVALID_LSN, LSN
from subscriber.postgres.protocol.decode_message import decode
from subscriber.postgres.protocol.messages import (
    BeginPrepare,
    Commit,
    CommitPrepared,
    LogicalMessage,
    Prepare,
    Relation,
    RollbackPrepared,
)
from subscriber.stream.journal.builder import CHECKSUM_KEY, FINISH_KEY, RELATIONS_KEY, checksum, rows_of
from subscriber.stream.journal.compaction import extract
from subscriber.stream.journal.reader import JournalReader, SegmentRange
from subscriber.stream.journal.segment import EntryKind, Segment, journal_entries
from subscriber.stream.journal.storage import Storage, as_file

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
a run of transactions. ``lsn`` is :data:`FROM_BEFORE` for the relation messages that the segment
needs from earlier segments.
"""

FROM_BEFORE: Final = -1
"""The LSN of a relation message that was not sent at its place."""

BATCH_ROWS: Final = 16_384
"""Rows in a batch: enough that numpy's cost for each call is negligible, and few enough that they
fit in the CPU cache.
"""

POSTGRESQL_EPOCH_US: Final = 946_684_800_000_000
"""2000-01-01 UTC, from which the publisher counts, in microseconds since 1970-01-01 UTC."""

_RELATION_ID_AT: Final = 1
_BEGIN: Final = {"final_lsn": (1, ">u8"), "timestamp": (9, ">i8"), "xid": (17, ">u4")}
_COMMIT: Final = {"commit_lsn": (2, ">u8"), "end_lsn": (10, ">u8"), "timestamp": (18, ">i8")}
"""The places and types of the fields of Begin and Commit (rule A17)."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of a transaction; ``time`` is µs since 2000-01-01 UTC, 0 if there is none."""

    lsn: LSN
    xid: int
    timestamp: int


def read_finish(storage: Storage, planned: SegmentRange) -> Finish | None:
    """The end of the transaction that is read; None for a run, whose rows contain their ends."""
    last = planned.finish
    if last.kind is EntryKind.TRANSACTIONS and not last.xid:
        return None
    finish = read_last_finish(storage, last)
    return None if finish is None else replace(finish, lsn=planned.end)


def read_last_finish(storage: Storage, segment: Segment) -> Finish | None:
    """The end of the last transaction, or message between transactions, of an entry whose last
    segment this is. The transaction's number is known only where the segment has it.
    """
    with opened(storage, segment) as file:
        return _finish_of(decode(finish_message(file)), segment.xid)


def read_rows(
    storage: Storage, planned: SegmentRange, finish: Finish | None = None, most: int | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of one segment as batches of :data:`ROW_SCHEMA`, of at most ``most`` rows
    (:data:`BATCH_ROWS`). JournalCorrupt: the file is missing, or its content was changed.
    """
    most = most or BATCH_ROWS
    segment = planned.segment
    with opened(storage, segment) as file:
        names: dict[int, str] = {}
        described = described_relations(file)
        if described.num_rows:
            yield _rows(described, names, finish or Finish(planned.end, segment.xid, 0))
        for batch in checked(file, segment):
            finishes = finish or _finishes(batch, segment)
            for offset in range(0, batch.num_rows, most):
                yield _rows(batch.slice(offset, most), names, finishes, offset)


def read_messages(storage: Storage, planned: SegmentRange, finish: Finish | None = None) -> Iterator[pa.RecordBatch]:
    """One segment as batches of :data:`MESSAGE_SCHEMA`, of at most :data:`BATCH_ROWS` rows, with
    the relation messages that it needs. It raises what :func:`read_rows` raises.
    """
    # A run of transactions has no prepared transaction, so nothing asks for its end LSN.
    end = INVALID_LSN if finish is None else finish.lsn
    with opened(storage, planned.segment) as file:
        before = described_relations(file)
        lsns = pa.array(np.full(before.num_rows, FROM_BEFORE, np.int64))
        for batch in (before.set_column(0, "lsn", lsns), *checked(file, planned.segment)):
            for offset in range(0, batch.num_rows, BATCH_ROWS):
                part = batch.slice(offset, BATCH_ROWS)
                ends = pa.array(np.full(part.num_rows, end, np.int64))
                yield pa.RecordBatch.from_arrays([*part.columns, ends], schema=MESSAGE_SCHEMA)


def _rows(batch: pa.RecordBatch, names: dict[int, str], finish: Finish | _Finishes, offset: int = 0) -> pa.RecordBatch:
    messages = batch.column("message")
    rows = batch.num_rows
    offsets = np.frombuffer(messages.buffers()[1], np.int32, rows + 1, messages.offset * 4)
    buffer = np.frombuffer(messages.buffers()[2], np.uint8)
    types = buffer[offsets[:-1]]
    if isinstance(finish, Finish):
        lsns, xids, times = (np.full(rows, value, np.int64) for value in (finish.lsn, finish.xid, finish.timestamp))
    else:
        lsns, xids, times = finish.spread(offset, rows)
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
    """``schema.table`` for each row; ``names`` is updated from the relation messages."""
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


class _Finishes(NamedTuple):
    """The last row of each transaction of a batch, and what its :class:`Finish` has."""

    rows: npt.NDArray[np.int64]
    lsns: npt.NDArray[np.int64]
    xids: npt.NDArray[np.int64]
    times: npt.NDArray[np.int64]

    def spread(self, offset: int, rows: int) -> tuple[npt.NDArray[np.int64], ...]:
        """End LSN, xid and timestamp of each row, from the first finish at or after the row."""
        which = np.searchsorted(self.rows, np.arange(offset, offset + rows), side="left")
        return self.lsns[which], self.xids[which], self.times[which]


def _finishes(batch: pa.RecordBatch, segment: Segment) -> _Finishes:
    messages = batch.column("message")
    begins, commits = _fixed(messages, b"B", _BEGIN), _fixed(messages, b"C", _COMMIT)
    begin_rows, begin_xids = begins["row"], begins["xid"]
    found = []
    for row in rows_of(messages, b"bPKrM"):
        message = decode(messages[row].as_py())
        if isinstance(message, BeginPrepare):
            place = np.searchsorted(begin_rows, row)
            begin_rows, begin_xids = np.insert(begin_rows, place, row), np.insert(begin_xids, place, message.xid)
        before = int(np.searchsorted(begin_rows, row))
        finish = _finish_of(message, int(begin_xids[before - 1]) if before else segment.xid)
        if finish is not None:
            found.append((row, finish.lsn, finish.xid, finish.timestamp))
    others = np.array(found, np.int64).reshape(-1, 4).T
    begun = np.searchsorted(begin_rows, commits["row"])
    xids = np.append(begin_xids, segment.xid)[begun - 1]
    columns = [
        np.concatenate(parts)
        for parts in zip((commits["row"], commits["end_lsn"], xids, commits["timestamp"]), others, strict=True)
    ]
    order = np.argsort(columns[0], kind="stable")
    return _Finishes(*(column[order] for column in columns))


def _fixed(
    messages: pa.BinaryArray, kind: bytes, layout: Mapping[str, tuple[int, str]]
) -> dict[str, npt.NDArray[np.int64]]:
    """The rows of the messages of a kind that has a fixed layout, and their fields. Runs of small
    transactions have as many of these as changes, so they are not decoded one by one.
    """
    rows = np.array(rows_of(messages, kind), np.int64)
    if not rows.size:
        return dict.fromkeys(("row", *layout), rows)
    _, offsets, data = messages.buffers()
    starts = np.frombuffer(offsets, np.int32, len(messages) + 1, messages.offset * 4).astype(np.int64)
    size = max(at + np.dtype(code).itemsize for at, code in layout.values())
    for row in rows[np.diff(starts)[rows] != size].tolist():
        decode(messages[row].as_py())  # raises, and says what is wrong
    fields = {"row": rows}
    for name, (at, code) in layout.items():
        every_place = np.ndarray((len(data) - np.dtype(code).itemsize + 1,), code, data, strides=(1,))
        fields[name] = every_place[starts[rows] + at].astype(np.int64)
    return fields


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


_ATTEMPTS: Final = 4
"""How often a file that covers a segment is looked for, if each one is merged before it is opened.
"""


def read_segment(storage: Storage, segment: Segment) -> pa.Table:
    with opened(storage, segment) as file:
        return pa.Table.from_batches(list(checked(file, segment)), file.schema)


@contextlib.contextmanager
def opened(storage: Storage, segment: Segment) -> Iterator[pa.RecordBatchFileReader]:
    """An open segment. Every error in the block means a corrupt file, since its content was checked
    before it was written. It raises what :func:`read_rows` raises.
    """
    file = _open(storage, segment)
    with _parsed(_covered(storage, segment) if file is None else file, segment) as parsed:
        yield parsed


@contextlib.contextmanager
def _parsed(file: pa.NativeFile, segment: Segment) -> Iterator[pa.RecordBatchFileReader]:
    try:
        with file:
            yield pa.ipc.open_file(file)
    except (pa.ArrowException, OSError, LookupError, ValueError, TypeError, ProtocolError) as error:
        raise _corrupt(segment) from error


def _open(storage: Storage, segment: Segment) -> pa.NativeFile | None:
    try:
        return storage.open(segment.name)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise JournalUnavailable(
            f'the journal\'s segment "{segment.name}" cannot be reached: {error.strerror or error}',
            hint="Give the command again; `subscriber run` tries again by itself.",
            lsn=segment.end,
        ) from error


def _covered(storage: Storage, segment: Segment) -> pa.NativeFile:
    """A segment without a file, out of the file that covers it."""
    for _ in range(_ATTEMPTS):  # the covering file may be merged, too, before it is opened
        segments = (one for entry in journal_entries(storage) for one in entry.segments)
        covering = next((one for one in segments if one.covers(segment)), None)
        if covering is None:
            break
        file = _open(storage, covering)
        if file is not None:
            with _parsed(file, covering) as parsed:
                whole = pa.Table.from_batches(list(checked(parsed, covering)), parsed.schema)
                return as_file(extract(whole, segment.begin, segment.end))
    raise _corrupt(segment)


def _corrupt(segment: Segment) -> JournalCorrupt:
    return JournalCorrupt(
        f'the journal\'s segment "{segment.name}" cannot be read',
        hint=f"Restore it from a copy. Otherwise: {RECREATE_SLOT}",
        lsn=segment.end,
    )


def checked(file: pa.RecordBatchFileReader, segment: Segment) -> Iterator[pa.RecordBatch]:
    """The batches of an open segment. Their content is what was written."""
    for index in range(file.num_record_batches):
        batch = file.get_batch(index)
        batch.validate(full=True)  # numpy and Arrow do not check offsets
        if checksum(batch, file.schema.metadata) != file.schema.metadata[CHECKSUM_KEY]:
            raise _corrupt(segment)
        yield batch


def finish_message(file: pa.ipc.RecordBatchFileReader) -> bytes:
    return base64.b64decode(file.schema.metadata[FINISH_KEY])


def described_relations(file: pa.ipc.RecordBatchFileReader) -> pa.RecordBatch:
    messages = [base64.b64decode(text) for text in json.loads(file.schema.metadata[RELATIONS_KEY])]
    return pa.record_batch(
        [pa.array([0] * len(messages), pa.int64()), pa.array(messages, pa.binary())], ["lsn", "message"]
    )


def changed_relations(storage: Storage, start: LSN) -> list[str]:
    """The names of relations with changes after ``start``, as far as the journal still has them."""
    found: set[str] = set()
    for entry in journal_entries(storage):
        if entry.end > start:
            for segment in entry.segments:
                planned = SegmentRange(segment, entry.end, entry.segments[-1])
                for rows in read_rows(storage, planned, read_finish(storage, planned)):
                    # A segment has a relation message for each changed or truncated relation.
                    found.update(name for name in rows.column("relation").unique().to_pylist() if name is not None)
    return sorted(found)


def oldest_commit(reader: JournalReader, start: LSN) -> datetime | None:
    """The commit time of the first transaction after ``start``, by the publisher's clock."""
    storage = reader.storage
    for planned in reader.plan(start, reader.latest(start)):
        finish = read_finish(storage, planned)
        if finish is not None:
            if planned.finish.kind is not EntryKind.ROLLBACK_PREPARED:
                return finish_time(finish)
            continue
        for rows in read_rows(storage, planned):
            columns = (rows.column("commit_timestamp").to_pylist(), rows.column("finish_lsn").to_pylist())
            for moment, lsn in zip(*columns, strict=True):
                # The first rows may be relation messages, which belong to no transaction.
                if moment is not None and lsn > start:
                    return cast(datetime, moment)
    return None


def finish_time(finish: Finish) -> datetime:
    """When a transaction ended, by the publisher's clock."""
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=finish.timestamp + POSTGRESQL_EPOCH_US)
