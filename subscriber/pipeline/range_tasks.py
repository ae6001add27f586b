"""Runs tasks that each read a range of a table, a few at a time.

Unlike a copy (:mod:`subscriber.pipeline.jobs`), the result of a range is small, so a task reads its
range to the end, and returns one object. Each range is a separate job: its result is there when it
has ended, so progress can be shown, and the first error ends all others. A task is taken when a
place for it is free, so the caller may share the ranges between the tasks and itself.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

from pyspark import RDD, SparkContext

from subscriber.errors import PipelineError
from subscriber.pipeline.jobs import MOST_RANGES
from subscriber.pipeline.streaming_query import missing_module

RangeTask = Callable[[Iterable[object]], Iterator[Any]]
"""Reads a range. It takes the input of a Spark task, which it reads to the end, and yields one
result, or one error of the tree of :mod:`subscriber.errors`.
"""

_POLL_SECONDS: Final = 0.1
_CANCEL_SECONDS: Final = 0.5
_NO_MORE: Final = object()
"""What a thread says when there are no more tasks."""


def run_range_tasks(
    context: SparkContext, tasks: Iterable[RangeTask], stop: threading.Event, *, group: str
) -> Iterator[Any]:
    """The results of all tasks, in no particular order.

    A caller that does not take all results cancels the tasks.

    Args:
        context: the Spark context.
        tasks: the tasks; each is taken when it can run, by one thread at a time.
        stop: ends the tasks.
        group: the name of the jobs' group, which must be unique; Spark's logs show it.

    Raises:
        SubscriberError: the error that ended a task, with its original type.
        PipelineError: Spark failed; 57014 if ``stop`` was set.
    """
    source = iter(tasks)
    taking = threading.Lock()
    results: queue.Queue[Any] = queue.Queue()
    closed = threading.Event()
    nothing: RDD[Any] = context.parallelize([], 1)

    def work() -> None:
        context.setJobGroup(group, group, interruptOnCancel=True)
        while not closed.is_set():
            with taking:
                task = next(source, None)
            if task is None:
                break
            try:
                for item in nothing.mapPartitions(task).collect():
                    results.put(item)
            # py4j and Spark raise many kinds of errors, with the JVM's text
            except Exception as error:
                results.put(_explain(error))
        results.put(_NO_MORE)

    threads = [
        threading.Thread(target=work, name=group, daemon=True)
        for _ in range(max(2, min(context.defaultParallelism, MOST_RANGES)))
    ]
    for thread in threads:
        thread.start()
    try:
        working = len(threads)
        while working:
            item = _next(results, stop)
            if item is _NO_MORE:
                working -= 1
            elif isinstance(item, Exception):
                raise item
            else:
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
