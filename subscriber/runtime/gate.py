"""Stopping the batches of one subscription without stopping its query."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType

Turn = contextlib.AbstractContextManager[object]
"""Held by whoever writes the target's tables, where the target has one writer."""


class Gate:
    """What every batch goes through, one at a time; while it is closed none begins.

    A lock would do if it were fair: under load the next batch takes it again before anybody who
    waits for it wakes up.

    Args:
        turn: what a batch holds inside, shared with other subscriptions.
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
        """Since when (monotonic seconds); None where it is not."""
        since = self._busy_since
        return since if self._busy else None

    @contextlib.contextmanager
    def closed(self) -> Iterator[None]:
        """No batch is in progress inside, and none begins; it may be closed by several."""
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
        """As :meth:`closed`, for so many seconds at most.

        Gives a function to be called now and then, which opens it when they are over.
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
