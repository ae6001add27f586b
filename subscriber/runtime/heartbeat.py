"""The heartbeat of a run: a thread records in the target's catalog that the run is alive, and what
its workers do, for ``subscriber status``.

::

    subscriber run ── thread ──▶ subscriber_runner: host, process, started, heartbeat, busy since       every five seconds
                   │        └──▶ subscriber_stat_subscription: state, error, attempts of each worker    when they change
                   └─ run lock ─▶ RunLock.is_held: whether a run is alive; the database or the kernel knows this reliably

The row in ``subscriber_runner`` shows where the run was started, and when. Whether the run is still
alive is shown best by the run lock, if the target has a run lock that can be queried; the time of
the last heartbeat is less reliable. A heartbeat is written in a separate transaction by a separate
thread, so it delays no batch. If the target cannot be reached, heartbeats are missing, and nothing
else happens. While a batch is in progress, some targets do not let other connections write (SQLite)
or open the file (DuckDB). For these targets no heartbeat is written during a batch: an old
heartbeat of a run that still holds its run lock means that the run is busy.

*Rejected:* the heartbeat alone. While a copy holds SQLite's only writer for an hour, the run would
appear to be dead.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

from subscriber import catalog
from subscriber.background import in_background
from subscriber.catalog import Runner, WorkerStatus
from subscriber.errors import SubscriberError
from subscriber.runtime.worker_snapshot import WorkerSnapshot
from subscriber.targets import Target
from subscriber.waiting import told_by

logger = logging.getLogger(__name__)

INTERVAL_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.5
"""How often it is checked whether a worker's status has changed."""
_END_SECONDS: Final = 2.0
"""How long the end of a run waits for its last heartbeat to be written; a target that does not
answer must not delay the end further.
"""


@contextlib.contextmanager
def beating(
    target: Target,
    busy_since: Callable[[], float | None],
    snapshots: Callable[[], Mapping[int, WorkerSnapshot]] = dict,
) -> Iterator[None]:
    """Write heartbeats while the block runs, and at its end that the run has ended.

    Args:
        target: the target that contains the catalog.
        busy_since: returns when the longest batch or copy in progress began (monotonic seconds), or
            None if there is none.
        snapshots: returns the snapshots of the workers by the number of their subscription.
    """
    with in_background("heartbeat", partial(_beat, target, busy_since, snapshots), _END_SECONDS):
        yield


def _beat(
    target: Target,
    busy_since: Callable[[], float | None],
    snapshots: Callable[[], Mapping[int, WorkerSnapshot]],
    end: threading.Event,
) -> None:
    now = _iso(time.time())
    runner = Runner(socket.gethostname(), os.getpid(), now, now)
    exclusive = catalog.pauses_while_busy(target)
    written: Mapping[int, WorkerStatus] = {}
    ended, due = False, 0.0
    while not ended:
        ended = end.is_set()
        since = busy_since()
        current = worker_statuses(snapshots(), written, time.time(), time.monotonic())
        changed = [status for subid, status in current.items() if written.get(subid) != status]
        if (changed or ended or time.monotonic() >= due) and (since is None or not exclusive):
            moment = time.time()
            busy = None if since is None else _iso(moment - max(0.0, time.monotonic() - since))
            runner = replace(
                runner, heartbeat_at=_iso(moment), busy_since=busy, ended_at=_iso(moment) if ended else None
            )
            try:
                # The worker waits for the same lock, and logs what it waits for.
                with told_by(partial(logger.debug, "%s")), target.begin() as connection:
                    catalog.write_runner(connection, runner)
                    catalog.write_worker_statuses(connection, changed)
                written = current
            except SubscriberError as error:
                logger.debug("a heartbeat could not be written: %s", error.message)
            due = time.monotonic() + INTERVAL_SECONDS
        end.wait(min(_LOOK_SECONDS, INTERVAL_SECONDS))


def worker_statuses(
    snapshots: Mapping[int, WorkerSnapshot], before: Mapping[int, WorkerStatus], now: float, clock: float
) -> dict[int, WorkerStatus]:
    """The statuses of workers. A worker whose state has not changed keeps the time since when it is
    in that state.

    Args:
        snapshots: the workers by the number of their subscription.
        before: their statuses that were written last.
        now: the time (seconds since 1970).
        clock: the same time on the monotonic clock.
    """
    found = {}
    for subid, snapshot in snapshots.items():
        state, failing, last = snapshot.state, snapshot.failing, before.get(subid)
        since = last.since if last is not None and last.state == state else _iso(now)
        error, attempts, following = snapshot.failure, 0, None
        if state == "retrying" and failing.error is not None:
            since, attempts = _iso(failing.since), failing.in_a_row
            following = _iso(now + failing.not_before - clock)
            if last is not None and (last.since, last.attempts) == (since, attempts):
                following = last.next_attempt  # the clocks would give it another millisecond
        report = None if error is None else error.report()
        found[subid] = WorkerStatus(subid, state, since, report, attempts, following, snapshot.server, snapshot.notices)
    return found


def _iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")
