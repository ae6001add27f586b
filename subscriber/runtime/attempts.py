"""Counts the failed attempts at one task, and computes when the next attempt is due."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Final

from subscriber.errors import SubscriberError

_FIRST_RETRY_SECONDS: Final = 0.5
_DOUBLINGS: Final = 60
"""After so many, every wait is as long as the longest; a float has no room for many more."""


@dataclass(frozen=True, slots=True)
class FailedAttempts:
    """The failed attempts at one task, as of one moment.

    Attributes:
        error: the last failure; None once an attempt has succeeded.
        in_a_row: the number of failed attempts since the last success.
        in_all: the number of failed attempts since the worker began.
        began: when the last failed attempt began (monotonic seconds); 0 if that is not known.
        since: when the first of the failures in a row was (seconds since 1970).
        not_before: the earliest time of the next attempt (monotonic seconds).
    """

    error: SubscriberError | None = None
    in_a_row: int = 0
    in_all: int = 0
    began: float = 0.0
    since: float = 0.0
    not_before: float = 0.0


class Attempts:
    """Tracks the attempts at one task that is to be kept running.

    Attributes:
        failed: the failed attempts. Every update replaces the whole object, so any thread may read
            it.
    """

    def __init__(self) -> None:
        self.failed = FailedAttempts()

    @property
    def error(self) -> SubscriberError | None:
        """The last failure; None once an attempt has succeeded."""
        return self.failed.error

    def is_due(self) -> bool:
        """Return whether it is time for the next attempt."""
        return time.monotonic() >= self.failed.not_before

    def note_failure(self, error: SubscriberError, longest: float, *, began: float = 0.0) -> float:
        """Record a failure, and return the seconds to wait. They double with each failure, up to
        ``longest``.
        """
        before = self.failed
        delay = float(min(longest, _FIRST_RETRY_SECONDS * 2 ** min(before.in_a_row, _DOUBLINGS)))
        self.failed = FailedAttempts(
            error.without_frames(),
            before.in_a_row + 1,
            before.in_all + 1,
            began,
            before.since if before.in_a_row else time.time(),
            time.monotonic() + delay,
        )
        return delay

    def wait(self, seconds: float) -> None:
        """Let the next attempt begin in ``seconds``, without recording a failure."""
        self.failed = replace(self.failed, not_before=time.monotonic() + seconds)

    def works(self) -> None:
        """Record a success: the error and the number of failures in a row are reset."""
        if self.failed.in_a_row:
            self.failed = replace(self.failed, error=None, in_a_row=0)
