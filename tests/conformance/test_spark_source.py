"""``spark.readStream.format("pgoutput")`` as a public source, and the apply loop with Spark: with a
scripted journal.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from subscriber.apply.exact import ExactApplier
from subscriber.base.errors import JournalGap
from subscriber.base.lsn import LSN
from subscriber.base.settings import Settings
from subscriber.catalog.own_tables import CATALOG
from subscriber.catalog.progress import OriginProgress
from subscriber.postgres.protocol import messages as m
from subscriber.spark import apply_loop
from subscriber.spark.apply_loop import ApplyLoop, JournalStream
from subscriber.spark.apply_pause import ApplyPause
from subscriber.spark.pending_session import PendingSession
from subscriber.spark.python_workers import package_archive
from subscriber.spark.session import spark_session
from subscriber.spark.source import PgoutputSource
from subscriber.stream.journal.positions import journal_positions
from subscriber.targets import Target, open_target
from tests.frames import relation, transaction, values
from tests.streams import receive
from tests.waits import wait_until

pytestmark = pytest.mark.spark

T = relation("public.t", {"a": "int4", "b": "text"}, key=["a"])


def insert(key: int) -> m.Insert:
    return m.Insert(T.relation_id, values(str(key), "x" * 50))


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session("local[2]", tmp_path_factory.mktemp("spark") / "spark.log") as session:
        session.dataSource.register(PgoutputSource)
        yield session


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Three transactions of ten rows, each in a separate entry."""
    folder = tmp_path / "journal"
    folder.mkdir()
    script: list[Any] = []
    for number in range(1, 4):
        rows = [insert(number * 100 + row) for row in range(10)]
        script += [*transaction(0x100 + number * 0x100, *([T] if number == 1 else []), *rows, xid=700 + number), None]
    receive(folder, script)
    return folder


def read_all(spark: SparkSession, journal: Path, checkpoint: Path, **options: str) -> list[list[Any]]:
    """The rows of each micro-batch, until nothing is left."""
    batches: list[list[Any]] = []
    stream = spark.readStream.format("pgoutput").option("journal", str(journal)).options(**options).load()
    query = (
        stream.writeStream.foreachBatch(lambda batch, _number: batches.append(batch.collect()))
        .option("checkpointLocation", str(checkpoint))
        .start()
    )
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    return [batch for batch in batches if batch]


def test_rows_come_in_commit_order_with_their_transaction(spark, journal, tmp_path):
    rows = [row for batch in read_all(spark, journal, tmp_path / "checkpoint") for row in batch]
    inserts = [row for row in rows if row.action == "I"]
    assert [(row.finish_lsn, row.xid, row.relation) for row in inserts[::10]] == [
        (0x200, 701, "public.t"), (0x300, 702, "public.t"), (0x400, 703, "public.t"),
    ]  # fmt: skip
    assert [row.finish_lsn for row in rows] == sorted(row.finish_lsn for row in rows)
    assert len(inserts) == 30


def test_a_micro_batch_never_splits_a_transaction(spark, journal, tmp_path):
    batches = read_all(spark, journal, tmp_path / "checkpoint", maxBytes="1")
    assert [{row.finish_lsn for row in batch} for batch in batches] == [{0x200}, {0x300}, {0x400}]
    assert all((batch[-1].action, sum(row.action == "I" for row in batch)) == ("C", 10) for batch in batches)


def test_every_partition_describes_the_relations_it_needs(spark, journal, tmp_path):
    """A segment is self-contained: R stands before the first change that needs it."""
    for batch in read_all(spark, journal, tmp_path / "checkpoint", maxBytes="1"):
        actions = [row.action for row in batch]
        assert actions.index("R") < actions.index("I")


def test_a_query_goes_on_where_its_checkpoint_ends(spark, journal, tmp_path):
    read_all(spark, journal, tmp_path / "checkpoint")
    receive(journal, [*transaction(0x500, T, insert(1), xid=704), None])
    rows = [row for batch in read_all(spark, journal, tmp_path / "checkpoint") for row in batch]
    assert {row.xid for row in rows if row.action != "R"} == {704}


def test_a_query_begins_where_it_is_told(spark, journal, tmp_path):
    rows = [row for batch in read_all(spark, journal, tmp_path / "checkpoint", startingLsn="0/300") for row in batch]
    assert {row.xid for row in rows if row.action != "R"} == {703}


def test_a_start_before_the_journal_is_refused(spark, journal, tmp_path):
    with pytest.raises(Exception, match=JournalGap.__name__) as caught:
        read_all(spark, journal, tmp_path / "checkpoint", startingLsn="0/50")
    assert "0/50" in str(caught.value)
    assert "0/100" in str(caught.value)


# The apply loop -----------------------------------------------------------------------------------


def apply(spark: SparkSession, journal: Path, target: Target) -> ApplyLoop:
    return ApplyLoop(
        PendingSession("local[2]", lambda: spark),
        "apply 1: s",
        JournalStream(str(journal), LSN(0x100)),
        ExactApplier(target, subscription="s", subid=1),
        Settings(str(journal.parent), segment_bytes=1),
        on_applied=lambda _result: None,
        pause=ApplyPause(),
    )


def test_executors_decode_a_batch_and_sparks_ui_names_its_jobs(spark, journal, tmp_path, monkeypatch):
    """Invariant bounded_memory: the JVM forgets a partition's frames when its job is done (see
    pipeline.jobs).
    """
    monkeypatch.setattr(apply_loop, "SMALL_BYTES", 1)
    context: Any = spark.sparkContext
    kept = context._jsc.sc().dagScheduler().activeQueryToJobs()
    with open_target(f"sqlite:///{tmp_path / 'target.db'}") as target:
        with target.begin() as connection:
            CATALOG.create_all(connection)
            OriginProgress(1).create(connection, LSN(0x100))
            connection.exec_driver_sql("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
        loop = apply(spark, journal, target)
        try:
            wait_until(lambda: loop.applied == 0x400 or not loop.running)
        finally:
            loop.stop()
        assert loop.failure() is None
        with target.begin() as connection:
            assert connection.exec_driver_sql("SELECT count(*) FROM t").scalar() == 30
    assert kept.size() == 0
    jobs = context._jsc.sc().statusStore().jobsList(None)
    shown = [jobs.apply(number).description() for number in range(jobs.size())]
    assert [one.get() for one in shown if one.isDefined()].count("apply 1: s, 0/100 to 0/400") == 3


def test_positions_of_the_journal_are_what_the_query_reaches(journal):
    assert journal_positions(str(journal)) == (LSN(0x400), LSN(0x400))


def test_the_archive_for_executors_is_the_whole_package(tmp_path):
    """Executors need nothing but Python and the dependencies."""
    archive = package_archive(tmp_path / "subscriber.zip")
    code = (
        f"import sys; sys.path.insert(0, {str(archive)!r}); import subscriber.spark.source, subscriber.spark.apply_loop;"
        "print(subscriber.spark.apply_loop.__file__)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert answer.stdout.startswith(str(archive))


def test_python_workers_are_forked_with_their_modules(spark):
    """Each worker would otherwise import them for most of a second. Nothing imports pandas."""

    def look(_: object) -> tuple[bool, bool, str]:
        import os
        import sys
        from pathlib import Path

        there = "subscriber.stream.decode.decode_frames" in sys.modules
        return there, "pandas" in sys.modules, Path(f"/proc/{os.getppid()}/cmdline").read_text()

    ((there, pandas, parent),) = spark.sparkContext.parallelize([0], 1).map(look).collect()
    assert (there, pandas) == (True, False)
    assert "subscriber.base.fork_server" in parent
