"""When finished transactions are published: at once for a consumer that keeps up, together for one
that is behind.

::

    consumer keeps up      B C ─▶ entry   B C ─▶ entry         each visible at once
    consumer is behind     B C   B C   B C   B C ─▶ entry      one file, up to a full segment

An entry is a file, so an hour of 400 transactions a second would be hundreds of thousands of files.
While every consumer is behind, nobody waits for the newest transaction. How far behind is measured
as in PostgreSQL's LagTracker: the time since the oldest entry that is not applied was published.
Finished transactions wait for an eighth of that time at most. So lingering makes a change at most
an eighth later than it is anyway, it starts without a jump, and a long outage makes an entry every
10 seconds (or for every full segment). As soon as a consumer reaches the journal's end, what waits
is published.

Transactions that wait are not confirmed: the publisher would send them again. A commit that waits
for this subscription (``synchronous_standby_names``) must not wait for its target, so a synchronous
standby never lingers. *Rejected: confirming what is in memory only* (invariant slot_after_disk).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from subscriber.lsn import INVALID_LSN, LSN

BEHIND_SECONDS: Final = 2.0
"""A consumer that is less behind than this keeps up: it takes as long to apply a batch."""
LONGEST_SECONDS: Final = 10.0
"""The longest time that a finished transaction waits. An hour of outage has 360 entries, and those
of full segments.
"""
_SHARE: Final = 8
_SAMPLE_SECONDS: Final = 0.25
_SAMPLE_SHARE: Final = 16
"""Entries that were published within 0.25 s, or a sixteenth of the time that the consumer is
behind, count as one. So the number of samples does not depend on the number of entries.
"""


@dataclass(slots=True)
class Lingering:
    """The state of one receiver. Times are monotonic seconds.

    Attributes:
        allowed: False for a synchronous standby: transactions are published at once.
    """

    allowed: bool = True
    _waiting_since: float | None = None
    _last_end: LSN = INVALID_LSN
    _samples: deque[tuple[LSN, float]] = field(default_factory=deque)
    """Ends of entries that no consumer has reached, and when the first of them was published."""

    def note(self, *, end: LSN, reached: LSN, waiting: bool, now: float) -> None:
        """The situation now.

        Args:
            end: the end of the journal.
            reached: the position of the fastest consumer.
            waiting: whether there are finished transactions that are not published.
            now: the time.
        """
        if end > self._last_end:
            self._last_end = end
            self._waiting_since = None  # what waits now has finished since then
            apart = max(_SAMPLE_SECONDS, self._behind(now) / _SAMPLE_SHARE)
            if self._samples and now - self._samples[-1][1] < apart:
                self._samples[-1] = (end, self._samples[-1][1])
            else:
                self._samples.append((end, now))
        while self._samples and self._samples[0][0] <= reached:
            self._samples.popleft()
        if not waiting:
            self._waiting_since = None
        elif self._waiting_since is None:
            self._waiting_since = now

    def remaining(self, now: float) -> float:
        """The seconds until what waits is to be published; 0 if it is due, or nothing waits."""
        behind = self._behind(now)
        if self._waiting_since is None or not self.allowed or behind < BEHIND_SECONDS:
            return 0.0
        return max(0.0, self._waiting_since + min(behind / _SHARE, LONGEST_SECONDS) - now)

    def _behind(self, now: float) -> float:
        return now - self._samples[0][1] if self._samples else 0.0
