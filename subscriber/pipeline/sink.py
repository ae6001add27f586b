"""One micro-batch, one target transaction: what ``foreachBatch`` calls.

Frames reach the driver partition by partition while the next partition is already being decoded, so memory is bounded
by a partition and both cores work. An error keeps its type on the way: executors hand a
:class:`~subscriber.errors.SubscriberError` over as a row, and the sink keeps what it raised, since Spark would flatten both
into text.
"""

from __future__ import annotations

import contextlib
import json
import pickle
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from subscriber.apply.conflict import applied_before, conflict_of, fails_at_commit
from subscriber.apply.deferred import apply_before, apply_committable
from subscriber.apply.exact import ApplyResult, ExactApplier
from subscriber.errors import ColumnsToAdd, SubscriberError
from subscriber.lsn import LSN, parse_lsn
from subscriber.protocol.changes import Frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

_EXECUTION_ID: Final = "spark.sql.execution.id"


@dataclass(slots=True)
class BatchSink:
    """Applies the micro-batches of one subscription.

    Attributes:
        applier: what applies them.
        checkpoint: Spark's checkpoint folder on this machine; its offset log says where a batch ends.
        applied: the target's progress.
        on_applied: told the progress after each batch.
        turn: held while the target is written; queries of one run share it where the target has one writer.
        began: when the last batch had its turn (monotonic seconds).
        failure: what ended the query, with its type.
    """

    applier: ExactApplier
    checkpoint: Path
    applied: LSN
    on_applied: Callable[[ApplyResult], None]
    turn: contextlib.AbstractContextManager[Any] = field(default_factory=contextlib.nullcontext)
    began: float = 0.0
    failure: SubscriberError | None = None

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Apply one micro-batch of :class:`~subscriber.pipeline.frame_source.FrameSource` (Spark calls this)."""
        try:
            with self.turn:
                self.began = time.monotonic()
                result = apply_batch(self.applier, partial(_frames, batch), self.applied, self._end_of(batch_id))
                # Still in its turn: whoever stops the batches must find the position of the last one.
                self.applied = result.progress
                self.on_applied(result)
        except SubscriberError as error:
            self.failure = error
            raise

    def _end_of(self, batch_id: int) -> LSN:
        # foreachBatch is told the batch's number only; Spark wrote its offsets down before it began.
        log = (self.checkpoint / "offsets" / str(batch_id)).read_text()
        return parse_lsn(json.loads(log.splitlines()[-1])["lsn"])


def apply_batch(applier: ExactApplier, read: Callable[[], Iterable[Frame]], start: LSN, end: LSN) -> ApplyResult:
    """Apply a batch; when a change cannot be applied, commit the transactions before it and raise.

    PostgreSQL's worker would have committed each of them before it met the bad one (rule C35). A unique violation is examined, so that
    the error tells all keys that are violated (rule C22).

    Args:
        applier: what applies it.
        read: gives the batch's frames, as often as asked.
        start: end of the batch before.
        end: end of this one.
    """
    while True:
        try:
            return applier.apply(read(), start=start, end=end)
        except ColumnsToAdd as missing:
            applier.add_columns(missing)  # at least one more than there was, so this ends
        except SubscriberError as error:
            good = applied_before(error)
            if fails_at_commit(error):
                apply_committable(applier, read, start, end, error)
            elif good is not None and good > start:
                apply_before(applier, read, start, good)
            if conflict_of(error) is not None:
                applier.examine(read(), error, start=start, end=end)
            raise


def _frames(batch: DataFrame) -> Iterator[Frame]:
    """Frames in order; the next partition is decoded while this one is applied."""
    for row in _iterate_partitions(batch):
        if row.error is not None:
            raise pickle.loads(row.error)  # noqa: S301 - written by our own executors
        if row.rest is not None:
            yield from pickle.loads(row.rest).frames()  # noqa: S301 - written by our own executors
        else:
            yield Frame.decode(bytes(row.frame))


def _iterate_partitions(rows: DataFrame) -> Iterator[Row]:
    """Rows, a partition at a time, as a job of its own for each.

    Spark 4.3 remembers the jobs of a SQL execution, results included, until that execution ends
    (``DAGScheduler.activeQueryToJobs``). Under the micro-batch's execution the whole batch would stay in the JVM; under
    the one that ``DataFrame.toLocalIterator`` makes, it would stay for ever, since that one ends before its first job.
    So the jobs run under none.
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
