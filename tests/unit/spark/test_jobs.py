"""A few jobs at a time, and their results: with a Spark that runs its tasks on the spot."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from subscriber.base.errors import PipelineError, PublisherUnavailable, Stopped
from subscriber.spark.jobs import (
    PATIENCE_SECONDS,
    ExecutorWatch,
    JobGroup,
    RunningJobs,
    jobs_of_cores,
    lacks_executors,
    run_jobs,
    run_range_tasks,
)
from tests.waits import wait_until

RANGES = range(0, 200, 10)
GROUP = JobGroup("g", "what it is", PipelineError("a job failed", hint="See the log."))


class Spark:
    """What the runner asks of a SparkContext with three cores."""

    defaultParallelism = 3  # noqa: N815 - Spark's name
    master = "local[3]"
    _jsc = SimpleNamespace(sc=lambda: SimpleNamespace(isLocal=lambda: True))

    def __init__(self) -> None:
        self.groups: set[tuple[str, str]] = set()
        self.pools: set[str] = set()
        self.cancelled: set[str] = set()
        self.begun: list[int] = []
        self.may_end = threading.Event()
        self.may_end.set()

    def setJobGroup(self, group: str, description: str, *, interruptOnCancel: bool) -> None:  # noqa: N802, N803 - Spark's
        assert interruptOnCancel
        self.groups.add((group, description))

    def setLocalProperty(self, name: str, value: str) -> None:  # noqa: N802 - Spark's name
        assert name == "spark.scheduler.pool"
        self.pools.add(value)

    def cancelJobGroup(self, group: str) -> None:  # noqa: N802 - Spark's name
        self.cancelled.add(group)
        self.may_end.set()

    def parallelize(self, values: list[Any], partitions: int) -> Any:
        assert (values, partitions) == ([], 1)
        return SimpleNamespace(mapPartitions=lambda task: SimpleNamespace(collect=lambda: list(task(iter(())))))

    def two_results(self, number: int, _nothing: Iterable[object]) -> Iterator[str]:
        self.begun.append(number)
        self.may_end.wait()
        yield f"{number}a"
        yield f"{number}b"


def in_order(spark: Any, jobs: int, task: Any = None, **options: Any) -> Any:
    def job(number: int, running: RunningJobs) -> list[Any]:
        return running.run(partial(task or spark.two_results, number))

    return run_jobs(spark, [partial(job, number) for number in range(jobs)], GROUP, 3, in_order=True, **options)


def failing(error: Exception) -> Any:
    """A task that fails."""

    def fail(*_: object) -> Any:
        raise error

    return fail


# In order -----------------------------------------------------------------------------------------


def test_the_results_of_all_jobs_come_in_order():
    spark = Spark()
    assert list(in_order(spark, 5)) == [f"{number}{result}" for number in range(5) for result in "ab"]
    ((group, description),) = spark.groups
    assert group.startswith("g ")
    assert description == "what it is"
    assert not spark.cancelled


def test_no_jobs_have_no_results():
    assert list(in_order(Spark(), 0)) == []


def test_as_many_jobs_are_ahead_as_run_at_a_time():
    """Invariant bounded_memory: not one more."""
    spark = Spark()
    results = in_order(spark, 10)
    assert next(results) == "0a"
    wait_until(lambda: len(spark.begun) == 4)
    assert sorted(spark.begun) == [0, 1, 2, 3]
    assert [next(results), next(results)] == ["0b", "1a"]
    wait_until(lambda: len(spark.begun) == 5)
    assert sorted(spark.begun) == [0, 1, 2, 3, 4]
    results.close()


def test_jobs_that_nobody_needs_any_more_are_cancelled():
    spark = Spark()
    results = in_order(spark, 10)
    next(results)
    spark.may_end.clear()
    next(results)
    next(results)
    wait_until(lambda: len(spark.begun) == 5)
    results.close()
    assert spark.cancelled == {group for group, _ in spark.groups}
    assert max(spark.begun) == 4, "what has not begun does not begin"


def test_the_error_of_a_job_is_raised_in_the_place_of_its_results():
    def task(number: int, _nothing: Iterable[object]) -> Iterator[object]:
        yield PublisherUnavailable("gone") if number == 1 else number

    results = in_order(Spark(), 3, task)
    assert next(results) == 0
    with pytest.raises(PublisherUnavailable, match="gone"):
        next(results)


def test_jobs_are_cancelled_even_if_spark_has_ended():
    spark = Spark()

    def gone(_group: str) -> None:
        spark.may_end.set()
        raise ConnectionError

    spark.cancelJobGroup = gone  # type: ignore[method-assign, assignment]
    results = in_order(spark, 3)
    next(results)
    spark.may_end.clear()
    results.close()


def test_a_job_that_is_waited_for_can_be_given_up():
    """It is cancelled."""
    spark = Spark()
    spark.may_end.clear()

    def give_up() -> None:
        raise Stopped("stopped")

    with pytest.raises(Stopped):
        next(in_order(spark, 3, check=give_up))
    assert spark.cancelled == {group for group, _ in spark.groups}


def test_a_job_that_never_returns_does_not_keep_the_process():
    """Spark forgets a job that is submitted while it stops."""
    code = """
import threading
from tests.unit.spark.test_jobs import Spark, in_order

spark, begun = Spark(), threading.Event()

def task(*_):
    begun.set()
    threading.Event().wait()
    yield

threading.Thread(target=next, args=(in_order(spark, 1, task),), daemon=True).start()
begun.wait()
"""
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (answer.returncode, answer.stderr) == (0, "")


@pytest.mark.parametrize(("cores", "most", "jobs"), [(8, 16, 8), (1, 16, 2), (1000, 4, 4), (8, 0, 2)])
def test_the_jobs_at_a_time_follow_cores_and_memory(cores, most, jobs):
    context: Any = SimpleNamespace(defaultParallelism=cores)
    assert jobs_of_cores(context, most) == jobs


# Errors -------------------------------------------------------------------------------------------


def test_an_error_of_spark_is_explained_without_its_text():
    with pytest.raises(PipelineError, match="a job failed") as error:
        list(in_order(Spark(), 3, failing(RuntimeError("values of a row"))))
    assert error.value.detail == "RuntimeError"
    assert error.value.transient
    assert "values" not in error.value.report()


def test_an_error_whose_text_the_jvm_cannot_tell_is_explained_too():
    class Gone(Exception):
        def __str__(self) -> str:
            raise ConnectionError

    with pytest.raises(PipelineError) as error:
        list(in_order(Spark(), 1, failing(Gone())))
    assert error.value.detail == "Gone"


def test_a_worker_that_lacks_a_module_is_explained():
    text = "PythonException: Traceback …\nModuleNotFoundError: No module named 'subscriber.postgres.protocol'\n"
    with pytest.raises(PipelineError) as error:
        list(in_order(Spark(), 1, failing(RuntimeError(text))))
    assert error.value.message == 'Spark\'s Python workers have no module "subscriber.postgres.protocol"'
    assert "PYSPARK_PYTHON" in (error.value.hint or "")


def test_a_spark_that_cannot_be_asked_is_an_error():
    spark = Spark()
    spark.setJobGroup = None  # type: ignore[method-assign, assignment]
    with pytest.raises(PipelineError, match="a job failed"):
        list(in_order(spark, 3))


# Ranges of a table --------------------------------------------------------------------------------


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


# No executors -------------------------------------------------------------------------------------


class Scene:
    """A watch, its clock, and whether executors are missing."""

    def __init__(self) -> None:
        self.now = 0.0
        self.lacks = True
        context: Any = SimpleNamespace(master="spark://m:7077")
        self.watch = ExecutorWatch(context, lambda _context: self.lacks, lambda: self.now)

    def wait(self, seconds: float) -> None:
        for _ in range(int(seconds)):
            self.now += 1.0
            self.watch.check()


def test_a_job_that_gets_no_executor_fails_with_the_master_and_what_to_do():
    scene = Scene()
    with pytest.raises(PipelineError) as raised:
        scene.wait(PATIENCE_SECONDS + 2)
    assert raised.value.message == 'Spark has no executors: master "spark://m:7077" has given none for 15 s'
    assert "spark.executor.memory" in str(raised.value.hint)
    assert raised.value.transient
    scene.wait(PATIENCE_SECONDS - 2)  # the next attempt waits as long


def test_an_executor_that_comes_late_ends_the_wait():
    scene = Scene()
    scene.wait(PATIENCE_SECONDS - 2)
    scene.lacks = False
    scene.wait(2)
    scene.lacks = True
    scene.wait(PATIENCE_SECONDS - 2)


def test_another_wait_begins_anew():
    scene = Scene()
    scene.wait(PATIENCE_SECONDS - 2)
    scene.now += 100.0
    scene.wait(PATIENCE_SECONDS - 2)


@pytest.mark.parametrize(
    ("local", "jobs", "nodes", "lacks"),
    [(False, 1, 1, True), (False, 1, 2, False), (False, 0, 1, False), (True, 1, 1, False)],
    ids=["only the driver", "an executor", "no job", "threads"],
)
def test_executors_lack_only_while_a_job_waits_for_them(local, jobs, nodes, lacks):
    jvm = SimpleNamespace(
        isLocal=lambda: local,
        statusTracker=lambda: SimpleNamespace(getActiveJobIds=lambda: [1] * jobs),
        getExecutorMemoryStatus=lambda: SimpleNamespace(size=lambda: nodes),
    )
    context: Any = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: jvm))
    assert lacks_executors(context) is lacks
