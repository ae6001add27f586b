"""Runs work that may wait for a server outside of the supervisor's thread, so that one subscription
that waits does not delay the others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

MOMENT_SECONDS: Final = 0.03
"""How long to wait for work that mostly needs no server: the supervisor's next turn comes later."""


class Background(Generic[T]):
    """Runs a function in a separate thread when its result is first asked for, and again after the
    result was taken.

    Args:
        work: the function to run; it must do no harm if its result is never taken.
        name: the name of the thread.
        done: called in that thread when the work has ended.

    Attributes:
        name: the name of the thread.
    """

    def __init__(self, work: Callable[[], T], name: str, done: Callable[[], None] = lambda: None) -> None:
        self._work = work
        self.name = name
        self._done = done
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()
        self._result: T | None = None
        self._error: BaseException | None = None

    def is_under_way(self) -> bool:
        """Return whether the work was begun and has not finished yet."""
        return self._thread is not None and not self._ended.is_set()

    def take(self, wait_seconds: float = 0.0) -> T | None:
        """Return the result; None while there is no result yet. The first call begins the work, and
        so does the first call after a result.

        Args:
            wait_seconds: how long a call that begins the work waits for the result.

        Raises:
            Exception: the error that the work has raised.
        """
        if self._thread is None:
            self._ended.clear()
            self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            self._thread.start()
            self._ended.wait(wait_seconds)
        if not self._ended.is_set():
            return None
        result, error = self._result, self._error
        self._thread = self._result = self._error = None
        if error is not None:
            raise error
        return result

    def _run(self) -> None:
        try:
            self._result = self._work()
        except BaseException as error:  # take() raises it
            self._error = error
        self._ended.set()
        self._done()
