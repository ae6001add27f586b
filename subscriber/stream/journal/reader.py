"""Plan what to read of a journal. Segments are planned by their names alone, and then read in
parallel (:mod:`subscriber.stream.journal.message_rows`).

:meth:`JournalReader.plan` turns a range of LSNs into the segments to read, in commit order::

    entries      t 0/100   p(7) 0/180   t 0/200   k(7) 0/240        p(9) 0/250   r(9) 0/260
    plan         t 0/100 ─────────────  t 0/200 ─ p(7), k(7) ──────────────────  r(9)
    two_phase    t 0/100 ─ p(7) ──────  t 0/200 ─ k(7) ──────────── p(9) ──────  r(9)

The changes of a prepared transaction are read at the place of its COMMIT PREPARED; with
``two_phase``, each entry is read at its own place.

A reader lists the folder again only when it needs entries that the last listing has not shown, so
that a long backlog is not listed for each batch.
"""

from __future__ import annotations

import bisect
import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final

from subscriber.base.errors import RECREATE_SLOT, JournalCorrupt, JournalGap, UsageError
from subscriber.base.lsn import LSN, format_lsn
from subscriber.stream.journal.control import TRIMMED, JournalControl, read_control
from subscriber.stream.journal.listing import Listing
from subscriber.stream.journal.segment import Entry, EntryKind, Segment, check_chain, ends_within
from subscriber.stream.journal.storage import Storage

RELIST_SECONDS: Final = 5.0
"""How long entries in memory may be planned without a listing. Meanwhile, they may be merged."""

_END: Final = attrgetter("end")
_LISTINGS: Final = 4
"""How often the folder is listed again before a gap is reported."""


@dataclass(frozen=True, slots=True)
class SegmentRange:
    """One segment to read.

    Attributes:
        end: end LSN of the entry that the segment is read for. A prepared transaction is read for
            its COMMIT PREPARED, but with ``two_phase`` for its PREPARE.
        finish: the segment that has the message which finished the entry.
    """

    segment: Segment
    end: LSN
    finish: Segment


class JournalReader:
    """Plans what to read, without a lock. A copy for another process has no entries in memory."""

    def __init__(self, storage: Storage, clock: Callable[[], float] = time.monotonic) -> None:
        self.storage = storage
        self._clock = clock
        self._listing = Listing(storage)
        self._listed_at = -math.inf

    def __reduce__(self) -> tuple[type[JournalReader], tuple[Storage]]:
        return JournalReader, (self.storage,)

    def control(self) -> JournalControl:
        """The control file; raises JournalGap if there is no journal."""
        control = read_control(self.storage)
        if control is None:
            raise JournalGap(
                f'there is no journal at "{self.storage.url}"',
                hint="The receiver creates it: start `subscriber run` or `subscriber receive`. If it was deleted, restore it.",
            )
        return control

    @contextlib.contextmanager
    def unless_trimmed(self) -> Iterator[None]:
        """Inside, a segment that is missing because it was trimmed meanwhile is no damage: the
        error is a UsageError. For readers that are no consumers, and so do not hold back a trim.
        """
        try:
            yield
        except JournalCorrupt as error:
            begin = self.control().begin
            if error.lsn is None or error.lsn > begin:
                raise
            raise UsageError(
                f"the journal was trimmed up to {format_lsn(begin)} while it was read",
                hint="Look again.",
                lsn=error.lsn,
            ) from None

    def listed(self) -> list[Entry]:
        """The complete entries that there are now; none where there is no journal."""
        self._listing.update()
        return self._listing.entries

    @property
    def other_files(self) -> list[tuple[str, int]]:
        """Names and sizes of the files that are no segments, as :meth:`listed` has found them."""
        return self._listing.others

    def entries(self, start: LSN) -> list[Entry]:
        """The complete entries after ``start``; raises JournalGap if changes are missing."""
        self._list()
        return self._entries(start)

    def _list(self) -> None:
        self._listing.update()
        self._listed_at = self._clock()

    def _entries(self, start: LSN) -> list[Entry]:
        control = self.control()  # read after the listing, so that it includes every trim that the listing shows
        if start < control.begin:
            raise JournalGap(
                f"changes after {format_lsn(start)} were asked for, but the journal begins at {format_lsn(control.begin)}",
                hint=TRIMMED,
                lsn=start,
            )
        return self._chain(start)

    def _chain(self, start: LSN) -> list[Entry]:
        """The entries after ``start``, with their chain checked.

        A file that gets its name, or is merged, while the folder is being listed may be missing in
        the list although a later file is not. The next listing shows every file that comes before
        the files of the first one, or the file that covers it.
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
        return self._listing.entries[bisect.bisect_right(self._listing.entries, start, key=_END) :]

    def require(self, start: LSN, end: LSN) -> None:
        """Raise JournalGap unless the journal still has, or has trimmed, the end of a batch."""
        if self._has(end):
            return
        self._list()
        if max(start, self.control().begin) < end and not self._has(end):
            raise JournalGap(
                f"changes up to {format_lsn(end)} are to be applied, but the journal has no entry that ends there",
                detail="Segments are missing from the journal.",
                hint=f"Restore the missing segments. Otherwise: {RECREATE_SLOT}",
                lsn=end,
            )

    def _has(self, end: LSN) -> bool:
        """Whether an entry in memory ends at ``end``, or an entry there was merged with others."""
        entry = next(iter(self._listing.entries[bisect.bisect_left(self._listing.entries, end, key=_END) :]), None)
        return entry is not None and (entry.end == end or (entry.begin < end and entry.segments[0].is_run))

    def latest(self, start: LSN, max_bytes: int | None = None) -> LSN:
        """The end of :meth:`next_range`."""
        return self.next_range(start, max_bytes)[0]

    def next_range(self, start: LSN, max_bytes: int | None = None, limit: LSN | None = None) -> tuple[LSN, int]:
        """The end and size of the next range to read after ``start``: at least one entry, up to
        ``max_bytes`` and ``limit`` (:func:`ends_within`). ``start`` and 0 if there is none.
        """
        if (
            max_bytes is not None
            and self._clock() - self._listed_at < RELIST_SECONDS
            and _limited(self._after(start), start, max_bytes, limit)[2]
        ):
            end, size, is_limited = _limited(self._entries(start), start, max_bytes, limit)
            if is_limited:
                return end, size
        return _limited(self.entries(start), start, max_bytes, limit)[:2]

    def plan(self, start: LSN, end: LSN, *, two_phase: bool = False) -> list[SegmentRange]:
        """The segments to read for ``(start, end]``, in commit order, or JournalGap. With
        ``two_phase``, prepared transactions are read at the place of their PREPARE.
        """
        if not self._listing.entries or self._listing.entries[-1].end < end:
            self._list()
        entries = self._chain(LSN(max(start, self.control().begin)))
        prepared: Mapping[int, Entry] | None = None
        ranges: list[SegmentRange] = []
        for entry in entries:
            if entry.begin >= end:
                break
            if entry.segments[0].is_run:
                if entry.begin < end:
                    part = _part(entry.segments[0], start, end)
                    ranges.append(SegmentRange(part, part.end, part))
                continue
            if entry.end > end or (entry.kind is EntryKind.PREPARED and not two_phase):
                continue
            if entry.kind is EntryKind.COMMIT_PREPARED and not two_phase:
                if prepared is None:
                    prepared = {one.xid: one for one in self._listing.entries if one.kind is EntryKind.PREPARED}
                if entry.xid not in prepared:
                    raise JournalGap(
                        f"transaction {entry.xid} was committed at {format_lsn(entry.end)}, "
                        "but the journal does not hold the changes that it prepared",
                        hint=f"Restore the journal. Otherwise: {RECREATE_SLOT}",
                        lsn=entry.end,
                    )
                changes = prepared[entry.xid].segments
                ranges += [SegmentRange(segment, entry.end, entry.segments[-1]) for segment in changes]
            ranges += [SegmentRange(segment, entry.end, entry.segments[-1]) for segment in entry.segments]
        return ranges


def _limited(entries: Sequence[Entry], start: LSN, max_bytes: int | None, limit: LSN | None) -> tuple[LSN, int, bool]:
    """The end and size of at least one entry, up to ``max_bytes``, and whether any is left."""
    end, size = start, 0
    for entry_end, more in ends_within(entries, limit):
        if max_bytes is not None and size + more > max_bytes and end != start:
            return end, size, True
        end, size = entry_end, size + more
    return end, size, False


def _part(run: Segment, start: LSN, end: LSN) -> Segment:
    """The part of a run in (``start``, ``end``]: the run itself, or a segment without a file."""
    if start <= run.begin and run.end <= end:
        return run
    return replace(run, begin=LSN(max(start, run.begin)), end=LSN(min(end, run.end)))
