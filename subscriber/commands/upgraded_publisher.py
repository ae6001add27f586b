"""ALTER SUBSCRIPTION … SET (system_identifier = '…'): pg_upgrade has given the publisher another
system identifier.

pg_upgrade (17 and later) keeps logical slots. It refuses to begin while a slot has not been sent
all WAL, so all changes of the old cluster have been received. The new cluster has another system
identifier, and its WAL begins after the WAL of the old one, so the positions continue. Only the
user can know that a server is the upgraded cluster, and confirms it with the new identifier in the
command. Everything else is checked::

    old system 7301   ──────────── D │                 D: the journal's end, after all changes of the old WAL
    new system 7644                  │ ──── C ─────▶   C: what the upgraded slot has confirmed; there are no changes between D and C

The journal gets the new name and the new identifier first, and the catalog last. After a crash the
user repeats the command, and it completes the remaining steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from subscriber import catalog
from subscriber.catalog import Subscription
from subscriber.commands.publisher_connection import connected
from subscriber.errors import COPY_FROM_SCRATCH, JournalGap, NotSupportedError, SlotInUse, UsageError
from subscriber.journal.control import Control, read_control, write_control
from subscriber.journal.positions import journal_positions
from subscriber.journal.storage import Storage, journal_url, move_journal, open_storage
from subscriber.lsn import LSN, format_lsn
from subscriber.publisher.history import UNKNOWN_TIMELINE
from subscriber.publisher.publisher import Slot
from subscriber.settings import Settings
from subscriber.targets import Target


def follow_upgrade(target: Target, subscription: Subscription, identifier: str, settings: Settings) -> None:
    """Continue with the slot of an upgraded publisher.

    Args:
        target: the database with the catalog.
        subscription: the subscription, which must be disabled.
        identifier: the system identifier of the upgraded cluster.
        settings: the settings; they contain the place of the journals.

    Raises:
        UsageError: 55000, the subscription is enabled or has no slot; the publisher has another
            identifier.
        NotSupportedError: pg_upgrade does not keep slots in the publisher's version.
        JournalGap: the journal and the slot do not match.
        PublisherError: the publisher cannot be queried, or its slot is not ready.
    """
    if subscription.enabled:
        raise UsageError('cannot set option "system_identifier" for enabled subscription', sqlstate="55000")
    old, slot_name = subscription.system_identifier, subscription.slot_name
    if old is None or slot_name is None:
        raise UsageError(
            'cannot set option "system_identifier" for a subscription that has not replicated yet',
            sqlstate="55000",
            hint="The identifier is stored at the first connection to the publisher.",
        )
    if old == identifier:
        return
    slot = _upgraded_slot(subscription, slot_name, identifier)
    with _journal(settings, old, identifier, slot_name) as (storage, control):
        received = journal_positions(storage.url)[0]
        if slot.confirmed_flush_lsn < received:
            raise JournalGap(
                f"the slot is confirmed up to {format_lsn(slot.confirmed_flush_lsn)}, but changes up to {format_lsn(received)} were received",
                detail="The WAL of an upgraded cluster begins after that of the old one.",
                hint=f"This is not the publisher after pg_upgrade. {COPY_FROM_SCRATCH}",
                lsn=received,
            )
        moved = control.moved(received=LSN(slot.confirmed_flush_lsn))
        write_control(storage, replace(moved, system_identifier=identifier, timeline=UNKNOWN_TIMELINE))
    here = journal_url(settings.journal, identifier, slot_name)
    if storage.url != here:
        move_journal(storage.url, here)
    with target.begin() as connection:
        catalog.adopt_slot(connection, subscription.subid, identifier)
        catalog.forget_oids(connection, subscription.subid)


def _upgraded_slot(subscription: Subscription, slot: str, identifier: str) -> Slot:
    with connected(subscription.conninfo, subscription.name) as publisher:
        found = publisher.system_identifier()
        if found != identifier:
            raise UsageError(
                f"the publisher is system {found}, not {identifier}",
                hint="Give the identifier of the server that CONNECTION names, if that is the upgraded publisher.",
            )
        if not publisher.features.slots_survive_upgrade:
            raise NotSupportedError(
                "pg_upgrade does not keep logical replication slots before PostgreSQL 17",
                detail=f"The publisher is PostgreSQL {publisher.version // 10000}.",
                hint=COPY_FROM_SCRATCH,
            )
        publisher.check_server()
        return publisher.check_slot(slot)


@contextmanager
def _journal(settings: Settings, old: str, new: str, slot: str) -> Iterator[tuple[Storage, Control]]:
    """The slot's journal under its old or its new name, locked, with its control file.

    Raises:
        SlotInUse: a receiver writes the journal.
        JournalGap: there is no journal under either name.
    """
    for identifier in (old, new):
        storage = open_storage(journal_url(settings.journal, identifier, slot))
        control = read_control(storage)
        if control is not None:
            with storage.lock() as locked:
                if not locked:
                    raise SlotInUse(
                        f'a receiver writes the journal at "{storage.url}"',
                        hint="The subscription was disabled a moment ago. Try again.",
                    )
                yield storage, control
            return
    raise JournalGap(
        f'there is no journal of slot "{slot}" here',
        hint=f"Run the command on the machine of `subscriber run`, with the same SUBSCRIBER_JOURNAL (it is {settings.journal} here).",
    )
