"""Decides when the holder of an apply hold is dead (:mod:`subscriber.commands.hold_apply`).

A holder renews its heartbeat every few seconds. Its text is only compared with the text that was
read before, and the time since it changed is measured by this run's monotonic clock. So the clocks
of two machines need not agree. While the catalog cannot be read, a heartbeat may have been renewed
unseen, or the holder may be kept from renewing it by the same outage. Therefore the time begins
again after an outage.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from subscriber.catalog import ApplyHold

STALE_SECONDS: Final = 30.0
"""A holder whose heartbeat has not changed for so long is considered dead."""


class StaleHold:
    """Observes the hold of one subscription; see the module's docstring.

    Args:
        clock: a monotonic clock, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: tuple[str, str] | None = None
        self._since = 0.0

    def note(self, hold: ApplyHold | None) -> None:
        """Note the hold that was read from the catalog now; None if there is none."""
        seen = None if hold is None else (hold.holder, hold.heartbeat)
        if seen != self._seen:
            self._seen, self._since = seen, self._clock()

    def lose_sight(self) -> None:
        """Note that the catalog cannot be read now."""
        self._since = self._clock()

    def is_stale(self) -> bool:
        """Return whether the holder is considered dead."""
        return self._seen is not None and self._clock() - self._since > STALE_SECONDS
