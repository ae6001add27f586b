"""The publisher as commands meet it: PostgreSQL's texts for connections and slots (libpqwalreceiver's).

Nothing here holds a transaction of the target open: making a slot waits for every transaction of the publisher's server, and the
target may be a database of that server.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Final

from subscriber.errors import PublisherError, PublisherNotReady, SlotInUse
from subscriber.receive.connection import NOT_CONNECTED, ReplicationConnection
from subscriber.receive.publisher import Publisher, connect_publisher
from subscriber.receive.slots import CreatedSlot, alter_slot, create_slot

WORKER_STOP_SECONDS: Final = 15.0
"""How long a command waits for a running worker to let go of the slot: it looks at the catalog about once a second."""
_POLL_SECONDS: Final = 0.2


@contextlib.contextmanager
def connected(conninfo: str, subscription: str) -> Iterator[Publisher]:
    """A connection to the publisher of a subscription.

    Raises:
        PublisherError: there is none: 08006, ``subscription "…" could not connect to the publisher: …``.
    """
    with contextlib.ExitStack() as stack:
        with _connecting(f'subscription "{subscription}" could not connect to the publisher'):
            server = stack.enter_context(connect_publisher(conninfo, subscription))
        yield Publisher(server)


def make_slot(conninfo: str, subscription: str, slot: str, *, two_phase: bool, failover: bool) -> CreatedSlot:
    """Make the slot of a subscription; no snapshot is exported.

    The server waits for every transaction in progress; an interrupt ends the waiting, and leaves no slot.

    Raises:
        PublisherError: 08P01, ``could not create replication slot "…": …`` with the server's reason.
        NotSupportedError: the server is too old for an option.
    """
    with (
        _replicating(conninfo, subscription) as replication,
        _asking(f'could not create replication slot "{slot}"', "08P01"),
    ):
        return create_slot(
            replication, slot, snapshot="nothing", two_phase=two_phase, failover=failover, stop=threading.Event()
        )


def change_slot(
    conninfo: str, subscription: str, slot: str, *, failover: bool | None = None, two_phase: bool | None = None
) -> None:
    """Change options of a slot that nobody uses; None leaves one as it is.

    Raises:
        PublisherError: 08P01, ``could not alter replication slot "…": …`` with the server's reason.
    """
    with (
        _replicating(conninfo, subscription) as replication,
        _asking(f'could not alter replication slot "{slot}"', "08P01"),
    ):
        alter_slot(replication, slot, failover=failover, two_phase=two_phase)


def is_released(publisher: Publisher, slot: str) -> bool:
    """Whether nobody streams from a slot, or stops doing so before long."""
    deadline = time.monotonic() + WORKER_STOP_SECONDS
    while (found := publisher.slot(slot)) is not None and found.active_pid is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def remove_slot(publisher: Publisher, slot: str) -> None:
    """Drop the slot of a subscription, when its worker has let go of it.

    Raises:
        PublisherError: 08006, ``could not drop replication slot "…" on publisher: …``; a missing slot is an error too.
    """
    deadline = time.monotonic() + WORKER_STOP_SECONDS
    with _asking(f'could not drop replication slot "{slot}" on publisher', "08006"):
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
                hint="Somebody has dropped it. Use ALTER SUBSCRIPTION ... DISABLE and then "
                "ALTER SUBSCRIPTION ... SET (slot_name = NONE) to drop the subscription without it.",
            )


@contextlib.contextmanager
def _replicating(conninfo: str, subscription: str) -> Iterator[ReplicationConnection]:
    with contextlib.ExitStack() as stack:
        with _connecting(f'subscription "{subscription}" could not connect to the publisher'):
            replication = stack.enter_context(ReplicationConnection(conninfo, subscription))
        yield replication


@contextlib.contextmanager
def _connecting(failed: str) -> Iterator[None]:
    try:
        yield
    except PublisherError as error:
        reason = error.message.removeprefix(f"{NOT_CONNECTED}: ")
        raise type(error)(f"{failed}: {reason}", sqlstate=error.sqlstate, hint=error.hint) from error


@contextlib.contextmanager
def _asking(failed: str, sqlstate: str) -> Iterator[None]:
    """A server's error as libpqwalreceiver reports it: what failed, then the error with its severity."""
    try:
        yield
    except PublisherError as error:
        message = f"{failed}: ERROR:  {error.message}"
        raise type(error)(message, sqlstate=sqlstate, detail=error.detail, hint=error.hint) from error
