"""A journal in memory with what the receiver uses of a journal's writer and builder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from subscriber.base.lsn import INVALID_LSN, LSN
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.decode_message import decode
from subscriber.postgres.protocol.envelope import XLOGDATA_HEADER_SIZE
from subscriber.stream.journal.builder import SegmentBuilder
from subscriber.stream.journal.writer import JournalWriter
from subscriber.stream.receive.spool import StreamedTransaction


class MemoryBuilder(SegmentBuilder):
    """An entry that is not published yet.

    Attributes:
        frames: the messages, as whole CopyData payloads.
        relations: the relation map.
    """

    def __init__(self, relations: Mapping[int, m.Relation] | None = None) -> None:
        self.frames: list[bytes] = []
        self.relations: Mapping[int, m.Relation] = relations or {}
        self.unwritten_bytes = 0  # no test decides by the size
        self._written = 0

    @property
    def position(self) -> int:
        return len(self.frames)

    @property
    def unwritten(self) -> int:
        return len(self.frames) - self._written

    @property
    def messages(self) -> list[m.Message]:
        """The messages, decoded."""
        return [decode(frame[XLOGDATA_HEADER_SIZE:]) for frame in self.frames]

    def append(self, frame: bytes) -> None:
        self.frames.append(frame)

    def extend(self, frames: Sequence[bytes]) -> None:
        self.frames += frames

    def split(self, count: int) -> list[bytes]:
        rest = self.frames[self._written + count :]
        del self.frames[self._written + count :]
        return rest

    def spill(self, finish: bytes | None = None) -> None:
        self._written = len(self.frames)

    def truncate(self, position: int) -> None:
        del self.frames[position:]
        self._written = min(self._written, position)

    def prepend(self, frame: bytes) -> None:
        self.frames.insert(0, frame)

    def discard(self) -> None:
        self.truncate(0)


def frames_of(transaction: StreamedTransaction) -> list[bytes]:
    """The messages of a streamed transaction in a :class:`MemoryBuilder`."""
    assert isinstance(transaction.builder, MemoryBuilder)
    return transaction.builder.frames


@dataclass(frozen=True)
class MemoryEntry:
    """A published entry."""

    end: int
    kind: str
    xid: int
    messages: list[m.Message]
    finish: m.Message


class MemoryJournal(JournalWriter):
    """A journal that remembers what was published. It ignores an entry that it already has.

    Args:
        end: finish LSN of the last entry before the journal was opened.
        prepared: the prepared transactions whose changes are in it already.

    Attributes:
        entries: what was published since.
    """

    def __init__(self, end: int = INVALID_LSN, prepared: Sequence[int] = ()) -> None:
        self.end = LSN(end)
        self.entries: list[MemoryEntry] = []
        self._prepared = set(prepared)

    @property
    def durable_lsn(self) -> LSN:
        return self.end

    def builder(self, relations: Mapping[int, m.Relation], *, in_stream: bool) -> MemoryBuilder:
        return MemoryBuilder(relations)

    def publish(self, builder: SegmentBuilder, end: LSN, *, kind: str, xid: int, finish: bytes) -> None:
        assert isinstance(builder, MemoryBuilder)
        if end > self.end:
            self.entries.append(MemoryEntry(end, kind, xid, builder.messages, decode(finish)))
            self.end = end
        builder.discard()

    def advance(self, received: LSN) -> None: ...

    def holds_prepared(self, xid: int) -> bool:
        return xid in self._prepared

    def applied(self) -> LSN:
        return INVALID_LSN

    def fastest(self) -> LSN:
        return INVALID_LSN

    def trim(self) -> None: ...
