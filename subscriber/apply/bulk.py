"""The bulk path: batches whose changes are regrouped, with the exact path behind it.

::

    batch ──▶ regrouped ──▶ COMMIT
                 │ a statement fails, or a row is missing
                 ▼
              ROLLBACK ──▶ OrderMatters ──▶ the same batch in the publisher's order ──▶ COMMIT, or the error with its place

Both paths leave the same tables, progress and conflict records (invariant fast_equals_exact). A
target whose rows differ from the publisher's would make every batch fail first. Therefore the
batches after a failure are applied in the publisher's order: one, and twice as many after each
further failure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from subscriber.apply.applier import ApplyResult
from subscriber.apply.exact import ExactApplier
from subscriber.apply.regrouping.regroup import OrderMatters
from subscriber.lsn import LSN
from subscriber.protocol.changes import Frame

_MOST_EXACT_BATCHES: Final = 64


class BulkApplier(ExactApplier):
    """An :class:`~subscriber.apply.exact.ExactApplier` that regroups changes where it may
    (:mod:`subscriber.apply.regrouping.regroup`).
    """

    _exact_batches = 0
    _after_failure = 1

    def apply(self, frames: Iterable[Frame], *, start: LSN, end: LSN, before: LSN | None = None) -> ApplyResult:
        """See :meth:`ExactApplier.apply`.

        Raises:
            OrderMatters: nothing of the batch is in the target; apply it again.
            SubscriberError: as :meth:`ExactApplier.apply`.
        """
        self._regroups = not self._exact_batches and before is None
        try:
            result = super().apply(frames, start=start, end=end, before=before)
        except OrderMatters:
            self._exact_batches = self._after_failure
            self._after_failure = min(2 * self._after_failure, _MOST_EXACT_BATCHES)
            raise
        if self._regroups:
            self._after_failure = 1
        elif before is None:
            self._exact_batches -= 1
        return result
