"""Leases: claims that end with the process that holds them, each a row of ``subscriber_lease``.

::

    kind      held by                      while
    run       `subscriber run`             it runs; subid is 0
    pause     verify, a cutover, …         the apply of a subscription is paused for it (``apply_pauses``)
    cutover   `subscriber cutover`         it carries out a step of the cutover of a subscription (``cutovers``)

    claim ──▶ row ──renew, every three seconds, in a thread──▶ … ──▶ release: the row is deleted
                └─ the holder dies ──▶ is_alive() is false ──▶ anybody may claim or delete it

A lease, and every write to it, names its holder by a random identifier: nobody changes the row of a
later holder. A run leaves its row when it ends, with the time of that.

*One rule says when a holder is dead.* Where its process can be looked up (this boot of this
machine, not another container), it is dead if the process is gone, or is younger than the lease and
so only has its number. Elsewhere, and if a signal has stopped the process, it is dead if its
heartbeat is older than :data:`STALE_SECONDS`. Observers measure that age by their own monotonic
clock (:class:`LeaseWatch`), because clocks of two machines need not agree. If the target has a run
lock, that alone says whether a run is alive.

*Rejected:* a lock of the database: only servers have one that outlives a transaction, and it does
not say who holds it.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from subscriber.base import clock
from subscriber.base.background import in_background
from subscriber.base.errors import SubscriberError
from subscriber.base.lsn import LSN
from subscriber.base.waiting import notices_to
from subscriber.catalog.own_tables import LEASE
from subscriber.catalog.rows import RowMapper, change_rows, delete_rows, matching

if TYPE_CHECKING:
    from subscriber.targets.target import Target

logger = logging.getLogger(__name__)

STALE_SECONDS: Final = 30.0
"""A holder whose heartbeat is older is dead, if its process cannot be looked up."""
RENEW_SECONDS: Final = 3.0
_AGAIN_SECONDS: Final = 0.5
"""After a renewal that has failed: the target may have been busy."""
_END_SECONDS: Final = 2.0
"""How long the end of a block waits for a renewal in progress."""
_CLOCK_SECONDS: Final = 2.0
"""The precision of the time at which the machine was booted, which is in whole seconds."""
_SILENT_SECONDS: Final = 60.0
_BUSY_SILENT_SECONDS: Final = 300.0
"""A run that is alive and whose heartbeat is older may hang. Where no heartbeat is written during a
batch, it may also be busy with a long one.
"""


class LeaseKind(StrEnum):
    RUN = "run"
    PAUSE = "pause"
    CUTOVER = "cutover"


@dataclass(frozen=True, slots=True)
class Lease:
    """A row of ``subscriber_lease``. Times are UTC, ISO 8601.

    ``subid`` is 0 for a run. ``holder`` identifies the claim, by chance; ``machine`` the boot and
    the container in which the process number counts (empty if unknown). A run has ``busy_since``
    while a batch or a copy was in progress at the last heartbeat, and ``ended_at`` if it ended in
    order. A pause has ``state``, how far the run has followed it; ``bound``, the LSN up to which
    the run applies; and ``reached``, the LSN that the target was held at.
    """

    kind: LeaseKind
    subid: int
    holder: str
    host: str
    process_id: int
    machine: str
    since: str
    heartbeat: str
    busy_since: str | None = None
    ended_at: str | None = None
    state: str | None = None
    bound: LSN | None = None
    reached: LSN | None = None

    @property
    def holder_in_words(self) -> str:
        return f"process {self.process_id} on host {self.host}"

    @property
    def is_mine(self) -> bool:
        return self._is_here() and self.process_id == os.getpid()

    def is_alive(self, silence: float | None = None) -> bool:
        """``silence``: for how many seconds the heartbeat has not changed, if that was observed."""
        if self.ended_at is not None:
            return False
        runs = _runs(self.process_id, self.heartbeat) if self._is_here() else None
        if runs is not None:
            return runs
        return (clock.seconds_since(self.heartbeat) if silence is None else silence) <= STALE_SECONDS

    def _is_here(self) -> bool:
        return (self.host, self.machine) == (socket.gethostname(), _machine())


def new_lease(kind: LeaseKind, subid: int = 0, state: str | None = None) -> Lease:
    """A lease of this process from now on, not stored yet."""
    now = clock.now()
    return Lease(
        kind, subid, secrets.token_hex(16), socket.gethostname(), os.getpid(), _machine(), now, now, state=state
    )


_ROWS: Final = RowMapper(
    LEASE,
    Lease,
    process_id="processid",
    heartbeat="heartbeatat",
    busy_since="busysince",
    ended_at="endedat",
    bound="boundlsn",
    reached="reachedlsn",
)


def find_lease(connection: sa.Connection, kind: LeaseKind, subid: int = 0) -> Lease | None:
    return _ROWS.find(connection, kind=kind.value, subid=subid)


def read_leases(connection: sa.Connection, kind: LeaseKind) -> Mapping[int, Lease]:
    return {lease.subid: lease for lease in _ROWS.select(connection, kind=kind.value)}


def claim(connection: sa.Connection, lease: Lease) -> Lease | None:
    """Store a lease, or return that of a living holder. IntegrityError: two processes claim it."""
    found = find_lease(connection, lease.kind, lease.subid)
    if found is None:
        _ROWS.insert(connection, [lease])
        return None
    if found.is_alive():
        return found
    taken = _ROWS.replace(connection, is_of(found), lease) == 1
    return None if taken else find_lease(connection, lease.kind, lease.subid) or found


def renew(connection: sa.Connection, lease: Lease) -> bool:
    """Store another heartbeat; returns whether the lease is still there."""
    return change_rows(connection, is_of(lease), LEASE, heartbeatat=clock.now()) == 1


def release(connection: sa.Connection, lease: Lease) -> bool:
    """Delete a lease at its end; returns whether it was still there."""
    return delete_rows(connection, LEASE, **_key(lease)) == 1


def delete_dead(connection: sa.Connection, lease: Lease) -> bool:
    """Delete a lease, unless its holder has renewed it since ``lease`` was read."""
    return delete_rows(connection, LEASE, **_key(lease), heartbeatat=lease.heartbeat) == 1


def is_of(lease: Lease) -> sa.ColumnElement[bool]:
    return matching(LEASE, **_key(lease))


def _key(lease: Lease) -> dict[str, Any]:
    return {"kind": lease.kind.value, "subid": lease.subid, "holder": lease.holder}


# Renewing and watching ----------------------------------------------------------------------------


class Renewal:
    """What is written to renew a lease, and when; a run writes more than its heartbeat."""

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self._due = 0.0

    def is_due(self, *, ended: bool) -> bool:
        """Whether to write now. A lease that has ended is released by its holder."""
        return not ended and time.monotonic() >= self._due

    def write(self, connection: sa.Connection) -> bool:
        """Write the heartbeat; returns whether the lease is still there."""
        return renew(connection, self.lease)

    def done(self, error: SubscriberError | None) -> None:
        """Called after the transaction of :meth:`write`."""
        if error is not None:
            logger.debug("a lease could not be renewed: %s", error.message)
        self._due = time.monotonic() + (RENEW_SECONDS if error is None else _AGAIN_SECONDS)


@contextlib.contextmanager
def renewing(target: Target, renewal: Renewal, look_seconds: float = _AGAIN_SECONDS) -> Iterator[None]:
    """Renew a lease in a thread while the block runs, each time in a transaction of its own, again
    after a failure. A holder learns that its lease is gone when it next reads or writes it.
    """
    with in_background(
        f"renews the {renewal.lease.kind}", partial(_renew, target, renewal, look_seconds), _END_SECONDS
    ):
        yield


def _renew(target: Target, renewal: Renewal, look_seconds: float, end: threading.Event) -> None:
    ended = False
    while not ended:
        ended = end.is_set()
        if renewal.is_due(ended=ended):
            error = None
            try:
                # Who holds the locks is logged by the code that works with the target.
                with notices_to(partial(logger.debug, "%s")), target.begin() as connection:
                    if not renewal.write(connection):
                        return
            except SubscriberError as failure:
                error = failure
            renewal.done(error)
        end.wait(min(look_seconds, RENEW_SECONDS))


class LeaseWatch:
    """Observes the lease of one subscription, and decides when its holder is dead.

    While the catalog cannot be read, a heartbeat may have been written unseen, or could not be
    written. After an outage the staleness timer restarts. ``monotonic`` is a clock in seconds.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._seen: Lease | None = None
        self._since = 0.0

    def update(self, lease: Lease | None) -> None:
        before, self._seen = self._seen, lease
        if (before and (before.holder, before.heartbeat)) != (lease and (lease.holder, lease.heartbeat)):
            self._since = self._monotonic()

    def catalog_unreachable(self) -> None:
        self._since = self._monotonic()

    def is_dead(self) -> bool:
        return self._seen is not None and not self._seen.is_alive(self._monotonic() - self._since)


# A run --------------------------------------------------------------------------------------------


def find_run(connection: sa.Connection) -> Lease | None:
    return find_lease(connection, LeaseKind.RUN)


def write_run(connection: sa.Connection, run: Lease) -> None:
    _ROWS.write(connection, run)


def is_running(target: Target, connection: sa.Connection, run: Lease) -> bool:
    """Whether a run is alive: by the run lock, if the target has one that can be queried."""
    locked = None if target.run_lock is None else target.run_lock.is_held(connection)
    return run.is_alive() if locked is None else locked


def is_silent(run: Lease, *, may_be_busy: bool) -> bool:
    """Whether a living run may hang. ``may_be_busy``: a batch or a copy writes no heartbeat."""
    return clock.seconds_since(run.heartbeat) > (_BUSY_SILENT_SECONDS if may_be_busy else _SILENT_SECONDS)


def is_silent_while_busy(target: Target) -> bool:
    """Whether no heartbeat can be written while a batch or a copy is in progress."""
    return target.capabilities.single_writer or target.status_file is not None


# The holder's process -----------------------------------------------------------------------------


@functools.cache
def _machine() -> str:
    """The boot and the container in which process numbers count; empty if unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _runs(process: int, moment: str) -> bool | None:
    """Whether a process older than ``moment`` runs; None if unknown, or stopped by a signal."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        booted = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
    except (OSError, StopIteration):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return None
    if fields[0] in "ZX":
        return False  # it has ended, and its parent has not asked for that yet
    began = float(booted.split()[1]) + float(fields[19]) / os.sysconf("SC_CLK_TCK")
    if began > datetime.fromisoformat(moment).timestamp() + _CLOCK_SECONDS:
        return False
    return None if fields[0] in "Tt" else True
