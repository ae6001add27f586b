"""A running Spark query over the frames of a journal, which gives its micro-batches to a function.

::

    FrameSource ──▶ writeStream.foreachBatch ──▶ apply(batch, batch_id) ──▶ rows(batch): its frames, in order
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from subscriber.pipeline.executors import ExecutorWatch
from subscriber.pipeline.frame_files import remove_frames
from subscriber.pipeline.frame_source import FRAME_SCHEMA, FrameSource
from subscriber.pipeline.read_ahead import ReadAhead

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Option = str | int | bool

_starting: Final = threading.Lock()
"""Held while a query starts: with the first one, pyspark starts a server for the calls of
foreachBatch, and does not expect another thread to do the same.
"""


class FrameQuery:
    """One query; :meth:`start` starts it.

    Args:
        session: runs the query.
        name: the name of the query; no other running query may have it.
        options: the options of :class:`~subscriber.pipeline.frame_source.FrameSource`.
        checkpoint: the folder of Spark's checkpoint, which does not exist yet.
        apply: called with each micro-batch and its number, in a thread of Spark.
        check: called before the query starts, and several times a second while a job is waited
            for; an error that it raises ends the start or the micro-batch.
    """

    def __init__(
        self,
        session: SparkSession,
        name: str,
        options: Mapping[str, Option],
        checkpoint: Path,
        apply: Callable[[DataFrame, int], None],
        check: Callable[[], None] = lambda: None,
    ) -> None:
        folder = options.get("frameFolder")
        self._frame_folder = None if folder is None else Path(str(folder))
        self._session = session
        self._name = name
        self._options = options
        self._checkpoint = checkpoint
        self._apply = apply
        self._check = check
        executors = ExecutorWatch(session.sparkContext)

        def check_all() -> None:
            check()
            executors.check()

        self._ahead = ReadAhead(session.sparkContext, FRAME_SCHEMA, int(options["partitionBytes"]), check=check_all)
        self._caller: Any = None
        self._query: StreamingQuery | None = None

    def start(self) -> None:
        """Start the query, after other queries that are about to start.

        Raises:
            Exception: the error of ``check``, or Spark has ended; py4j and pyspark raise many
                kinds.
        """
        with _starting:
            self._check()
            self._session.dataSource.register(FrameSource)
            source = self._session.readStream.format(FrameSource.name()).options(**self._options)
            self._query = (
                source.load()
                .writeStream.queryName(self._name)
                .option("checkpointLocation", self._checkpoint.as_uri())
                .foreachBatch(self._call)
                .start()
            )

    def _call(self, batch: DataFrame, batch_id: int) -> None:
        """Pass a micro-batch on; Spark calls this in a thread of its own."""
        gateway: Any = batch.sparkSession.sparkContext._gateway  # noqa: SLF001 - it has no other name
        self._caller = gateway._gateway_client.get_thread_connection()  # noqa: SLF001 - the same
        self._apply(batch, batch_id)

    def rows(self, batch: DataFrame) -> Iterator[pa.RecordBatch]:
        """Return the rows of a micro-batch; see :meth:`ReadAhead.rows`."""
        if self._frame_folder is not None:
            remove_frames(self._frame_folder)
        return self._ahead.rows(batch)

    @property
    def active(self) -> bool:
        """Whether the query runs."""
        return self._query is not None and bool(self._query.isActive)

    def exception(self) -> Exception | None:
        """Return why Spark has ended the query; None if it was stopped, runs, or was not started.

        Raises:
            Exception: Spark has ended.
        """
        return None if self._query is None else self._query.exception()

    def stop(self) -> None:
        """End the query, and wait for its end. The call of ``apply`` must have returned."""
        if self._query is not None:
            with contextlib.suppress(PySparkException, Py4JError, OSError):  # if the JVM has ended, so has the query
                self._query.stop()
        # Spark's thread has ended. Unless the JVM has, too, its connection to our thread is open.
        connection = None if self._caller is None else self._caller.socket
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._ahead.close()
