"""The slots of subscriptions: connections to the publisher, the slot there, and its journal. Error
texts are libpqwalreceiver's.

A slot is created while no transaction of the target is open: it waits for every transaction of the
publisher's server, and the target may be a database of that server. The applied position of a
released slot is read and locked in the transaction that releases it, and every batch checks in its
own whether the slot still belongs to the subscription (:mod:`subscriber.worker.catalog_rules`). So
no batch of a worker that is still ending changes it afterwards.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, TypeVar

import sqlalchemy as sa

from subscriber.base import errors
from subscriber.base.lsn import LSN, format_lsn
from subscriber.base.settings import Settings
from subscriber.base.waiting import watched
from subscriber.catalog import released as catalog_released
from subscriber.catalog.catalog_upgrade import target_identifier
from subscriber.catalog.released import ReleasedSlot
from subscriber.catalog.subscriptions import Subscription
from subscriber.commands.consumers import apply_consumer, display_url, sync_consumer
from subscriber.commands.notices import Notify, warning
from subscriber.publisher.client import PublisherClient
from subscriber.publisher.connection import ReplicationConnection, connect_publisher
from subscriber.publisher.fence.open_transactions import receiver_of
from subscriber.publisher.slots import CreatedSlot, alter_slot, create_slot
from subscriber.stream.journal.control import read_control
from subscriber.stream.journal.retention import Consumer, remove_consumer, write_consumer
from subscriber.stream.journal.segment import journal_entries
from subscriber.stream.journal.storage import Storage, journal_url, open_storage
from subscriber.targets import Target

# Connections --------------------------------------------------------------------------------------


@contextlib.contextmanager
def connected(conninfo: str, subscription: str) -> Iterator[PublisherClient]:
    with contextlib.ExitStack() as stack:
        with _connecting(subscription):
            server = stack.enter_context(connect_publisher(conninfo, subscription))
        yield PublisherClient(server)


@contextlib.contextmanager
def replicating(conninfo: str, subscription: str) -> Iterator[ReplicationConnection]:
    with contextlib.ExitStack() as stack:
        with _connecting(subscription):
            replication = stack.enter_context(ReplicationConnection(conninfo, subscription))
        yield replication


@contextlib.contextmanager
def _connecting(subscription: str) -> Iterator[None]:
    try:
        yield
    except errors.PublisherError as error:
        message = f'subscription "{subscription}" could not connect to the publisher: {error.refused or error.message}'
        raise type(error)(message, sqlstate=error.sqlstate, hint=error.hint) from error


# The slot at the publisher ------------------------------------------------------------------------


WORKER_STOP_SECONDS: Final = 15.0
"""How long a command waits for a running worker to release the slot. The worker reads the catalog
about once a second.
"""
_POLL_SECONDS: Final = 0.2
_NOTICE_SECONDS: Final = 3.0
"""How long `subscriber run` has to read a change of the catalog and to end its receiver in order.
"""
_WATCH_SECONDS: Final = 0.02


def make_slot(conninfo: str, subscription: str, slot: str, *, two_phase: bool, failover: bool) -> CreatedSlot:
    """The server waits for every transaction in progress. An interrupt leaves no slot."""
    with (
        replicating(conninfo, subscription) as replication,
        _asking(f'could not create replication slot "{slot}"', "08P01"),
    ):
        return create_slot(
            replication, slot, snapshot="nothing", two_phase=two_phase, failover=failover, stop=threading.Event()
        )


def change_slot(
    conninfo: str, subscription: str, slot: str, *, failover: bool | None = None, two_phase: bool | None = None
) -> None:
    """Change options of a slot that is not in use; None leaves an option unchanged."""
    with (
        replicating(conninfo, subscription) as replication,
        _asking(f'could not alter replication slot "{slot}"', "08P01"),
    ):
        alter_slot(replication, slot, failover=failover, two_phase=two_phase)


def is_released(publisher: PublisherClient, slot: str) -> bool:
    """Whether a slot is not in use, or is released within :data:`WORKER_STOP_SECONDS`."""
    deadline = time.monotonic() + WORKER_STOP_SECONDS
    with _watched(publisher, slot):
        while (found := publisher.slot(slot)) is not None and found.active_pid is not None:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
    return True


def in_use(publisher: PublisherClient, slot: str, hint: str) -> errors.SlotInUse:
    """The error for a slot that somebody streams from, with the name of that session."""
    found = publisher.slot(slot)
    who = receiver_of(publisher.connection, slot)
    return errors.SlotInUse(
        f'replication slot "{slot}" is active for PID {"?" if found is None else found.active_pid}',
        detail=f"The slot is used by {'; '.join(who)}." if who else None,
        hint=hint,
    )


def _watched(publisher: PublisherClient, slot: str) -> contextlib.AbstractContextManager[None]:
    """Report which sessions the block waits for until the slot is released."""
    return watched(f'releasing replication slot "{slot}"', partial(receiver_of, publisher.connection, slot))


def end_receiver(subscription: Subscription, notify: Notify) -> None:
    """Return when no receiver that was started before this call streams from the subscription's
    slot. ``subscription`` is as it was before the change; a warning says if a receiver may still
    stream.

    A command that changes what is streamed calls this after its commit. From then on only a
    receiver that knows the change confirms positions of the slot
    (:mod:`subscriber.worker.receiver_process`). `subscriber run` may be on another machine. It
    reads the change within about a second; if it does not, the walsender is terminated.
    """
    slot = subscription.slot_name
    if slot is None or subscription.system_identifier is None:
        return  # the subscription has never streamed
    try:
        with connected(subscription.conninfo, subscription.name) as publisher:
            _end_receiver(publisher, slot)
    except errors.PublisherError as error:
        warning(
            notify,
            f'a receiver may still stream from slot "{slot}" with the previous settings: {error.message}',
            hint="The command takes effect when `subscriber run` notices it, about a second after it can read the target.",
        )


def _end_receiver(publisher: PublisherClient, slot: str) -> None:
    pid = _receiver_of(publisher, slot)
    began = time.monotonic()
    terminated = False
    with _watched(publisher, slot):
        while pid is not None and _receiver_of(publisher, slot) == pid:
            waited = time.monotonic() - began
            if waited > WORKER_STOP_SECONDS:
                raise errors.SlotInUse(f'replication slot "{slot}" is active for PID {pid}')
            if waited > _NOTICE_SECONDS and not terminated:
                publisher.end_backend(pid)
                terminated = True
            time.sleep(_WATCH_SECONDS)


def _receiver_of(publisher: PublisherClient, slot: str) -> int | None:
    found = publisher.slot(slot)
    return None if found is None else found.active_pid


def remove_slot(publisher: PublisherClient, slot: str) -> None:
    """Drop the slot when its worker has released it. A missing slot is an error, too."""
    deadline = time.monotonic() + WORKER_STOP_SECONDS
    with _asking(f'could not drop replication slot "{slot}" on publisher', "08006"), _watched(publisher, slot):
        while True:
            try:
                existed = publisher.drop_slot(slot)
                break
            except errors.SlotInUse:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_SECONDS)
        if not existed:
            raise errors.PublisherNotReady(
                f'replication slot "{slot}" does not exist',
                hint="The slot has been dropped. Use ALTER SUBSCRIPTION ... DISABLE and then "
                "ALTER SUBSCRIPTION ... SET (slot_name = NONE) to drop the subscription without it.",
            )


@contextlib.contextmanager
def _asking(failed: str, sqlstate: str) -> Iterator[None]:
    """Give an error libpqwalreceiver's form: what failed, then severity and text."""
    try:
        yield
    except errors.PublisherError as error:
        message = f"{failed}: ERROR:  {error.message}"
        raise type(error)(message, sqlstate=sqlstate, detail=error.detail, hint=error.hint) from error


# Releasing a slot ---------------------------------------------------------------------------------


_Result = TypeVar("_Result")

_ATTEMPTS: Final = 100
_PAUSE_SECONDS: Final = 0.1


def while_progress_stands(
    target: Target, subscription: Subscription, change: Callable[[sa.Connection, LSN], _Result]
) -> _Result:
    """Call ``change`` in a transaction in which the progress, its argument, cannot change."""
    for _ in range(_ATTEMPTS):
        try:
            with target.begin() as connection:
                applied = subscription.progress.read(connection)
                subscription.progress.lock(connection, applied)
                return change(connection, applied)
        except errors.ProgressConflict as error:
            conflict = error  # a batch was committed in between
            time.sleep(_PAUSE_SECONDS)
    raise conflict


def release_slot(connection: sa.Connection, subscription: Subscription, applied: LSN) -> None:
    """Store the applied position, unless the subscription never connected: it is not known then."""
    if subscription.slot_name is not None and subscription.system_identifier is not None and subscription.slot_adopted:
        catalog_released.release_slot(
            connection,
            ReleasedSlot(subscription.system_identifier, subscription.slot_name, applied, subscription.name),
        )


def detach_journal(
    target: Target, subscription: Subscription, applied: LSN, settings: Settings, notify: Notify
) -> None:
    """Keep in the journal what the subscription has not applied, and report its bytes."""
    try:
        storage = _journal_here(subscription, settings)
        if storage is None:
            return
        with target.reporting(), target.engine.connect() as connection:
            identifier = target_identifier(connection)
        subid = subscription.subid
        released = Consumer(identifier, subid, "released")
        write_consumer(
            storage,
            released,
            applied,
            subscription=subscription.name,
            place=display_url(target),
            carrier=subscription.options.carrier,
            durable=True,
        )
        for consumer in (apply_consumer(identifier, subid), sync_consumer(identifier, subid)):
            remove_consumer(storage, consumer)
        _warn_unapplied(
            storage,
            subscription,
            applied,
            notify,
            f'They stay in the journal at "{storage.url}", for a subscription that takes over slot "{subscription.slot_name}".',
        )
    except (errors.JournalError, errors.UsageError) as error:
        warning(
            notify,
            f'the changes of slot "{subscription.slot_name}" that were received and not applied cannot be counted: {error.message}',
            hint=f"All changes up to {format_lsn(applied)} have been applied.",
        )


def warn_dropped(subscription: Subscription, applied: LSN, settings: Settings, notify: Notify) -> None:
    """Report how many bytes of received changes were not applied and are dropped with the slot."""
    storage = _journal_here(subscription, settings)
    if storage is not None:
        _warn_unapplied(storage, subscription, applied, notify, "They are dropped with the slot.")


def remove_journal_of(system_identifier: str, slot: str, settings: Settings, notify: Notify) -> None:
    """Remove the journal of a slot that was dropped, or was just created; warn if that fails."""
    try:
        delete_journal(system_identifier, slot, settings)
    except (errors.JournalError, errors.UsageError) as error:
        warning(
            notify,
            f'could not remove the journal of slot "{slot}": {error.message}',
            hint="No subscription needs it any more; remove it.",
        )


def delete_journal(system_identifier: str, slot: str, settings: Settings) -> None:
    """Delete the files of a slot's journal, if they are on this machine."""
    storage = open_storage(journal_url(settings.journal, system_identifier, slot))
    storage.delete([name for name, _ in storage.names()])


def _warn_unapplied(storage: Storage, subscription: Subscription, applied: LSN, notify: Notify, detail: str) -> None:
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
