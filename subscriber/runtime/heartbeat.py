"""The heartbeat of a run: a thread records in the target's catalog that the run is alive, for
``subscriber status``.

::

    subscriber run ── thread ──▶ subscriber_runner: host, process, started, heartbeat, busy since       every five seconds
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
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from subscriber import catalog
from subscriber.background import in_background
from subscriber.catalog import Runner
from subscriber.errors import SubscriberError
from subscriber.targets import Target
from subscriber.waiting import told_by

logger = logging.getLogger(__name__)

INTERVAL_SECONDS: Final = 5.0
_END_SECONDS: Final = 2.0
"""How long the end of a run waits for its last heartbeat to be written; a target that does not
answer must not delay the end further.
"""


@contextlib.contextmanager
def beating(target: Target, busy_since: Callable[[], float | None]) -> Iterator[None]:
    """Write heartbeats while the block runs, and at its end that the run has ended.

    Args:
        target: the target that contains the catalog.
        busy_since: returns when the longest batch or copy in progress began (monotonic seconds), or
            None if there is none.
    """
    with in_background("heartbeat", partial(_beat, target, busy_since), _END_SECONDS):
        yield


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
                # The worker waits for the same lock, and logs what it waits for.
                with told_by(partial(logger.debug, "%s")), target.begin() as connection:
                    catalog.write_runner(connection, runner)
            except SubscriberError as error:
                logger.debug("a heartbeat could not be written: %s", error.message)
        end.wait(INTERVAL_SECONDS)


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")
