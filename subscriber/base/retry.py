"""Trying again: when a failed task is due, and steps of the target that are repeated at once."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from subscriber.base.errors import SubscriberError, TargetUnavailable

logger = logging.getLogger(__name__)

T = TypeVar("T")

_FIRST_RETRY_SECONDS: Final = 0.5
_DOUBLINGS: Final = 60
"""After so many, every wait is as long as the longest; a float has no room for many more."""
LONGEST_RETRIES: Final = 12
"""The waits between the attempts to reach a server double up to so many times
``wal_retrieve_retry_interval`` (a minute). A change that cannot be applied is tried again after
that interval itself, as in PostgreSQL.
"""
PATIENT_FAILURES: Final = 5
"""Failures in a row until `run --once` gives up: ten seconds, in which a server may restart."""
_STEP_ATTEMPTS: Final = 4
_COULD_NOT_SERIALIZE: Final = "40001"


@dataclass(frozen=True, slots=True)
class FailedAttempts:
    """The failed attempts at one task since the last success; ``in_all``, since the worker began.

    ``began`` and ``not_before`` (the next attempt) are monotonic seconds, ``since`` (the first
    failure in a row) is seconds since 1970.
    """

    error: SubscriberError | None = None
    in_a_row: int = 0
    in_all: int = 0
    began: float = 0.0
    since: float = 0.0
    not_before: float = 0.0


class RetryState:
    """The attempts at a task. Every update replaces ``failed``, so any thread may read it.

    ``stage`` is the name of the task in logs; ``on_over`` is called when it works again.
    """

    def __init__(self, stage: str = "", on_over: Callable[[FailedAttempts], None] = lambda _failed: None) -> None:
        self.failed = FailedAttempts()
        self.stage = stage
        self.on_over = on_over

    @property
    def error(self) -> SubscriberError | None:
        return self.failed.error

    def is_due(self) -> bool:
        return time.monotonic() >= self.failed.not_before

    def record_failure(
        self, error: SubscriberError, longest: float, *, first: float = _FIRST_RETRY_SECONDS, began: float = 0.0
    ) -> float:
        """Record a failure; the seconds to wait are doubled from ``first`` up to ``longest``."""
        before, delay = self.failed, self.next_wait(longest, first)
        self.failed = FailedAttempts(
            error.without_frames(),
            before.in_a_row + 1,
            before.in_all + 1,
            began,
            before.since if before.in_a_row else time.time(),
            time.monotonic() + delay,
        )
        return delay

    def next_wait(self, longest: float, first: float = _FIRST_RETRY_SECONDS) -> float:
        """The seconds to wait if an attempt fails now."""
        return float(min(longest, first * 2 ** min(self.failed.in_a_row, _DOUBLINGS)))

    def wait(self, seconds: float) -> None:
        """Let the next attempt begin in ``seconds``, without recording a failure."""
        self.failed = replace(self.failed, not_before=time.monotonic() + seconds)

    def record_success(self) -> None:
        before = self.failed
        if before.in_a_row:
            self.failed = replace(before, error=None, in_a_row=0)
            self.on_over(before)


def repeat_if_busy(step: Callable[[], T], pause: float = 0.5, *, even_if_away: bool = True) -> T:
    """Repeat a step if another session has changed the same row, or the target is briefly busy.

    Each pause is longer than the one before by ``pause``. Unless ``even_if_away``, a target that is
    busy or away is not tried again.
    """
    for attempt in range(1, _STEP_ATTEMPTS):
        try:
            return step()
        except SubscriberError as error:
            if error.sqlstate != _COULD_NOT_SERIALIZE and not (even_if_away and isinstance(error, TargetUnavailable)):
                raise
            logger.debug("a step waits for the target: %s", error.message)
            time.sleep(pause * attempt)
    return step()
