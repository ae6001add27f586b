"""How far a subscription has come: what is received, and what of it is applied. When no entry is
left, the target has everything up to ``received``: between the last entry and there, nothing was
sent for this subscription.
"""

from __future__ import annotations

from dataclasses import dataclass

from subscriber.base.lsn import INVALID_LSN, LSN


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a subscription has come.

    ``received`` and ``last_entry`` (0/0 if not known) are from one read of the journal, and
    ``applied`` is read after them. So :meth:`has` may become true late, and never too early.
    """

    received: LSN = INVALID_LSN
    last_entry: LSN = INVALID_LSN
    applied: LSN = INVALID_LSN

    @property
    def waits(self) -> bool:
        return self.applied < self.last_entry

    @property
    def position(self) -> LSN:
        """The LSN up to which the target has all changes."""
        return self.applied if self.waits else max(self.applied, self.received)

    @property
    def last(self) -> LSN:
        return max(self.applied, self.last_entry)

    @property
    def lag_bytes(self) -> int:
        return max(0, self.last_entry - self.applied)

    def has(self, position: LSN) -> bool:
        """Whether everything up to ``position`` is received and applied."""
        # Under load there is always an entry after the position that is not applied yet.
        return self.received >= position and (self.applied >= position or not self.waits)
