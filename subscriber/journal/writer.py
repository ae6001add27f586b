"""The journal's one writer: entries in, a durable position out.

::

    builder.frames ──publish──▶ temporary files ──fsync──▶ rename ──fsync folder──▶ durable_lsn
                                                                                      │
                                                              feedback may confirm ◀──┘   (slot_after_disk)

Invariants: ``durable_lsn`` never passes what a crash would leave on disk; entries form a chain
(:mod:`subscriber.journal.segment`); an entry at or before the journal's end is never written again,
so a publisher that resends a transaction after a crash changes nothing. Nothing is removed that a
consumer may still need: who consumes is looked up in the folder in the same turn.

The folder may hold thousands of segments, and the receiver asks for the consumers' position many
times a second. So between two trims only the consumers' own files are read, those that the last
listing showed; and those of a remote journal, each a request, once a second.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace

from subscriber.errors import JournalGap, JournalUnavailable, SlotInUse
from subscriber.journal.builder import SegmentBuilder
from subscriber.journal.control import Control, check_identity, read_control, write_control
from subscriber.journal.retention import consumer_files, list_consumers, slowest_consumer, trimmable, without_kept
from subscriber.journal.segment import TEMPORARY_SUFFIX, Kind, group_entries, journal_entries, parse_segment_name
from subscriber.journal.sparing import Sparing
from subscriber.journal.storage import Storage
from subscriber.lsn import INVALID_LSN, LSN, format_lsn
from subscriber.protocol.messages import Relation


@contextlib.contextmanager
def open_writer(
    storage: Storage, *, system_identifier: str, slot: str, confirmed_lsn: LSN, applied_lsn: LSN, keep_size: int = 0
) -> Iterator[JournalWriter]:
    """Open the journal for writing, or begin a new one, and be its only writer.

    A new journal begins at the target's position: everything before it is applied.

    Args:
        storage: where the journal is.
        system_identifier: of the publisher.
        slot: the replication slot.
        confirmed_lsn: the slot's ``confirmed_flush_lsn``: the publisher no longer has what is
            before it.
        applied_lsn: the target's progress.
        keep_size: bytes of what every target has that are kept all the same.

    Raises:
        SlotInUse: another process writes this journal.
        JournalGap: slot, journal and target disagree, with both LSNs.
    """
    with storage.lock() as locked:
        if not locked:
            raise SlotInUse(
                f'another receiver writes the journal at "{storage.url}"',
                hint="Stop the other `subscriber run`, or wait for it to end.",
            )
        control = read_control(storage)
        if control is None:
            control = Control(system_identifier, slot, begin=applied_lsn, received=applied_lsn, end=applied_lsn)
        check_identity(control, system_identifier=system_identifier, slot=slot, url=storage.url)
        writer = JournalWriter(storage, control, keep_size)
        if confirmed_lsn <= applied_lsn and writer.durable_lsn < applied_lsn:
            # Left over from a subscription that had this slot's name before: the target has all of
            # it, the slot all the rest.
            writer.restart(applied_lsn)
        writer.check_confirmed(confirmed_lsn)
        _refuse_gaps(writer, applied_lsn)
        write_control(storage, writer.control)
        writer.trim()  # first of all: the disk may be full, and the target further than it was
        yield writer


class JournalWriter:
    """See the module; made by :func:`open_writer`.

    Attributes:
        control: what the control file says.
        end: finish LSN of the last entry.
    """

    def __init__(self, storage: Storage, control: Control, keep_size: int = 0) -> None:
        self._storage = storage
        self._keep_size = keep_size
        self.control = control
        self._slowest = Sparing(lambda: slowest_consumer(storage, self._consumers), storage.remote)
        names = storage.names()
        self._consumers = consumer_files(storage, names)
        segments = [segment for name, size in names if (segment := parse_segment_name(name, size))]
        entries, stray = group_entries(segments)
        storage.delete([segment.name for segment in stray])
        storage.delete([name for name, _ in names if name.endswith(TEMPORARY_SUFFIX)])
        self.end = LSN(max([control.begin, *(entry.end for entry in entries)]))

    def restart(self, begin: LSN) -> None:
        """Forget every entry and begin anew at ``begin``, without the consumers that lie before it:
        they can never read on.
        """
        names = self._storage.names()
        behind = [one.file for one in list_consumers(self._storage) if one.lsn < begin]
        self._storage.delete([name for name, _ in names if parse_segment_name(name)] + behind)
        self._consumers -= frozenset(behind)
        self.control = replace(self.control, begin=begin, received=begin, end=begin)
        write_control(self._storage, self.control)
        self.end = begin

    @property
    def durable_lsn(self) -> LSN:
        """Everything published up to here is on disk (or was nothing for us)."""
        return LSN(max(self.end, self.control.received))

    def check_confirmed(self, confirmed_lsn: LSN) -> None:
        """Refuse a slot that was confirmed beyond the journal's end (invariant slot_after_disk):
        never skip what nobody has.

        Raises:
            JournalGap: with both LSNs.
        """
        if confirmed_lsn > self.durable_lsn:
            raise JournalGap(
                f"the slot was confirmed up to {format_lsn(confirmed_lsn)}, but the journal ends at {format_lsn(self.durable_lsn)}",
                detail="The changes in between were received once and are no longer in the journal.",
                hint="Restore the journal's folder. Otherwise drop the subscription and create it again, with a new copy.",
                lsn=self.durable_lsn,
            )

    def receive_on(self, timeline: int) -> None:
        """Keep durably on which timeline of the publisher the following is received; 0 is
        unknown.
        """
        if timeline != self.control.timeline:
            self.control = replace(self.control, timeline=timeline)
            write_control(self._storage, self.control)

    def builder(self, relations: Mapping[int, Relation], *, in_stream: bool) -> SegmentBuilder:
        """A builder for a new entry."""
        return SegmentBuilder(self._storage, relations, in_stream=in_stream, make_room=self._make_room)

    def publish(self, builder: SegmentBuilder, end: LSN, *, kind: str, xid: int, finish: bytes) -> None:
        """Make an entry durable and visible, unless it is in the journal already.

        Raises:
            ProtocolError: a message does not decode; nothing was written.
            JournalUnavailable: nothing is visible; the transaction will come again.
        """
        if end <= self.end:
            builder.discard()
            return
        builder.publish(self.end, end, Kind(kind), xid, finish)
        self.end = end

    def advance(self, received: LSN) -> None:
        """Record durably that nothing was published for us between the last entry and
        ``received``.
        """
        if received > self.durable_lsn:
            self.control = self.control.moved(received=received, end=self.end)
            write_control(self._storage, self.control)

    def holds_prepared(self, xid: int) -> bool:
        """Whether the changes of prepared transaction ``xid`` are in the journal."""
        entries = journal_entries(self._storage)
        return any(entry.kind is Kind.PREPARED and entry.xid == xid for entry in entries)

    def applied(self) -> LSN:
        """How far the slowest consumer has come, of those that were there when the folder was last
        listed.

        Of a remote journal: at the last look, which is at most
        :data:`~subscriber.journal.sparing.REMOTE_SECONDS` ago.
        """
        return self._slowest.get()

    def trim(self) -> None:
        """Remove what every consumer has passed (:mod:`subscriber.journal.retention`), but for what
        is kept to be looked at.

        Lists the folder, which takes some 5 µs a file; about once a second is often enough.
        """
        self._remove_passed()
        self._storage.make_reserve()

    def _make_room(self) -> None:
        with contextlib.suppress(JournalUnavailable):
            self.trim()

    def _remove_passed(self) -> None:
        names = self._storage.names()
        self._consumers = consumer_files(self._storage, names, self._consumers)
        self._slowest.forget()
        passed = self.applied()
        if passed == INVALID_LSN:
            return
        segments = (parse_segment_name(name, size) for name, size in names)
        behind = [segment for segment in segments if segment is not None and segment.end <= passed]
        trimmed = trimmable(without_kept(group_entries(behind)[0], self._keep_size), passed)
        if not trimmed:
            return
        # The chain's new beginning is durable first: a crash in between leaves files that are
        # merely old.
        self.control = self.control.moved(begin=LSN(max(entry.end for entry in trimmed)))
        write_control(self._storage, self.control)
        self._storage.delete([segment.name for entry in trimmed for segment in entry.segments])


def _refuse_gaps(writer: JournalWriter, applied_lsn: LSN) -> None:
    """Refuse a journal that does not have what the target has not applied."""
    if writer.end < writer.control.end and applied_lsn < writer.control.end:
        raise JournalGap(
            f"the journal held changes up to {format_lsn(writer.control.end)}, but now ends at {format_lsn(writer.end)}",
            detail="Segments are missing from the journal.",
            hint="Restore the missing segments. Otherwise drop the subscription and create it again, with a new copy.",
            lsn=writer.end,
        )
    if applied_lsn < writer.control.begin:
        raise JournalGap(
            f"the target has applied changes up to {format_lsn(applied_lsn)}, but the journal begins at {format_lsn(writer.control.begin)}",
            detail="The changes in between were applied once and trimmed from the journal; the target was set back since.",
            hint="Restore a target that is not older, or drop the subscription and create it again, with a new copy.",
            lsn=applied_lsn,
        )
