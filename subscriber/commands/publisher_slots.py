"""The slots of subscriptions at the publisher: create, alter, release and drop them, with
libpqwalreceiver's error texts.

No function here opens a transaction of the target, and a slot is created while no transaction of
the target is open. The creation of a slot waits for every transaction of the publisher's server,
and the target may be a database of that server.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Final

from subscriber.catalog import Subscription
from subscriber.commands.notices import Notify, warning
from subscriber.commands.publisher_connection import connected, replicating
from subscriber.errors import PublisherError, PublisherNotReady, SlotInUse
from subscriber.publisher.blockers import receiver_of
from subscriber.publisher.publisher import Publisher
from subscriber.publisher.slots import CreatedSlot, alter_slot, create_slot
from subscriber.waiting import watched

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
    """Create the slot of a subscription; no snapshot is exported.

    The server waits for every transaction in progress. An interrupt ends the wait and leaves no
    slot.

    Raises:
        PublisherError: 08P01, ``could not create replication slot "…": …`` with the server's
            reason.
        NotSupportedError: the server is too old for an option.
    """
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
    """Change options of a slot that is not in use; None leaves an option unchanged.

    Raises:
        PublisherError: 08P01, ``could not alter replication slot "…": …`` with the server's reason.
    """
    with (
        replicating(conninfo, subscription) as replication,
        _asking(f'could not alter replication slot "{slot}"', "08P01"),
    ):
        alter_slot(replication, slot, failover=failover, two_phase=two_phase)


def is_released(publisher: Publisher, slot: str) -> bool:
    """Whether a slot is not in use, or is released within :data:`WORKER_STOP_SECONDS`."""
    deadline = time.monotonic() + WORKER_STOP_SECONDS
    with _watched(publisher, slot):
        while (found := publisher.slot(slot)) is not None and found.active_pid is not None:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
    return True


def in_use(publisher: Publisher, slot: str, hint: str) -> SlotInUse:
    """The error for a slot that somebody streams from, with the name of that session."""
    found = publisher.slot(slot)
    who = receiver_of(publisher.connection, slot)
    return SlotInUse(
        f'replication slot "{slot}" is active for PID {"?" if found is None else found.active_pid}',
        detail=f"The slot is used by {'; '.join(who)}." if who else None,
        hint=hint,
    )


def _watched(publisher: Publisher, slot: str) -> contextlib.AbstractContextManager[None]:
    """Report which sessions the block waits for until the slot is released."""
    return watched(f'releasing replication slot "{slot}"', partial(receiver_of, publisher.connection, slot))


def end_receiver(subscription: Subscription, notify: Notify) -> None:
    """Return when no receiver that was started before this call streams from the subscription's
    slot any more.

    A command that changes what is streamed calls this function after it has committed. From then on
    only a receiver that was started, or has read the catalog again, after the change confirms
    positions of the slot (:mod:`subscriber.runtime.receiver_process`). `subscriber run` may be on
    another machine. It reads the change within about a second; if it does not, the walsender is
    terminated.

    Args:
        subscription: the subscription before the change.
        notify: called with a warning if a receiver may still stream as before.
    """
    slot = subscription.slot_name
    if slot is None or subscription.system_identifier is None:
        return  # the subscription has never streamed
    try:
        with connected(subscription.conninfo, subscription.name) as publisher:
            _end_receiver(publisher, slot)
    except PublisherError as error:
        warning(
            notify,
            f'a receiver may still stream from slot "{slot}" with the previous settings: {error.message}',
            hint="The command takes effect when `subscriber run` notices it, about a second after it can read the target.",
        )


def _end_receiver(publisher: Publisher, slot: str) -> None:
    pid = _receiver_of(publisher, slot)
    began = time.monotonic()
    terminated = False
    with _watched(publisher, slot):
        while pid is not None and _receiver_of(publisher, slot) == pid:
            waited = time.monotonic() - began
            if waited > WORKER_STOP_SECONDS:
                raise SlotInUse(f'replication slot "{slot}" is active for PID {pid}')
            if waited > _NOTICE_SECONDS and not terminated:
                publisher.end_backend(pid)
                terminated = True
            time.sleep(_WATCH_SECONDS)


def _receiver_of(publisher: Publisher, slot: str) -> int | None:
    found = publisher.slot(slot)
    return None if found is None else found.active_pid


def remove_slot(publisher: Publisher, slot: str) -> None:
    """Drop the slot of a subscription when its worker has released it.

    Raises:
        PublisherError: 08006, ``could not drop replication slot "…" on publisher: …``; a missing
            slot is an error, too.
    """
    deadline = time.monotonic() + WORKER_STOP_SECONDS
    with _asking(f'could not drop replication slot "{slot}" on publisher', "08006"), _watched(publisher, slot):
        while True:
            try:
                existed = publisher.drop_slot(slot)
                break
            except SlotInUse:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_SECONDS)
        if not existed:
            raise PublisherNotReady(
                f'replication slot "{slot}" does not exist',
                hint="The slot has been dropped. Use ALTER SUBSCRIPTION ... DISABLE and then "
                "ALTER SUBSCRIPTION ... SET (slot_name = NONE) to drop the subscription without it.",
            )


@contextlib.contextmanager
def _asking(failed: str, sqlstate: str) -> Iterator[None]:
    """Change a server's error to the form of libpqwalreceiver: first the operation that failed,
    then the error with its severity.
    """
    try:
        yield
    except PublisherError as error:
        message = f"{failed}: ERROR:  {error.message}"
        raise type(error)(message, sqlstate=sqlstate, detail=error.detail, hint=error.hint) from error
