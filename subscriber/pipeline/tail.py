"""The parts of the journal that the driver reads itself: while Spark starts a query, and while the
subscription has caught up.

::

    start        Spark starts, and then the query, whose first micro-batch is empty ──▶ the driver reads, decodes and applies
    backlog      Spark plans a micro-batch ──▶ executors read and decode ──▶ the driver applies
    caught up    the micro-batch stays open ──▶ the driver waits for an entry, reads, decodes and applies it
                                └── more than SMALL_BYTES wait: the micro-batch ends, Spark plans the next one

Spark takes some seconds to start, and a third of a second to start a query: it starts the planner,
which is a process of its own. The driver applies entries meanwhile, in slices of at most
SMALL_BYTES, so that Spark's first micro-batch need not wait long for it. An entry that is larger is
left to the executors.

A micro-batch takes Spark about 300 ms, however few rows it has: 60 ms each for the offset log and
the commit log, 10 ms for planning, and the rest for a job and its Python task. The driver reads and
decodes an entry of a few rows in a few milliseconds. Therefore the function that ``foreachBatch``
calls does not return while little waits in the journal. It applies each entry as it arrives, with
the stages that the executors run. When more waits, it returns, and the executors decode in
parallel.

The planner is another process of this machine. It learns from a small file how far the driver has
read, and the next micro-batch begins there. The entries before that position may have been trimmed
from the journal.

*Rejected:* a task on an executor that stays open and sends rows as they arrive. Spark hands over
the rows of a task when the task has ended, so the task would need a connection to the driver beside
Spark's, with its own authentication. *Rejected:* Spark's real-time mode. Data sources that are
written in Python do not support it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from subscriber.lsn import LSN
from subscriber.pipeline.apply_bound import ApplyBound
from subscriber.pipeline.frame_source import FrameStreamReader, write_progress
from subscriber.pipeline.source import wait_for_change

SMALL_BYTES: Final = 16 * 1024 * 1024
"""What the driver reads itself, in bytes of the journal. It decodes them in 0.13 s (large
transactions) to 0.55 s (those of one row); a micro-batch takes about 0.3 s, and then decodes, too.
"""
_SHORTEST_POLL_SECONDS: Final = 0.002
_LONGEST_POLL_SECONDS: Final = 0.02
_POLLS_SINCE_CHANGE: Final = 20
"""The journal is looked at about this often in the time that has passed since its last change."""


class Tail:
    """The end of one journal; see the module's docstring.

    Args:
        reader: reads the journal in this process.
        progress_file: where the planner finds how far the driver has read.
        stop: ends a wait.
        bound: up to where entries may be applied.
    """

    def __init__(
        self,
        reader: FrameStreamReader,
        progress_file: Path,
        stop: threading.Event,
        bound: ApplyBound | None = None,
    ) -> None:
        self._reader = reader
        self._progress_file = progress_file
        self._stop = stop
        self._bound = bound or ApplyBound()

    def next_end(self, applied: LSN) -> LSN | None:
        """Wait for entries after ``applied`` that may be applied, and return the end of the last
        one.

        Returns:
            None if more than :data:`SMALL_BYTES` wait, or if the wait was ended.

        Raises:
            SubscriberError: the journal cannot be read, or has a gap.
        """
        return self._wait_for(self._reader.small_end, applied, self._stop.is_set)

    def next_slice(self, applied: LSN, has_begun: threading.Event) -> LSN | None:
        """Wait for entries after ``applied`` that may be applied, and return the end of a slice of
        at most :data:`SMALL_BYTES`.

        Returns:
            None if the first entry is larger, if ``has_begun`` is set, or if the wait was ended.

        Raises:
            SubscriberError: the journal cannot be read, or has a gap.
        """
        return self._wait_for(self._reader.slice_end, applied, lambda: self._stop.is_set() or has_begun.is_set())

    def _wait_for(
        self, find_end: Callable[[LSN, int, LSN | None], LSN | None], applied: LSN, ends: Callable[[], bool]
    ) -> LSN | None:
        since = time.monotonic()
        while not ends():
            bound = self._bound.position
            if bound is not None and bound <= applied:
                self._stop.wait(_LONGEST_POLL_SECONDS)  # whatever arrives
                continue
            token = self._reader.storage.change_token()
            end = find_end(applied, SMALL_BYTES, bound)
            if end != applied:
                return end
            poll = (time.monotonic() - since) / _POLLS_SINCE_CHANGE
            wait_for_change(
                self._reader.storage,
                token,
                min(max(poll, _SHORTEST_POLL_SECONDS), _LONGEST_POLL_SECONDS),
                partial(self._wait_while, bound),
            )
        return None

    def _wait_while(self, bound: LSN | None, seconds: float) -> bool:
        """Wait for so many seconds; return whether the wait is over before the journal changes."""
        return self._stop.wait(seconds) or self._bound.position != bound

    def leave(self, applied: LSN) -> None:
        """Tell the planner that the next micro-batch begins at ``applied``. Before this is called
        for the first time, the planner only plans empty ones.
        """
        write_progress(self._progress_file, applied)
