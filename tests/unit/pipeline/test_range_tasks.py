"""Tasks that read ranges, with a Spark that runs them on the spot."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import pytest

from subscriber.errors import PipelineError, PublisherUnavailable
from subscriber.pipeline.range_tasks import run_range_tasks

RANGES = range(0, 200, 10)


class Spark:
    """What :func:`run_range_tasks` asks of a SparkContext."""

    defaultParallelism = 4  # noqa: N815 - Spark's name

    def __init__(self) -> None:
        self.cancelled: set[str] = set()
        self.threads: set[str] = set()

    def setJobGroup(self, group: str, description: str, *, interruptOnCancel: bool) -> None:  # noqa: N802, N803 - Spark's
        assert interruptOnCancel
        self.threads.add(group)

    def cancelJobGroup(self, group: str) -> None:  # noqa: N802 - Spark's name
        self.cancelled.add(group)

    def parallelize(self, values: list[Any], partitions: int) -> Rdd:
        assert (values, partitions) == ([], 1)
        return Rdd()


class Rdd:
    def __init__(self, task: Callable[[Iterator[Any]], Iterator[Any]] | None = None) -> None:
        self._task = task

    def mapPartitions(self, task: Callable[[Iterator[Any]], Iterator[Any]]) -> Rdd:  # noqa: N802 - Spark's name
        return Rdd(task)

    def collect(self) -> list[Any]:
        assert self._task is not None
        return list(self._task(iter(())))


def first_of(first: int, nothing: Iterable[object]) -> Iterator[int]:
    assert list(nothing) == []
    yield first


def run(task: Any, stop: threading.Event | None = None, ranges: Iterable[int] = RANGES) -> Iterator[Any]:
    context: Any = Spark()
    tasks = (partial(task, first) for first in ranges)
    return run_range_tasks(context, tasks, stop or threading.Event(), group="g")


def test_each_range_has_one_result():
    assert sorted(run(first_of)) == list(RANGES)
    assert list(run(first_of, ranges=[])) == []


def test_a_task_is_taken_when_it_can_run():
    left = deque(RANGES)

    def taken() -> Iterator[int]:
        while left:
            yield left.pop()

    results = run(first_of, ranges=taken())
    read = [next(results)]
    ours = [left.popleft()] if left else []
    assert sorted([*read, *ours, *results]) == list(RANGES)


def test_the_error_of_a_task_has_its_own_type():
    def fails(first: int, _nothing: Iterable[object]) -> Iterator[object]:
        yield PublisherUnavailable("gone") if first == 50 else b""

    with pytest.raises(PublisherUnavailable, match="gone"):
        list(run(fails))


def test_an_error_of_spark_is_explained_without_its_text():
    def fails(_first: int, _nothing: Iterable[object]) -> Iterator[object]:
        raise RuntimeError("values of a row")

    with pytest.raises(PipelineError) as error:
        list(run(fails))
    assert error.value.detail == "RuntimeError"
    assert "values" not in error.value.report()


def test_a_caller_that_has_enough_ends_the_other_tasks():
    begun: list[int] = []
    gate = threading.Event()

    def waits(first: int, _nothing: Iterable[object]) -> Iterator[object]:
        begun.append(first)
        if first:
            assert gate.wait(10)
        yield b""

    results = run(waits)
    next(results)
    closing = threading.Thread(target=results.close)  # type: ignore[attr-defined]
    closing.start()
    gate.set()
    closing.join(10)
    assert not closing.is_alive()
    assert len(begun) < len(RANGES)


def test_a_stop_ends_the_wait():
    stop = threading.Event()
    gate = threading.Event()

    def waits(_first: int, _nothing: Iterable[object]) -> Iterator[object]:
        stop.set()
        gate.wait(1)
        yield b""

    with pytest.raises(PipelineError) as error:
        list(run(waits, stop))
    assert error.value.sqlstate == "57014"
