"""Whether a subscription can continue with its slot, or changes are lost.

::

    applied P ──────────── confirmed C ──── journal's end D ────────▶ the publisher's WAL
              └─ in the journal ──────────┘ └─ in the slot ─┘

A subscription continues if each change after P is in the journal or in the slot. Changes are lost
if the slot is missing or was invalidated; if the journal lacks changes that the slot has confirmed,
because its files are gone or the target was restored to a state that is older than the journal; or
if the publisher's history is no longer the history that was received.

The journal is opened here as a receiver opens it, so the answer is what a receiver would find.
"""

from __future__ import annotations

from subscriber.errors import HistoryDiverged, JournalCorrupt, JournalGap
from subscriber.journal.control import Control, read_control
from subscriber.journal.segment import check_chain, journal_entries
from subscriber.journal.storage import Storage
from subscriber.journal.writer import open_writer
from subscriber.lsn import LSN, format_lsn
from subscriber.publisher.history import Server, check_history
from subscriber.publisher.publisher import Slot


def lost_changes(storage: Storage, slot: Slot | None, server: Server, applied: LSN, name: str) -> str | None:
    """Why a subscription cannot continue with its slot; None if it can.

    Args:
        storage: the journal of the slot; it has no files where it is on another machine.
        slot: the slot; None where the publisher has none of that name.
        server: the state of the publisher's WAL.
        applied: the LSN up to which the target has applied.
        name: the slot's name.

    Raises:
        PublisherUnavailable: the publisher is a standby that has not replayed enough yet.
        SlotInUse: a receiver writes the journal.
        JournalUnavailable: the journal cannot be read now.
    """
    if slot is None:
        return f'replication slot "{name}" does not exist'
    if slot.lost is not None:
        return f'replication slot "{name}" has been invalidated due to "{slot.lost}"'
    try:
        control = read_control(storage)
        if control is None:
            return _without_journal(slot, applied)
        with open_writer(
            storage,
            system_identifier=server.system_identifier,
            slot=name,
            confirmed_lsn=slot.confirmed_flush_lsn,
            applied_lsn=applied,
        ) as journal:
            check_history(server, journal.durable_lsn, control.timeline)
        _read_everything(storage, control, applied)
    except (JournalGap, JournalCorrupt, HistoryDiverged) as error:
        return error.message
    return None


def _without_journal(slot: Slot, applied: LSN) -> str | None:
    if slot.confirmed_flush_lsn <= applied:
        return None
    return (
        f'replication slot "{slot.name}" is confirmed up to {format_lsn(slot.confirmed_flush_lsn)}, and there is no journal here'
        f" with the changes after {format_lsn(applied)}"
    )


def _read_everything(storage: Storage, control: Control, applied: LSN) -> None:
    """Read what is not applied yet, and with it the checksums.

    Raises:
        JournalGap, JournalCorrupt: entries are missing or damaged.
    """
    from subscriber.journal.segment_file import read_segment  # with Arrow, which only this needs

    entries = journal_entries(storage)
    check_chain(control.begin, entries)
    for entry in entries:
        if entry.end > applied:
            for segment in entry.segments:
                read_segment(storage, segment)
