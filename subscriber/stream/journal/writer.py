"""The only writer of a journal. It takes entries and gives the position up to which they are
durable.

::

    builder.frames ──publish──▶ temporary files ──fsync──▶ rename ──fsync folder──▶ durable_lsn
                                                                                      │
                                                              feedback may confirm ◀──┘   (slot_after_disk)

An entry at or before the journal's end is never written again, so that a publisher may send a
transaction again after a crash. Before entries are removed, the consumers' files in the folder are
listed, since a new consumer may still need them. Between two listings, which may be long, only the
consumers' files that the last one showed are read.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from subscriber.base import failpoints
from subscriber.base.errors import RECREATE_SLOT, JournalCorrupt, JournalGap, JournalUnavailable, SlotInUse
from subscriber.base.lsn import INVALID_LSN, LSN, format_lsn
from subscriber.postgres.protocol.messages import Relation
from subscriber.stream.journal import retention
from subscriber.stream.journal.builder import SegmentBuilder, temporary_name
from subscriber.stream.journal.compaction import entries_to_merge, merge
from subscriber.stream.journal.control import TRIMMED, JournalControl, check_identity, read_control, write_control
from subscriber.stream.journal.listing import Listing
from subscriber.stream.journal.message_rows import read_segment
from subscriber.stream.journal.named_consumers import drop, is_named, list_named, quoted, read_named
from subscriber.stream.journal.positions import CachedAnswer
from subscriber.stream.journal.segment import TEMPORARY_SUFFIX, Entry, EntryKind, Segment
from subscriber.stream.journal.storage import Storage

logger = logging.getLogger(__name__)

_LISTINGS_OF_A_NAME: Final = 64
"""How often a name may be listed, on average, before its file is removed."""
_POSITIONS_SECONDS: Final = 0.01
"""How old the consumers' positions may be. The receiver asks for them with every gulp of the
stream, and reading them so often would take a third of its time.
"""


@dataclass(frozen=True, slots=True)
class KeepRules:
    """What is kept although it need not be, and what is not kept although a consumer needs it.

    Attributes:
        passed_size: so many bytes of what every consumer has passed are kept.
        absent_size: a named consumer is dropped when more bytes than this are after its position;
            None drops none.
        unread_size: while there is no consumer at all, so many bytes are kept; None keeps all.
    """

    passed_size: int = 0
    absent_size: int | None = None
    unread_size: int | None = None


KEEP_NOTHING_PASSED: Final = KeepRules()


@contextlib.contextmanager
def open_writer(
    storage: Storage,
    *,
    system_identifier: str,
    slot: str,
    confirmed_lsn: LSN,
    applied_lsn: LSN,
    rules: KeepRules = KEEP_NOTHING_PASSED,
    segment_bytes: int = 0,
    batch_bytes: int = 0,
) -> Iterator[JournalWriter]:
    """Open the journal as its only writer, and create it if there is none.

    A new journal begins at ``applied_lsn``, the target's progress, since the target has everything
    before it. ``confirmed_lsn`` is the slot's ``confirmed_flush_lsn``. Small entries are merged up
    to ``segment_bytes`` (0 merges none), except the ``batch_bytes`` that a consumer may have
    planned to read.

    Raises:
        SlotInUse: another process writes this journal.
        JournalGap: slot, journal and target contradict each other; the message names both LSNs.
    """
    with storage.lock() as locked:
        if not locked:
            raise SlotInUse(
                f'another receiver writes the journal at "{storage.url}"',
                hint="Stop the other `subscriber run` or `subscriber receive`, or wait for it to end.",
            )
        control = read_control(storage)
        if control is None:
            control = JournalControl(system_identifier, slot, begin=applied_lsn, received=applied_lsn, end=applied_lsn)
        check_identity(control, system_identifier=system_identifier, slot=slot, url=storage.url)
        writer = JournalWriter(storage, control, rules, segment_bytes, batch_bytes)
        if confirmed_lsn <= applied_lsn and writer.durable_lsn < applied_lsn:
            # The journal is left from an earlier subscription whose slot had the same name. The
            # target has everything in it, and the slot has all later changes.
            writer.restart(applied_lsn)
        writer.check_confirmed(confirmed_lsn)
        _refuse_gaps(writer, applied_lsn)
        write_control(storage, writer.control)
        writer.trim()  # first: the disk may be full, and consumers may have passed more entries
        yield writer


class JournalWriter:
    """See the module; :func:`open_writer` creates it. ``end`` is the end LSN of the last entry;
    ``on_entry`` is called after another one has become visible.
    """

    def __init__(
        self,
        storage: Storage,
        control: JournalControl,
        rules: KeepRules = KEEP_NOTHING_PASSED,
        segment_bytes: int = 0,
        batch_bytes: int = 0,
    ) -> None:
        self._storage = storage
        self._rules = rules
        self._segment_bytes = 0 if storage.remote else segment_bytes
        self._batch_bytes = batch_bytes
        self.control = control
        self.on_entry: Callable[[], None] = lambda: None
        self._positions = CachedAnswer(
            lambda: retention.passed(storage, self._consumers), storage.remote, _POSITIONS_SECONDS
        )
        self._fences: set[LSN] = set()
        self._listing = Listing(storage)
        self._listing.refresh()
        self._consumers = retention.consumer_files(storage, self._listing.others)
        self._remove_stray()
        storage.delete([name for name, _ in self._listing.others if name.endswith(TEMPORARY_SUFFIX)])
        self.end = LSN(max([control.begin, *(entry.end for entry in self._listing.entries)]))

    def restart(self, begin: LSN) -> None:
        """Begin again at ``begin``, without entries, and without the consumers before it."""
        behind = [one.file for one in retention.list_consumers(self._storage) if one.lsn < begin]
        self._delete(self._listing.entries)
        self._storage.delete(behind)
        for named in list_named(self._storage):
            if named.dropped is None and named.lsn < begin:
                drop(self._storage, named)
        self._find_consumers()
        self.control = replace(self.control, begin=begin, received=begin, end=begin)
        write_control(self._storage, self.control)
        self.end = begin

    @property
    def durable_lsn(self) -> LSN:
        """The LSN up to which everything that was published is on disk."""
        return LSN(max(self.end, self.control.received))

    def check_confirmed(self, confirmed_lsn: LSN) -> None:
        """Refuse a slot that was confirmed beyond the journal's end (invariant slot_after_disk)."""
        if confirmed_lsn > self.durable_lsn:
            raise JournalGap(
                f"the slot was confirmed up to {format_lsn(confirmed_lsn)}, but the journal ends at {format_lsn(self.durable_lsn)}",
                detail="The changes in between were received once and are no longer in the journal.",
                hint=f"Restore the journal's folder. Otherwise: {RECREATE_SLOT} If another subscription or program receives from the slot,"
                " first give this subscription one of its own, with the option slot_name of ALTER SUBSCRIPTION ... SET.",
                lsn=self.durable_lsn,
            )

    def receive_on(self, timeline: int, publications: Sequence[str]) -> None:
        """Record durably what is received from now on: the timeline, 0 if it is unknown, and the
        publications.
        """
        control = replace(self.control, timeline=timeline)
        if sorted(publications) != sorted(control.publications):
            control = replace(control, publications=tuple(publications), published_from=self.durable_lsn)
        if control != self.control:
            self.control = control
            write_control(self._storage, control)

    def builder(self, relations: Mapping[int, Relation], *, in_stream: bool) -> SegmentBuilder:
        return SegmentBuilder(self._storage, relations, in_stream=in_stream, make_room=self._make_room)

    def publish(self, builder: SegmentBuilder, end: LSN, *, kind: str, xid: int, finish: bytes) -> None:
        """Make an entry durable and visible, unless it is in the journal already."""
        if end <= self.end:
            builder.discard()
            return
        self._listing.add(builder.publish(self.end, end, EntryKind(kind), xid, finish))
        self.end = end
        self.on_entry()

    def advance(self, received: LSN) -> None:
        """Record durably that nothing was published between the last entry and ``received``."""
        if received > self.durable_lsn:
            self.control = self.control.moved(received=received, end=self.end)
            write_control(self._storage, self.control)

    def holds_prepared(self, xid: int) -> bool:
        return any(entry.kind is EntryKind.PREPARED and entry.xid == xid for entry in self._listing.entries)

    def applied(self) -> LSN:
        """What the known consumers have applied, up to some milliseconds old, or
        :data:`~subscriber.stream.journal.positions.REMOTE_SECONDS`.
        """
        return self._positions.get().applied

    def fastest(self) -> LSN:
        """The position of the fastest of these consumers, as old as :meth:`applied`."""
        return self._positions.get().fastest

    def _passed(self) -> LSN:
        return self._positions.get().slowest

    def trim(self) -> None:
        """Remove passed entries that need not be kept, and merge small entries."""
        self._drop_absent()
        self._remove_passed(at_once=False)
        self._compact()
        self._storage.make_reserve()

    def _make_room(self) -> None:
        with contextlib.suppress(JournalUnavailable):
            self._remove_passed(at_once=True)
            self._storage.make_reserve()

    def _remove_passed(self, *, at_once: bool) -> None:
        """Remove passed entries. That needs a listing, so wait for many, unless ``at_once``."""
        self._remove_stray()
        self._positions.forget()
        known = self._removable()
        is_enough = (
            len(known) * _LISTINGS_OF_A_NAME >= len(self._listing.entries) if known else self._passed() == INVALID_LSN
        )
        if not (is_enough or at_once):
            return
        self._find_consumers()
        trimmed = self._removable()
        if not trimmed:
            return
        # The chain's new beginning is made durable first. After a crash in between, the remaining
        # files are before it and do no harm.
        self.control = self.control.moved(begin=LSN(max(entry.end for entry in trimmed)))
        write_control(self._storage, self.control)
        self._delete(trimmed)

    def _removable(self) -> list[Entry]:
        """The entries that the known consumers have passed and that need not be kept."""
        passed, size = self._passed(), self._rules.passed_size
        if passed == INVALID_LSN:
            if self._consumers or self._rules.unread_size is None:
                return []
            passed, size = self.end, self._rules.unread_size
        behind = [entry for entry in self._listing.entries if entry.end <= passed]
        return retention.trimmable(retention.without_kept(behind, size), passed)

    def _drop_absent(self) -> None:
        """Drop the named consumers for which too much is kept."""
        most = self._rules.absent_size
        if most is None:
            return
        for file in filter(is_named, self._consumers):
            named = read_named(self._storage, file)
            if named is None or named.lsn == INVALID_LSN:
                continue
            kept = sum(entry.size for entry in self._listing.entries if entry.end > named.lsn)
            if kept > most:
                drop(self._storage, named)
                self._consumers -= {file}
                self._positions.forget()
                logger.warning(
                    "consumer %s of the journal was dropped at %s: %d bytes are after its position, SUBSCRIBER_JOURNAL_ABSENT_CONSUMERS"
                    " allows %d\nHINT:  It is refused when it returns, and has to start again with a new checkpoint.",
                    quoted(named.name),
                    format_lsn(named.lsn),
                    kept,
                    most,
                )

    def _find_consumers(self) -> None:
        names = self._storage.names(self._listing.sizes())
        self._consumers = retention.consumer_files(self._storage, names, self._consumers)
        self._positions.forget()

    def _delete(self, entries: list[Entry]) -> None:
        segments = [segment for entry in entries for segment in entry.segments]
        self._storage.delete([segment.name for segment in segments])
        self._listing.remove(segments)

    def _remove_stray(self) -> None:
        """Delete the segments that belong to no entry: a crash or a full disk has left them."""
        if self._listing.stray:
            self._storage.delete([segment.name for segment in self._listing.stray])
            self._listing.remove(self._listing.stray)

    def _compact(self) -> None:
        """Merge one run of small entries, if it can be read and there is space."""
        found = entries_to_merge(
            self._listing.entries,
            segment_bytes=self._segment_bytes,
            reading=retention.reading(self._storage, self._consumers),
            ahead=2 * self._batch_bytes,
            fences=self._fences,
        )
        if found is None:
            return
        run = [entry.segments[0] for entry in self._listing.entries[slice(*found)]]
        try:
            self._merge(run)
        except JournalCorrupt as error:
            self._fences |= {segment.begin for segment in run if error.lsn in (segment.begin, segment.end)}
        except JournalUnavailable:
            return

    def _merge(self, run: list[Segment]) -> None:
        """Merge the first segments of ``run``, as many as can follow each other."""
        table, count = merge([read_segment(self._storage, segment) for segment in run])
        if count < len(run):
            self._fences.add(run[count].begin)
        if count == 1:
            return
        merged = Segment(run[0].begin, run[count - 1].end, EntryKind.TRANSACTIONS, 0)
        name = temporary_name()
        size = self._storage.create(name, table)
        self._storage.publish([(name, merged.name)])
        failpoints.hit("journal.merge.before")
        self._listing.add([replace(merged, size=size)])
        self._remove_stray()
        failpoints.hit("journal.merge.after")


def _refuse_gaps(writer: JournalWriter, applied_lsn: LSN) -> None:
    """Refuse a journal that lacks changes which the target has not applied."""
    if writer.end < writer.control.end and applied_lsn < writer.control.end:
        raise JournalGap(
            f"the journal held changes up to {format_lsn(writer.control.end)}, but now ends at {format_lsn(writer.end)}",
            detail="Segments are missing from the journal.",
            hint=f"Restore the missing segments. Otherwise: {RECREATE_SLOT}",
            lsn=writer.end,
        )
    if applied_lsn < writer.control.begin:
        raise JournalGap(
            f"the target has applied changes up to {format_lsn(applied_lsn)}, but the journal begins at {format_lsn(writer.control.begin)}",
            detail="The changes in between were applied and then trimmed from the journal; since then the target was restored to an older state.",
            hint=TRIMMED,
            lsn=applied_lsn,
        )
