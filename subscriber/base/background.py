"""Work in threads: beside a block until it ends, or apart from a thread that must not wait."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar


@contextlib.contextmanager
def in_background(name: str, work: Callable[[threading.Event], object], patience: float) -> Iterator[None]:
    """Run ``work`` in a thread while the block runs.

    ``work`` gets an event that is set when the block ends, and must then return soon. The end of
    the block waits ``patience`` seconds for it. After that the thread is left to itself, and ends
    with the process at the latest.
    """
    end = threading.Event()
    thread = threading.Thread(target=work, args=(end,), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join(patience)


T = TypeVar("T")

MOMENT_SECONDS: Final = 0.03
"""How long to wait for work that mostly needs no server: the supervisor's next turn comes later."""


class Background(Generic[T]):
    """Runs a function in a thread when its result is first asked for, and again after it was taken.

    The function must do no harm if its result is never taken. ``done`` is called in that thread at
    its end.
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
        return self._thread is not None and not self._ended.is_set()

    def take(self, wait_seconds: float = 0.0) -> T | None:
        """Return the result, or raise what the work raised; None while there is no result yet.

        The first call begins the work, and so does the first call after a result. A call that
        begins it waits ``wait_seconds`` for the result.
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
