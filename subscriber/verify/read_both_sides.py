"""Reading of both sides of a table at the same time.

::

    publisher   range range range range …      tasks of Spark, or a thread of this process
    target      range range range range …      this process from the first on ──▶ ◀── tasks from the last on

A large table is read by tasks. This process reads the target meanwhile, also while Spark is still
starting. When all ranges of the publisher are taken, tasks take ranges of the target, until they
meet this process. A target that cannot be read in ranges is read by this process alone.

The caller holds the publisher's snapshot, and what is applied to the target; so it does not matter
that several connections read the target.
"""

from __future__ import annotations

import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Final, Generic, TypeVar

import sqlalchemy as sa

from subscriber.errors import Stopped
from subscriber.targets import Target
from subscriber.targets.roles.reading import TableRange
from subscriber.verify.collected import Collected
from subscriber.verify.side_tasks import TaskResult, publisher_task, target_task
from subscriber.verify.table_plan import TablePlan
from subscriber.verify.target_side import TargetSide

RunTasks = Callable[..., Iterator[TaskResult[Any]]]
"""Runs tasks: :func:`subscriber.pipeline.range_tasks.run_range_tasks`, for one Spark context."""

OnRows = Callable[[int, int], None]
"""Called with the numbers of rows that were read at the publisher and in the target."""

_ALONE_BYTES: Final = 1024 * 1024
"""Up to this size, one side is read after the other."""

C = TypeVar("C", bound=Collected)


class Both(Generic[C]):
    """What is collected of both sides.

    Attributes:
        publisher: what is collected of the publisher's rows.
        target: what is collected of the target's rows.
    """

    def __init__(self, empty: C) -> None:
        self.publisher: C = empty.fresh()
        self.target: C = empty.fresh()


class SideReader:
    """Reads both sides of a table.

    Args:
        target: the target.
        plan: the table.
        run_tasks: runs the tasks that read a large table; None if this process reads it.
        on_rows: called while rows are read.
        stop: ends the reading with an error.
    """

    def __init__(
        self, target: Target, plan: TablePlan, run_tasks: RunTasks | None, on_rows: OnRows, stop: threading.Event
    ) -> None:
        self._target = target
        self._plan = plan
        side = plan.side
        self.target_side = TargetSide(plan.local.table, side.relation, side.columns, side.key, side.choice)
        self._run_tasks = run_tasks if len(plan.ranges) > 1 else None
        self._on_rows = on_rows
        self._stop = stop

    def read(self, connection: sa.Connection, empty: C) -> Both[C]:
        """What is collected of both sides.

        Args:
            connection: a connection to the target, in the transaction that is compared.
            empty: what to collect.

        Raises:
            SubscriberError: a side cannot be read.
        """
        both = Both(empty)
        if self._plan.estimated_bytes <= _ALONE_BYTES:
            self._read_publisher(both, self._stop)
            both.target = self.read_target(connection, empty)
            return both
        ranges: Sequence[TableRange] = ()
        if self._run_tasks is not None:
            with self._target.reporting():
                ranges = self.target_side.ranges(self._target, connection, 2 * len(self._plan.ranges))
        left = deque(ranges)
        ended = threading.Event()
        with ThreadPoolExecutor(1, "publisher") as pool:
            others: Future[None]
            if self._run_tasks is None:
                others = pool.submit(self._read_publisher, both, ended)
            else:
                others = pool.submit(self._run, self._run_tasks, both, empty, left, ended)
            try:
                # An error of the publisher's side ends the reading of the target.
                ours = self.read_target(
                    connection, empty, left if ranges else None, lambda: others.result() if others.done() else None
                )
                others.result()
            finally:
                ended.set()
        both.target.merge(ours)
        return both

    def read_target(
        self,
        connection: sa.Connection,
        empty: C,
        left: deque[TableRange] | None = None,
        check: Callable[[], object] = lambda: None,
    ) -> C:
        """What this process collects of the target's side.

        Args:
            connection: a connection to the target, in the transaction that is compared.
            empty: what to collect.
            left: the ranges to read, of which tasks take some meanwhile; all rows if it is None.
            check: called after each batch; its error ends the reading.

        Raises:
            SubscriberError: the target cannot be read.
        """
        collected = empty.fresh()
        with self._target.reporting():
            for part in [None] if left is None else _taken(left.popleft):
                for batch in self.target_side.batches(self._target, connection, part):
                    collected.add(batch)
                    self._on_rows(0, batch.rows)
                    self._check(self._stop)
                    check()
        return collected

    def _read_publisher(self, both: Both[Any], ended: threading.Event) -> None:
        """Read the publisher's side in this process."""
        for part in self._plan.ranges:
            for batch in self._plan.side.batches(part, ended):
                both.publisher.add(batch)
                self._on_rows(batch.rows, 0)
                self._check(ended)

    def _run(
        self, run_tasks: RunTasks, both: Both[C], empty: C, left: deque[TableRange], ended: threading.Event
    ) -> None:
        """Read the publisher's side, and the ranges of the target that are left, in tasks."""
        name = f"verify {self._plan.local.qualified_name} {uuid.uuid4()}"
        for result in run_tasks(self._tasks(empty, left), ended, group=name):
            if result.side == "publisher":
                both.publisher.merge(result.collected)
                self._on_rows(result.rows, 0)
            else:
                both.target.merge(result.collected)
                self._on_rows(0, result.rows)

    def _tasks(self, empty: C, left: deque[TableRange]) -> Iterator[Callable[[Iterable[object]], Iterator[object]]]:
        """Tasks for the ranges of the publisher, then for those of the target that are left."""
        for part in self._plan.ranges:
            yield partial(publisher_task, self._plan.side, part, empty)
        url = self._target.url.render_as_string(hide_password=False)
        for taken in _taken(left.pop):
            yield partial(target_task, url, self.target_side, taken, empty)

    def _check(self, stop: threading.Event) -> None:
        if stop.is_set() or self._stop.is_set():
            raise Stopped("the comparison was stopped")


def _taken(take: Callable[[], TableRange]) -> Iterator[TableRange]:
    """Ranges, until there are none left."""
    with suppress(IndexError):
        while True:
            yield take()
