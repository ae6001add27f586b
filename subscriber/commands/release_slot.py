"""Releasing a slot from a subscription: the applied position is stored, so that the next
subscription of the slot can continue from there.

The position is read and locked in the transaction that releases the slot, so that no batch of a
worker that is still ending can change the position afterwards. Every batch checks in its own
transaction whether the slot still belongs to the subscription
(:mod:`subscriber.runtime.catalog_rules`).
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
    """Change the catalog in a transaction in which the subscription's progress cannot change.

    Args:
        target: the database with the catalog.
        subscription: the subscription whose progress is locked.
        change: a function that makes the change; called with the connection and the progress.

    Raises:
        ProgressConflict: a worker changed the progress at every attempt.
    """
    for _ in range(_ATTEMPTS):
        try:
            with target.begin() as connection:
                applied = subscription.progress.read(connection)
                subscription.progress.lock(connection, applied)
                return change(connection, applied)
        except ProgressConflict as error:
            conflict = error  # a batch was committed in between
            time.sleep(_PAUSE_SECONDS)
    raise conflict


def release_slot(connection: sa.Connection, subscription: Subscription, applied: LSN) -> None:
    """Store the applied position of a subscription whose slot is released.

    Nothing is stored for a subscription that never connected, since its position is not known.
    """
    if subscription.slot_name is not None and subscription.system_identifier is not None and subscription.slot_adopted:
        catalog.release_slot(
            connection,
            ReleasedSlot(subscription.system_identifier, subscription.slot_name, applied, subscription.name),
        )


def leave_journal(target: Target, subscription: Subscription, applied: LSN, settings: Settings, notify: Notify) -> None:
    """Keep in the journal, if it is on this machine, the changes that the subscription has not
    applied, and report how many bytes they have.

    Raises:
        TargetError: the target could not be read; the catalog has already been changed.
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
            f'They stay in the journal at "{storage.url}", for a subscription that takes over slot "{subscription.slot_name}".',
        )
    except (JournalError, UsageError) as error:
        warning(
            notify,
            f'the changes of slot "{subscription.slot_name}" that were received and not applied cannot be counted: {error.message}',
            hint=f"All changes up to {format_lsn(applied)} have been applied.",
        )


def tell_dropped(subscription: Subscription, applied: LSN, settings: Settings, notify: Notify) -> None:
    """Report how many bytes of received changes were not applied and are dropped with the slot, if
    the journal is on this machine.

    Raises:
        JournalError, UsageError: the journal cannot be read.
    """
    storage = _journal_here(subscription, settings)
    if storage is not None:
        _tell_unapplied(storage, subscription, applied, notify, "They are dropped with the slot.")


def remove_journal_of(system_identifier: str, slot: str, settings: Settings, notify: Notify) -> None:
    """Remove the journal of a slot that was dropped, or that has just been created; gives a warning
    if that fails.
    """
    try:
        delete_journal(system_identifier, slot, settings)
    except (JournalError, UsageError) as error:
        warning(
            notify,
            f'could not remove the journal of slot "{slot}": {error.message}',
            hint="No subscription needs it any more; remove it.",
        )


def delete_journal(system_identifier: str, slot: str, settings: Settings) -> None:
    """Delete the files of a slot's journal; if the worker is on another machine, there are none.

    Raises:
        JournalError, UsageError: the files cannot be accessed.
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
