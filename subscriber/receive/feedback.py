"""Which positions the publisher is sent, and when (rule C36).

*Flushed* is the durable end of the journal. *Applied* is what the target has committed. *Received*
is the position of the last byte that has arrived. When no data is on its way to the journal,
everything that the publisher has sent is either durable or needs no entry. All three may then move
to the position of the last keepalive. No position ever moves back.

A status update is sent when flushed or applied has moved, and at the latest after
``wal_receiver_status_interval``. The functions of this module have no side effects beyond their
objects: the time is an argument (monotonic seconds), and the caller sends what is due.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from subscriber.errors import PublisherUnavailable
from subscriber.lsn import INVALID_LSN, LSN
from subscriber.protocol.envelope import StandbyStatusUpdate, encode_envelope
from subscriber.settings import Settings

LONGEST_WAIT_SECONDS: Final = 0.25
"""The longest time that an idle receiver may take to notice a stop request, or progress of the
target.
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
    """The three positions of a status update.

    Attributes:
        received: the last position that was received.
        flushed: the position up to which the slot no longer needs WAL.
        applied: the position up to which the target has committed.
    """

    received: LSN = INVALID_LSN
    flushed: LSN = INVALID_LSN
    applied: LSN = INVALID_LSN

    def move(self, *, received: LSN, durable: LSN, applied: LSN) -> bool:
        """Move each position forward to its new value; returns whether flushed or applied has
        moved.

        ``applied`` is limited to ``flushed``, since nothing is applied before it is durable.
        """
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
class Interval:
    """An action that is repeated about every ``seconds``. The first time is due at once.

    Attributes:
        seconds: the average time between two actions.
        burst: how many actions may follow each other without delay after a long pause.
    """

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
    """What a receiver has to do at certain times although no data has arrived.

    Args:
        settings: ``wal_receiver_status_interval`` and ``wal_receiver_timeout``.
        now: monotonic seconds, as in all methods.

    Attributes:
        advance: when an idle slot's position is made durable.
        trim: when the journal is trimmed.
    """

    def __init__(self, settings: Settings, now: float) -> None:
        self.advance = Interval(IDLE_ADVANCE_SECONDS, IDLE_ADVANCE_BURST)
        self.trim = Interval(TRIM_SECONDS)
        self._status_interval = settings.wal_receiver_status_interval
        self._timeout = settings.wal_receiver_timeout
        self._last_update = now
        self._last_heard = now
        self._pinged = False

    def update_due(self, now: float, *, moved: bool = False) -> bool:
        """Whether a status update is due; ``moved``: flushed or applied has moved.

        With an interval of 0, an update is sent only when the publisher requests it.
        """
        interval = self._status_interval
        return interval > 0 and (moved or now - self._last_update >= interval)

    def updated(self, now: float) -> None:
        """A status update was sent."""
        self._last_update = now

    def heard(self, now: float) -> None:
        """Something arrived from the publisher."""
        self._last_heard, self._pinged = now, False

    def ping_due(self, now: float) -> bool:
        """Whether to request a reply from the publisher: once, after half of
        ``wal_receiver_timeout``.

        Raises:
            PublisherUnavailable: nothing arrived for all of ``wal_receiver_timeout``.
        """
        silence = now - self._last_heard
        if self._timeout <= 0 or silence < self._timeout / 2:
            return False
        if silence >= self._timeout:
            raise PublisherUnavailable(
                "terminating logical replication worker due to timeout",
                hint=f"The publisher was silent for {self._timeout:g} s (SUBSCRIBER_WAL_RECEIVER_TIMEOUT); connecting again.",
            )
        due, self._pinged = not self._pinged, True
        return due

    def patience(self, now: float) -> float:
        """The time in seconds until the next action is due if no data arrives."""
        if self._status_interval <= 0:
            return LONGEST_WAIT_SECONDS
        return max(0.0, min(LONGEST_WAIT_SECONDS, self._last_update + self._status_interval - now))
