"""The comparison of one table by digests, and row by row where they differ.

::

    publisher ──ranges: Spark tasks, or a thread──────▶ sums ─┐
                                                              ├─▶ buckets that differ ──▶ both sides again, only their rows
    target ─────ranges: this process, and idle tasks──▶ sums ─┘                              └─▶ row_differences

Both sides are read at the same time if the table is large. This process reads the target from its
first range on, also while Spark is starting. Tasks read the publisher, and then the target from its
last range on, until they meet. The caller holds the publisher's snapshot, and what is applied to
the target; so it does not matter that several connections read the target.
"""

from __future__ import annotations

import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from subscriber.errors import Stopped
from subscriber.targets import Target
from subscriber.targets.roles.reading import TableRange
from subscriber.verify.digest_tasks import Result, publisher_task, target_task
from subscriber.verify.publisher_side import digest_range
from subscriber.verify.report import KEYS_SHOWN
from subscriber.verify.row_batch import Row
from subscriber.verify.row_differences import RowDifferences, compare_rows
from subscriber.verify.row_digests import BucketSums
from subscriber.verify.table_plan import TablePlan
from subscriber.verify.target_side import TargetSide

RunTasks = Callable[..., Iterator[Result]]
"""Runs tasks: :func:`subscriber.pipeline.range_tasks.run_range_tasks`, for one Spark context."""

OnRows = Callable[[int, int], None]
"""Called with the numbers of rows that were read at the publisher and in the target."""

LARGE_BYTES: Final = 256 * 1024 * 1024
"""From this size on, a table is read by Spark tasks, in a hold of its own. A smaller one is read by
this process while Spark would still be starting.
"""

_ALONE_BYTES: Final = 1024 * 1024
"""Up to this size, one side is read after the other."""


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


class TableComparer:
    """Compares one table.

    Args:
        target: the target.
        plan: the table.
        run_tasks: runs the tasks that read a large table; None if this process reads it.
        on_rows: called while rows are read.
        stop: ends the comparison with an error.
    """

    def __init__(
        self, target: Target, plan: TablePlan, run_tasks: RunTasks | None, on_rows: OnRows, stop: threading.Event
    ) -> None:
        self._target = target
        self._plan = plan
        side = plan.side
        self._side = TargetSide(plan.local.table, side.relation, side.columns, side.key, side.choice)
        self._run_tasks = run_tasks
        self._on_rows = on_rows
        self._stop = stop

    def digests(self, connection: sa.Connection) -> Digests:
        """The sums of both sides.

        Args:
            connection: a connection to the target, in the transaction that is compared.

        Raises:
            SubscriberError: a side cannot be read.
        """
        if self._plan.estimated_bytes <= _ALONE_BYTES:
            return Digests(self._publisher_sums(threading.Event()), self.target_sums(connection))
        run_tasks = self._run_tasks if len(self._plan.ranges) > 1 else None
        ranges: Sequence[TableRange] = ()
        if run_tasks is not None:
            with self._target.reporting():
                ranges = self._side.ranges(self._target, connection, 2 * len(self._plan.ranges))
        left = deque(ranges)
        ended = threading.Event()
        with ThreadPoolExecutor(1, "publisher") as pool:
            if run_tasks is None:
                reading = pool.submit(lambda: Digests(self._publisher_sums(ended), BucketSums(self._side.choice)))
            else:
                reading = pool.submit(self._sums_of_tasks, run_tasks, left, ended)
            try:
                # An error of the publisher's side ends the reading of the target.
                target = self.target_sums(
                    connection, lambda: reading.result() if reading.done() else None, left if ranges else None
                )
                of_tasks = reading.result()
                target.merge(of_tasks.target)
                return Digests(of_tasks.publisher, target)
            finally:
                ended.set()

    def _publisher_sums(self, ended: threading.Event) -> BucketSums:
        sums = BucketSums(self._side.choice)

        def read(rows: int) -> None:
            self._on_rows(rows, 0)
            self._check(ended)

        for part in self._plan.ranges:
            sums.merge(digest_range(self._plan.side, part, ended, read))
        return sums

    def _sums_of_tasks(self, run_tasks: RunTasks, left: deque[TableRange], ended: threading.Event) -> Digests:
        """The sums of the publisher's side, and of the ranges of the target that tasks read."""
        sums = Digests(BucketSums(self._side.choice), BucketSums(self._side.choice))
        name = f"verify {self._plan.local.qualified_name} {uuid.uuid4()}"
        for side, data in run_tasks(self._tasks(left), ended, group=name):
            part = BucketSums.from_bytes(self._side.choice, data)
            if side == "publisher":
                sums.publisher.merge(part)
                self._on_rows(part.rows, 0)
            else:
                sums.target.merge(part)
                self._on_rows(0, part.rows)
        return sums

    def _tasks(self, left: deque[TableRange]) -> Iterator[Callable[[Iterable[object]], Iterator[object]]]:
        """Tasks for the ranges of the publisher, then for those of the target that are left."""
        for part in self._plan.ranges:
            yield partial(publisher_task, self._plan.side, part)
        url = self._target.url.render_as_string(hide_password=False)
        for taken in _taken(left.pop):
            yield partial(target_task, url, self._side, taken)

    def target_sums(
        self,
        connection: sa.Connection,
        check: Callable[[], object] = lambda: None,
        left: deque[TableRange] | None = None,
    ) -> BucketSums:
        """The sums of the target's side.

        Args:
            connection: a connection to the target, in the transaction that is compared.
            check: called after each batch; its error ends the reading.
            left: the ranges to read, of which tasks take some meanwhile; all rows if it is None.

        Raises:
            SubscriberError: the target cannot be read.
        """
        sums = BucketSums(self._side.choice)
        with self._target.reporting():
            for part in [None] if left is None else _taken(left.popleft):
                for batch in self._side.batches(self._target, connection, part):
                    sums.add(batch.keys, batch.hashes)
                    self._on_rows(0, batch.rows)
                    self._check(self._stop)
                    check()
        return sums

    def _check(self, stop: threading.Event) -> None:
        if stop.is_set() or self._stop.is_set():
            raise Stopped("the comparison was stopped")

    def differences(self, connection: sa.Connection, buckets: NDArray[np.int64]) -> RowDifferences:
        """Compare the rows of some buckets one by one.

        Args:
            connection: a connection to the target, in the transaction that is compared.
            buckets: the buckets.

        Raises:
            SubscriberError: a side cannot be read.
        """
        with self._target.reporting():
            return compare_rows(
                (row for row, _ in self.publisher_rows(buckets)),
                (row for row, _ in self.target_rows(connection, buckets)),
                self._plan.names,
                self._plan.key,
                most_keys=KEYS_SHOWN,
            )

    def publisher_rows(self, buckets: NDArray[np.int64]) -> Iterator[Row]:
        """The publisher's rows of some buckets.

        Raises:
            SubscriberError: the publisher cannot be read.
        """
        side = self._plan.side
        for part in self._plan.ranges:
            for batch in side.batches(part, self._stop):
                self._check(self._stop)
                yield from batch.rows_of(side.choice, buckets)

    def target_rows(self, connection: sa.Connection, buckets: NDArray[np.int64]) -> Iterator[Row]:
        """The target's rows of some buckets.

        Raises:
            psycopg.Error, sqlalchemy.exc.SQLAlchemyError: the database's error;
            ``target.reporting()`` translates it.
        """
        choice = self._plan.side.choice
        for batch in self._side.batches(self._target, connection):
            self._check(self._stop)
            yield from batch.rows_of(choice, buckets)


def _taken(take: Callable[[], TableRange]) -> Iterator[TableRange]:
    """Ranges, until there are none left."""
    with suppress(IndexError):
        while True:
            yield take()
