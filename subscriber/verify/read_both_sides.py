"""Reading of both sides of a table at the same time.

::

    publisher   range range range range …      tasks of Spark, or a thread of this process
    target      range range range range …      this process from the first on ──▶ ◀── tasks from the last on

Tasks read a large table, and this process the target meanwhile, also while Spark is still starting.
When all ranges of the publisher are taken, tasks take ranges of the target, until they meet this
process. A target that cannot be read in ranges is read by this process alone.
"""

from __future__ import annotations

import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Generic, Literal, TypeVar

import sqlalchemy as sa

from subscriber.base.errors import Stopped, SubscriberError
from subscriber.publisher.copy_plan import CopyRange
from subscriber.publisher.snapshot import SnapshotSession
from subscriber.targets import Target, open_target
from subscriber.targets.base.catalog import TableRange
from subscriber.verify.row_digests import Collected, RowBatch
from subscriber.verify.table_plan import TablePlan
from subscriber.verify.table_sides import PublisherSide, TargetSide

C = TypeVar("C", bound=Collected)


@dataclass(frozen=True, slots=True)
class TaskResult(Generic[C]):
    """What a task of Spark collected of a range of one side: small, however large the range."""

    side: Literal["publisher", "target"]
    rows: int
    collected: C


RunTasks = Callable[..., Iterator[TaskResult[Any]]]
"""Runs tasks: :func:`subscriber.spark.jobs.run_range_tasks`, for one Spark context."""

OnRows = Callable[[int, int], None]
"""Called with the numbers of rows that were read at the publisher and in the target."""

_ALONE_BYTES: Final = 1024 * 1024
"""Up to this size, one side is read after the other."""


class BothSides(Generic[C]):
    """What was collected. The publisher's side includes ``removed`` rows, which the target has
    again in its other rows.
    """

    def __init__(self, empty: C) -> None:
        self.publisher: C = empty.fresh()
        self.target: C = empty.fresh()
        self.removed: C = empty.fresh()


class SideReader:
    def __init__(
        self,
        target: Target,
        plan: TablePlan,
        run_tasks: RunTasks | None,
        on_rows: OnRows,
        stop: threading.Event,
        session: SnapshotSession | None = None,
    ) -> None:
        self._target = target
        self._plan = plan
        side = plan.side
        self.target_side = TargetSide(plan.local.table, side.relation, side.columns, side.key, side.choice)
        self.removed_side = None if plan.removed is None else replace(self.target_side, table=plan.removed)
        self._run_tasks = run_tasks if len(plan.ranges) > 1 else None
        self._on_rows = on_rows
        self._session = session
        self._stop = stop

    def read(self, connection: sa.Connection, empty: C) -> BothSides[C]:
        both = self._read(connection, empty)
        if self.removed_side is not None:
            both.removed = self._collect(connection, self.removed_side, empty)
            both.publisher.merge(both.removed)
        return both

    def _read(self, connection: sa.Connection, empty: C) -> BothSides[C]:
        both = BothSides(empty)
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
        """What this process collects of the target's side."""
        return self._collect(connection, self.target_side, empty, left, check)

    def _collect(
        self,
        connection: sa.Connection,
        side: TargetSide,
        empty: C,
        left: deque[TableRange] | None = None,
        check: Callable[[], object] = lambda: None,
    ) -> C:
        collected = empty.fresh()
        with self._target.reporting():
            for part in [None] if left is None else _taken(left.popleft):
                for batch in side.batches(self._target, connection, part):
                    collected.add(batch)
                    self._on_rows(0, batch.rows)
                    self._check(self._stop)
                    check()
        return collected

    def _read_publisher(self, both: BothSides[Any], ended: threading.Event) -> None:
        for part in self._plan.ranges:
            for batch in self._plan.side.batches(part, ended, self._session):
                both.publisher.add(batch)
                self._on_rows(batch.rows, 0)
                self._check(ended)

    def _run(
        self, run_tasks: RunTasks, both: BothSides[C], empty: C, left: deque[TableRange], ended: threading.Event
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
    with suppress(IndexError):
        while True:
            yield take()


def publisher_task(
    side: PublisherSide, part: CopyRange, empty: C, nothing: Iterable[object]
) -> Iterator[TaskResult[C] | SubscriberError]:
    """Read a range of the publisher's table in a task of Spark, whose input is ``nothing``."""
    return _task_result("publisher", empty, lambda: side.batches(part, threading.Event()), nothing)


def target_task(
    url: str, side: TargetSide, part: TableRange, empty: C, nothing: Iterable[object]
) -> Iterator[TaskResult[C] | SubscriberError]:
    """Read a range of the target's table in a task of Spark, which opens the target."""

    def batches() -> Iterator[RowBatch]:
        with open_target(url) as target, target.reporting(), target.engine.connect() as connection:
            yield from side.batches(target, connection, part)

    return _task_result("target", empty, batches, nothing)


def _task_result(
    side: Literal["publisher", "target"],
    empty: C,
    batches: Callable[[], Iterator[RowBatch]],
    nothing: Iterable[object],
) -> Iterator[TaskResult[C] | SubscriberError]:
    """The result of a task. An error is an object: Spark would convert an exception into text."""
    # Spark reuses a Python worker only if the worker has read its input to the end.
    deque(nothing, maxlen=0)
    collected, rows = empty.fresh(), 0
    try:
        for batch in batches():
            collected.add(batch)
            rows += batch.rows
        yield TaskResult(side, rows, collected)
    except SubscriberError as error:
        yield error
