"""What the publisher is told, and when (rule C36).

The rule, written once: *flushed* is the journal's durable end; *applied* is what the target has
committed; *received* is the last byte we have seen. When nothing is on its way to the journal,
everything the publisher has sent us so far was nothing for us or is durable, so all three may move
to the position of its last keepalive. No position ever moves back.

An update is sent when flushed or applied has moved, and at the latest after
``wal_receiver_status_interval``. All is pure here: what the clock says is an argument, monotonic
seconds, and who calls does what is due.
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
"""How long a quiet receiver may take to notice that it is to stop, or that the target has moved on.
"""

IDLE_ADVANCE_SECONDS: Final = 0.5
"""How often, on average, an idle slot's position is made durable (a small synced file), when it
moves at all.
"""

IDLE_ADVANCE_BURST: Final = 10
"""How often it is in a row after a quiet time: whoever waits for a position should not wait for the
average.
"""

TRIM_SECONDS: Final = 1.0
"""How often the journal is trimmed: it lists every file there, and the longer it waits the more
there are.
"""


@dataclass(slots=True)
class Feedback:
    """The three positions of a status update.

    Attributes:
        received: last position received.
        flushed: what the slot may forget.
        applied: what the target has committed.
    """

    received: LSN = INVALID_LSN
    flushed: LSN = INVALID_LSN
    applied: LSN = INVALID_LSN

    def move(self, *, received: LSN, durable: LSN, applied: LSN) -> bool:
        """Take over new positions where they are ahead; tells whether flushed or applied moved.

        ``applied`` is held to ``flushed``: nothing is applied that is not durable.
        """
        before = (self.flushed, self.applied)
        self.flushed = LSN(max(self.flushed, durable))
        self.received = LSN(max(self.received, received, self.flushed))
        self.applied = LSN(max(self.applied, min(applied, self.flushed)))
        return before != (self.flushed, self.applied)

    def message(self, timestamp: int, *, reply_requested: bool = False) -> bytes:
        """The update to send; ``timestamp`` in microseconds since 2000-01-01 UTC."""
        return encode_envelope(
            StandbyStatusUpdate(self.received, self.flushed, self.applied, timestamp, reply_requested)
        )


@dataclass(slots=True)
class Interval:
    """Something that is done about every so many ``seconds``, for the first time at once.

    Attributes:
        seconds: between two times, on average.
        burst: how many times it may be done in a row when it has not been done for long.
    """

    seconds: float
    burst: int = 1
    _due: float = -math.inf
    """When it would be due if it was always done evenly."""

    def passed(self, now: float, *, force: bool = False) -> bool:
        """Whether it is time, or ``force``; if so, the next interval begins now."""
        due = max(self._due, now)
        latest = now + self.seconds * (self.burst - 1)
        if due > latest and not force:
            return False
        self._due = min(due, latest) + self.seconds
        return True


class Schedule:
    """When a receiver has something to do though nothing has arrived.

    Args:
        settings: ``wal_receiver_status_interval`` and ``wal_receiver_timeout``.
        now: monotonic seconds, as everywhere here.

    Attributes:
        advance: making an idle slot's position durable.
        trim: trimming the journal.
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
        """Whether the publisher should have a status update now; ``moved``: flushed or applied has.

        With an interval of 0 it has one only when it asks.
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
        """Whether to ask the publisher for a sign of life: once, at half of
        ``wal_receiver_timeout``.

        Raises:
            PublisherUnavailable: it was silent to the end of it.
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
        """How long nothing needs to be done if nothing arrives, in seconds."""
        if self._status_interval <= 0:
            return LONGEST_WAIT_SECONDS
        return max(0.0, min(LONGEST_WAIT_SECONDS, self._last_update + self._status_interval - now))
