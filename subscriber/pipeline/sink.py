"""One micro-batch, one target transaction: what ``foreachBatch`` calls.

Frames reach the driver partition by partition while the next partition is already being decoded, so
memory is bounded by a partition and both cores work. An error keeps its type on the way: executors
hand a :class:`~subscriber.errors.SubscriberError` over as a row, and the sink keeps what it raised,
since Spark would flatten both into text.

A batch that fails is tried again here, in the call that Spark has made::

    frames of Spark ──▶ apply ──▶ done
                          │ fails; what is before the bad transaction is committed
                          ▼
                    wait, without the turn ◀──────────────────────────────┐ fails
                          ▼                                               │
                    the journal's first entry after the progress ──▶ the rest of the batch ──▶ done
                    └───────────── read and decoded by the driver ──────────────┘

So a change that cannot be applied costs one small transaction of the target each time, for as long
as somebody takes to fix it: no job of Spark's, no thread, no descriptor. What the first attempt had
open in Spark is closed before the wait. *Rejected:* ending the query and starting another, which
leaves a thread, two descriptors and two threads of the JVM behind each time, and costs every
attempt the start of a query. *Rejected:* reading the rest of the batch by Spark: its partitions
begin where the batch began, and what was applied of it may have been trimmed from the journal in
the meantime.
"""

from __future__ import annotations

import contextlib
import json
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from subscriber.apply.applier import Applier, ApplyResult
from subscriber.apply.apply_batch import apply_batch, asking
from subscriber.errors import Stopped, SubscriberError
from subscriber.lsn import LSN, parse_lsn
from subscriber.pipeline.frame_source import FrameStreamReader
from subscriber.protocol.changes import Frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

_EXECUTION_ID: Final = "spark.sql.execution.id"

OnFailure = Callable[[SubscriberError, float], float | None]
"""Told why a batch has failed, and when it had begun to write (monotonic seconds); gives the
seconds to wait before it is tried again, None where the query is to end."""


def end_query(_error: SubscriberError, _began: float) -> float | None:
    """The :data:`OnFailure` of a query that ends with its first failure."""
    return None


@dataclass(slots=True)
class BatchSink:
    """Applies the micro-batches of one subscription.

    Attributes:
        applier: what applies them; its ``interruption`` ends the batch in progress, and every wait.
        checkpoint: Spark's checkpoint folder on this machine; its offset log says where a batch
            ends.
        applied: the target's progress.
        on_applied: told the progress after each batch.
        reader: reads the journal here, once a batch has failed.
        on_failure: asked after each failure.
        turn: held while the target is written; queries of one run share it where the target has one
            writer.
        began: when the last batch had its turn (monotonic seconds).
        failure: what ended the query, with its type.
        idle: set while no batch is in progress.
    """

    applier: Applier
    checkpoint: Path
    applied: LSN
    on_applied: Callable[[ApplyResult], None]
    reader: FrameStreamReader
    on_failure: OnFailure = end_query
    turn: contextlib.AbstractContextManager[Any] = field(default_factory=contextlib.nullcontext)
    began: float = 0.0
    failure: SubscriberError | None = None
    idle: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.idle.set()

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Apply one micro-batch of :class:`~subscriber.pipeline.frame_source.FrameSource` (Spark
        calls this).
        """
        self.idle.clear()
        try:
            self._apply(batch, self._end_of(batch_id))
        except Stopped:
            pass  # Spark need not hear of it: its query is about to be stopped, and its checkpoint is thrown away
        except SubscriberError as error:
            self.failure = error
            raise
        finally:
            self.idle.set()

    def _apply(self, batch: DataFrame, end: LSN) -> None:
        """Apply all of a batch, however often that has to be tried.

        Raises:
            Stopped: somebody wants the end.
            SubscriberError: the query is to end with it.
        """
        read: Callable[[], Iterator[Frame]] = partial(_frames, batch)
        while self.applied < end:
            try:
                self._attempt(read, end)
            except SubscriberError as error:
                self._wait_after(error)
                self._apply_first_entry(end)
                read = partial(self.reader.frames_between, self.applied, end)

    def _apply_first_entry(self, end: LSN) -> None:
        """Apply the journal's first entry after the progress, as soon as it can be."""
        while True:
            try:
                # Of what it was given, the failed attempt may have committed a part.
                self.applied = self.applier.read_progress()
                if self.applied < end:
                    first_end = self.reader.first_end(self.applied)
                    self._attempt(partial(self.reader.frames_between, self.applied, first_end), first_end)
            except SubscriberError as error:
                self._wait_after(error)
            else:
                return

    def _attempt(self, read: Callable[[], Iterator[Frame]], end: LSN) -> None:
        asking(self.applier, partial(self._apply_in_turn, read, end))

    def _apply_in_turn(self, read: Callable[[], Iterator[Frame]], end: LSN) -> None:
        with self.turn, contextlib.closing(_Readings(read)) as readings:
            self.applier.interruption.check()
            self.began = time.monotonic()
            result = apply_batch(self.applier, readings, self.applied, end)
            # Still in its turn: whoever stops the batches must find the position of the last one.
            self.applied = result.progress
            self.on_applied(result)

    def _wait_after(self, error: SubscriberError) -> None:
        """Return when it is time for another attempt.

        Raises:
            Stopped: somebody wants the end.
            SubscriberError: ``error``: there shall be none.
        """
        interruption = self.applier.interruption
        interruption.check()
        seconds = self.on_failure(error.without_frames(), self.began)
        if seconds is None:
            raise error
        interruption.stop.wait(seconds)
        interruption.check()

    def _end_of(self, batch_id: int) -> LSN:
        # foreachBatch is told the batch's number only; Spark wrote its offsets down before it
        # began.
        log = (self.checkpoint / "offsets" / str(batch_id)).read_text()
        return parse_lsn(json.loads(log.splitlines()[-1])["lsn"])


class _Readings:
    """Gives the frames of a batch, as often as asked; one reading at a time.

    A reading that is not finished has something open: a file of the journal, or a socket with
    threads of the JVM that wait at its other end. Python would close it when it collects the
    frames, which an error's traceback keeps for a while; so it is closed here.

    Args:
        read: begins one.
    """

    def __init__(self, read: Callable[[], Iterator[Frame]]) -> None:
        self._read = read
        self._reading: Iterator[Frame] | None = None

    def __call__(self) -> Iterator[Frame]:
        """The frames in order."""
        self.close()
        self._reading = self._read()
        return self._reading

    def close(self) -> None:
        """End the reading."""
        reading, self._reading = self._reading, None
        if reading is not None:
            _close(reading)


def _frames(batch: DataFrame) -> Iterator[Frame]:
    """Frames in order; the next partition is decoded while this one is applied, and what is left of
    one is read past at the end.
    """
    rows = _iterate_partitions(batch)
    try:
        for row in rows:
            if row.error is not None:
                raise pickle.loads(row.error)  # noqa: S301 - written by our own executors
            if row.rest is not None:
                yield from pickle.loads(row.rest).frames()  # noqa: S301 - written by our own executors
            else:
                yield Frame.decode(bytes(row.frame))
    finally:
        _close(rows)


def _close(iterator: Iterator[Any]) -> None:
    """Close a generator; other iterators have nothing to close."""
    close = getattr(iterator, "close", None)
    if close is not None:
        close()


def _iterate_partitions(rows: DataFrame) -> Iterator[Row]:
    """Rows, a partition at a time, as a job of its own for each.

    Spark 4.3 remembers the jobs of a SQL execution, results included, until that execution ends
    (``DAGScheduler.activeQueryToJobs``). Under the micro-batch's execution the whole batch would
    stay in the JVM; under the one that ``DataFrame.toLocalIterator`` makes, it would stay for ever,
    since that one ends before its first job. So the jobs run under none.
    """
    context = rows.sparkSession.sparkContext
    # Any: None is what unsets a property, and pyspark's annotations have forgotten it.
    execution: Any = context.getLocalProperty(_EXECUTION_ID)
    none: Any = None
    context.setLocalProperty(_EXECUTION_ID, none)
    try:
        return rows.rdd.toLocalIterator(prefetchPartitions=True)
    finally:
        context.setLocalProperty(_EXECUTION_ID, execution)
