"""Whether a subscription can continue with its slot, or changes are lost.

::

    applied P ──────────── confirmed C ──── journal's end D ────────▶ the publisher's WAL
              └─ in the journal ──────────┘ └─ in the slot ─┘

A subscription continues if each change after P is in the journal or in the slot. Changes are lost
if the slot is missing or invalidated; if the journal lacks changes that the slot has confirmed,
because files are gone or the target was restored to a state older than the journal; or if the
publisher's history is not the one that was received. The journal is opened as a receiver opens it.
"""

from __future__ import annotations

from subscriber.base.errors import HistoryDiverged, JournalCorrupt, JournalGap
from subscriber.base.lsn import LSN, format_lsn
from subscriber.publisher.client import Slot
from subscriber.publisher.history import Server, check_history
from subscriber.stream.journal.control import JournalControl, read_control
from subscriber.stream.journal.segment import check_chain, journal_entries
from subscriber.stream.journal.storage import Storage
from subscriber.stream.journal.writer import open_writer


def lost_changes(storage: Storage, slot: Slot | None, server: Server, applied: LSN, name: str) -> str | None:
    """Why a subscription cannot continue with its slot; None if it can. PublisherUnavailable: the
    publisher is a standby that has not replayed enough yet.
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


def _read_everything(storage: Storage, control: JournalControl, applied: LSN) -> None:
    """Read what is not applied yet, to check the checksums."""
    from subscriber.stream.journal.message_rows import read_segment  # with Arrow, which only this needs

    entries = journal_entries(storage)
    check_chain(control.begin, entries)
    for entry in entries:
        if entry.end > applied:
            for segment in entry.segments:
                read_segment(storage, segment)
