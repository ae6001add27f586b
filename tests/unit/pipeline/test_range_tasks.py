"""Tasks on ranges, with a Spark that runs them on the spot."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from subscriber.errors import PipelineError, PublisherUnavailable, SubscriberError
from subscriber.pipeline.range_tasks import run_on_ranges
from subscriber.publisher.copy_plan import CopyRange, Piece

PIECE = Piece("public", "t", 1, ((1, 1),), 100, 1.0)
RANGES = [CopyRange(PIECE, first, first + 10) for first in range(0, 200, 10)]


class Spark:
    """What :func:`run_on_ranges` asks of a SparkContext."""

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


def first_of(part: CopyRange, nothing: Iterable[object]) -> Iterator[bytes | SubscriberError]:
    assert list(nothing) == []
    yield str(part.first).encode()


def run(task: Any, stop: threading.Event | None = None, ranges: list[CopyRange] = RANGES) -> Iterator[bytes]:
    context: Any = Spark()
    return run_on_ranges(context, task, ranges, stop or threading.Event(), group="g")


def test_each_range_has_one_result():
    assert sorted(map(int, run(first_of))) == [part.first for part in RANGES]
    assert list(run(first_of, ranges=[])) == []


def test_the_error_of_a_task_has_its_own_type():
    def fails(part: CopyRange, _nothing: Iterable[object]) -> Iterator[bytes | SubscriberError]:
        yield PublisherUnavailable("gone") if part.first == 50 else b""

    with pytest.raises(PublisherUnavailable, match="gone"):
        list(run(fails))


def test_an_error_of_spark_is_explained_without_its_text():
    def fails(_part: CopyRange, _nothing: Iterable[object]) -> Iterator[bytes]:
        raise RuntimeError("values of a row")

    with pytest.raises(PipelineError) as error:
        list(run(fails))
    assert error.value.detail == "RuntimeError"
    assert "values" not in error.value.report()


def test_a_caller_that_has_enough_ends_the_other_tasks():
    begun: list[int] = []
    gate = threading.Event()

    def waits(part: CopyRange, _nothing: Iterable[object]) -> Iterator[bytes]:
        begun.append(part.first)
        if part.first:
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

    def waits(_part: CopyRange, _nothing: Iterable[object]) -> Iterator[bytes]:
        stop.set()
        gate.wait(1)
        yield b""

    with pytest.raises(PipelineError) as error:
        list(run(waits, stop))
    assert error.value.sqlstate == "57014"
