"""How often something has failed, and when it is tried again."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Final

from subscriber.errors import SubscriberError

_FIRST_RETRY_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class FailedAttempts:
    """The failed attempts at one thing, at one moment.

    Attributes:
        error: the last failure; None once it works again.
        in_a_row: how many attempts have failed since it last worked.
        in_all: how many have failed since the worker began.
        began: when the last attempt that failed began (monotonic seconds), where that is known.
        not_before: it is not tried again earlier (monotonic seconds).
    """

    error: SubscriberError | None = None
    in_a_row: int = 0
    in_all: int = 0
    began: float = 0.0
    not_before: float = 0.0


class Attempts:
    """The attempts at one thing that is to be kept going.

    Attributes:
        failed: those that have failed. A change replaces it, so every thread may read it.
    """

    def __init__(self) -> None:
        self.failed = FailedAttempts()

    @property
    def error(self) -> SubscriberError | None:
        """The last failure; None once it works again."""
        return self.failed.error

    def is_due(self) -> bool:
        """Whether it is time for another attempt."""
        return time.monotonic() >= self.failed.not_before

    def note_failure(self, error: SubscriberError, longest: float, *, began: float = 0.0) -> float:
        """Note a failure; gives the seconds to wait, which double up to ``longest``."""
        before = self.failed
        delay = float(min(longest, _FIRST_RETRY_SECONDS * 2**before.in_a_row))
        self.failed = FailedAttempts(
            error.without_frames(), before.in_a_row + 1, before.in_all + 1, began, time.monotonic() + delay
        )
        return delay

    def wait(self, seconds: float) -> None:
        """Try again after so many seconds, though nothing has failed."""
        self.failed = replace(self.failed, not_before=time.monotonic() + seconds)

    def works(self) -> None:
        """Forget the failures."""
        if self.failed.in_a_row:
            self.failed = replace(self.failed, error=None, in_a_row=0)
