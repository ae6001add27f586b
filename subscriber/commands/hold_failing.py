"""Decides when a subscription fails, so that it is useless to wait until its apply is held.

A worker that fails tries again every few seconds, and records each failure. A failure that occurs
once may be over, although it is not marked as resolved yet: that happens when nothing is left to
apply, and during a hold something is always left. So an error counts if it occurs again and again
while the command waits, or if nothing else happens for a long time. The copy of a table that fails
delays neither the stream nor the hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_REPEATED: Final = 3
"""After so many failures during the wait, it is useless to wait."""
_SILENT_SECONDS: Final = 60.0
"""How long nothing may happen while an error is not resolved."""


class Failing:
    """Observes the errors of one subscription during one wait."""

    def __init__(self) -> None:
        self._errors: set[str] = set()
        self._first: str | None = None
        self._has_begun = False
        self._situation: object = None
        self._since = 0.0

    def note(self, statistics: Mapping[str, Any], situation: object, now: float) -> str | None:
        """Note the statistics as they are now.

        Args:
            statistics: the row of ``subscriber_stat_subscription_stats``.
            situation: what changes when the subscription gets further.
            now: monotonic seconds.

        Returns:
            The report of the error, if it is useless to wait; None otherwise.
        """
        if situation != self._situation:
            self._situation, self._since = situation, now
        error_at = statistics.get("last_error_at")
        if not self._has_begun:
            self._has_begun, self._first = True, error_at
        if error_at is None or statistics.get("last_error_worker") != "apply":
            return None
        if statistics.get("last_error_resolved_at") is not None:
            return None
        if error_at != self._first:
            self._errors.add(error_at)
        if len(self._errors) < _REPEATED and now - self._since < _SILENT_SECONDS:
            return None
        report: str = statistics["last_error"]
        return report
