"""The heartbeat of a run: it says in the target's catalog that it is alive, for ``subscriber
status``.

::

    subscriber run ── thread ──▶ subscriber_runner: host, process, started, heartbeat, busy since       every five seconds
                   └─ run lock ─▶ RunLock.is_held: whether a run is alive, of which the database or the kernel is sure

Who runs and since when is in the row; whether he is alive the run lock knows better than any clock,
where the target has one that can be asked. A heartbeat is written in a transaction of its own and
in a thread of its own, so it delays no batch, and a target that is away only makes it miss some.
Where a batch keeps everybody else from writing (SQLite) or from opening the file (DuckDB), it is
left out while one is in progress: an old heartbeat of a run that holds its lock is one that is
busy.

Rejected: the heartbeat alone. While a copy of an hour holds SQLite's only writer, it would look
dead.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from subscriber import catalog
from subscriber.catalog import Runner
from subscriber.errors import SubscriberError
from subscriber.targets import Target
from subscriber.waiting import told_by

logger = logging.getLogger(__name__)

INTERVAL_SECONDS: Final = 5.0
STALE_SECONDS: Final = 3 * INTERVAL_SECONDS
"""A run whose last heartbeat is older is taken for dead where nothing but its heartbeat can
tell.
"""
_END_SECONDS: Final = 2.0
"""How long the end of a run waits for its last heartbeat; a target that does not answer is not
waited for.
"""


@contextlib.contextmanager
def beating(target: Target, busy_since: Callable[[], float | None]) -> Iterator[None]:
    """Write heartbeats while the block runs, and at its end that the run has ended.

    Args:
        target: where.
        busy_since: when the longest batch or copy began that is in progress (monotonic seconds),
            None where there is none.
    """
    end = threading.Event()
    thread = threading.Thread(target=_beat, args=(target, busy_since, end), name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join(_END_SECONDS)


def is_alive(runner: Runner, locked: bool | None) -> bool:
    """Whether a run is alive, by its last heartbeat and by what :meth:`RunLock.is_held`
    says.
    """
    return locked if locked is not None else runner.ended_at is None and runner.heartbeat_age <= STALE_SECONDS


def _beat(target: Target, busy_since: Callable[[], float | None], end: threading.Event) -> None:
    now = _iso(datetime.now(UTC))
    runner = Runner(socket.gethostname(), os.getpid(), now, now)
    exclusive = target.capabilities.single_writer or target.status_file is not None
    ended = False
    while not ended:
        ended = end.is_set()
        since = busy_since()
        if since is None or not exclusive:
            moment = datetime.now(UTC)
            busy = None if since is None else _iso(moment - timedelta(seconds=max(0.0, time.monotonic() - since)))
            runner = replace(
                runner, heartbeat_at=_iso(moment), busy_since=busy, ended_at=_iso(moment) if ended else None
            )
            try:
                # Whoever works waits for the same lock, and says for whom.
                with told_by(partial(logger.debug, "%s")), target.begin() as connection:
                    catalog.write_runner(connection, runner)
            except SubscriberError as error:
                logger.debug("a heartbeat is missing: %s", error.message)
        end.wait(INTERVAL_SECONDS)


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")
