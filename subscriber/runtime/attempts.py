"""How often something has failed, and when it is tried again."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from subscriber.errors import SubscriberError

_FIRST_RETRY_SECONDS: Final = 0.5


@dataclass(slots=True)
class Attempts:
    """The attempts at one thing that is to be kept going.

    Attributes:
        error: the last failure; None once it works again.
        failures: in a row.
        failed_attempts: since the worker began.
        not_before: monotonic seconds; it is not tried again earlier.
    """

    error: SubscriberError | None = None
    failures: int = 0
    failed_attempts: int = 0
    not_before: float = 0.0

    def failed(self, error: SubscriberError, longest: float) -> float:
        """Note a failure; gives the seconds to wait, which double up to ``longest``."""
        delay = float(min(longest, _FIRST_RETRY_SECONDS * 2**self.failures))
        self.error = error.without_frames()
        self.failures += 1
        self.failed_attempts += 1
        self.not_before = time.monotonic() + delay
        return delay

    def works(self) -> None:
        """Forget the failures."""
        self.error = None
        self.failures = 0
