"""Notices that the publisher sends nothing, and reports what its walsender waits for.

A walsender that has nothing to send and one that waits for a standby
(``synchronized_standby_slots``) send the same keepalives. So the publisher is asked over another
connection after the position has not moved for a while, at most twice a minute.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Final, Self

from subscriber.base.lsn import INVALID_LSN, LSN
from subscriber.base.waiting import Ask, watched

QUIET_SECONDS: Final = 3.0


class Quiet:
    """A context manager that watches a stream (:func:`subscriber.base.waiting.watched`)."""

    def __init__(self, what: str, ask: Ask, clock: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._ask = ask
        self._clock = clock
        self._received = INVALID_LSN
        self._since = clock()
        self._watch = contextlib.ExitStack()
        self._watches = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.close()

    def look(self, received: LSN) -> None:
        """Take note of the position; called a few times a second."""
        if received != self._received:
            self._received, self._since, self._watches = received, self._clock(), False
            self._watch.close()
        elif not self._watches and self._clock() - self._since >= QUIET_SECONDS:
            self._watches = True
            self._watch.enter_context(watched(self._what, self._ask))
