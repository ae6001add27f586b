"""Segments and entries. A segment's name has all that a plan needs, so that listing opens no file.

::

    0000000001A2B3C4-0000000001A2C000-t-00000000-000001-of-000001.arrow
    begin            end              │ xid      part      parts
                                      └ kind

``(begin, end]`` is the range of end LSNs that the segment's entry covers. ``begin`` is always
the ``end`` of the previous entry, so that the names form a chain. If a segment in the middle is
deleted, the chain has a gap, and no change can go missing unnoticed.

An *entry* is what finishes at one place in the stream: a run of small transactions, one large
transaction in several parts, a prepared transaction, or its COMMIT PREPARED or ROLLBACK PREPARED.
An entry exists once all its parts exist. The writer renames the parts in order, so that the entry
is not visible before the last rename.

Runs of small transactions may be merged (:mod:`subscriber.journal.compaction`). Until the merged
files are deleted, there are two forms of the same transactions. The one that covers more counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter
from typing import Final

from subscriber.errors import RECREATE_SLOT, JournalCorrupt, JournalGap
from subscriber.journal.storage import Storage
from subscriber.lsn import LSN, format_lsn

SUFFIX: Final = ".arrow"
TEMPORARY_SUFFIX: Final = ".tmp"


class Kind(StrEnum):
    """The kind of an entry."""

    TRANSACTIONS = "t"
    """Committed transactions, in commit order (and non-transactional messages between them)."""
    PREPARED = "p"
    """One prepared transaction; its changes are applied only at its COMMIT PREPARED."""
    COMMIT_PREPARED = "k"
    ROLLBACK_PREPARED = "r"


@dataclass(frozen=True, slots=True, order=True)
class Segment:
    """One immutable file of the journal.

    Attributes:
        begin: end LSN of the previous entry (exclusive start of the range).
        end: end LSN of the entry, which is that of its last transaction.
        kind: the kind of the entry.
        xid: the transaction, for a prepared transaction, its COMMIT PREPARED or ROLLBACK PREPARED,
            or an entry in several parts; otherwise 0.
        part: the number of this part, from 1.
        parts: the number of parts that the entry has.
        size: bytes on disk (not part of the name).
    """

    begin: LSN
    end: LSN
    kind: Kind
    xid: int
    part: int = 1
    parts: int = 1
    size: int = field(default=0, compare=False)

    @property
    def is_run(self) -> bool:
        """Whether the segment is a run of several transactions, which can be divided and merged."""
        return self.kind is Kind.TRANSACTIONS and not self.xid and self.parts == 1

    def covers(self, other: Segment) -> bool:
        """Whether this segment has the transactions of ``other``, and others."""
        return (
            self.is_run
            and other.is_run
            and self.begin <= other.begin
            and other.end <= self.end
            and (self.begin, self.end) != (other.begin, other.end)
        )

    @property
    def name(self) -> str:
        """The file's name."""
        return (
            f"{self.begin:016X}-{self.end:016X}-{self.kind}-{self.xid:08X}-{self.part:06d}-of-{self.parts:06d}{SUFFIX}"
        )


def parse_segment_name(name: str, size: int = 0) -> Segment | None:
    """The segment that a file name stands for, or None when the name is not that of a segment."""
    if not name.endswith(SUFFIX):
        return None
    fields = name.removesuffix(SUFFIX).split("-")
    if len(fields) != 7 or fields[5] != "of":
        return None
    begin, end, kind, xid, part, _, parts = fields
    try:
        return Segment(LSN(int(begin, 16)), LSN(int(end, 16)), Kind(kind), int(xid, 16), int(part), int(parts), size)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Entry:
    """All parts of one entry, in order."""

    segments: tuple[Segment, ...]

    @property
    def begin(self) -> LSN:
        """End LSN of the previous entry."""
        return self.segments[0].begin

    @property
    def end(self) -> LSN:
        """End LSN of the entry: its place in the stream."""
        return self.segments[0].end

    @property
    def kind(self) -> Kind:
        """The kind of the entry."""
        return self.segments[0].kind

    @property
    def xid(self) -> int:
        """The transaction, where the entry is a single transaction; otherwise 0."""
        return self.segments[0].xid

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(segment.size for segment in self.segments)


_ORDER: Final = attrgetter("begin", "end", "kind", "xid", "part", "parts")
_ENTRY: Final = attrgetter("begin", "end", "kind", "xid", "parts")


def group_entries(segments: Iterable[Segment]) -> tuple[list[Entry], list[Segment]]:
    """Group segments into entries: the complete entries in stream order, and the segments that
    belong to none. Those are the segments of incomplete entries, and segments that another one
    covers.
    """
    by_entry: dict[tuple[object, ...], list[Segment]] = {}
    for segment in sorted(segments, key=_ORDER):
        by_entry.setdefault(_ENTRY(segment), []).append(segment)
    entries, stray = [], []
    for parts in by_entry.values():
        if [part.part for part in parts] == list(range(1, parts[0].parts + 1)):
            entries.append(Entry(tuple(parts)))
        else:
            stray += parts
    entries, covered = without_covered(entries)
    return entries, stray + [entry.segments[0] for entry in covered]


def without_covered(entries: Iterable[Entry]) -> tuple[list[Entry], list[Entry]]:
    """The entries in stream order that no other entry covers, and those that another one covers."""
    kept: list[Entry] = []
    covered: list[Entry] = []
    widest = None
    for entry in sorted(entries, key=lambda entry: (entry.segments[0].begin, -entry.segments[0].end)):
        segment = entry.segments[0]
        if widest is not None and segment.begin < widest.end and widest.covers(segment):
            covered.append(entry)
        else:
            kept.append(entry)
            widest = segment
    return kept, covered


def journal_entries(storage: Storage) -> list[Entry]:
    """Every complete entry of the journal, in stream order."""
    segments = (parse_segment_name(name, size) for name, size in storage.names())
    return group_entries(filter(None, segments))[0]


def ends_within(entries: Iterable[Entry], bound: LSN | None) -> Iterator[tuple[LSN, int]]:
    """The places at or before ``bound`` at which a batch may end, in order, each with the size of
    its entry. These are the ends of the entries, and the bound itself if it is inside a run of
    transactions.

    Args:
        entries: consecutive entries.
        bound: the last place that is allowed; None if there is no limit.
    """
    for entry in entries:
        if bound is not None and entry.end > bound:
            if entry.segments[0].is_run and entry.begin < bound:
                yield bound, entry.size
            return
        yield entry.end, entry.size


def check_chain(begin: LSN, entries: Sequence[Entry]) -> None:
    """Check that each entry begins where the previous one ends, and the first at the journal's
    ``begin``.

    Entries at or before ``begin`` are not checked. They are prepared transactions that are not
    finished yet (:mod:`subscriber.journal.retention`), or files that were not deleted because of a
    crash.

    Raises:
        JournalGap: entries in between are missing; the message names both LSNs.
        JournalCorrupt: two entries overlap.
    """
    end = begin
    for entry in entries:
        if entry.end <= begin:
            continue
        if entry.begin > end:
            raise JournalGap(
                f"the journal has no changes between {format_lsn(end)} and {format_lsn(entry.begin)}",
                detail="Segments are missing from the journal.",
                hint=f"Restore the missing segments. Otherwise: {RECREATE_SLOT}",
                lsn=end,
            )
        if entry.begin < end:
            raise JournalCorrupt(
                f"two journal entries overlap: one ends at {format_lsn(end)}, the next begins at {format_lsn(entry.begin)}",
                hint=f"Two receivers have written to the same journal. {RECREATE_SLOT}",
                lsn=entry.begin,
            )
        end = entry.end
