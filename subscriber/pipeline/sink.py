"""Applies one micro-batch in one target transaction. This is the function that ``foreachBatch``
calls.

Frames reach the driver partition by partition, while executors decode the next partitions
(:mod:`subscriber.pipeline.read_ahead`). An error keeps its type:
executors send a :class:`~subscriber.errors.SubscriberError` as a row, and the sink stores the error
that it has raised. Otherwise Spark would convert both into text.

A batch that fails is retried in the same call of Spark::

    frames of Spark ──▶ apply ──▶ done
                          │ fails; the transactions before the bad one are committed
                          ▼
                    wait without the turn ◀───────────────────────────────┐ fails
                          ▼                                               │
                    the journal's first entry after the progress ──▶ the rest of the batch ──▶ done
                    └───────────── read and decoded by the driver ──────────────┘

A batch also waits while a hold of the apply forbids its end
(:mod:`subscriber.pipeline.apply_bound`). The part of it up to the bound is read like the rest of a
batch that has failed.

Therefore a change that cannot be applied costs only one small transaction of the target for each
attempt, until somebody has fixed the cause: no Spark job, no thread, no file descriptor. What the
first attempt has opened in Spark is closed before the wait. *Rejected:* ending the query and
starting another one. Each time this leaves a thread, two descriptors and two threads of the JVM
behind, and every attempt costs the start of a query. *Rejected:* reading the rest of the batch with
Spark. The partitions begin where the batch began, and the part that was applied may have been
trimmed from the journal in the meantime.
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
from subscriber.pipeline.apply_bound import ApplyBound
from subscriber.pipeline.frame_files import take_frame
from subscriber.pipeline.frame_source import FRAME_SCHEMA, FrameStreamReader
from subscriber.pipeline.tail import Tail
from subscriber.protocol.changes import Frame

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_BOUND_SECONDS: Final = 0.02
"""How often it is checked whether a batch that waits for its bound may go on."""

OnFailure = Callable[[SubscriberError, float], float | None]
"""Called with the error of a batch, and with the time when the batch had begun to write (monotonic
seconds). Returns the seconds to wait before the next attempt, or None if the query is to end.
"""


def end_query(_error: SubscriberError, _began: float) -> float | None:
    """End the query: the :data:`OnFailure` of a query that ends with its first failure."""
    return None


@dataclass(slots=True)
class BatchSink:
    """Applies the micro-batches of one subscription.

    Attributes:
        applier: applies the batches; its ``interruption`` ends the batch in progress, and every
            wait.
        checkpoint: Spark's checkpoint folder on this machine; its offset log contains the end of
            each batch.
        applied: the target's progress.
        on_applied: called with the result after each batch.
        rows: returns the rows of a micro-batch in order, each as a record batch
            (:meth:`~subscriber.pipeline.read_ahead.ReadAhead.rows`).
        reader: reads the journal in this process after a batch has failed.
        on_failure: called after each failure.
        tail: the end of the journal, which is followed after each batch; None if nothing is
            followed.
        turn: held while the target is written; the queries of one run share it if the target has
            one writer.
        bound: up to where batches may apply.
        began: when the last batch got its turn (monotonic seconds).
        failure: the error that ended the query, with its original type.
        idle: set while no batch is in progress.
    """

    applier: Applier
    checkpoint: Path
    applied: LSN
    on_applied: Callable[[ApplyResult], None]
    rows: Callable[[DataFrame], Iterator[pa.RecordBatch]]
    reader: FrameStreamReader
    on_failure: OnFailure = end_query
    tail: Tail | None = None
    turn: contextlib.AbstractContextManager[Any] = field(default_factory=contextlib.nullcontext)
    bound: ApplyBound = field(default_factory=ApplyBound)
    began: float = 0.0
    failure: SubscriberError | None = None
    idle: threading.Event = field(default_factory=threading.Event)
    _first_batch: threading.Event = field(default_factory=threading.Event)
    _lead: threading.Thread | None = None

    def __post_init__(self) -> None:
        self.idle.set()

    def begin(self, name: str) -> None:
        """Begin to apply what waits in the journal, in a thread of this name. It ends when Spark
        has started the query and calls for the first micro-batch.
        """
        if self.tail is not None:
            self.idle.clear()
            self._lead = threading.Thread(
                target=self._follow_until_first_batch, args=(self.tail,), name=name, daemon=True
            )
            self._lead.start()

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Apply one micro-batch of :class:`~subscriber.pipeline.frame_source.FrameSource`. Spark
        calls this.

        Raises:
            SubscriberError: the error that ends the query.
        """
        self._first_batch.set()
        if self._lead is not None:
            self._lead.join()
        self.idle.clear()
        try:
            if self.failure is not None:
                raise self.failure
            self._apply(lambda: _frames(self.rows(batch)), self._end_of(batch_id))
            if self.tail is not None:
                self._follow(self.tail)
        except Stopped:
            pass  # no error for Spark: its query is about to be stopped, and its checkpoint is removed
        except SubscriberError as error:
            self.failure = error
            raise
        finally:
            self.idle.set()

    def _follow_until_first_batch(self, tail: Tail) -> None:
        """Apply what waits in the journal until Spark calls for the first micro-batch, or until the
        next entry is one for the executors. The call for the first micro-batch raises an error that
        ends the query.
        """
        try:
            while (end := self._next(partial(tail.next_slice, self.applied, self._first_batch))) is not None:
                self._apply(partial(self.reader.frames_between, self.applied, end), end)
        except Stopped:
            pass
        except SubscriberError as error:
            self.failure = error
        finally:
            self.idle.set()

    def _follow(self, tail: Tail) -> None:
        """Apply what arrives in the journal, until so much waits that Spark is quicker.

        Raises:
            Stopped: the query was told to end.
            SubscriberError: the error that ends the query.
        """
        while (end := self._next(partial(tail.next_end, self.applied))) is not None:
            self._apply(partial(self.reader.frames_between, self.applied, end), end)
        tail.leave(self.applied)

    def _next(self, find: Callable[[], LSN | None]) -> LSN | None:
        """Return what ``find`` returns, with as many attempts as necessary.

        Raises:
            Stopped: the query was told to end.
            SubscriberError: the error that ends the query.
        """
        while True:
            try:
                return find()
            except SubscriberError as error:
                self._wait_after(error)

    def _apply(self, read: Callable[[], Iterator[Frame]], end: LSN) -> None:
        """Apply all frames up to ``end``, with as many attempts as necessary.

        Raises:
            Stopped: the query was told to end.
            SubscriberError: the error that ends the query.
        """
        while self.applied < end:
            try:
                bound = self.bound.position
                allowed = self.reader.end_within(self.applied, end, bound)
                if allowed == self.applied:
                    self._wait_while(bound)
                elif allowed < end:
                    self._attempt(partial(self.reader.frames_between, self.applied, allowed), allowed)
                    read = partial(self.reader.frames_between, self.applied, end)
                else:
                    self._attempt(read, end)
            except SubscriberError as error:
                self._wait_after(error)
                self._apply_first_entry(end)
                read = partial(self.reader.frames_between, self.applied, end)

    def _wait_while(self, bound: LSN | None) -> None:
        """Return when the bound is no longer this one.

        Raises:
            Stopped: the query was told to end.
        """
        while self.bound.position == bound:
            self.applier.interruption.stop.wait(_BOUND_SECONDS)
            self.applier.interruption.check()

    def _apply_first_entry(self, end: LSN) -> None:
        """Apply the first entry of the journal after the progress, as soon as that succeeds. If the
        bound does not allow this entry, nothing is applied.
        """
        while True:
            try:
                # The failed attempt may have committed a part of its entries.
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
        """Apply all frames up to ``end``, unless the bound has changed meanwhile and forbids it."""
        with self.turn, contextlib.closing(_Readings(read)) as readings:
            self.applier.interruption.check()
            if not self.bound.allows(end):
                return
            self.began = time.monotonic()
            result = apply_batch(self.applier, readings, self.applied, end)
            # This is part of the turn: code that stops the batches must find the position of the
            # last batch.
            self.applied = result.progress
            self.on_applied(result)

    def _wait_after(self, error: SubscriberError) -> None:
        """Return when it is time for the next attempt.

        Raises:
            Stopped: the query was told to end.
            SubscriberError: ``error``, if there is to be no further attempt.
        """
        interruption = self.applier.interruption
        interruption.check()
        seconds = self.on_failure(error.without_frames(), self.began)
        if seconds is None:
            raise error
        interruption.stop.wait(seconds)
        interruption.check()

    def _end_of(self, batch_id: int) -> LSN:
        # foreachBatch only gets the number of the batch. Spark wrote the offsets of the batch
        # before the batch began.
        log = (self.checkpoint / "offsets" / str(batch_id)).read_text()
        return parse_lsn(json.loads(log.splitlines()[-1])["lsn"])


class _Readings:
    """Returns the frames of a batch, as often as they are asked for, with one reading at a time.

    A reading that is not finished keeps a file of the journal open, or a socket with threads of the
    JVM that wait at its other end. Python would close it when it collects the frames, but the
    traceback of an error keeps them alive for a while. Therefore it is closed explicitly.

    Args:
        read: begins a reading.
    """

    def __init__(self, read: Callable[[], Iterator[Frame]]) -> None:
        self._read = read
        self._reading: Iterator[Frame] | None = None

    def __call__(self) -> Iterator[Frame]:
        """Return the frames in order."""
        self.close()
        self._reading = self._read()
        return self._reading

    def close(self) -> None:
        """End the current reading."""
        reading, self._reading = self._reading, None
        if reading is not None:
            _close(reading)


def _frames(rows: Iterator[pa.RecordBatch]) -> Iterator[Frame]:
    """Return the frames of these rows in order."""
    try:
        for row in rows:
            frame, file, error, rest = (row.column(name)[0] for name in FRAME_SCHEMA.names)
            if error.is_valid:
                raise pickle.loads(error.as_buffer())  # noqa: S301 - written by our own executors
            if rest.is_valid:
                yield from pickle.loads(rest.as_buffer()).frames()  # noqa: S301 - written by our own executors
            elif file.is_valid:
                yield Frame.decode(take_frame(file.as_py().decode()))
            else:
                yield Frame.decode(memoryview(frame.as_buffer()))
    finally:
        _close(rows)


def _close(iterator: Iterator[Any]) -> None:
    """Close a generator; other iterators need not be closed."""
    close = getattr(iterator, "close", None)
    if close is not None:
        close()
