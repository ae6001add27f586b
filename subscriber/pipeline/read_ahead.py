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

Spark 4.3 keeps the jobs of a SQL execution, with their results, until that execution ends
(``DAGScheduler.activeQueryToJobs``). In the execution of the micro-batch the whole batch would stay
in the JVM. The threads of this module belong to no SQL execution, so their results are freed.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from pyspark.util import _load_from_socket

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext
    from pyspark.sql import DataFrame, Row

MOST_BYTES: Final = 64 * 1024 * 1024
"""About how much of the journal is in flight, however many cores there are. The frames of a
partition are in the JVM in several copies until the driver has them.
"""


ReadPartition = Callable[["SparkContext", "RDD[Row]", int], "list[Row]"]
"""Returns the rows of one partition of an RDD."""


def run_job(context: SparkContext, rdd: RDD[Row], partition: int) -> list[Row]:
    """Run the job of one partition; returns its rows.

    ``SparkContext.runJob`` does the same, but sends the rows through a second Python task.
    """
    spark: Any = context
    java: Any = rdd._jrdd  # noqa: SLF001 - it has no other name
    served = spark._jvm.PythonRDD.runJob(spark._jsc.sc(), java, [partition])  # noqa: SLF001
    with _load_from_socket(served, rdd._jrdd_deserializer) as rows:  # noqa: SLF001
        return list(rows)


class ReadAhead:
    """Reads the micro-batches of one query; see the module's docstring.

    Args:
        context: the Spark context.
        partition_bytes: about how much of the journal is in a partition.
        read_partition: runs the job of a partition.
    """

    def __init__(self, context: SparkContext, partition_bytes: int, read_partition: ReadPartition = run_job) -> None:
        self._context = context
        self._read_partition = read_partition
        self._most_jobs = jobs_at_a_time(context.defaultParallelism, partition_bytes)
        self._threads = ThreadPoolExecutor(self._most_jobs, "reads a micro-batch")

    def rows(self, batch: DataFrame) -> Iterator[Row]:
        """Return the rows of all partitions in order. When the generator is closed, the jobs that
        still run are cancelled.
        """
        rdd = batch.rdd
        group = f"micro-batch {uuid.uuid4()}"
        pending: deque[Future[list[Row]]] = deque()
        try:
            for partition in range(rdd.getNumPartitions()):
                pending.append(self._threads.submit(self._read, rdd, partition, group))
                if len(pending) > self._most_jobs:
                    yield from pending.popleft().result()
            while pending:
                yield from pending.popleft().result()
        finally:
            self._cancel(pending, group)

    def close(self) -> None:
        """End the threads. No rows may be asked for afterwards."""
        self._threads.shutdown()

    def _read(self, rdd: RDD[Row], partition: int, group: str) -> list[Row]:
        self._context.setJobGroup(group, group, interruptOnCancel=True)
        return self._read_partition(self._context, rdd, partition)

    def _cancel(self, pending: deque[Future[list[Row]]], group: str) -> None:
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
