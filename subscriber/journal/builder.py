"""Collects the messages of an entry and writes them as segments.

The receiver appends CopyData frames as they arrive. This is the hot path: it costs one list append
and one addition for each message, so that the size is always known without counting. When enough
bytes have been collected, or the transaction ends, numpy turns the frames into one Arrow table over
one buffer. The table has the position and the message of each frame, without the envelope and
without the xid that messages have inside a stream block (rule A3). The journal therefore has one
form of each message only.

::

    frame   w start_lsn end_lsn timestamp │ I xid relation 'N' tuple        inside a stream block
            └────────── 25 bytes ────────┘
    row     lsn = start_lsn   message =     I     relation 'N' tuple

The table is checked before anything is made durable:
:func:`~subscriber.protocol.message_batch.group_changes` parses the structure of every tuple. A
message that cannot be decoded therefore never becomes part of a segment, and the slot is never
confirmed past it. The same pass finds the earlier relation messages that the rows need. They are
written into the segment's metadata, so that a segment can be read without the segments before it.

*Rejected: a separate spool format for streamed transactions* that is copied into the journal at
commit, as PostgreSQL's worker replays its spool file. Here the spool is a set of unpublished
segments, so that the commit of a large streamed transaction is a few renames.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from subscriber.errors import JournalUnavailable
from subscriber.journal.segment import TEMPORARY_SUFFIX, Kind, Segment
from subscriber.journal.storage import Storage
from subscriber.journal.storage_files import is_out_of_space
from subscriber.lsn import LSN
from subscriber.protocol.decode import decode
from subscriber.protocol.encode import encode
from subscriber.protocol.envelope import XLOGDATA_HEADER_SIZE
from subscriber.protocol.message_batch import group_changes
from subscriber.protocol.messages import Relation, Truncate

SEGMENT_SCHEMA: Final = pa.schema(
    [pa.field("lsn", pa.int64(), nullable=False), pa.field("message", pa.binary(), nullable=False)]
)
"""``lsn``: the WAL position of the record (0 for relation messages). ``message``: the pgoutput
message in the form that it has outside of stream blocks.
"""

RELATIONS_KEY: Final = b"subscriber.relations"
"""Schema metadata: JSON list of the base64 relation messages (R) that the rows need and that are in
an earlier segment.
"""
FINISH_KEY: Final = b"subscriber.finish"
"""Schema metadata of an entry's last part: base64 of the message that finished the entry (C, P, K
or r).
"""

CHECKSUM_KEY: Final = b"subscriber.crc32"
"""Schema metadata: the :func:`checksum` of rows and metadata. Arrow files have no checksum."""

_XID_SIZE: Final = 4
_PREFIXED_IN_STREAM: Final = np.frombuffer(b"RYIUDTM", np.uint8)
_temporary_names = itertools.count(1)


@dataclass(frozen=True, slots=True)
class _Part:
    """A durable, unpublished file. Only its first ``rows`` rows belong to the entry."""

    name: str
    rows: int
    written_rows: int
    size: int


class SegmentBuilder:
    """Collects one entry of the journal.

    Args:
        storage: the files of the journal.
        relations: the relation map before the first message.
        in_stream: whether the frames are from stream blocks.
        make_room: called when the disk is full, before the part is written a second time.

    Attributes:
        relations: the relation map as of the first unwritten frame (rule C1). A map is never
            modified but replaced by a new map: it may hold thousands of descriptions, and few
            batches contain a relation message.
        unwritten_bytes: size of the CopyData frames that are not yet written (invariant
            bounded_memory).
    """

    def __init__(
        self,
        storage: Storage,
        relations: Mapping[int, Relation],
        *,
        in_stream: bool,
        make_room: Callable[[], None] = lambda: None,
    ) -> None:
        self.relations = relations
        self.unwritten_bytes = 0
        self._storage = storage
        self._make_room = make_room
        self._in_stream = in_stream
        self._parts: list[_Part] = []
        self._written_rows = 0
        self._frames: list[bytes] = []

    @property
    def position(self) -> int:
        """The number of messages in the entry: those appended, less those that :meth:`truncate`
        removed.
        """
        return self._written_rows + len(self._frames)

    @property
    def unwritten(self) -> int:
        """The number of messages that are in memory only."""
        return len(self._frames)

    def append(self, frame: bytes) -> None:
        """Add one message, given as its whole CopyData payload."""
        self._frames.append(frame)
        self.unwritten_bytes += len(frame)

    def extend(self, frames: Sequence[bytes]) -> None:
        """Add several messages."""
        self._frames += frames
        self.unwritten_bytes += _size(frames)

    def split(self, count: int) -> list[bytes]:
        """Remove and return the unwritten messages after the first ``count``."""
        rest = self._frames[count:]
        del self._frames[count:]
        self.unwritten_bytes -= _size(rest)
        return rest

    def spill(self, finish: bytes | None = None) -> None:
        """Write the collected frames to a durable temporary file, to be published later.

        Raises:
            ProtocolError: a message cannot be decoded; nothing was written.
            JournalUnavailable: the file could not be written.
        """
        if not self._frames:
            return
        table, relations = described(frames_table(self._frames, in_stream=self._in_stream), self.relations, finish)
        self._parts.append(self._create(table))
        self._written_rows += table.num_rows
        self.relations = relations
        self._forget_frames()

    def truncate(self, position: int) -> None:
        """Remove every message from ``position`` on, because a subtransaction was rolled back (rule
        C43).

        Relation messages among them are kept. The publisher remembers for each top-level
        transaction which relations it has described (rule A24), so it does not repeat them for
        later changes.
        """
        cut = self.split(max(0, position - self._written_rows))
        if position < self._written_rows:
            self._truncate_parts(position)
        self.extend([frame for frame in cut if frame[XLOGDATA_HEADER_SIZE] == ord("R")])

    def prepend(self, frame: bytes) -> None:
        """Put the Begin message before all others. For a streamed transaction its content is known
        only at commit.

        Raises:
            JournalUnavailable: the file could not be written.
        """
        if not self._parts:
            self._frames.insert(0, frame)
            self.unwritten_bytes += len(frame)
            return
        self._parts.insert(0, self._create(sealed(frames_table([frame], in_stream=False), [], None)))
        self._written_rows += 1

    def publish(self, begin: LSN, end: LSN, kind: Kind, xid: int, finish: bytes) -> list[Segment]:
        """Make the entry durable and visible in the journal.

        Args:
            begin: end LSN of the previous entry.
            end: end LSN of this entry.
            kind: the kind of this entry.
            xid: the transaction of this entry; 0 for a run of several transactions.
            finish: the message that finished this entry.

        Raises:
            ProtocolError, JournalUnavailable: as :meth:`spill`; then nothing of the entry is
                visible.
        """
        self.spill(finish)
        parts = [self._rewritten(part) for part in self._parts]
        segments = [
            Segment(begin, end, kind, xid, number, len(parts), part.size) for number, part in enumerate(parts, start=1)
        ]
        self._storage.publish([(part.name, segment.name) for part, segment in zip(parts, segments, strict=True)])
        self._forget_parts()
        return segments

    def discard(self) -> None:
        """Remove every message: the transaction was rolled back, or is in the journal already.

        The relation messages still count in :attr:`relations`, because the publisher does not send
        them again (rule A24).
        """
        described: dict[int, Relation] = {}
        for frame in self._frames:
            if frame[XLOGDATA_HEADER_SIZE] == ord("R"):
                relation = decode(frame[XLOGDATA_HEADER_SIZE:], in_stream=self._in_stream)
                assert isinstance(relation, Relation)
                described[relation.relation_id] = replace(relation, xid=None)
        if described:
            self.relations = {**self.relations, **described}
        self._storage.delete([part.name for part in self._parts])
        self._forget_parts()
        self._forget_frames()

    def _create(self, table: pa.Table) -> _Part:
        """Write a temporary file. If the disk is full, make room and try once more."""
        name = temporary_name()
        try:
            size = self._storage.create(name, table)
        except JournalUnavailable as error:
            if not is_out_of_space(error):
                raise
            self._make_room()
            size = self._storage.create(name, table)
        return _Part(name, table.num_rows, table.num_rows, size)

    def _truncate_parts(self, position: int) -> None:
        """Truncate the parts on disk: later parts are deleted, and the part at the cut keeps fewer
        rows.
        """
        kept, rows = [], 0
        for part in self._parts:
            if rows < position:
                kept.append(replace(part, rows=min(part.rows, position - rows)))
                rows += part.rows
        self._storage.delete([part.name for part in self._parts[len(kept) :]])
        self._parts, self._written_rows = kept, position

    def _forget_parts(self) -> None:
        self._parts, self._written_rows = [], 0

    def _forget_frames(self) -> None:
        self._frames, self.unwritten_bytes = [], 0

    def _rewritten(self, part: _Part) -> _Part:
        if part.rows == part.written_rows:
            return part
        with self._storage.open(part.name) as file:
            table = pa.ipc.open_file(file).read_all()
            written = self._create(_with_checksum(table.slice(0, part.rows), table.schema.metadata))
        self._storage.delete([part.name])
        return written


def _size(frames: Iterable[bytes]) -> int:
    return sum(map(len, frames))


def checksum(batch: pa.RecordBatch, metadata: Mapping[bytes, bytes]) -> bytes:
    """CRC-32 of a segment's rows and metadata, as decimal text."""
    crc = 0
    for key in (RELATIONS_KEY, FINISH_KEY):
        crc = zlib.crc32(metadata.get(key, b""), crc)
    messages = batch.column("message")
    _, offset_buffer, data = messages.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, len(messages) + 1, messages.offset * 4)
    crc = zlib.crc32(batch.column("lsn").to_numpy(), crc)
    crc = zlib.crc32((offsets - offsets[0]).tobytes(), crc)
    return str(zlib.crc32(memoryview(data)[offsets[0] : offsets[-1]], crc)).encode()


def described(
    table: pa.Table, relations: Mapping[int, Relation], finish: bytes | None
) -> tuple[pa.Table, Mapping[int, Relation]]:
    """A segment that can be read without the segments before it.

    Args:
        table: the rows, with :data:`SEGMENT_SCHEMA`, in one chunk.
        relations: the relation map before the rows.
        finish: the message that finished the entry, for its last part.

    Returns:
        The segment, and the relation map after the rows.

    Raises:
        ProtocolError: a message cannot be decoded.
    """
    messages = table["message"].chunk(0)
    batch = group_changes(messages, relations, table["lsn"].chunk(0).to_numpy())
    needed = batch.used_before | _truncated_relations(messages)
    before = [relations[key] for key in sorted(needed) if key in relations]
    return sealed(table, before, finish), batch.relations


def sealed(table: pa.Table, relations: Iterable[Relation], finish: bytes | None) -> pa.Table:
    """A segment: the rows, in one chunk, with the relation messages that they need from before, the
    message that finished the entry, and the checksum.
    """
    return _with_checksum(table, _metadata(relations, finish))


def _with_checksum(table: pa.Table, metadata: Mapping[bytes, bytes]) -> pa.Table:
    (batch,) = table.to_batches()
    return table.replace_schema_metadata({**metadata, CHECKSUM_KEY: checksum(batch, metadata)})


def temporary_name() -> str:
    """The name of a new temporary file; no other file of the journal has it."""
    return f"spool-{os.getpid()}-{next(_temporary_names)}{TEMPORARY_SUFFIX}"


def frames_table(frames: list[bytes], *, in_stream: bool) -> pa.Table:
    """Remove the envelopes (and stream xids) of many frames at once. The result has
    :data:`SEGMENT_SCHEMA`.
    """
    buffer = np.frombuffer(bytearray().join(frames), np.uint8)
    lengths = np.fromiter(map(len, frames), np.int64, len(frames))
    ends = np.cumsum(lengths)
    frame_starts = ends - lengths
    lsns = np.zeros(len(frames), np.int64)
    for byte in range(8):
        lsns = lsns << 8 | buffer[frame_starts + 1 + byte]
    starts = frame_starts + XLOGDATA_HEADER_SIZE
    if in_stream:
        types = buffer[starts]
        prefixed = np.isin(types, _PREFIXED_IN_STREAM)
        starts = starts + _XID_SIZE * prefixed
        buffer[starts] = types  # overwrites the xid's last byte: the message begins with its type again
    offsets = np.empty(2 * len(frames), np.int32)
    offsets[0::2], offsets[1::2] = starts, ends
    slices = pa.Array.from_buffers(
        pa.binary(), 2 * len(frames) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(buffer)]
    )
    messages = slices.take(pa.array(np.arange(0, 2 * len(frames), 2)))
    return pa.table([pa.array(lsns), messages], schema=SEGMENT_SCHEMA)


def rows_of(messages: pa.BinaryArray, types: bytes) -> list[int]:
    """The numbers of the messages that have one of these type bytes."""
    if not len(messages):
        return []
    _, offsets, data = messages.buffers()
    starts = np.frombuffer(offsets, np.int32)[messages.offset :][: len(messages)]
    found = np.isin(np.frombuffer(data, np.uint8)[starts], np.frombuffer(types, np.uint8))
    rows: list[int] = np.flatnonzero(found).tolist()
    return rows


def _truncated_relations(messages: pa.BinaryArray) -> frozenset[int]:
    """The relations that Truncate messages (T) name: TRUNCATE needs their descriptions, as changes
    do.
    """
    found: set[int] = set()
    for row in rows_of(messages, b"T"):
        truncate = decode(messages[row].as_py())
        assert isinstance(truncate, Truncate)
        found.update(truncate.relation_ids)
    return frozenset(found)


def _metadata(relations: Iterable[Relation], finish: bytes | None) -> dict[bytes, bytes]:
    encoded = [base64.b64encode(encode(replace(relation, xid=None))).decode() for relation in relations]
    metadata = {RELATIONS_KEY: json.dumps(encoded).encode()}
    if finish is not None:
        metadata[FINISH_KEY] = base64.b64encode(finish)
    return metadata
