"""Keeps DuckDB's file open between transactions that follow each other closely.

::

    transactions    ▂ ▂ ▂ ▂ ▂ ▂ ▂ ▂ ▂ ▂ ▂ ▂           ▂               ▂ ▂ ▂
    file            ██████████████████████▁▁▁▁████████████▁▁▁▁▁▁▁▁▁▁▁▁██████████
                    ├── LONGEST_SECONDS ──┤   ▲       ├ IDLE_SECONDS ┤
                                              └ other processes can open it for PAUSE_SECONDS

To open the file takes twenty milliseconds or more, which is several times as long as a small
transaction. But a process that has it open locks it for all others. Therefore only ``subscriber
run`` keeps it open, by a connection that has no transaction; it closes the file when no transaction
has followed for a moment, and now and then in any case. Other processes that use this package try
again for ten seconds (:mod:`subscriber.targets.duckdb.connection`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

IDLE_SECONDS: Final = 0.2
"""The file is closed when it was not used for so long."""
LONGEST_SECONDS: Final = 2.0
"""The file is closed after so long, even if it is used all the time."""
PAUSE_SECONDS: Final = 0.1
"""The file then stays closed for so long: twice the interval at which other processes try."""


class BeforeClose(Protocol):
    """Called with a connection that is about to be closed."""

    def __call__(self, connection: Any, *, closes_file: bool) -> None:
        """See :class:`KeptOpen`."""


def _nothing(connection: Any, *, closes_file: bool) -> None:
    del connection, closes_file


class KeptOpen:
    """See the module's docstring. All methods may be called by any thread.

    Args:
        before_close: called with each connection before it is closed, and with whether it is the
            last one to the file, if the run may keep the file open.
        clock: a monotonic clock, in seconds.
        sleep: waits for so many seconds.
    """

    def __init__(
        self,
        before_close: BeforeClose = _nothing,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._before_close = before_close
        self._clock = clock
        self._sleep = sleep
        self._changed = threading.Condition()
        self._keeps = False
        self._keeper: Any = None
        self._since = self._used = self._closed_until = 0.0
        self._connections = 0
        self._pauses = False

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Keep the file open during the block, between transactions."""
        with self._changed:
            self._keeps = True
        thread = threading.Thread(target=self._close_in_time, name="closes DuckDB's file", daemon=True)
        thread.start()
        try:
            yield
        finally:
            with self._changed:
                self._keeps = False
                self._changed.notify_all()
            thread.join()
            with self._changed:
                self._close()

    def opening(self) -> None:
        """Wait while other processes are to have a chance to open the file."""
        with self._changed:
            pause = self._closed_until - self._clock() if not self._connections else 0.0
        if pause > 0:
            self._sleep(pause)

    def opened(self, open_another: Callable[[], Any]) -> None:
        """Note that a connection was opened.

        Args:
            open_another: opens another one, while the first is open.
        """
        with self._changed:
            self._used = self._clock()
            if self._keeps and self._keeper is None and not self._pauses:
                self._keeper = open_another()
                self._since = self._used
            self._connections += 1
            self._changed.notify_all()

    def closed(self, connection: Any) -> None:
        """Note that a connection is about to be closed."""
        with self._changed:
            self._connections -= 1
            if self._keeps:
                self._before_close(connection, closes_file=self._keeper is None and not self._connections)
            self._used = self._clock()
            self._begin_pause()

    def _close_in_time(self) -> None:
        with self._changed:
            while self._keeps:
                if self._keeper is None:
                    self._changed.wait()
                    continue
                now, latest = self._clock(), self._since + LONGEST_SECONDS
                due = min(self._used + IDLE_SECONDS, latest)
                if now < due:
                    self._changed.wait(due - now)
                    continue
                self._pauses = now >= latest
                self._close()
                self._begin_pause()

    def _close(self) -> None:
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            self._before_close(keeper, closes_file=not self._connections)
            keeper.close()

    def _begin_pause(self) -> None:
        """Begin the pause, if there is to be one and the file is closed."""
        if self._pauses and not self._connections:
            self._pauses = False
            self._closed_until = self._clock() + PAUSE_SECONDS
