"""Runs a function on ranges of a publisher's table, a few Spark tasks at a time.

Unlike a copy (:mod:`subscriber.pipeline.jobs`), the result of a range is small, so a task reads its
range to the end, and returns one object. Each range is a separate job: its result is there when it
has ended, so progress can be shown, and the first error ends all others.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from pyspark import RDD, SparkContext

from subscriber.errors import PipelineError, SubscriberError
from subscriber.pipeline.jobs import MOST_RANGES
from subscriber.pipeline.streaming_query import missing_module
from subscriber.publisher.copy_plan import CopyRange

RangeTask = Callable[[CopyRange, Iterable[object]], Iterator[bytes | SubscriberError]]
"""Reads a range. It takes the input of a Spark task, which it reads to the end, and yields one
result or one error.
"""

_POLL_SECONDS: Final = 0.1
_CANCEL_SECONDS: Final = 0.5


def run_on_ranges(
    context: SparkContext, task: RangeTask, ranges: Sequence[CopyRange], stop: threading.Event, *, group: str
) -> Iterator[bytes]:
    """The results of all ranges, in no particular order.

    A caller that does not take all results cancels the tasks.

    Args:
        context: the Spark context.
        task: the function that reads a range.
        ranges: the ranges.
        stop: ends the tasks.
        group: the name of the jobs' group, which must be unique; Spark's logs show it.

    Raises:
        SubscriberError: the error that ended a task, with its original type.
        PipelineError: Spark failed; 57014 if ``stop`` was set.
    """
    pending = deque(ranges)
    results: queue.Queue[bytes | Exception] = queue.Queue()
    closed = threading.Event()
    nothing: RDD[Any] = context.parallelize([], 1)

    def work() -> None:
        context.setJobGroup(group, group, interruptOnCancel=True)
        while not closed.is_set():
            try:
                part = pending.popleft()
            except IndexError:
                return
            try:
                for item in nothing.mapPartitions(partial(task, part)).collect():
                    results.put(item)
            # py4j and Spark raise many kinds of errors, with the JVM's text
            except Exception as error:
                results.put(_explain(error))

    in_flight = min(len(ranges), max(2, min(context.defaultParallelism, MOST_RANGES)))
    threads = [threading.Thread(target=work, name=group, daemon=True) for _ in range(in_flight)]
    for thread in threads:
        thread.start()
    try:
        for _ in ranges:
            item = _next(results, stop)
            if isinstance(item, Exception):
                raise item
            yield item
    finally:
        closed.set()
        for thread in threads:
            while thread.is_alive():
                with suppress(Exception):  # if Spark has ended, so have its jobs
                    context.cancelJobGroup(group)
                thread.join(_CANCEL_SECONDS)


def _next(results: queue.Queue[Any], stop: threading.Event) -> Any:
    while not stop.is_set():
        with suppress(queue.Empty):
            return results.get(timeout=_POLL_SECONDS)
    raise PipelineError("the reading of a table was stopped", sqlstate="57014")


def _explain(error: Exception) -> PipelineError:
    return missing_module(error) or PipelineError(
        "a Spark task that reads a range of a table failed",
        detail=type(error).__name__,
        hint="Spark's log says more.",
    )
