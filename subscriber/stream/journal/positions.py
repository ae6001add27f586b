"""How far a journal has received, by its control file and the names of segments, without Arrow."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final, Generic, TypeVar

from subscriber.base.lsn import INVALID_LSN, LSN
from subscriber.stream.journal.control import read_control
from subscriber.stream.journal.listing import Listing
from subscriber.stream.journal.storage import Storage, open_storage


def journal_positions(url: str) -> tuple[LSN, LSN]:
    """The received position and the end of the last entry; 0/0 while there is no journal."""
    storage = open_storage(url)
    return _positions(storage, Listing(storage))


def journal_bytes(url: str) -> int:
    """The size of all entries; 0 while there is no journal."""
    listing = Listing(open_storage(url))
    listing.update()
    return sum(entry.size for entry in listing.entries)


def _positions(storage: Storage, listing: Listing) -> tuple[LSN, LSN]:
    control = read_control(storage)
    if control is None:
        return INVALID_LSN, INVALID_LSN
    listing.update()
    last = LSN(max([control.begin, *(entry.end for entry in listing.entries)]))
    return LSN(max(control.received, last)), last


def watched_positions(url: str) -> CachedAnswer[tuple[LSN, LSN]]:
    """:func:`journal_positions` for callers that ask often. Both are read at the same time, so a
    consumer that has applied the last entry has applied everything that was received.
    """
    storage = open_storage(url)
    return CachedAnswer(partial(_positions, storage, Listing(storage)), storage.remote)


T = TypeVar("T")

REMOTE_SECONDS: Final = 1.0
"""How old an answer about a remote journal may be. An old position may be too low but is never too
high, since positions only move forward.
"""


class CachedAnswer(Generic[T]):
    """An answer for callers that ask at every gulp of the stream: at most ``seconds`` old, where
    ``remote``, at most :data:`REMOTE_SECONDS`, since a request may cost money.

    Any thread may ask. Only one asks at a time, because what ``ask`` remembers, such as a
    :class:`~subscriber.stream.journal.listing.Listing`, is for one thread.
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
        self._asking = threading.Lock()

    def get(self) -> T:
        """The answer. An exception of ``ask`` is raised and not cached."""
        with self._asking:
            now = self._clock()
            if self._answer is not None and now - self._answer[0] < self._seconds:
                return self._answer[1]
            answer = self._ask()
            self._answer = now, answer
            return answer

    def forget(self) -> None:
        self._answer = None
