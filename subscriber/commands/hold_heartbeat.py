"""The heartbeats by which `subscriber run` sees that the holder of an apply hold is alive
(:mod:`subscriber.commands.hold_apply`).

Each heartbeat is a short transaction of its own. The target may be busy for a moment: a batch of
another subscription holds SQLite's only writer, or the run has DuckDB's file open. A heartbeat that
fails is tried again soon; the run waits for several of them before it removes the hold.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Final, TypeVar

from subscriber import catalog
from subscriber.background import in_background
from subscriber.catalog import ApplyHold
from subscriber.errors import SubscriberError, TargetUnavailable
from subscriber.targets import Target

logger = logging.getLogger(__name__)

T = TypeVar("T")

RENEW_SECONDS: Final = 3.0
_AGAIN_SECONDS: Final = 0.5
_END_SECONDS: Final = 2.0
"""How long the end of a hold waits for a heartbeat in progress."""
_ATTEMPTS: Final = 4
_COULD_NOT_SERIALIZE: Final = "40001"


def now_as_text() -> str:
    """Return the time now (UTC, ISO 8601)."""
    return datetime.now(UTC).isoformat()


@contextlib.contextmanager
def renewing(target: Target, hold: ApplyHold) -> Iterator[None]:
    """Renew a hold in a thread while the block runs."""
    with in_background("renews the hold", partial(_renew, target, hold), _END_SECONDS):
        yield


def _renew(target: Target, hold: ApplyHold, end: threading.Event) -> None:
    pause = RENEW_SECONDS
    while not end.wait(pause):
        try:
            with target.begin() as connection:
                is_there = catalog.renew_hold(connection, hold, now_as_text())
        except SubscriberError as error:
            logger.debug("a hold could not be renewed: %s", error.message)
            pause = _AGAIN_SECONDS
            continue
        if not is_there:
            return  # the holder learns this when it checks
        pause = RENEW_SECONDS


def trying(step: Callable[[], T]) -> T:
    """Do a step of the target, again if the target is busy for a moment, or if another session has
    changed the same row.

    Raises:
        SubscriberError: the step failed in every attempt.
    """
    for attempt in range(1, _ATTEMPTS):
        try:
            return step()
        except SubscriberError as error:
            if not isinstance(error, TargetUnavailable) and error.sqlstate != _COULD_NOT_SERIALIZE:
                raise
            logger.debug("a hold waits for the target: %s", error.message)
            time.sleep(_AGAIN_SECONDS * attempt)
    return step()
