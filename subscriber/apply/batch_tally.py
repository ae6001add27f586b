"""What a batch counts and records besides the changes: conflicts that did not stop it, and values
that were replaced by NULL.

::

    add ──▶ open transaction ──finish──▶ batch ──▶ conflicts     for the result and the log
                                               └─▶ write         into the target's transaction that has the changes

A batch may have several transactions of the target (:mod:`subscriber.apply.local`), so what was
written into one of them is not written again.
"""

from __future__ import annotations

import sqlalchemy as sa

from subscriber.apply.conflicts.conflict import Conflict
from subscriber.apply.conflicts.conflict_tally import ConflictTally
from subscriber.apply.writing.unrepresentable import ReplacedTally
from subscriber.catalog.conflicts import ConflictLog
from subscriber.catalog.replaced_values import count_replaced_values
from subscriber.catalog.statistics import count_conflicts


class BatchTally:
    """The conflicts and replaced values of one batch.

    Args:
        subid: the subscription's number.
        subscription: the subscription's name.
        show_values: record the replaced values and the keys of their rows.

    Attributes:
        conflicts: the conflicts of all transactions that were applied.
        replaced: the replaced values that are not written yet.
    """

    def __init__(self, subid: int, subscription: str, *, show_values: bool) -> None:
        self.conflicts = ConflictTally()
        self.replaced = ReplacedTally(show_values=show_values)
        self._subid = subid
        self._subscription = subscription
        self._open = ConflictTally()
        self._unwritten = ConflictTally()

    def add(self, conflict: Conflict, number: int) -> None:
        """Record ``number`` equal conflicts of the open transaction."""
        self._open.add(conflict, number)

    def finish(self, *, applied: bool) -> None:
        """End the open transaction; its conflicts count if it was applied."""
        if not self._open.counts:
            return
        if applied:
            self.conflicts.merge(self._open)
            self._unwritten.merge(self._open)
        self._open = ConflictTally()

    def write(self, connection: sa.Connection, *, show_values: bool) -> None:
        """Write what is not written yet into the target's transaction.

        Args:
            connection: the connection of the transaction.
            show_values: record the values that are replaced after this, and the keys of their rows.
        """
        count_conflicts(connection, self._subid, self._subscription, self._unwritten.by_kind())
        ConflictLog(connection, self._subid, self._subscription).write(self._unwritten.records())
        self._unwritten = ConflictTally()
        count_replaced_values(connection, self._subid, self.replaced.columns)
        self.replaced = ReplacedTally(show_values=show_values)
