"""A few Spark jobs at a time, one a range, whose blocks the driver takes as they come.

Each range is a job of its own, so that the rest of a range can follow it, and so that the driver
has the first blocks before the last range has been read. A thread a job waits for it and hands its
blocks over; it is slow to take more where the loader is slow, so what is in memory are the ranges
in flight. The jobs share a group, by which they are cancelled, and a pool of Spark's fair
scheduler, so that micro-batches of streams get their turn.
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
from subscriber.pipeline.streaming_query import missing_module
from subscriber.protocol.messages import Relation
from subscriber.publisher.copy_out import CopyReader
from subscriber.publisher.copy_plan import CopyRange
from subscriber.stages.blocks import LoadBlock, load_block, read_part

MOST_RANGES: Final = 4
"""In flight, however many cores there are: one loader takes them all."""

MOST_BYTES: Final = 16 * 1024 * 1024
"""A job gives back the rest of its range after about this much COPY text, whatever the ranges'
size.

What a job gives is in the JVM until the target has it, some times over: with 16 MB the JVM peaked
at 550 MiB, with 64 MB at 860, and the copy was not faster, because loading begins when the first
job has ended.
"""

_POOL: Final = "copy"
_BLOCKS_AHEAD: Final = 2
_POLL_SECONDS: Final = 0.1
_CANCEL_SECONDS: Final = 0.5


class RangeJobs:
    """The jobs that read a table's ranges; use it as a context manager, at whose end none of them
    is left.

    Args:
        context: Spark's.
        reader: what reads a range.
        relation: what the ranges hold.
        ranges: to be read.
        job_bytes: a job gives back the rest of its range after about this much; at most
            :data:`MOST_BYTES`.
        group: the name of the jobs' group, used nowhere else; it is seen in Spark's logs.
        driver_reads: read everything here, without Spark.
    """

    def __init__(
        self,
        context: SparkContext,
        reader: CopyReader,
        relation: Relation,
        ranges: Sequence[CopyRange],
        job_bytes: int,
        *,
        group: str,
        driver_reads: bool,
    ) -> None:
        self._context = context
        self._reader = reader
        self._relation = relation
        self._job_bytes = min(job_bytes, MOST_BYTES)
        self._group = group
        self._driver_reads = driver_reads
        self._nothing: RDD[Any] | None = None  # an RDD of one empty partition, made when the first job needs it
        self._pending = deque(ranges)
        self._reading = 0
        self._changed = threading.Condition()
        self._closed = threading.Event()
        # None: all ranges have been read.
        self._ready: queue.Queue[LoadBlock | Exception | None] = queue.Queue(_BLOCKS_AHEAD)
        if not ranges:
            self._ready.put(None)
        in_flight = 1 if driver_reads else max(2, min(context.defaultParallelism, MOST_RANGES))
        self._threads = [
            threading.Thread(target=self._work, name=group, daemon=True) for _ in range(min(in_flight, len(ranges)))
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Cancel what still runs, and wait until it has ended."""
        with self._changed:
            self._closed.set()
            self._changed.notify_all()
        for thread in self._threads:
            while thread.is_alive():
                if not self._driver_reads:
                    with suppress(Exception):  # a Spark that is gone: its jobs are too
                        self._context.cancelJobGroup(self._group)
                thread.join(_CANCEL_SECONDS)

    def blocks(self, stop: threading.Event) -> Iterator[LoadBlock]:
        """The blocks of all ranges, in no order.

        Raises:
            SubscriberError: what ended a job, with its type.
            PipelineError: Spark failed; 57014 when ``stop`` was set.
        """
        while True:
            if stop.is_set():
                raise PipelineError("the initial copy was stopped", sqlstate="57014")
            try:
                item = self._ready.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                continue
            if item is None:
                return
            if isinstance(item, Exception):
                raise item
            yield item

    def _work(self) -> None:
        """One thread: read ranges until there are none left."""
        if not self._driver_reads:
            self._context.setJobGroup(self._group, self._group, interruptOnCancel=True)
            self._context.setLocalProperty("spark.scheduler.pool", _POOL)
        while (part := self._take()) is not None:
            try:
                for item in self._read(part):
                    if isinstance(item, CopyRange):
                        with self._changed:
                            self._pending.appendleft(item)
                            self._changed.notify_all()
                    else:
                        self._hand_over(item)
            except SubscriberError as error:
                self._hand_over(error)
            except Exception as error:  # py4j and Spark raise many kinds, with the JVM's text
                self._hand_over(_explain(error))
            with self._changed:
                self._reading -= 1
                all_read = not self._pending and not self._reading
                self._changed.notify_all()
            if all_read:
                self._hand_over(None)

    def _take(self) -> CopyRange | None:
        """The next range; None when all have been read, or the end has come."""
        with self._changed:
            # A range that is being read may still leave a rest.
            self._changed.wait_for(lambda: self._pending or not self._reading or self._closed.is_set())
            if self._closed.is_set() or not self._pending:
                return None
            self._reading += 1
            return self._pending.popleft()

    def _read(self, part: CopyRange) -> Iterator[LoadBlock | CopyRange]:
        # A row may have a gigabyte: the JVM, which holds what passes it some times over, would be
        # out of memory.
        if self._driver_reads or not part.piece.row_slots or part.giant:
            with closing(self._reader.read_whole(part, self._closed)) as reading:
                for block in reading:
                    yield load_block(self._relation, self._reader.copy_format, block)
            return
        task = partial(read_part, self._reader, self._relation, part, self._job_bytes)
        for item in self._empty_partition().mapPartitions(task).toLocalIterator(prefetchPartitions=True):
            if isinstance(item, SubscriberError):
                raise item
            yield item

    def _empty_partition(self) -> RDD[Any]:
        with self._changed:
            if self._nothing is None:
                self._nothing = self._context.parallelize([], 1)
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
