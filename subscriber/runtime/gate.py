"""Stops the batches of one subscription without stopping its query."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType

Turn = contextlib.AbstractContextManager[object]
"""The right to write to the target's tables. Only one thread holds it if the target has one writer.
"""


class Gate:
    """Every batch passes the gate, one at a time. While the gate is closed, no batch begins.

    A lock would be enough if locks were fair. But under load the next batch would take the lock
    again before a waiting thread wakes up.

    Args:
        turn: held while a batch is inside the gate; other subscriptions share it.
    """

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._condition = threading.Condition()
        self._closings = 0
        self._busy = False
        self._busy_since = 0.0

    def __enter__(self) -> None:
        with self._condition:
            self._condition.wait_for(lambda: not self._closings and not self._busy)
            self._busy, self._busy_since = True, time.monotonic()
        try:
            self._turn.__enter__()
        except BaseException:
            self._leave()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._turn.__exit__(kind, error, traceback)
        finally:
            self._leave()

    @property
    def busy(self) -> bool:
        """Whether a batch is being applied, or waits for its turn."""
        return self._busy

    @property
    def busy_since(self) -> float | None:
        """Since when the gate is busy (monotonic seconds); None if it is not."""
        since = self._busy_since
        return since if self._busy else None

    @contextlib.contextmanager
    def closed(self) -> Iterator[None]:
        """Close the gate while the block runs: no batch is in progress, and none begins. Several
        threads may close it at the same time.
        """
        with self._condition:
            self._closings += 1
        try:
            with self._condition:
                self._condition.wait_for(lambda: not self._busy)
            yield
        finally:
            with self._condition:
                self._closings -= 1
                self._condition.notify_all()

    @contextlib.contextmanager
    def closed_at_first(self, seconds: float) -> Iterator[Callable[[], None]]:
        """Close the gate like :meth:`closed`, but for at most ``seconds``.

        Gives a function that the caller must call from time to time: it opens the gate when the
        seconds are over.
        """
        with contextlib.ExitStack() as hold:
            hold.enter_context(self.closed())
            until = time.monotonic() + seconds

            def open_when_over() -> None:
                if time.monotonic() > until:
                    hold.close()

            yield open_when_over

    def _leave(self) -> None:
        with self._condition:
            self._busy = False
            self._condition.notify_all()
