"""Runs a few Spark jobs at a time, one for each range of a table. The driver takes their blocks as
they arrive.

Each range is a separate job. This way the rest of a range can follow in another job, and the driver
has the first blocks before the last range was read. One thread for each job waits for the job and
passes its blocks on. If the loader is slow, the threads wait, so only the ranges in flight are in
memory. The jobs share a group, by which they are cancelled, and a pool of Spark's fair scheduler,
so that the micro-batches of streams are scheduled, too.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import Any, Final, Self

from pyspark import RDD, SparkContext

from subscriber.errors import PipelineError, SubscriberError
from subscriber.pipeline.executors import ExecutorWatch
from subscriber.pipeline.streaming_query import missing_module
from subscriber.protocol.messages import Relation
from subscriber.publisher.copy_out import CopyReader
from subscriber.publisher.copy_plan import CopyRange
from subscriber.stages.blocks import LoadBlock, load_block, read_part

MOST_RANGES: Final = 16
"""The greatest number of ranges in flight. Otherwise there is one for each core. Each range uses a
connection to the publisher.
"""

MOST_BYTES: Final = 64 * 1024 * 1024
"""The amount of COPY text of all jobs in flight together. After its share of it, a job returns the
rest of its range, whatever the size of the ranges.

The result of a job is in the JVM, in several copies, until the target has it. With 4 jobs of 16 MB
the JVM peaked at 550 MiB, with 4 of 64 MB at 860 MiB, and the copy was not faster, because loading
begins when the first job has ended.
"""

_MOST_JOB_BYTES: Final = 16 * 1024 * 1024
_FIRST_SHARE: Final = 8
"""The first jobs read so many times less, so that loading begins early."""

_POOL: Final = "copy"
_BLOCKS_AHEAD: Final = 2
_POLL_SECONDS: Final = 0.1
_CANCEL_SECONDS: Final = 0.5


class RangeJobs:
    """The jobs that read the ranges of a table. Use it as a context manager, at whose end all jobs
    have ended.

    Args:
        context: the Spark context; None if the driver reads everything itself, without Spark.
        reader: reads a range.
        relation: the table that the ranges belong to.
        ranges: the ranges to read.
        job_bytes: the amount of COPY data after which a job returns the rest of its range, unless
            its share of :data:`MOST_BYTES` is less.
        group: the name of the jobs' group, which must be unique; Spark's logs show it.

    Attributes:
        job_bytes: the amount of COPY data after which a job returns the rest of its range.
    """

    def __init__(
        self,
        context: SparkContext | None,
        reader: CopyReader,
        relation: Relation,
        ranges: Sequence[CopyRange],
        job_bytes: int,
        *,
        group: str,
    ) -> None:
        self._context = context
        self._reader = reader
        self._relation = relation
        self._group = group
        self._nothing: RDD[Any] | None = None  # an RDD of one empty partition, made when the first job needs it
        self._pending = deque(ranges)
        self._reading = 0
        self._changed = threading.Condition()
        self._closed = threading.Event()
        # None means that all ranges have been read.
        self._ready: queue.Queue[LoadBlock | Exception | None] = queue.Queue(_BLOCKS_AHEAD)
        if not ranges:
            self._ready.put(None)
        in_flight = 1 if context is None else max(2, min(context.defaultParallelism, MOST_RANGES))
        self.job_bytes = min(job_bytes, _MOST_JOB_BYTES, MOST_BYTES // in_flight)
        self._threads = [
            threading.Thread(target=self._work, name=group, daemon=True) for _ in range(min(in_flight, len(ranges)))
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Cancel the jobs that still run, and wait for their end."""
        with self._changed:
            self._closed.set()
            self._changed.notify_all()
        for thread in self._threads:
            while thread.is_alive():
                if self._context is not None:
                    with suppress(Exception):  # if Spark has ended, so have its jobs
                        self._context.cancelJobGroup(self._group)
                thread.join(_CANCEL_SECONDS)

    def blocks(self, stop: threading.Event) -> Iterator[LoadBlock]:
        """Return the blocks of all ranges, in no particular order.

        Raises:
            SubscriberError: the error that ended a job, with its original type.
            PipelineError: Spark failed, or has no executors; 57014 if ``stop`` was set.
        """
        executors = None if self._context is None else ExecutorWatch(self._context)
        while True:
            if stop.is_set():
                raise PipelineError("the initial copy was stopped", sqlstate="57014")
            try:
                item = self._ready.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                if executors is not None:
                    executors.check()
                continue
            if item is None:
                return
            if isinstance(item, Exception):
                raise item
            yield item

    def _work(self) -> None:
        """Read ranges until none is left. This is the function of one thread."""
        if self._context is not None:
            self._context.setJobGroup(self._group, self._group, interruptOnCancel=True)
            self._context.setLocalProperty("spark.scheduler.pool", _POOL)
        most_bytes = max(1, self.job_bytes // _FIRST_SHARE)
        while (part := self._take()) is not None:
            try:
                for item in self._read(part, most_bytes):
                    if isinstance(item, CopyRange):
                        with self._changed:
                            self._pending.appendleft(item)
                            self._changed.notify_all()
                    else:
                        self._hand_over(item)
            except SubscriberError as error:
                self._hand_over(error)
            # py4j and Spark raise many kinds of errors, with the JVM's text
            except Exception as error:
                self._hand_over(_explain(error))
            most_bytes = self.job_bytes
            with self._changed:
                self._reading -= 1
                all_read = not self._pending and not self._reading
                self._changed.notify_all()
            if all_read:
                self._hand_over(None)

    def _take(self) -> CopyRange | None:
        """Return the next range; None if all ranges have been read, or if the jobs are to end."""
        with self._changed:
            # The rest of a range that is being read may still follow.
            self._changed.wait_for(lambda: self._pending or not self._reading or self._closed.is_set())
            if self._closed.is_set() or not self._pending:
                return None
            self._reading += 1
            return self._pending.popleft()

    def _read(self, part: CopyRange, most_bytes: int) -> Iterator[LoadBlock | CopyRange]:
        # A row may have a gigabyte. The JVM needs several times the size of what passes it, and
        # would run out of memory.
        if self._context is None or not part.piece.row_slots or part.giant:
            with closing(self._reader.read_whole(part, self._closed)) as reading:
                for block in reading:
                    yield load_block(self._relation, self._reader.copy_format, block)
            return
        task = partial(read_part, self._reader, self._relation, part, most_bytes)
        for item in self._empty_partition(self._context).mapPartitions(task).toLocalIterator(prefetchPartitions=True):
            if isinstance(item, SubscriberError):
                raise item
            yield item

    def _empty_partition(self, context: SparkContext) -> RDD[Any]:
        with self._changed:
            if self._nothing is None:
                self._nothing = context.parallelize([], 1)
            return self._nothing

    def _hand_over(self, item: LoadBlock | Exception | None) -> None:
        while not self._closed.is_set():
            try:
                self._ready.put(item, timeout=_POLL_SECONDS)
            except queue.Full:
                continue
            return


def _explain(error: Exception) -> PipelineError:
    return missing_module(error) or PipelineError(
        "a Spark job of the initial copy failed",
        detail=type(error).__name__,
        hint="Spark's log says more; the copy starts again.",
    )
