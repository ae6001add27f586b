"""The comparison of one table by digests, and row by row where they differ.

::

    publisher ──▶ sums ─┐
                        ├─▶ buckets that differ ──▶ both sides again, only their rows ──▶ row_differences
    target ─────▶ sums ─┘

The rows of buckets that differ are usually few. They are then read by tasks as the sums are, and
held in memory, so that a repair need not read them again. If they are many or large, they are
streamed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from subscriber.errors import Stopped
from subscriber.targets import Target
from subscriber.verify.collected import CollectedRows, CollectedSums
from subscriber.verify.read_both_sides import Both, OnRows, RunTasks, SideReader
from subscriber.verify.report import KEYS_SHOWN
from subscriber.verify.row_batch import Row
from subscriber.verify.row_differences import RowDifferences, compare_rows
from subscriber.verify.row_digests import BucketSums
from subscriber.verify.table_plan import TablePlan

LARGE_BYTES: Final = 256 * 1024 * 1024
"""From this size on, a table is read by Spark tasks, in a hold of its own. A smaller one is read by
this process while Spark would still be starting.
"""

HELD_ROWS: Final = 100_000
"""The number of rows of buckets that differ, of both sides together, that are held in memory."""

_HELD_CHARACTERS: Final = 32 * 1024 * 1024
"""The number of characters of these rows that are held of each side."""


@dataclass(frozen=True, slots=True)
class Digests:
    """The sums of both sides of a table.

    Attributes:
        publisher: the publisher's.
        target: the target's.
    """

    publisher: BucketSums
    target: BucketSums

    @property
    def differing(self) -> NDArray[np.int64]:
        """The buckets that do not have the same rows."""
        return self.publisher.differing(self.target)

    def rows_in(self, buckets: NDArray[np.int64]) -> int:
        """The number of rows that both sides together have in some buckets."""
        return self.publisher.rows_in(buckets) + self.target.rows_in(buckets)


class TableComparer:
    """Compares one table.

    Args:
        target: the target.
        plan: the table.
        run_tasks: runs the tasks that read a large table; None if this process reads it.
        on_rows: called while rows are read for the first time.
        stop: ends the comparison with an error.
    """

    def __init__(
        self, target: Target, plan: TablePlan, run_tasks: RunTasks | None, on_rows: OnRows, stop: threading.Event
    ) -> None:
        self._target = target
        self._plan = plan
        self._sides = SideReader(target, plan, run_tasks, on_rows, stop)
        # The rows of both sides are counted once.
        self._sides_again = SideReader(target, plan, run_tasks, lambda _publisher, _target: None, stop)
        self._stop = stop
        self._held: Both[CollectedRows] | None = None

    def digests(self, connection: sa.Connection) -> Digests:
        """The sums of both sides.

        Args:
            connection: a connection to the target, in the transaction that is compared.

        Raises:
            SubscriberError: a side cannot be read.
        """
        both = self._sides.read(connection, CollectedSums(self._plan.side.choice))
        return Digests(both.publisher.sums, both.target.sums)

    def target_sums(self, connection: sa.Connection) -> BucketSums:
        """The sums of the target's side.

        Raises:
            SubscriberError: the target cannot be read.
        """
        return self._sides.read_target(connection, CollectedSums(self._plan.side.choice)).sums

    def differences(self, connection: sa.Connection, digests: Digests) -> RowDifferences:
        """Compare the rows of the buckets that differ one by one.

        Args:
            connection: a connection to the target, in the transaction that is compared.
            digests: the sums of both sides.

        Raises:
            SubscriberError: a side cannot be read.
        """
        buckets = digests.differing
        if digests.rows_in(buckets) <= HELD_ROWS:
            rows = CollectedRows(self._plan.side.choice, buckets, _HELD_CHARACTERS)
            both = self._sides_again.read(connection, rows)
            if both.publisher.is_complete and both.target.is_complete:
                self._held = both
        with self._target.reporting():
            return compare_rows(
                (row for row, _ in self.publisher_rows(buckets)),
                (row for row, _ in self.target_rows(connection, buckets)),
                self._plan.names,
                self._plan.key,
                most_keys=KEYS_SHOWN,
            )

    def publisher_rows(self, buckets: NDArray[np.int64]) -> Iterator[Row]:
        """The publisher's rows of the buckets that differ.

        Raises:
            SubscriberError: the publisher cannot be read.
        """
        if self._held is not None:
            yield from self._held.publisher.rows
            return
        side = self._plan.side
        for part in self._plan.ranges:
            for batch in side.batches(part, self._stop):
                self._check()
                yield from batch.rows_of(side.choice, buckets)

    def target_rows(self, connection: sa.Connection, buckets: NDArray[np.int64]) -> Iterator[Row]:
        """The target's rows of the buckets that differ.

        Raises:
            psycopg.Error, sqlalchemy.exc.SQLAlchemyError: the database's error;
            ``target.reporting()`` translates it.
        """
        if self._held is not None:
            yield from self._held.target.rows
            return
        for batch in self._sides.target_side.batches(self._target, connection):
            self._check()
            yield from batch.rows_of(self._plan.side.choice, buckets)

    def _check(self) -> None:
        if self._stop.is_set():
            raise Stopped("the comparison was stopped")
