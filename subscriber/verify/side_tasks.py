"""Spark tasks that each read a range of one side's table, and return what they collect of its rows.

The result is small, whatever a task reads. It names its side, because tasks of both sides run at
the same time. Errors are returned as objects, because Spark would convert an exception into text.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from subscriber.errors import SubscriberError
from subscriber.publisher.copy_plan import CopyRange
from subscriber.targets import open_target
from subscriber.targets.roles.reading import TableRange
from subscriber.verify.collected import Collected
from subscriber.verify.publisher_side import PublisherSide
from subscriber.verify.row_batch import RowBatch
from subscriber.verify.target_side import TargetSide

C = TypeVar("C", bound=Collected)


@dataclass(frozen=True, slots=True)
class TaskResult(Generic[C]):
    """The result of a task.

    Attributes:
        side: the side whose range was read.
        rows: the number of rows that were read.
        collected: what was collected of them.
    """

    side: Literal["publisher", "target"]
    rows: int
    collected: C


def publisher_task(
    side: PublisherSide, part: CopyRange, empty: C, nothing: Iterable[object]
) -> Iterator[TaskResult[C] | SubscriberError]:
    """Read a range of the publisher's table.

    Args:
        side: the table.
        part: the range.
        empty: what to collect.
        nothing: the input of the task.
    """
    return _result("publisher", empty, lambda: side.batches(part, threading.Event()), nothing)


def target_task(
    url: str, side: TargetSide, part: TableRange, empty: C, nothing: Iterable[object]
) -> Iterator[TaskResult[C] | SubscriberError]:
    """Read a range of the target's table.

    Args:
        url: the URL of the target, which the task opens.
        side: the table.
        part: the range.
        empty: what to collect.
        nothing: the input of the task.
    """

    def batches() -> Iterator[RowBatch]:
        with open_target(url) as target, target.reporting(), target.engine.connect() as connection:
            yield from side.batches(target, connection, part)

    return _result("target", empty, batches, nothing)


def _result(
    side: Literal["publisher", "target"],
    empty: C,
    batches: Callable[[], Iterator[RowBatch]],
    nothing: Iterable[object],
) -> Iterator[TaskResult[C] | SubscriberError]:
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
