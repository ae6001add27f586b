"""Numbers of rows that grow with time: ``conflictid``, ``changeid``."""

from __future__ import annotations

import threading
import time
from typing import Final


class RowNumbers:
    """Nanoseconds since 1970, and always more than before, whoever asks: one process writes what it
    numbers.
    """

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._last = 0

    def next(self) -> int:
        """The next number."""
        with self._lock:
            self._last = max(self._last + 1, time.time_ns())
            return self._last


ROW_NUMBERS: Final = RowNumbers()
"""Those of this process: rows of all subscriptions are numbered together."""
