"""Plan what to read of a journal. Segments are planned by their names alone, and then read in
parallel (:mod:`subscriber.journal.message_rows`).

:meth:`JournalReader.plan` turns a range of LSNs into the segments to read, in commit order::

    entries      t 0/100   p(7) 0/180   t 0/200   k(7) 0/240        p(9) 0/250   r(9) 0/260
    plan         t 0/100 ─────────────  t 0/200 ─ p(7), k(7) ──────────────────  r(9)
    two_phase    t 0/100 ─ p(7) ──────  t 0/200 ─ k(7) ──────────── p(9) ──────  r(9)

The changes of a prepared transaction are read at the place of its COMMIT PREPARED, and are not read
at all after a ROLLBACK PREPARED. With ``two_phase``, for a target that supports prepared
transactions, each entry is read at its own place.

A reader keeps the entries in memory. It lists the folder again only when it needs entries that the
last listing has not shown, so that a long backlog is listed a few times, and not for each batch.

A planned segment may be merged with others before it is read
(:mod:`subscriber.journal.compaction`). In the same way, a plan that begins or ends inside a run of
transactions has a segment without a file: the part of the run that is in the range. Both are read
from the file that covers them (:mod:`subscriber.journal.segment_file`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from subscriber.errors import RECREATE_SLOT, JournalGap
from subscriber.journal.control import TRIMMED, Control, read_control
from subscriber.journal.listing import Listing
from subscriber.journal.segment import Entry, Kind, Segment, check_chain
from subscriber.journal.storage import Storage
from subscriber.lsn import LSN, format_lsn

RELIST_SECONDS: Final = 5.0
"""How long entries in memory may be planned without a listing. Meanwhile, they may be merged."""

_LISTINGS: Final = 4
"""How often the folder is listed again before a gap is reported."""


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
                hint=TRIMMED,
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
                hint=f"Restore the missing segments. Otherwise: {RECREATE_SLOT}",
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
                        hint=f"Restore the journal. Otherwise: {RECREATE_SLOT}",
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
