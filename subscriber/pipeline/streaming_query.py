"""One subscription's streaming query: source, decode and sink put together."""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from subscriber.apply.applier import Applier, ApplyResult
from subscriber.errors import PipelineError, SubscriberError
from subscriber.lsn import LSN, format_lsn
from subscriber.pipeline.frame_source import FrameSource, FrameStreamReader, as_option
from subscriber.pipeline.planning_error import left_error
from subscriber.pipeline.sink import BatchSink, OnFailure, end_query
from subscriber.publication.publishing import Publishing
from subscriber.settings import Settings

_MISSING_MODULE: Final = re.compile(r"No module named '([\w.]+)'")
_INTERRUPT_SECONDS: Final = 0.2
"""Between two interrupts of a batch that is to end: one that comes between two statements is
lost.
"""


@dataclass(frozen=True, slots=True)
class JournalStream:
    """What a query reads.

    Attributes:
        journal: the journal's URL.
        applied: where it begins: the target's progress.
        publishing: by what the subscriber publishes the changes; None where the server has done so.
    """

    journal: str
    applied: LSN
    publishing: Publishing | None = None


class ApplyQuery:
    """A running query from one journal into one target.

    Args:
        spark: the session.
        name: of the query; no other that runs has it.
        stream: what it reads.
        applier: applies the batches.
        settings: sizes.
        on_applied: told the progress after each batch.
        turn: held while the target is written.
        on_failure: asked whether, and when, a batch that has failed is to be tried again; it is
            called in the thread that applies.

    Raises:
        SubscriberError: the query cannot be started.
    """

    def __init__(
        self,
        spark: SparkSession,
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
        self._journal = stream.journal
        self._two_phase = applier.two_phase
        # Thrown away with the query: where to begin is the target's to say (progress_with_data).
        self._folder = Path(tempfile.mkdtemp(prefix="subscriber-checkpoint-"))
        self._checkpoint = self._folder / "checkpoint"
        self._error_file = self._folder / "error"
        self._sink = BatchSink(
            applier,
            self._checkpoint,
            stream.applied,
            on_applied,
            FrameStreamReader(
                url=stream.journal,
                starting_lsn=format_lsn(stream.applied),
                max_bytes=settings.max_batch_bytes,
                partition_bytes=settings.segment_bytes,
                two_phase=applier.two_phase,
                as_text=applier.target.capabilities.postgresql_text,
                publishing=stream.publishing,
            ),
            on_failure,
            turn=turn,
        )
        try:
            self._query = self._start(
                spark, name, stream, settings, as_text=applier.target.capabilities.postgresql_text
            )
        except PySparkException as error:
            explained = self._explain(error)
            shutil.rmtree(self._folder, ignore_errors=True)
            raise explained from error

    def _start(
        self, spark: SparkSession, name: str, stream: JournalStream, settings: Settings, *, as_text: bool
    ) -> StreamingQuery:
        spark.dataSource.register(FrameSource)
        source = (
            spark.readStream.format(FrameSource.name())
            .option("journal", self._journal)
            .option("startingLsn", format_lsn(stream.applied))
            .option("maxBytes", settings.max_batch_bytes)
            .option("partitionBytes", settings.segment_bytes)
            .option("twoPhase", self._two_phase)
            .option("asText", as_text)
            .option("errorFile", str(self._error_file))
        )
        if stream.publishing is not None:
            source = source.option("publishing", as_option(stream.publishing))
        return (
            source.load()
            .writeStream.queryName(name)
            .option("checkpointLocation", self._checkpoint.as_uri())
            .foreachBatch(self._sink)
            .start()
        )

    @property
    def applied(self) -> LSN:
        """The target's progress."""
        return self._sink.applied

    @property
    def batch_began(self) -> float:
        """When the last batch had its turn to write (monotonic seconds)."""
        return self._sink.began

    @property
    def running(self) -> bool:
        """Whether it still runs."""
        return bool(self._query.isActive)

    def failure(self) -> SubscriberError | None:
        """Why it ended, with the error's own type; None when it was stopped."""
        if self._sink.failure is not None:
            return self._sink.failure
        exception = self._query.exception()
        return None if exception is None else self._explain(exception)

    def cancel(self) -> None:
        """Have it end: a batch in progress rolled back, and none begun. This waits for nothing;
        :meth:`stop` does.
        """
        self._applier.interruption.stop.set()

    def stop(self) -> None:
        """Stop it; a batch in progress is rolled back.

        Spark waits for the thread that applies, and so does Python's own end: a thread that is in a
        driver's code then would abort the process. So that thread is waited for first, whatever has
        become of the JVM.
        """
        self.cancel()
        while not self._sink.idle.wait(_INTERRUPT_SECONDS):
            self._applier.interruption.interrupt()
        with contextlib.suppress(PySparkException, Py4JError, OSError):  # of a JVM that has ended it has ended too
            self._query.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _explain(self, exception: Exception) -> SubscriberError:
        """Why Spark has raised ``exception``: the planner's error, or what Spark has met itself."""
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
    """What to say when Spark's Python workers lack a module; None when that is not what Spark says.

    A worker that cannot import us cannot give an error of ours, so Python's text is all that there
    is.
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
    """Starts one subscription's query: ``functools.partial(ApplyQuery, spark)``.

    Whoever keeps queries running is given this, and need not know that there is a session.
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
        """A running query; the arguments are those of :class:`ApplyQuery`.

        Raises:
            SubscriberError: it could not be started.
        """
