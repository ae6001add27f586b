"""Reads the partitions of a micro-batch with a few Spark jobs at a time, and returns their rows in
order.

::

    partition     0          1          2          3          4
    executors     read ✓     read ✓     reading    reading    ─          as many jobs as there are cores
    driver        applied    applying   (waits here for 2)               and as memory allows

Each partition is a separate job. Spark runs the job that was submitted first before the others, so
the partition that the driver needs next is ready first. Only the partitions in flight are in memory
(invariant bounded_memory).

*Rejected:* ``RDD.toLocalIterator(prefetchPartitions=True)``. It reads one partition ahead, however
many cores there are.

A job sends its rows as Arrow record batches of one row. *Rejected:* ``DataFrame.rdd``. Spark
pickles its rows, and writes bytes as a text with one character for each byte: on two cores that
took a quarter of the time of a large transaction.

Spark 4.3 keeps the jobs of a SQL execution, with their results, until that execution ends
(``DAGScheduler.activeQueryToJobs``). In the execution of the micro-batch the whole batch would stay
in the JVM. The threads of this module belong to no SQL execution, so their results are freed.

A job that is submitted while Spark stops may never return (``DAGScheduler.runJob`` waits for a job
that its stopped event loop has not seen). *Rejected:* ``ThreadPoolExecutor``. Python waits for its
threads before the process ends, so a run that was told to end during its warm-up never ended.
"""

from __future__ import annotations

import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.serializers import NoOpSerializer
from pyspark.util import _load_from_socket

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame

MOST_BYTES: Final = 64 * 1024 * 1024
"""About how much of the journal is in flight, however many cores there are. The frames of a
partition are in the JVM in several copies until the driver has them.
"""


_POLL_SECONDS: Final = 0.2

ReadPartition = Callable[["SparkContext", Any, int], "list[bytes]"]
"""Returns the rows of one partition, given the result of :func:`arrow_rows`. Each row is the
message of an Arrow record batch.
"""


def arrow_rows(batch: DataFrame) -> Any:
    """Return the rows of a DataFrame as Spark's ``JavaRDD[Array[Byte]]``, of which each element is
    the message of an Arrow record batch with one row.
    """
    rows_of_message, time_zone, errors_on_duplicates, large_types = 1, "UTC", False, False
    data: Any = batch._jdf  # noqa: SLF001 - it has no other name
    return data.toArrowBatchRdd(rows_of_message, time_zone, errors_on_duplicates, large_types).toJavaRDD()


def run_job(context: SparkContext, rows: Any, partition: int) -> list[bytes]:
    """Run the job of one partition; returns its rows.

    ``SparkContext.runJob`` does the same, but sends the rows through a second Python task.
    """
    spark: Any = context
    served = spark._jvm.PythonRDD.runJob(spark._jsc.sc(), rows, [partition])  # noqa: SLF001
    with _load_from_socket(served, NoOpSerializer()) as messages:
        return list(messages)


class ReadAhead:
    """Reads the micro-batches of one query; see the module's docstring.

    Args:
        context: the Spark context.
        schema: the Arrow schema of the rows.
        partition_bytes: about how much of the journal is in a partition.
        plan_rows: returns what ``read_partition`` reads.
        read_partition: runs the job of a partition.
        check: called several times a second while a job is waited for; an error that it raises ends
            the wait.
    """

    def __init__(
        self,
        context: SparkContext,
        schema: pa.Schema,
        partition_bytes: int,
        plan_rows: Callable[[DataFrame], Any] = arrow_rows,
        read_partition: ReadPartition = run_job,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._context = context
        self._schema = schema
        self._plan_rows = plan_rows
        self._read_partition = read_partition
        self._check = check
        self._most_jobs = jobs_at_a_time(context.defaultParallelism, partition_bytes)
        self._threads: list[threading.Thread] = []
        self._waiting: SimpleQueue[tuple[Future[list[bytes]], Callable[[], list[bytes]]] | None] = SimpleQueue()

    def rows(self, batch: DataFrame) -> Iterator[pa.RecordBatch]:
        """Return the rows of all partitions in order, each as a record batch. When the generator is
        closed, the jobs that still run are cancelled.
        """
        rows = self._plan_rows(batch)
        group = f"micro-batch {uuid.uuid4()}"
        pending: deque[Future[list[bytes]]] = deque()
        try:
            for partition in range(rows.getNumPartitions()):
                pending.append(self._submit(partial(self._read, rows, partition, group)))
                if len(pending) > self._most_jobs:
                    yield from self._take_first(pending)
            while pending:
                yield from self._take_first(pending)
        finally:
            self._cancel(pending, group)

    def _take_first(self, pending: deque[Future[list[bytes]]]) -> Iterator[pa.RecordBatch]:
        # It stays in the list until it is done: its job is cancelled if the check raises an error.
        while not wait([pending[0]], _POLL_SECONDS).done:
            self._check()
        for message in pending.popleft().result():
            yield pa.ipc.read_record_batch(pa.py_buffer(message), self._schema)

    def close(self) -> None:
        """Tell the threads to end. No rows may be asked for afterwards."""
        for _ in self._threads:
            self._waiting.put(None)

    def _submit(self, read: Callable[[], list[bytes]]) -> Future[list[bytes]]:
        future: Future[list[bytes]] = Future()
        self._waiting.put((future, read))
        if len(self._threads) < self._most_jobs:
            self._threads.append(threading.Thread(target=self._work, name="reads a micro-batch", daemon=True))
            self._threads[-1].start()
        return future

    def _work(self) -> None:
        while (waiting := self._waiting.get()) is not None:
            future, read = waiting
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(read())
            except BaseException as error:  # result() raises it
                future.set_exception(error)
            del waiting, future, read  # the rows are in memory as long as this thread holds them

    def _read(self, rows: Any, partition: int, group: str) -> list[bytes]:
        self._context.setJobGroup(group, group, interruptOnCancel=True)
        return self._read_partition(self._context, rows, partition)

    def _cancel(self, pending: deque[Future[list[bytes]]], group: str) -> None:
        running = [future for future in pending if not future.cancel()]
        if not running:
            return
        with suppress(Exception):  # if Spark has ended, so have its jobs
            self._context.cancelJobGroup(group)
        wait(running)


def jobs_at_a_time(cores: int, partition_bytes: int) -> int:
    """Return how many partitions are in flight: one for each core, but at least two, so that the
    executors read while the driver applies.
    """
    return max(2, min(cores, MOST_BYTES // partition_bytes))
