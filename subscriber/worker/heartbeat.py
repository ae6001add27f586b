"""The lease of a run, with what its workers do, for ``subscriber status``.

::

    subscriber run ── thread ──▶ subscriber_lease: host, process, since, heartbeat, busy since       every few seconds
                   │        └──▶ subscriber_stat_subscription: state, error, attempts of each worker    when they change
                   └─ run lock ─▶ RunLock.is_held: whether a run is alive; the database or the kernel knows this reliably

A separate thread and transaction renew the lease, so no batch is delayed. During a batch, some
targets do not let other connections write (SQLite) or open the file (DuckDB). Then no heartbeat is
written: an old one of a run that still holds its run lock means that the run is busy.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from typing import Final

from subscriber.base import clock
from subscriber.base.errors import SubscriberError
from subscriber.catalog import leases
from subscriber.catalog.worker_status import WorkerStatus, write_worker_statuses
from subscriber.targets import Connection, Target
from subscriber.worker.worker_snapshot import WorkerSnapshot

_POLL_SECONDS: Final = 0.5
"""How often it is checked whether a worker's status has changed."""


@contextlib.contextmanager
def beating(
    target: Target,
    busy_since: Callable[[], float | None],
    snapshots: Callable[[], Mapping[int, WorkerSnapshot]] = dict,
    on_taken_over: Callable[[leases.Lease], None] = lambda _other: None,
) -> Iterator[None]:
    """Renew the lease of the run while the block runs, and write at its end that the run has ended.
    ``busy_since`` returns when the longest batch or copy in progress began (monotonic seconds).
    ``on_taken_over`` is called, once, when a later run has the lease.
    """
    renewal = _RunRenewal(
        leases.new_lease(leases.LeaseKind.RUN),
        busy_since,
        snapshots,
        on_taken_over,
        pauses=leases.is_silent_while_busy(target),
    )
    with leases.renewing(target, renewal, _POLL_SECONDS):
        yield


class _RunRenewal(leases.Renewal):
    """Writes the lease of a run and the statuses of its workers that have changed."""

    def __init__(
        self,
        lease: leases.Lease,
        busy_since: Callable[[], float | None],
        snapshots: Callable[[], Mapping[int, WorkerSnapshot]],
        on_taken_over: Callable[[leases.Lease], None],
        *,
        pauses: bool,
    ) -> None:
        super().__init__(lease)
        self._busy_since = busy_since
        self._snapshots = snapshots
        self._on_taken_over = on_taken_over
        self._pauses = pauses
        self._written: Mapping[int, WorkerStatus] = {}
        self._current: Mapping[int, WorkerStatus] = {}

    def is_due(self, *, ended: bool) -> bool:
        moment, since = time.time(), self._busy_since()
        self._current = worker_statuses(self._snapshots(), self._written, moment, time.monotonic())
        if since is not None and self._pauses:
            return False
        busy = None if since is None else clock.as_text(moment - max(0.0, time.monotonic() - since))
        now = clock.as_text(moment)
        self.lease = replace(self.lease, heartbeat=now, busy_since=busy, ended_at=now if ended else None)
        return ended or bool(self._changed()) or super().is_due(ended=ended)

    def write(self, connection: Connection) -> bool:
        """Write the run, in place of an earlier one; False if a later one has the lease: this run
        was stopped or cut off for so long that its run lock has ended.
        """
        found = leases.find_run(connection)
        if found is not None and found.holder != self.lease.holder and found.since > self.lease.since:
            self._on_taken_over(found)
            return False
        leases.write_run(connection, self.lease)
        write_worker_statuses(connection, self._changed())
        return True

    def done(self, error: SubscriberError | None) -> None:
        super().done(error)
        if error is None:
            self._written = self._current

    def _changed(self) -> list[WorkerStatus]:
        return [status for subid, status in self._current.items() if self._written.get(subid) != status]


def worker_statuses(
    snapshots: Mapping[int, WorkerSnapshot], before: Mapping[int, WorkerStatus], now: float, monotonic: float
) -> dict[int, WorkerStatus]:
    """The statuses of workers, at one moment on both clocks; ``since`` stays while a state does."""
    found = {}
    for subid, snapshot in snapshots.items():
        state, failing, last = snapshot.state, snapshot.failing, before.get(subid)
        since = last.since if last is not None and last.state == state else clock.as_text(now)
        error, attempts, following = snapshot.failure, 0, None
        if state == "retrying" and failing.error is not None:
            since, attempts = clock.as_text(failing.since), failing.in_a_row
            following = clock.as_text(now + failing.not_before - monotonic)
            if last is not None and (last.since, last.attempts) == (since, attempts):
                following = last.next_attempt  # the clocks would give it another millisecond
        report = None if error is None else error.report()
        found[subid] = WorkerStatus(
            subid, state, since, report, attempts, following, snapshot.server, **asdict(snapshot.counters)
        )
    return found
