"""Numbers of rows that grow with time: ``conflictid``, ``changeid``."""

from __future__ import annotations

import threading
import time
from typing import Final


class RowNumbers:
    """Row numbers: nanoseconds since 1970, and always greater than the number before.

    They grow across all callers of a process. Only one process writes the rows that it numbers.
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
"""The row numbers of this process; the rows of all subscriptions are numbered together."""
