"""Segments and entries. A segment's name has all that a plan needs, so that listing opens no file.

::

    0000000001A2B3C4-0000000001A2C000-t-00000000-000001-of-000001.arrow
    begin            end              │ xid      part      parts
                                      └ kind

``(begin, end]`` is the range of end LSNs that the segment's entry covers. ``begin`` is the ``end``
of the previous entry, so that the names form a chain, and no change can go missing unnoticed.

An *entry* is what finishes at one place in the stream: a run of small transactions, one large
transaction in several parts, a prepared transaction, or its COMMIT PREPARED or ROLLBACK PREPARED.
The writer renames its parts in order, so that it is not visible before the last rename.

Runs of small transactions may be merged (:mod:`subscriber.stream.journal.compaction`). Until the
merged files are deleted, the form that covers more counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter
from typing import Final

from subscriber.base.errors import RECREATE_SLOT, JournalCorrupt, JournalGap
from subscriber.base.lsn import LSN, format_lsn
from subscriber.stream.journal.storage import Storage

SUFFIX: Final = ".arrow"
TEMPORARY_SUFFIX: Final = ".tmp"


class EntryKind(StrEnum):
    TRANSACTIONS = "t"
    """Committed transactions, in commit order (and non-transactional messages between them)."""
    PREPARED = "p"
    """One prepared transaction; its changes are applied only at its COMMIT PREPARED."""
    COMMIT_PREPARED = "k"
    ROLLBACK_PREPARED = "r"


@dataclass(frozen=True, slots=True, order=True)
class Segment:
    """One immutable file of the journal; ``size`` is not part of its name.

    ``end`` is the end LSN of the entry's last transaction; ``begin``, exclusive, that of the
    previous entry. ``xid`` is 0 except for a prepared transaction, its COMMIT PREPARED or ROLLBACK
    PREPARED, and an entry in several parts, which are counted from 1.
    """

    begin: LSN
    end: LSN
    kind: EntryKind
    xid: int
    part: int = 1
    parts: int = 1
    size: int = field(default=0, compare=False)

    @property
    def is_run(self) -> bool:
        """Whether the segment is a run of several transactions, which can be divided and merged."""
        return self.kind is EntryKind.TRANSACTIONS and not self.xid and self.parts == 1

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
        return (
            f"{self.begin:016X}-{self.end:016X}-{self.kind}-{self.xid:08X}-{self.part:06d}-of-{self.parts:06d}{SUFFIX}"
        )


def parse_segment_name(name: str, size: int = 0) -> Segment | None:
    """The segment that a file name stands for; None for other files."""
    if not name.endswith(SUFFIX):
        return None
    fields = name.removesuffix(SUFFIX).split("-")
    if len(fields) != 7 or fields[5] != "of":
        return None
    begin, end, kind, xid, part, _, parts = fields
    try:
        return Segment(
            LSN(int(begin, 16)), LSN(int(end, 16)), EntryKind(kind), int(xid, 16), int(part), int(parts), size
        )
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Entry:
    segments: tuple[Segment, ...]

    @property
    def begin(self) -> LSN:
        return self.segments[0].begin

    @property
    def end(self) -> LSN:
        return self.segments[0].end

    @property
    def kind(self) -> EntryKind:
        return self.segments[0].kind

    @property
    def xid(self) -> int:
        """The transaction, where the entry is a single transaction; otherwise 0."""
        return self.segments[0].xid

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)


_ORDER: Final = attrgetter("begin", "end", "kind", "xid", "part", "parts")
_ENTRY: Final = attrgetter("begin", "end", "kind", "xid", "parts")


def group_entries(segments: Iterable[Segment]) -> tuple[list[Entry], list[Segment]]:
    """The complete entries in stream order, and the segments that belong to none or are covered."""
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
    segments = (parse_segment_name(name, size) for name, size in storage.names())
    return group_entries(filter(None, segments))[0]


def ends_within(entries: Iterable[Entry], bound: LSN | None) -> Iterator[tuple[LSN, int]]:
    """The places up to ``bound`` at which a batch may end, with the sizes of their entries."""
    for entry in entries:
        if bound is not None and entry.end > bound:
            if entry.segments[0].is_run and entry.begin < bound:
                yield bound, entry.size
            return
        yield entry.end, entry.size


def check_chain(begin: LSN, entries: Sequence[Entry]) -> None:
    """Check that each entry begins where the previous one ends, and the first at the journal's
    ``begin``; raises JournalGap or JournalCorrupt.

    Entries at or before ``begin`` are not checked: they are prepared transactions that are not
    finished yet, or files that were not deleted because of a crash.
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
