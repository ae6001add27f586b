"""The streaming query of one subscription, composed of source and sink.

A thread waits for Spark and starts the query there. Meanwhile the driver applies what waits in the
journal (:mod:`subscriber.pipeline.tail`).
"""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from subscriber.apply.applier import Applier, ApplyResult
from subscriber.errors import PipelineError, Stopped, SubscriberError
from subscriber.lsn import LSN, format_lsn
from subscriber.pipeline.apply_bound import ApplyBound
from subscriber.pipeline.frame_query import FrameQuery, Option
from subscriber.pipeline.frame_source import FrameStreamReader, as_option
from subscriber.pipeline.planning_error import left_error
from subscriber.pipeline.session import is_local
from subscriber.pipeline.sink import BatchSink, OnFailure, end_query
from subscriber.pipeline.spark import Spark
from subscriber.pipeline.tail import Tail
from subscriber.publication.publishing import Publishing
from subscriber.settings import Settings

_MISSING_MODULE: Final = re.compile(r"No module named '([\w.]+)'")
_INTERRUPT_SECONDS: Final = 0.2
"""The interval between two interrupts of a batch that is to end. More than one may be necessary,
because an interrupt between two statements has no effect.
"""


@dataclass(frozen=True, slots=True)
class JournalStream:
    """What a query reads.

    Attributes:
        journal: the URL of the journal.
        applied: the target's progress, where the query begins.
        publishing: the emulated publications; None if the server evaluates the publications.
        bound: up to where the query may apply.
    """

    journal: str
    applied: LSN
    publishing: Publishing | None = None
    bound: ApplyBound = field(default_factory=ApplyBound, compare=False)


class ApplyQuery:
    """A running query from one journal into one target.

    Args:
        spark: runs the query when it has started.
        name: the name of the query; no other running query may have it.
        stream: what the query reads.
        applier: applies the batches.
        settings: the sizes of batches and segments.
        on_applied: called with the result after each batch.
        turn: held while the target is written.
        on_failure: called after a batch has failed, in the thread that applies. It decides whether
            the batch is tried again, and when.
    """

    def __init__(
        self,
        spark: Spark,
        name: str,
        stream: JournalStream,
        applier: Applier,
        settings: Settings,
        *,
        on_applied: Callable[[ApplyResult], None],
        turn: contextlib.AbstractContextManager[object],
        on_failure: OnFailure = end_query,
    ) -> None:
        self._applier = applier
        # The checkpoint is removed with the query: the progress in the target decides where a query
        # begins (progress_with_data).
        self._folder = Path(tempfile.mkdtemp(prefix="subscriber-checkpoint-"))
        self._checkpoint = self._folder / "checkpoint"
        self._error_file = self._folder / "error"
        self._progress_file = self._folder / "progress"
        self._frame_folder = self._folder / "frames" if is_local(spark.master) else None
        self._query: FrameQuery | None = None
        self._error: Exception | None = None
        reader = FrameStreamReader(
            url=stream.journal,
            starting_lsn=format_lsn(stream.applied),
            max_bytes=settings.max_batch_bytes,
            partition_bytes=settings.segment_bytes,
            two_phase=applier.two_phase,
            as_text=applier.target.capabilities.postgresql_text,
            publishing=stream.publishing,
        )
        self._sink = BatchSink(
            applier,
            self._checkpoint,
            stream.applied,
            on_applied,
            self._rows,
            reader,
            on_failure,
            tail=Tail(reader, self._progress_file, applier.interruption.stop, stream.bound),
            turn=turn,
            bound=stream.bound,
        )
        options = self._options(stream, settings)
        self._sink.begin(name)
        self._starter = threading.Thread(
            target=self._start, args=(spark, name, options), name=f"start of {name}", daemon=True
        )
        self._starter.start()

    def _options(self, stream: JournalStream, settings: Settings) -> dict[str, Option]:
        """Return the options of the source."""
        options: dict[str, Option] = {
            "journal": stream.journal,
            "startingLsn": format_lsn(stream.applied),
            "maxBytes": settings.max_batch_bytes,
            "partitionBytes": settings.segment_bytes,
            "twoPhase": self._applier.two_phase,
            "asText": self._applier.target.capabilities.postgresql_text,
            "errorFile": str(self._error_file),
            "progressFile": str(self._progress_file),
        }
        if self._frame_folder is not None:
            self._frame_folder.mkdir()
            options["frameFolder"] = str(self._frame_folder)
        if stream.publishing is not None:
            options["publishing"] = as_option(stream.publishing)
        return options

    def _start(self, spark: Spark, name: str, options: dict[str, Option]) -> None:
        """Start the query when Spark has started."""
        try:
            session = spark.session_unless(self._applier.interruption.stop)
            self._query = FrameQuery(
                session, name, options, self._checkpoint, self._sink, self._applier.interruption.check
            )
            self._query.start()
        except Stopped:
            pass
        except Exception as error:  # py4j and Spark raise many kinds; failure() gives it
            self._error = error

    def _rows(self, batch: DataFrame) -> Iterator[pa.RecordBatch]:
        assert self._query is not None
        return self._query.rows(batch)

    @property
    def applied(self) -> LSN:
        """The target's progress."""
        return self._sink.applied

    @property
    def batch_began(self) -> float:
        """When the last batch got its turn to write (monotonic seconds)."""
        return self._sink.began

    @property
    def running(self) -> bool:
        """Whether the query starts or runs."""
        if self._starter.is_alive():
            return self._sink.failure is None
        return self._query is not None and self._query.active

    def failure(self) -> SubscriberError | None:
        """Return why the query has ended, as an error with its original type; None if it was
        stopped.

        Raises:
            Exception: Spark has ended.
        """
        if self._sink.failure is not None:
            return self._sink.failure
        exception = self._error
        if exception is None and self._query is not None:
            exception = self._query.exception()
        if exception is None:
            return None
        if not isinstance(exception, PySparkException):
            raise exception
        return self._explain(exception)

    def cancel(self) -> None:
        """Tell the query to end: a batch in progress is rolled back, and no other begins. This does
        not wait for the end; :meth:`stop` does.
        """
        self._applier.interruption.stop.set()

    def stop(self) -> None:
        """End the query and wait for its end; a batch in progress is rolled back.

        Both Spark and the end of Python wait for the thread that applies. If that thread is in the
        code of a database driver then, the process would abort. Therefore this thread is waited for
        first, even if the JVM has ended.
        """
        self._end_batch()
        self._starter.join()
        if self._query is not None:
            self._query.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _end_batch(self) -> None:
        """End what is being applied, and wait for its end; it is rolled back."""
        self.cancel()
        while not self._sink.idle.wait(_INTERRUPT_SECONDS):
            self._applier.interruption.interrupt()

    def _explain(self, exception: Exception) -> SubscriberError:
        """Return why Spark has raised ``exception``: the error of the planner, or an error of
        Spark.
        """
        return (
            left_error(self._error_file)
            or missing_module(exception)
            or PipelineError(
                "the Spark query failed",
                detail=type(exception).__name__,
                hint="Spark's log says more; the query is started again.",
            )
        )


def missing_module(exception: Exception) -> PipelineError | None:
    """Return the error for a Spark Python worker that lacks a module; None if the exception has
    another cause.

    A worker that cannot import this package cannot send an error of this package, so only Python's
    text is available.
    """
    missing = _MISSING_MODULE.search(str(exception))
    if missing is None:
        return None
    return PipelineError(
        f'Spark\'s Python workers have no module "{missing[1]}"',
        hint="Set PYSPARK_PYTHON to the Python that has subscriber's dependencies; "
        "on a cluster it must exist at that path on every node.",
    )


class StartQuery(Protocol):
    """Starts the query of one subscription: ``functools.partial(ApplyQuery, spark)``.

    Code that keeps queries running gets this function, and does not depend on a Spark session.
    """

    def __call__(
        self,
        name: str,
        stream: JournalStream,
        applier: Applier,
        settings: Settings,
        *,
        on_applied: Callable[[ApplyResult], None],
        turn: contextlib.AbstractContextManager[object],
        on_failure: OnFailure = end_query,
    ) -> ApplyQuery:
        """Start a query and return it; the arguments are those of :class:`ApplyQuery`."""
