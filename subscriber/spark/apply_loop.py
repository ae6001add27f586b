"""The loop that applies one journal to one target.

::

    journal ──▶ next_range ──┬─ little waits, or Spark has not started ──▶ decoded by this process ──┐
       ▲                     └─ more than SMALL_BYTES ──▶ jobs of Spark, a partition each ───────────┤ frames, in order
       │                                                                                             ▼
       └──────────────────────────────── progress ◀── one transaction of the target for each range ──┘

A range is a batch: whole entries of the journal, applied in one transaction of the target with the
progress. Every loop starts from the progress in the target; that is all of exactly-once delivery.

A Spark job takes some ten milliseconds before its first row. So the driver reads small ranges
itself. Of a large range, executors decode the next partitions while the driver applies one. Until
Spark has started, ranges have at most SMALL_BYTES; a larger entry waits for it.

A batch that fails is tried again, after a wait in which nothing is held::

    a range ──▶ fails; the transactions before the bad one are committed ──▶ wait ──▶ the first entry after the progress ──▶ the next range
                                                                              ▲                  │ fails
                                                                              └──────────────────┘

The driver reads the first entry. So a change that cannot be applied costs one small transaction for
each attempt, and no Spark job, thread or file descriptor. *Rejected:* trying the whole range again.
What was applied of it may have been trimmed.

*Rejected:* a query of Spark's Structured Streaming with ``foreachBatch``. Its micro-batch takes 300
ms, and after the target was restored from a backup, its checkpoint would be ahead of the data:
changes would be skipped without an error.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from pyspark import SparkContext

from subscriber.apply.applier import Applier, ApplyResult
from subscriber.apply.apply_batch import apply_batch, retry_with_column_defaults
from subscriber.base.errors import PipelineError, PublisherTablesOutdated, Stopped, SubscriberError
from subscriber.base.lsn import LSN, format_lsn
from subscriber.base.settings import Settings
from subscriber.postgres.protocol.changes import Frame
from subscriber.postgres.publication.publishing import Publishing
from subscriber.spark.apply_pause import ApplyPause
from subscriber.spark.jobs import JobGroup, jobs_of_cores, run_jobs
from subscriber.spark.journal_frames import JournalFrames, JournalRange
from subscriber.spark.journal_stream import RELIST_SECONDS
from subscriber.spark.pending_session import PendingSession
from subscriber.spark.result_files import remove_results
from subscriber.spark.session import END_SECONDS, is_local

SMALL_BYTES: Final = 16 * 1024 * 1024
"""What the driver reads itself: decoded in 0.13 s (large transactions) to 0.55 s (of one row)."""

MOST_BYTES: Final = 64 * 1024 * 1024
"""About how much of the journal is in flight; in a cluster it is in the JVM in several copies."""

LARGEST_TASK: Final = 32 * 1024 * 1024
"""The most that a task decodes whose frames do not pass the JVM; with many cores it is less."""

_LONGEST_POLL_SECONDS: Final = 1.0
_POLLS_SINCE_BATCH: Final = 20
"""The journal is looked at about this often in the time that has passed since the last batch, but
not more often than a remote one is listed, for entries that nobody has told of: a receiver tells of
each of them, unless its pipe is full.
"""
_INTERRUPT_SECONDS: Final = 0.2
"""An interrupt between two statements has no effect, so more than one may be necessary."""
_FAILURE: Final = PipelineError(
    "a Spark job that decodes changes failed", hint="Spark's log says more; the apply is started again."
)


class TablesCheck(Protocol):
    def check(self, described: int) -> None:
        """Raise PublisherTablesOutdated if tables may have changed before the LSN of a change."""

    def look_again(self) -> None:
        """Ask the publisher whether the tables have changed; then PublisherTablesOutdated."""


OnFailure = Callable[[SubscriberError, float], float | None]
"""Called with the error of a batch, and with the time when the batch had begun to write (monotonic
seconds). Returns the seconds to wait before the next attempt, or None if the loop is to end.
"""


def end_loop(_error: SubscriberError, _began: float) -> float | None:
    """End the loop: the :data:`OnFailure` of a loop that ends with its first failure."""
    return None


@dataclass(frozen=True, slots=True)
class JournalStream:
    """What a loop reads; ``publishing`` and ``known`` are of emulated publications."""

    journal: str
    applied: LSN
    publishing: Publishing | None = None
    known: TablesCheck | None = field(default=None, compare=False)


class ApplyLoop:
    """Applies one journal to one target, in a thread, until it is stopped or an error ends it.

    ``applier.interruption`` ends the batch in progress, and every wait. ``batch_began`` is when the
    last batch began to write (monotonic seconds). ``on_end`` is called in the thread when the loop
    has ended.
    """

    def __init__(  # noqa: PLR0913 - one argument for each thing that it tells
        self,
        spark: PendingSession,
        name: str,
        stream: JournalStream,
        applier: Applier,
        settings: Settings,
        *,
        on_applied: Callable[[ApplyResult], None],
        pause: ApplyPause,
        on_failure: OnFailure = end_loop,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self.running = True
        self.applied = stream.applied
        self.batch_began = 0.0
        self._spark = spark
        self._name = name
        self._applier = applier
        self._stop = applier.interruption.stop
        self._known = stream.known
        self._most_bytes = settings.max_batch_bytes
        self._on_applied = on_applied
        self._pause = pause
        self._on_failure = on_failure
        self._on_end = on_end
        self._failure: SubscriberError | None = None
        self._fault: Exception | None = None
        self._first_entry_only = False
        self._waited = 0.0
        self._journal = JournalFrames(
            stream.journal,
            settings.segment_bytes,
            two_phase=applier.two_phase,
            as_text=applier.target.capabilities.postgresql_text,
            publishing=stream.publishing,
        )
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    # For other threads ----------------------------------------------------------------------------

    def failure(self) -> SubscriberError | None:
        """Why the loop has ended; None if it was stopped. A fault of the program is raised."""
        if self._fault is not None:
            raise self._fault
        return self._failure

    def cancel(self) -> None:
        """Tell the loop to end: a batch in progress is rolled back. This does not wait."""
        self._stop.set()
        self._pause.wake()

    def stop(self) -> None:
        """End the loop and wait for its end, even if the JVM has ended: Python would abort if it
        ended while the thread is in the code of a database driver.
        """
        self.cancel()
        while self._thread.is_alive():
            self._applier.interruption.interrupt()
            self._thread.join(_INTERRUPT_SECONDS)

    # The thread -----------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            with tempfile.TemporaryDirectory(prefix="subscriber-frames-", ignore_cleanup_errors=True) as folder:
                self._apply_until_stopped(Path(folder) if is_local(self._spark.master) else None)
        except Stopped:
            pass
        except SubscriberError as error:
            self._failure = error
        except Exception as error:  # failure() raises it
            self._fault = error
        finally:
            self.running = False
            self._on_end()

    def _apply_until_stopped(self, folder: Path | None) -> None:
        while True:
            try:
                if self._first_entry_only:  # the failed attempt may have committed a part of its entries
                    self.applied = self._applier.read_progress()
                batch = self._next_range()
                if self._first_entry_only or batch.bytes <= SMALL_BYTES:
                    read = partial(self._journal.frames, batch)
                else:
                    context = self._spark.session_unless(self._stop).sparkContext
                    read = partial(self._decoded_by_executors, context, batch, folder)
                retry_with_column_defaults(self._applier, partial(self._apply, batch, read))
            except SubscriberError as error:
                self._wait_after(error)
                self._first_entry_only = True

    def _next_range(self) -> JournalRange:
        """Wait for entries after the progress that may be applied, and return the next batch."""
        since = time.monotonic()
        while True:
            self._pause.look()
            self._applier.interruption.check()
            limit = self._pause.limit
            if limit is None or limit > self.applied:
                found = self._journal.next_range(self.applied, limit, self._most_bytes_now())
                if found.end > self.applied:
                    return found
            poll = (time.monotonic() - since) / _POLLS_SINCE_BATCH
            self._pause.wait(min(max(poll, RELIST_SECONDS), _LONGEST_POLL_SECONDS))

    def _most_bytes_now(self) -> int:
        if self._first_entry_only:
            return 0
        return self._most_bytes if self._spark.created is not None else min(SMALL_BYTES, self._most_bytes)

    def _decoded_by_executors(self, context: SparkContext, batch: JournalRange, folder: Path | None) -> Iterator[Frame]:
        if folder is not None:
            remove_results(folder)
        size = self._journal.partition_bytes
        if folder is not None:
            size = max(size, min(LARGEST_TASK, batch.bytes // context.defaultParallelism))
        tasks = (self._journal.task(partition, folder) for partition in self._journal.partitions(batch, size))
        jobs = (lambda running, task=task: running.run(task) for task in tasks)
        description = f"{self._name}, {format_lsn(batch.start)} to {format_lsn(batch.end)}"
        results = run_jobs(
            context,
            jobs,
            JobGroup(self._name, description, _FAILURE),
            jobs_of_cores(context, MOST_BYTES // size),
            in_order=True,
            check=self._applier.interruption.check,
        )
        with contextlib.closing(results):
            for item in results:
                yield from self._journal.received(item)

    def _apply(self, batch: JournalRange, read: Callable[[], Iterator[Frame]]) -> None:
        """Apply a batch, unless the limit has changed meanwhile and forbids it."""
        with self._pause, contextlib.closing(_FrameReader(read, self._check, self._note_wait)) as frames:
            self._applier.interruption.check()
            if not self._pause.allows(batch.end):
                return
            self.batch_began = time.monotonic()
            began, self._waited = time.perf_counter(), 0.0
            result = apply_batch(self._applier, frames, self.applied, batch.end)
            result = replace(result, seconds=self._seconds(result, time.perf_counter() - began - self._waited))
            # This is done inside the pause: code that stops the batches must find the position of
            # the last batch.
            self.applied = result.progress
            self._first_entry_only = False
            self._on_applied(result)

    def _seconds(self, result: ApplyResult, writing: float) -> dict[str, float]:
        """By stage; ``writing`` is the time of the batch without that of waiting for frames."""
        commit = result.seconds.get("commit", 0.0)
        return {**self._journal.seconds.taken(), "apply": max(0.0, writing - commit), "commit": commit}

    def _check(self, frame: Frame) -> None:
        if self._known is not None and frame.described:
            self._known.check(frame.described)

    def _note_wait(self, seconds: float) -> None:
        self._waited += seconds

    def _wait_after(self, error: SubscriberError) -> None:
        """Return when it is time for the next attempt; raise the error if there is to be none."""
        self._applier.interruption.check()
        if self._known is not None and isinstance(error, PublisherTablesOutdated) and error.shape is None:
            try:
                self._known.look_again()
            except SubscriberError as failure:
                error = failure
            else:
                return
        if isinstance(error, PipelineError) and self._spark.has_ended(END_SECONDS):
            self._stop.wait()  # the end of Spark ends the run, and is no error of the subscription
        self._applier.interruption.check()
        seconds = self._on_failure(error.without_frames(), self.batch_began)
        if seconds is None:
            raise error
        self._stop.wait(seconds)
        self._applier.interruption.check()


class _FrameReader:
    """Returns the frames of a batch as often as they are asked for. A reading that is not finished
    is closed explicitly, because the traceback of an error would keep its files and jobs.
    """

    def __init__(
        self,
        read: Callable[[], Iterator[Frame]],
        check: Callable[[Frame], None],
        on_wait: Callable[[float], None] = lambda _seconds: None,
    ) -> None:
        self._read = read
        self._check = check
        self._on_wait = on_wait
        self._reading: Iterator[Frame] | None = None

    def __call__(self) -> Iterable[Frame]:
        self.close()
        self._reading = self._read()
        return self._checked(self._reading)

    def _checked(self, frames: Iterator[Frame]) -> Iterator[Frame]:
        began = time.perf_counter()
        for frame in frames:
            self._check(frame)
            self._on_wait(time.perf_counter() - began)
            yield frame
            began = time.perf_counter()
        self._on_wait(time.perf_counter() - began)

    def close(self) -> None:
        reading: Any = self._reading
        self._reading = None
        if reading is not None:
            reading.close()
