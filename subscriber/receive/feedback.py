"""What the publisher is told, and when (rule C36).

The rule, written once: *flushed* is the journal's durable end; *applied* is what the target has committed;
*received* is the last byte we have seen. When nothing is on its way to the journal, everything the publisher has
sent us so far was nothing for us or is durable, so all three may move to the position of its last
keepalive. No position ever moves back.
"""

from __future__ import annotations

from dataclasses import dataclass

from subscriber.lsn import INVALID_LSN, LSN
from subscriber.protocol.envelope import StandbyStatusUpdate, encode_envelope


@dataclass(slots=True)
class Feedback:
    """The three positions of a status update, and the clock of when one is due.

    Attributes:
        received: last position received.
        flushed: what the slot may forget.
        applied: what the target has committed.
        last_sent: monotonic seconds of the last update.
    """

    received: LSN = INVALID_LSN
    flushed: LSN = INVALID_LSN
    applied: LSN = INVALID_LSN
    last_sent: float = 0.0

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
