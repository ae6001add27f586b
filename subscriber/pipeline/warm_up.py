"""Warms up Spark while a run has nothing to do.

::

    run idle ──▶ a query over a journal of one transaction ──▶ a job as a copy runs it ──▶ done
                 planner, tasks, foreachBatch, read ahead      RDD, result by socket

The first query that reads the journal, and the first copy, cost the JVM one to three seconds of
processor time that later ones do not: it loads Spark's classes and compiles what it runs. A run
that has caught up would pay that at the moment when a large transaction arrives, or a large table.
So the supervisor asks for the warm-up once, as soon as Spark has started and no worker has work.

The query is one of this package, with the journal of a temporary folder. It applies nothing: its
frames are read and dropped. *Rejected:* the same when Spark starts, because at that time the run
usually has work, and only two cores may be there for it.
"""

from __future__ import annotations

import logging
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from subscriber.journal.segment import Kind
from subscriber.journal.storage import open_storage
from subscriber.journal.writer import open_writer
from subscriber.lsn import INVALID_LSN, LSN, format_lsn
from subscriber.pipeline.frame_query import FrameQuery, Option
from subscriber.pipeline.session import is_local
from subscriber.pipeline.spark import Spark
from subscriber.protocol.encode import encode
from subscriber.protocol.envelope import XLogData, encode_envelope
from subscriber.protocol.messages import Begin, Commit, Insert, Relation, RelationColumn, TextValue

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)

_BEGIN: Final = LSN(0x100)
_COMMIT: Final = LSN(0x200)
_END: Final = LSN(0x208)
_INT4: Final = 23
_SECONDS: Final = 60.0
"""How long to wait for the query."""
_BYTES: Final = 1 << 20


class WarmUp:
    """Warms up Spark once, in a thread of its own.

    Args:
        spark: the session to warm up, which may still be starting.
    """

    def __init__(self, spark: Spark) -> None:
        self._spark = spark
        self._thread: threading.Thread | None = None

    def begin(self) -> bool:
        """Begin if Spark has started. Later calls have no effect.

        Returns:
            Whether it has begun, now or before.
        """
        if self._thread is None and (session := self._spark.created) is not None:
            self._thread = threading.Thread(target=self._run, args=(session,), name="warm-up of Spark", daemon=True)
            self._thread.start()
        return self._thread is not None

    def _run(self, session: SparkSession) -> None:
        try:
            warm_up(session, local=is_local(self._spark.master))
        except Exception as error:  # whatever fails here fails again, and is reported, where it is needed
            logger.debug("Spark was not warmed up: %s", type(error).__name__)


def warm_up(session: SparkSession, *, local: bool) -> None:
    """Run a query, and a job of a copy, as a subscription would.

    Args:
        session: the session to warm up.
        local: whether the executors share this machine. Others cannot read the temporary journal,
            so they run the job only.

    Raises:
        Exception: Spark has ended, or the temporary folder cannot be written.
    """
    if local:
        # In Spark's own folder, which is removed with the session whatever becomes of this thread.
        scratch = session.sparkContext.getConf().get("spark.local.dir")
        with tempfile.TemporaryDirectory(prefix="warm-up-", dir=scratch, ignore_cleanup_errors=True) as folder:
            _run_query(session, Path(folder))
    _run_job(session.sparkContext)


def _run_query(session: SparkSession, folder: Path) -> None:
    journal, frames = folder / "journal", folder / "frames"
    _write_journal(journal)
    frames.mkdir()
    options: dict[str, Option] = {
        "journal": str(journal),
        "startingLsn": format_lsn(_BEGIN),
        "maxBytes": _BYTES,
        "partitionBytes": _BYTES,
        "frameFolder": str(frames),
    }
    read = threading.Event()

    def drop(batch: DataFrame, _batch_id: int) -> None:
        for _ in query.rows(batch):
            pass
        read.set()

    query = FrameQuery(session, "warm-up", options, folder / "checkpoint", drop)
    try:
        query.start()
        read.wait(_SECONDS)
    finally:
        query.stop()


def _write_journal(folder: Path) -> None:
    """Write a journal of one transaction, which inserts one row."""
    table = Relation(1, "public", "t", "d", (RelationColumn(1, "a", _INT4, -1),))
    changes = (Begin(_COMMIT, 0, 1), table, Insert(table.relation_id, (TextValue(b"1"),)), Commit(_COMMIT, _END, 0))
    with open_writer(
        open_storage(str(folder)), system_identifier="1", slot="warm_up", confirmed_lsn=INVALID_LSN, applied_lsn=_BEGIN
    ) as journal:
        builder = journal.builder({}, in_stream=False)
        builder.extend([encode_envelope(XLogData(_COMMIT, _COMMIT, 0, encode(change))) for change in changes])
        journal.publish(builder, _END, kind=Kind.TRANSACTIONS, xid=0, finish=encode(changes[-1]))


def _run_job(context: SparkContext) -> None:
    for _ in context.parallelize([b""], 1).mapPartitions(list).toLocalIterator(prefetchPartitions=True):
        pass
