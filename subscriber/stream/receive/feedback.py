"""Which positions the publisher is sent, and when (rule C36).

*Flushed* is the durable end of the journal. *Applied* is what the target has committed. *Received*
is the position of the last byte that has arrived. When no data is on its way to the journal, all
three may move to the position of the last keepalive. No position ever moves back. Times are
arguments, in monotonic seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from subscriber.base.errors import PublisherUnavailable
from subscriber.base.lsn import INVALID_LSN, LSN
from subscriber.base.settings import Settings
from subscriber.postgres.protocol.envelope import StandbyStatusUpdate, encode_envelope

LONGEST_WAIT_SECONDS: Final = 0.25
"""The longest time that a receiver may take to notice a stop request, or progress of the target."""

SETTLED_WAIT_SECONDS: Final = 5.0
"""The same while the target has applied everything, of a receiver whose waits a stop request ends.
"""

IDLE_ADVANCE_SECONDS: Final = 0.5
"""The average time after which the position of an idle slot is made durable again (one small synced
file), if it moves at all.
"""

IDLE_ADVANCE_BURST: Final = 10
"""How often the position may be made durable in a row after a quiet time, so that a session that
waits for a position does not wait for the average time.
"""

TRIM_SECONDS: Final = 1.0
"""The time between two trims of the journal."""


@dataclass(slots=True)
class Feedback:
    received: LSN = INVALID_LSN
    flushed: LSN = INVALID_LSN
    applied: LSN = INVALID_LSN

    def move(self, *, received: LSN, durable: LSN, applied: LSN) -> bool:
        """Move each position forward; returns whether flushed or applied has moved."""
        before = (self.flushed, self.applied)
        self.flushed = LSN(max(self.flushed, durable))
        self.received = LSN(max(self.received, received, self.flushed))
        self.applied = LSN(max(self.applied, min(applied, self.flushed)))
        return before != (self.flushed, self.applied)

    def message(self, timestamp: int, *, reply_requested: bool = False) -> bytes:
        """The status update to send; ``timestamp`` is in microseconds since 2000-01-01 UTC."""
        return encode_envelope(
            StandbyStatusUpdate(self.received, self.flushed, self.applied, timestamp, reply_requested)
        )


@dataclass(slots=True)
class Periodic:
    """An action about every ``seconds``; after a long pause, ``burst`` of them without delay."""

    seconds: float
    burst: int = 1
    _due: float = -math.inf
    """When the next action would be due if all actions were evenly spaced."""

    def passed(self, now: float, *, force: bool = False) -> bool:
        """Whether the action is due, or ``force`` is set; if so, the next interval begins now."""
        due = max(self._due, now)
        latest = now + self.seconds * (self.burst - 1)
        if due > latest and not force:
            return False
        self._due = min(due, latest) + self.seconds
        return True


class Schedule:
    """What a receiver does without data: status updates, an idle slot's ``advance``, trims."""

    def __init__(self, settings: Settings, now: float) -> None:
        self.advance = Periodic(IDLE_ADVANCE_SECONDS, IDLE_ADVANCE_BURST)
        self.trim = Periodic(TRIM_SECONDS)
        self._status_interval = settings.wal_receiver_status_interval
        self._timeout = settings.wal_receiver_timeout
        self._last_update = now
        self._last_heard = now
        self._pinged = False

    def update_due(self, now: float, *, moved: bool = False) -> bool:
        """Whether a status update is due. With an interval of 0, one is sent only on request."""
        interval = self._status_interval
        return interval > 0 and (moved or now - self._last_update >= interval)

    def updated(self, now: float) -> None:
        self._last_update = now

    def heard(self, now: float) -> None:
        self._last_heard, self._pinged = now, False

    def ping_due(self, now: float) -> bool:
        """Whether to request a reply: once, after half of ``wal_receiver_timeout``."""
        silence = now - self._last_heard
        if self._timeout <= 0 or silence < self._timeout / 2:
            return False
        if silence >= self._timeout:
            raise PublisherUnavailable(
                "terminating logical replication worker due to timeout",
                hint=f"The publisher was silent for {self._timeout:g} s (wal_receiver_timeout); connecting again.",
            )
        due, self._pinged = not self._pinged, True
        return due

    def patience(self, now: float, *, settled: bool = False) -> float:
        """The time in seconds until the next action is due if no data arrives. ``settled``: the
        target has applied everything, and a stop request ends the wait.
        """
        longest = LONGEST_WAIT_SECONDS
        if settled and (self._timeout <= 0 or self._timeout >= 8 * SETTLED_WAIT_SECONDS):
            longest = SETTLED_WAIT_SECONDS
        if self._status_interval <= 0:
            return longest
        return max(0.0, min(longest, self._last_update + self._status_interval - now))
