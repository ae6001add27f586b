"""Work that may wait for a server, done beside the supervisor's thread: what one subscription waits
for delays no other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Background(Generic[T]):
    """Does something in a thread of its own, once it is asked for, and again after its result was
    taken.

    Args:
        work: what is done; it must do no harm if nobody takes its result.
        name: of the thread.

    Attributes:
        name: the same.
    """

    def __init__(self, work: Callable[[], T], name: str) -> None:
        self._work = work
        self.name = name
        self._thread: threading.Thread | None = None
        self._result: T | None = None
        self._error: BaseException | None = None

    def is_under_way(self) -> bool:
        """Whether it was begun and has no result yet."""
        thread = self._thread
        return thread is not None and thread.is_alive()

    def take(self) -> T | None:
        """The result; None while it is not there yet. It is begun with the first call, and again
        with the first after a result.

        Raises:
            Exception: what the work has raised.
        """
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            self._thread.start()
        if self._thread.is_alive():
            return None
        result, error = self._result, self._error
        self._thread = self._result = self._error = None
        if error is not None:
            raise error
        return result

    def _run(self) -> None:
        try:
            self._result = self._work()
        except BaseException as error:  # whoever takes the result raises it
            self._error = error
