"""Reading the journal: segments are planned by their names alone, and then read in parallel.

:meth:`JournalReader.plan` turns a range of LSNs into the segments to read, in commit order::

    entries      t 0/100   p(7) 0/180   t 0/200   k(7) 0/240        p(9) 0/250   r(9) 0/260
    plan         t 0/100 ─────────────  t 0/200 ─ p(7), k(7) ──────────────────  r(9)
    two_phase    t 0/100 ─ p(7) ──────  t 0/200 ─ k(7) ──────────── p(9) ──────  r(9)

The changes of a prepared transaction are read at the place of its COMMIT PREPARED, and are not read
at all after a ROLLBACK PREPARED. With ``two_phase``, for a target that supports prepared
transactions, each entry is read at its own place.

:func:`read_rows` yields rows of :data:`ROW_SCHEMA`. The first rows are the relation messages that
the segment needs, so that a segment can be read without the segments before it.

A reader keeps the entries in memory. It lists the folder again only when it needs entries that the
last listing has not shown, so that a long backlog is listed a few times, and not for each batch.

A planned segment may have been merged with others before it is read
(:mod:`subscriber.journal.compaction`). It is then read from the file that covers it. In the same
way, a plan that begins or ends inside a run of transactions has a segment without a file: the part
of the run that is in the range.
"""

from __future__ import annotations

import base64
import contextlib
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from subscriber.errors import JournalCorrupt, JournalGap, JournalUnavailable, ProtocolError
from subscriber.journal.builder import CHECKSUM_KEY, FINISH_KEY, RELATIONS_KEY, checksum, rows_of
from subscriber.journal.control import Control, read_control
from subscriber.journal.listing import Listing
from subscriber.journal.merge import extract
from subscriber.journal.segment import Entry, Kind, Segment, check_chain, journal_entries
from subscriber.journal.storage import Storage, as_file
from subscriber.lsn import INVALID_LSN, LSN, format_lsn
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

RELIST_SECONDS: Final = 5.0
"""How long entries in memory may be planned without a listing. Meanwhile, they may be merged."""

_LISTINGS: Final = 4
"""How often the folder is listed again before a gap is reported."""

_POSTGRESQL_EPOCH_US: Final = 946_684_800_000_000
_RELATION_ID_AT: Final = 1


@dataclass(frozen=True, slots=True)
class Reading:
    """One segment to read.

    Attributes:
        segment: the segment.
        end: end LSN of the entry that the segment is read for. A prepared transaction is read
            for its COMMIT PREPARED, but with ``two_phase`` for its PREPARE.
        finish: the segment that has the message which finished the entry.
    """

    segment: Segment
    end: LSN
    finish: Segment


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


class JournalReader:
    """Lists entries and plans what to read. It needs no lock, and works wherever the storage can be
    reached. A copy that is sent to another process has no entries in memory.

    Args:
        storage: the files of the journal.
        clock: a monotonic clock, in seconds.
    """

    def __init__(self, storage: Storage, clock: Callable[[], float] = time.monotonic) -> None:
        self.storage = storage
        self._clock = clock
        self._listing = Listing(storage)
        self._listed_at = -math.inf

    def __reduce__(self) -> tuple[type[JournalReader], tuple[Storage]]:
        return JournalReader, (self.storage,)

    def control(self) -> Control:
        """The control file.

        Raises:
            JournalGap: there is no journal.
        """
        control = read_control(self.storage)
        if control is None:
            raise JournalGap(
                f'there is no journal at "{self.storage.url}"',
                hint="The receiver creates it: start `subscriber run`. If it was deleted, restore it.",
            )
        return control

    def entries(self, start: LSN) -> list[Entry]:
        """The complete entries after ``start``, in order. Their chain is checked.

        Raises:
            JournalGap: changes after ``start`` are missing; the message names both LSNs.
        """
        self._list()
        return self._entries(start)

    def _list(self) -> None:
        self._listing.update()
        self._listed_at = self._clock()

    def _entries(self, start: LSN) -> list[Entry]:
        """The entries after ``start`` that are in memory."""
        control = self.control()  # read after the listing, so that it includes every trim that the listing shows
        if start < control.begin:
            raise JournalGap(
                f"changes after {format_lsn(start)} were asked for, but the journal begins at {format_lsn(control.begin)}",
                hint="The journal was trimmed beyond this position; start again with a new copy.",
                lsn=start,
            )
        return self._chain(start)

    def _chain(self, start: LSN) -> list[Entry]:
        """The entries after ``start``, after a check of their chain; ``start`` is not before the
        beginning of the journal.

        A file that gets its name, or is merged, while the folder is being listed may be missing in
        the list although a later file is not. If the check fails, the folder is listed again. The
        next listing shows every file that comes before the files of the first one, or the file that
        covers it.
        """
        entries = self._after(start)
        for attempt in range(_LISTINGS):
            try:
                check_chain(start if not entries else LSN(min(start, entries[0].begin)), entries)
            except JournalGap:
                if attempt == _LISTINGS - 1:
                    raise
                last = entries[-1].end
                self._listing.refresh()
                start = LSN(max(start, self.control().begin))
                entries = [entry for entry in self._after(start) if entry.begin < last]
            else:
                break
        return entries

    def _after(self, start: LSN) -> list[Entry]:
        return [entry for entry in self._listing.entries if entry.end > start]

    def require(self, start: LSN, end: LSN) -> None:
        """Check that the journal still has the end of the batch (``start``, ``end``], or has
        trimmed it.

        Raises:
            JournalGap: an entry that ended at ``end`` is no longer in the journal.
        """
        if not self._has(end):
            self._list()
        if max(start, self.control().begin) < end and not self._has(end):
            raise JournalGap(
                f"changes up to {format_lsn(end)} are to be applied, but the journal has no entry that ends there",
                detail="Segments are missing from the journal.",
                hint="Restore the missing segments. Otherwise drop the subscription and create it again, with a new copy.",
                lsn=end,
            )

    def _has(self, end: LSN) -> bool:
        """Whether an entry in memory ends at ``end``, or an entry there was merged with others."""
        return any(
            entry.end == end or (entry.begin < end < entry.end and entry.segments[0].is_run)
            for entry in self._listing.entries
        )

    def latest(self, start: LSN, max_bytes: int | None = None) -> LSN:
        """The end of the entries after ``start``, limited to ``max_bytes`` in total, but to at
        least one entry.

        Raises:
            JournalGap: as :meth:`entries`.
        """
        if max_bytes is not None and self._clock() - self._listed_at < RELIST_SECONDS:
            end, is_limited = _limited(self._entries(start), start, max_bytes)
            if is_limited:
                return end
        return _limited(self.entries(start), start, max_bytes)[0]

    def plan(self, start: LSN, end: LSN, *, two_phase: bool = False) -> list[Reading]:
        """The segments to read for ``(start, end]``, in commit order.

        Args:
            start: the end of the range that was read before.
            end: the end of the range to read.
            two_phase: whether prepared transactions are read at the place of their PREPARE.

        Raises:
            JournalGap: an entry is missing, or the changes of a prepared transaction that is to be
                committed are missing.
        """
        if not self._listing.entries or self._listing.entries[-1].end < end:
            self._list()
        entries = self._chain(LSN(max(start, self.control().begin)))
        prepared = {entry.xid: entry for entry in self._listing.entries if entry.kind is Kind.PREPARED}
        readings: list[Reading] = []
        for entry in entries:
            if entry.segments[0].is_run:
                if entry.begin < end:
                    part = _part(entry.segments[0], start, end)
                    readings.append(Reading(part, part.end, part))
                continue
            if entry.end > end or (entry.kind is Kind.PREPARED and not two_phase):
                continue
            if entry.kind is Kind.COMMIT_PREPARED and not two_phase:
                if entry.xid not in prepared:
                    raise JournalGap(
                        f"transaction {entry.xid} was committed at {format_lsn(entry.end)}, "
                        "but the journal does not hold the changes that it prepared",
                        hint="Restore the journal, or drop the subscription and create it again, with a new copy.",
                        lsn=entry.end,
                    )
                changes = prepared[entry.xid].segments
                readings += [Reading(segment, entry.end, entry.segments[-1]) for segment in changes]
            readings += [Reading(segment, entry.end, entry.segments[-1]) for segment in entry.segments]
        return readings


def _limited(entries: Sequence[Entry], start: LSN, max_bytes: int | None) -> tuple[LSN, bool]:
    """The end of the first entries, of at most ``max_bytes`` but at least one, and whether the
    limit has left any out.
    """
    end, total = start, 0
    for entry in entries:
        total += entry.size
        if max_bytes is not None and total > max_bytes and end != start:
            return end, True
        end = entry.end
    return end, False


def _part(run: Segment, start: LSN, end: LSN) -> Segment:
    """The part of a run of transactions that is in (``start``, ``end``]: the run itself, or a
    segment without a file.
    """
    if start <= run.begin and run.end <= end:
        return run
    return replace(run, begin=LSN(max(start, run.begin)), end=LSN(min(end, run.end)))


def changed_relations(storage: Storage, start: LSN) -> list[str]:
    """The names of the relations that have changes after ``start``, as far as the journal still has
    them.

    Raises:
        JournalCorrupt, JournalUnavailable: as :func:`read_rows`.
    """
    found: set[str] = set()
    for entry in journal_entries(storage):
        if entry.end > start:
            for segment in entry.segments:
                reading = Reading(segment, entry.end, entry.segments[-1])
                for rows in read_rows(storage, reading, read_finish(storage, reading)):
                    # A segment has a relation message for each changed or truncated relation.
                    found.update(name for name in rows.column("relation").unique().to_pylist() if name is not None)
    return sorted(found)


def read_finish(storage: Storage, reading: Reading) -> Finish | None:
    """The end of the transaction that is being read; None for a run of transactions, whose rows
    contain their ends.

    Raises:
        JournalCorrupt, JournalUnavailable: as :func:`read_rows`.
    """
    last = reading.finish
    if last.kind is Kind.TRANSACTIONS and not last.xid:
        return None
    with _opened(storage, last) as file:
        finish = _finish_of(decode(_finish_message(file)), last.xid)
    return None if finish is None else replace(finish, lsn=reading.end)


def oldest_commit(storage: Storage, start: LSN) -> datetime | None:
    """The commit time of the first transaction after ``start``, by the publisher's clock; None
    where the journal has no such transaction.

    Raises:
        JournalError: the journal cannot be read.
    """
    reader = JournalReader(storage)
    for reading in reader.plan(start, reader.latest(start)):
        finish = read_finish(storage, reading)
        if finish is not None:
            if reading.finish.kind is not Kind.ROLLBACK_PREPARED:
                return _datetime(finish.timestamp + _POSTGRESQL_EPOCH_US)
            continue
        for rows in read_rows(storage, reading):
            columns = (rows.column("commit_timestamp").to_pylist(), rows.column("finish_lsn").to_pylist())
            for moment, lsn in zip(*columns, strict=True):
                if (
                    moment is not None and lsn > start
                ):  # the first rows may be descriptions, which belong to no transaction
                    return cast(datetime, moment)
    return None


def _datetime(microseconds: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=microseconds)


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
    with _opened(storage, segment) as file:
        names: dict[int, str] = {}
        described = _described(file)
        if described.num_rows:
            yield _rows(described, names, finish or Finish(reading.end, segment.xid, 0))
        for batch in _checked(file, segment):
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
    with _opened(storage, reading.segment) as file:
        for batch in (_described(file), *_checked(file, reading.segment)):
            for offset in range(0, batch.num_rows, BATCH_ROWS):
                part = batch.slice(offset, BATCH_ROWS)
                ends = pa.array(np.full(part.num_rows, end, np.int64))
                yield pa.RecordBatch.from_arrays([*part.columns, ends], schema=MESSAGE_SCHEMA)


def read_segment(storage: Storage, segment: Segment) -> pa.Table:
    """A whole segment, in one chunk, with its metadata.

    Raises:
        JournalCorrupt, JournalUnavailable: as :func:`read_rows`.
    """
    with _opened(storage, segment) as file:
        return pa.Table.from_batches(list(_checked(file, segment)), file.schema)


def _checked(file: pa.RecordBatchFileReader, segment: Segment) -> Iterator[pa.RecordBatch]:
    """The batches of a segment, whose content is what was written."""
    for index in range(file.num_record_batches):
        batch = file.get_batch(index)
        batch.validate(full=True)  # numpy and Arrow do not check offsets
        if checksum(batch, file.schema.metadata) != file.schema.metadata[CHECKSUM_KEY]:
            raise _corrupt(segment)
        yield batch


@contextlib.contextmanager
def _opened(storage: Storage, segment: Segment) -> Iterator[pa.RecordBatchFileReader]:
    """An open segment. Every error in the block means a corrupt file, since its content was checked
    before it was written.
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
    """The segment's own file; None if there is none."""
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
    """A segment without a file, out of the file that covers it.

    Raises:
        JournalCorrupt: no file covers it, or that file cannot be read.
    """
    for _ in range(_LISTINGS):  # the covering file may be merged, too, before it is opened
        segments = (one for entry in journal_entries(storage) for one in entry.segments)
        covering = next((one for one in segments if one.covers(segment)), None)
        if covering is None:
            break
        file = _open(storage, covering)
        if file is not None:
            with _parsed(file, covering) as parsed:
                whole = pa.Table.from_batches(list(_checked(parsed, covering)), parsed.schema)
                return as_file(extract(whole, segment.begin, segment.end))
    raise _corrupt(segment)


def _corrupt(segment: Segment) -> JournalCorrupt:
    return JournalCorrupt(
        f'the journal\'s segment "{segment.name}" cannot be read',
        hint="Restore it from a copy. Otherwise drop the subscription and create it again, with a new copy.",
        lsn=segment.end,
    )


def _finish_message(file: pa.ipc.RecordBatchFileReader) -> bytes:
    return base64.b64decode(file.schema.metadata[FINISH_KEY])


def _described(file: pa.ipc.RecordBatchFileReader) -> pa.RecordBatch:
    """The relation messages that the segment needs."""
    messages = [base64.b64decode(text) for text in json.loads(file.schema.metadata[RELATIONS_KEY])]
    return pa.record_batch(
        [pa.array([0] * len(messages), pa.int64()), pa.array(messages, pa.binary())], ["lsn", "message"]
    )


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
            pa.array(times + _POSTGRESQL_EPOCH_US, mask=times == 0).cast(pa.timestamp("us", "UTC")),
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
