"""Runs Spark jobs, a few at a time: what the stream, a copy and a comparison give to the executors.

::

    jobs         0          1          2          3          4
    executors    done       done       running    running    ─          one thread of this process waits for each
    caller       has it     takes it   (waits here for 2, or takes what comes first)

Each job is one task, which reads a part of something and returns its results. So the caller has the
first results early, the first error ends all others, and only the jobs in flight are in memory
(invariant bounded_memory).

A task returns a :class:`~subscriber.base.errors.SubscriberError` as its last result, because Spark
would convert an exception into text.

The jobs belong to no SQL execution. Spark 4.3 keeps the jobs of an execution, with their results,
until it ends (``DAGScheduler.activeQueryToJobs``). *Rejected:* ``DataFrame.rdd``: Spark pickles its
rows, and writes bytes as a text with one character for each byte. *Rejected:* one job for all
parts, with ``RDD.toLocalIterator``. It reads one part ahead, however many cores there are.

A job that is submitted while Spark stops may never return (``DAGScheduler.runJob`` waits for a job
that its stopped event loop has not seen). Therefore the threads are daemons: Python does not wait
for them before the process ends. *Rejected:* ``ThreadPoolExecutor``, for whose threads it waits.

Spark waits for ever for executors that a cluster does not give, and says so only in its own log. So
the caller's wait ends with an error after :data:`PATIENCE_SECONDS`.
"""

from __future__ import annotations

import queue
import re
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from pyspark import RDD, SparkContext

from subscriber.base.errors import PipelineError, SubscriberError

Task = Callable[[Iterable[Any]], Iterator[Any]]
"""A function that Spark's executors run. It takes the input of a task, which is empty, and yields
its results, or one error of the tree of :mod:`subscriber.base.errors`.
"""

Job = Callable[["RunningJobs"], Iterable[Any]]
"""What one thread does at a time. It yields results, most of them those of tasks that it runs."""

MOST_JOBS: Final = 16
"""The greatest number of jobs at a time that read from the publisher. Each uses a connection."""

PATIENCE_SECONDS: Final = 15.0
"""How long to wait for an executor. Spark's own warning comes after the same time."""

_POLL_SECONDS: Final = 0.1
_CANCEL_SECONDS: Final = 0.5
_LOOK_SECONDS: Final = 1.0
_MISSING_MODULE: Final = re.compile(r"No module named '([\w.]+)'")
_NO_JOB: Final = -1
_END: Final = object()
"""What a thread puts after the results of a job."""


@dataclass(frozen=True, slots=True)
class JobGroup:
    """How Spark knows some jobs: ``name`` cancels them, its UI shows ``description``, ``failure``
    is raised where Spark fails, and ``pool`` is one of the fair scheduler.
    """

    name: str
    description: str
    failure: PipelineError
    pool: str | None = None


def jobs_of_cores(context: SparkContext, most: int = MOST_JOBS) -> int:
    """One job at a time for each core, but at least two, to read while this process works."""
    return max(2, min(context.defaultParallelism, most))


def run_jobs(
    context: SparkContext,
    jobs: Iterable[Job],
    group: JobGroup,
    at_a_time: int,
    *,
    in_order: bool = False,
    ahead: int = 0,
    check: Callable[[], None] = lambda: None,
) -> Generator[Any, None, None]:
    """Run jobs and return their results, with ``in_order`` in the order of the jobs. When the
    generator is closed, the jobs that still run are cancelled, and have ended.

    ``ahead`` is how many results may wait for the caller; 0 for no limit. ``check`` is called
    several times a second while the caller waits; its error ends the jobs. The error that ended a
    job is raised with its original type, and PipelineError if Spark failed or has no executors.
    """
    running = RunningJobs(context, iter(jobs), group, at_a_time, ahead)
    executors = ExecutorWatch(context)
    current, later = 0, dict[int, deque[Any]]()
    try:
        while (found := running.take()) is not _END:
            check()
            if found is None:
                executors.check()
                continue
            number, item = found
            if in_order and number > current:
                later.setdefault(number, deque()).append(item)
                continue
            ready = deque([item])
            while ready:
                item = ready.popleft()
                if item is _END:
                    running.room.release()
                    current += 1
                    if in_order:
                        ready = later.pop(current, deque())
                elif isinstance(item, Exception):
                    raise item
                else:
                    yield item
    finally:
        running.close()


class RunningJobs:
    """The threads of some jobs, and their results. ``room`` are the places for waiting results."""

    def __init__(self, context: SparkContext, jobs: Iterator[Job], group: JobGroup, at_a_time: int, ahead: int) -> None:
        self._context = context
        self._jobs = enumerate(jobs)
        self._group = group
        self._name = f"{group.name} {uuid.uuid4()}"
        self._results: queue.Queue[tuple[int, Any] | object] = queue.Queue(ahead)
        self._taking = threading.Lock()
        self.closed = threading.Event()
        self._nothing: RDD[Any] | None = None  # an RDD of one empty partition, made when the first task needs it
        self.room = threading.Semaphore(at_a_time + 1)
        self._threads: list[threading.Thread] = []
        self._working = at_a_time
        for _ in range(at_a_time):
            self._threads.append(threading.Thread(target=self._work, name=group.name, daemon=True))
        for thread in self._threads:
            thread.start()

    def run(self, task: Task) -> list[Any]:
        """Run a task as one Spark job. If Spark fails, this raises many kinds of errors."""
        with self._taking:
            if self._nothing is None:
                self._nothing = self._context.parallelize([], 1)
        return self._nothing.mapPartitions(task).collect()

    def take(self) -> Any:
        """The next result with its job's number; None if none is there, :data:`_END` at last."""
        while self._working:
            try:
                found = self._results.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                return None
            if found is not _END:
                return found
            self._working -= 1
        return _END

    def close(self) -> None:
        self.closed.set()
        if not self._working:
            return  # every thread has said that it ends
        for thread in self._threads:
            while thread.is_alive():
                with suppress(Exception):  # if Spark has ended, so have its jobs
                    self._context.cancelJobGroup(self._name)
                thread.join(_CANCEL_SECONDS)

    def _work(self) -> None:
        try:
            self._context.setJobGroup(self._name, self._group.description, interruptOnCancel=True)
            if self._group.pool is not None:
                self._context.setLocalProperty("spark.scheduler.pool", self._group.pool)
            while (taken := self._next()) is not None:
                self._run_job(*taken)
        except Exception as error:
            self._put((_NO_JOB, self._explain(error)))
        self._put(_END)

    def _run_job(self, number: int, job: Job) -> None:
        try:
            for item in job(self):
                self._put((number, item))
            self._put((number, _END))
        except Exception as error:  # py4j and Spark raise many kinds, with the JVM's text
            self._put((number, self._explain(error)))

    def _next(self) -> tuple[int, Job] | None:
        """The next job with its number, when there is room for its results; None at the end."""
        while not self.closed.is_set():
            if self.room.acquire(timeout=_POLL_SECONDS):
                with self._taking:
                    return next(self._jobs, None)
        return None

    def _put(self, item: tuple[int, Any] | object) -> None:
        while not self.closed.is_set():
            try:
                self._results.put(item, timeout=_POLL_SECONDS)
            except queue.Full:
                continue
            return

    def _explain(self, error: Exception) -> SubscriberError:
        if isinstance(error, SubscriberError):
            return error
        try:
            missing = _MISSING_MODULE.search(str(error))
        except Exception:  # py4j asks the JVM for the text of its errors, and the JVM may have ended
            missing = None
        if missing is None:
            return self._group.failure.replace(detail=type(error).__name__)
        # A worker that cannot import this package cannot send an error of this package, so only
        # Python's text is available.
        return PipelineError(
            f'Spark\'s Python workers have no module "{missing[1]}"',
            hint="Set PYSPARK_PYTHON to the Python that has subscriber's dependencies; "
            "on a cluster it must exist at that path on every node.",
        )


def run_range_tasks(
    context: SparkContext, tasks: Iterable[Task], stop: threading.Event, *, group: str
) -> Generator[Any, None, None]:
    """Return the results of tasks that each read a range of a table, in no particular order. A task
    is taken when it can run, so the caller may share the ranges between tasks and itself. The error
    is PipelineError 57014 if ``stop`` was set.
    """

    def check() -> None:
        if stop.is_set():
            raise PipelineError("the reading of a table was stopped", sqlstate="57014")

    jobs = (lambda running, task=task: running.run(task) for task in tasks)
    failure = PipelineError("a Spark task that reads a range of a table failed", hint="Spark's log says more.")
    return run_jobs(context, jobs, JobGroup(group, group, failure), jobs_of_cores(context), check=check)


def lacks_executors(context: SparkContext) -> bool:
    """Whether a job waits without an executor. Without a job, a cluster may have taken the
    executors back (``spark.dynamicAllocation``), and threads of a local master need none.
    """
    jvm: Any = context._jsc.sc()  # noqa: SLF001 - it has no other name
    if jvm.isLocal() or not len(jvm.statusTracker().getActiveJobIds()):
        return False
    return int(jvm.getExecutorMemoryStatus().size()) <= 1  # the driver


class ExecutorWatch:
    """Watches whether there are executors, while a job is waited for."""

    def __init__(
        self,
        context: SparkContext,
        lacks: Callable[[SparkContext], bool] = lacks_executors,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._context = context
        self._lacks = lacks
        self._clock = clock
        self._looked = clock()
        self._since: float | None = None

    def check(self) -> None:
        """Raise PipelineError if there have been no executors for :data:`PATIENCE_SECONDS`. A pause
        between two calls is the end of a wait.
        """
        now = self._clock()
        if now - self._looked < _LOOK_SECONDS:
            return
        if now - self._looked > PATIENCE_SECONDS / 2:
            self._since = None
        self._looked = now
        if not self._lacks(self._context):
            self._since = None
        elif self._since is None:
            self._since = now
        elif now - self._since >= PATIENCE_SECONDS:
            self._since = None
            raise PipelineError(
                f'Spark has no executors: master "{self._context.master}" has given none for {PATIENCE_SECONDS:.0f} s',
                detail="No worker has room for an executor: it asks for spark.executor.memory (1g unless it is set) and, in a"
                " standalone cluster, for all cores of the worker or for spark.executor.cores.",
                hint="The page of the master shows its workers and who uses them. Start a worker, or set spark.executor.memory"
                " and spark.executor.cores in the spark-defaults.conf of this machine to what a worker has; or use --master"
                " 'local[*]'. It is tried again.",
            )
