"""Taking a subscription off its slot: what it has applied is written down, so that the next one can
go on from there.

The position is read and locked in the transaction that takes the slot away, so that no batch of a
worker which is still ending can move it afterwards: every batch looks in its own transaction
whether the slot is still the subscription's (:mod:`subscriber.runtime.catalog_rules`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

import sqlalchemy as sa

from subscriber import catalog
from subscriber.catalog import ReleasedSlot, Subscription
from subscriber.commands.notices import Notify, warning
from subscriber.errors import JournalError, ProgressConflict, UsageError
from subscriber.journal.control import read_control
from subscriber.journal.retention import Consumer, remove_consumer, write_consumer
from subscriber.journal.segment import journal_entries
from subscriber.journal.storage import Storage, journal_url, open_storage
from subscriber.lsn import LSN, format_lsn
from subscriber.positions.consumers import apply_consumer, place_of, sync_consumer
from subscriber.settings import Settings
from subscriber.targets import Target

_Result = TypeVar("_Result")

_ATTEMPTS: Final = 100
_PAUSE_SECONDS: Final = 0.1


def while_progress_stands(
    target: Target, subscription: Subscription, change: Callable[[sa.Connection, LSN], _Result]
) -> _Result:
    """Carry out a change of the catalog in a transaction in which the subscription's progress
    cannot move.

    Args:
        target: where the catalog is.
        subscription: whose progress.
        change: given the connection and the progress.

    Raises:
        ProgressConflict: a worker moves it all the time.
    """
    for _ in range(_ATTEMPTS):
        try:
            with target.begin() as connection:
                applied = subscription.progress.read(connection)
                subscription.progress.lock(connection, applied)
                return change(connection, applied)
        except ProgressConflict as error:
            conflict = error  # a batch has committed in between
            time.sleep(_PAUSE_SECONDS)
    raise conflict


def release_slot(connection: sa.Connection, subscription: Subscription, applied: LSN) -> None:
    """Keep in the catalog how far the subscription has come whose slot is taken away; of one that
    never connected nothing is known.
    """
    if subscription.slot_name is not None and subscription.system_identifier is not None and subscription.slot_adopted:
        catalog.release_slot(
            connection,
            ReleasedSlot(subscription.system_identifier, subscription.slot_name, applied, subscription.name),
        )


def leave_journal(target: Target, subscription: Subscription, applied: LSN, settings: Settings, notify: Notify) -> None:
    """Keep in the journal, if it is here, what the subscription has not applied; and tell how much
    that is.

    Raises:
        TargetError: the target could not be read; the catalog is changed already.
    """
    try:
        storage = _journal_here(subscription, settings)
        if storage is None:
            return
        with target.reporting(), target.engine.connect() as connection:
            identifier = catalog.target_identifier(connection)
        subid = subscription.subid
        released = Consumer(identifier, subid, "released")
        write_consumer(storage, released, applied, subscription=subscription.name, place=place_of(target), durable=True)
        for consumer in (apply_consumer(identifier, subid), sync_consumer(identifier, subid)):
            remove_consumer(storage, consumer)
        _tell_unapplied(
            storage,
            subscription,
            applied,
            notify,
            f'They stay in the journal at "{storage.url}", for the subscription that goes on with slot "{subscription.slot_name}".',
        )
    except (JournalError, UsageError) as error:
        warning(
            notify,
            f'the changes of slot "{subscription.slot_name}" that were received and not applied cannot be counted: {error.message}',
            hint=f"All changes up to {format_lsn(applied)} have been applied.",
        )


def tell_dropped(subscription: Subscription, applied: LSN, settings: Settings, notify: Notify) -> None:
    """Tell how much is dropped with the slot that was received and not applied, if the journal is
    here.

    Raises:
        JournalError, UsageError: the journal cannot be read.
    """
    storage = _journal_here(subscription, settings)
    if storage is not None:
        _tell_unapplied(storage, subscription, applied, notify, "They are dropped with the slot.")


def remove_journal_of(system_identifier: str, slot: str, settings: Settings, notify: Notify) -> None:
    """Remove the journal of a slot that is gone, or that has only just been made; where that cannot
    be done, say so.
    """
    try:
        delete_journal(system_identifier, slot, settings)
    except (JournalError, UsageError) as error:
        warning(
            notify,
            f'the journal of slot "{slot}" is left: {error.message}',
            hint="No subscription needs it any more; remove it.",
        )


def delete_journal(system_identifier: str, slot: str, settings: Settings) -> None:
    """Delete the files of a slot's journal; on another machine than the worker's there are none.

    Raises:
        JournalError, UsageError: they cannot be reached.
    """
    storage = open_storage(journal_url(settings.journal, system_identifier, slot))
    storage.delete([name for name, _ in storage.names()])


def _tell_unapplied(storage: Storage, subscription: Subscription, applied: LSN, notify: Notify, detail: str) -> None:
    left = [entry for entry in journal_entries(storage) if entry.end > applied]
    if left:
        warning(
            notify,
            f'subscription "{subscription.name}" has not applied {sum(entry.size for entry in left):,} bytes of changes that it has'
            f" received, from {format_lsn(applied)} to {format_lsn(left[-1].end)}",
            detail=detail,
        )


def _journal_here(subscription: Subscription, settings: Settings) -> Storage | None:
    if subscription.system_identifier is None or subscription.slot_name is None:
        return None
    storage = open_storage(journal_url(settings.journal, subscription.system_identifier, subscription.slot_name))
    return None if read_control(storage) is None else storage
