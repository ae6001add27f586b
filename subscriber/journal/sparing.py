"""Asking a store no more often than it is worth: a request to a remote journal takes milliseconds,
and may cost money.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

REMOTE_SECONDS: Final = 1.0
"""How old an answer about a remote journal may be. It is late, never wrong: positions only move
forward.
"""


class Sparing(Generic[T]):
    """An answer that may be asked for many times a second.

    Args:
        ask: gives it.
        remote: whether asking is a request; otherwise every answer is new.
        clock: monotonic seconds.
    """

    def __init__(self, ask: Callable[[], T], remote: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._remote = remote
        self._clock = clock
        self._answer: tuple[float, T] | None = None

    def get(self) -> T:
        """The answer; what ``ask`` raises is raised, and asked again the next time."""
        now = self._clock()
        if self._answer is not None and self._remote and now - self._answer[0] < REMOTE_SECONDS:
            return self._answer[1]
        answer = self._ask()
        self._answer = now, answer
        return answer

    def forget(self) -> None:
        """The next answer is to be new."""
        self._answer = None
