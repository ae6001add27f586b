"""A cached answer, to limit how often a journal is read. In a remote journal a request takes
milliseconds and may cost money. In a local one it takes a few system calls, which the receiver
would make for every gulp of the stream.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

REMOTE_SECONDS: Final = 1.0
"""How old an answer about a remote journal may be. An old position may be too low but is never too
high, since positions only move forward.
"""


class Sparing(Generic[T]):
    """An answer that may be requested many times a second.

    Args:
        ask: the function that gives the answer.
        remote: whether ``ask`` sends a request to a server.
        seconds: how old an answer about a local journal may be; 0 if ``ask`` is called every time.
        clock: a monotonic clock, in seconds.
    """

    def __init__(
        self,
        ask: Callable[[], T],
        remote: bool,
        seconds: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask
        self._seconds = REMOTE_SECONDS if remote else seconds
        self._clock = clock
        self._answer: tuple[float, T] | None = None

    def get(self) -> T:
        """The answer, which may be as old as was allowed. An exception of ``ask`` is raised and not
        cached.
        """
        now = self._clock()
        if self._answer is not None and now - self._answer[0] < self._seconds:
            return self._answer[1]
        answer = self._ask()
        self._answer = now, answer
        return answer

    def forget(self) -> None:
        """Forget the cached answer, so that the next :meth:`get` calls ``ask``."""
        self._answer = None
