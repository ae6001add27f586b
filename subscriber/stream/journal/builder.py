"""Collects the messages of an entry and writes them as segments.

The receiver appends CopyData frames as they arrive. This is the hot path: it costs one list append
and one addition for each message. When enough bytes have been collected, or the transaction ends,
numpy turns the frames into one Arrow table over one buffer, without the envelope and without the
xid that messages have inside a stream block (rule A3)::

    frame   w start_lsn end_lsn timestamp │ I xid relation 'N' tuple        inside a stream block
            └────────── 25 bytes ────────┘
    row     lsn = start_lsn   message =     I     relation 'N' tuple

Before anything is made durable, :func:`~subscriber.postgres.protocol.message_batch.group_changes`
parses the structure of every tuple, so the slot is never confirmed past a message that cannot be
decoded. The same pass finds the earlier relation messages that the rows need, for the segment's
metadata.

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

from subscriber.base.errors import JournalUnavailable
from subscriber.base.lsn import LSN
from subscriber.postgres.protocol.decode_message import decode
from subscriber.postgres.protocol.encode_message import encode
from subscriber.postgres.protocol.envelope import XLOGDATA_HEADER_SIZE
from subscriber.postgres.protocol.message_batch import group_changes
from subscriber.postgres.protocol.messages import Relation, Truncate
from subscriber.stream.journal.segment import TEMPORARY_SUFFIX, EntryKind, Segment
from subscriber.stream.journal.storage import Storage, is_out_of_space

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
    """Collects one entry of the journal. ``make_room`` is called when the disk is full, before the
    part is written a second time.

    ``relations`` is the relation map as of the first unwritten frame (rule C1). A map is never
    modified but replaced: it may hold thousands of descriptions, and few batches contain a relation
    message. ``unwritten_bytes`` counts whole CopyData frames (bounded_memory).
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
        """The number of messages in the entry, without those that :meth:`truncate` removed."""
        return self._written_rows + len(self._frames)

    @property
    def unwritten(self) -> int:
        return len(self._frames)

    def append(self, frame: bytes) -> None:
        self._frames.append(frame)
        self.unwritten_bytes += len(frame)

    def extend(self, frames: Sequence[bytes]) -> None:
        self._frames += frames
        self.unwritten_bytes += _size(frames)

    def split(self, count: int) -> list[bytes]:
        """Remove and return the unwritten messages after the first ``count``."""
        rest = self._frames[count:]
        del self._frames[count:]
        self.unwritten_bytes -= _size(rest)
        return rest

    def spill(self, finish: bytes | None = None) -> None:
        """Write the collected frames to a durable temporary file, to be published later."""
        if not self._frames:
            return
        table, relations = described(frames_table(self._frames, in_stream=self._in_stream), self.relations, finish)
        self._parts.append(self._create(table))
        self._written_rows += table.num_rows
        self.relations = relations
        self._forget_frames()

    def truncate(self, position: int) -> None:
        """Remove every message from ``position`` on, after a subtransaction was rolled back (rule
        C43), except relation messages: the publisher does not repeat them in the transaction (rule
        A24).
        """
        cut = self.split(max(0, position - self._written_rows))
        if position < self._written_rows:
            self._truncate_parts(position)
        self.extend([frame for frame in cut if frame[XLOGDATA_HEADER_SIZE] == ord("R")])

    def prepend(self, frame: bytes) -> None:
        """Put the Begin message, which is known only at commit, before all others."""
        if not self._parts:
            self._frames.insert(0, frame)
            self.unwritten_bytes += len(frame)
            return
        self._parts.insert(0, self._create(sealed(frames_table([frame], in_stream=False), [], None)))
        self._written_rows += 1

    def publish(self, begin: LSN, end: LSN, kind: EntryKind, xid: int, finish: bytes) -> list[Segment]:
        self.spill(finish)
        parts = [self._rewritten(part) for part in self._parts]
        segments = [
            Segment(begin, end, kind, xid, number, len(parts), part.size) for number, part in enumerate(parts, start=1)
        ]
        self._storage.publish([(part.name, segment.name) for part, segment in zip(parts, segments, strict=True)])
        self._forget_parts()
        return segments

    def discard(self) -> None:
        """Remove every message. Relation messages still count in :attr:`relations` (rule A24)."""
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
        """Delete the parts on disk after the cut, and keep fewer rows of the part at the cut."""
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
    """A segment that can be read without the segments before it."""
    messages = table["message"].chunk(0)
    batch = group_changes(messages, relations, table["lsn"].chunk(0).to_numpy())
    needed = batch.used_before | _truncated_relations(messages)
    before = [relations[key] for key in sorted(needed) if key in relations]
    return sealed(table, before, finish), batch.relations


def sealed(table: pa.Table, relations: Iterable[Relation], finish: bytes | None) -> pa.Table:
    """A segment in one chunk, with earlier relation messages, finish message and checksum."""
    return _with_checksum(table, _metadata(relations, finish))


def _with_checksum(table: pa.Table, metadata: Mapping[bytes, bytes]) -> pa.Table:
    (batch,) = table.to_batches()
    return table.replace_schema_metadata({**metadata, CHECKSUM_KEY: checksum(batch, metadata)})


def temporary_name() -> str:
    return f"spool-{os.getpid()}-{next(_temporary_names)}{TEMPORARY_SUFFIX}"


def frames_table(frames: list[bytes], *, in_stream: bool) -> pa.Table:
    """Frames without envelopes and stream xids, as :data:`SEGMENT_SCHEMA`."""
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
    if not len(messages):
        return []
    _, offsets, data = messages.buffers()
    starts = np.frombuffer(offsets, np.int32)[messages.offset :][: len(messages)]
    found = np.isin(np.frombuffer(data, np.uint8)[starts], np.frombuffer(types, np.uint8))
    rows: list[int] = np.flatnonzero(found).tolist()
    return rows


def _truncated_relations(messages: pa.BinaryArray) -> frozenset[int]:
    """The relations that Truncate messages (T) name; these need descriptions, as changes do."""
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
