"""How much faster two executors decode and filter than one: changes per second of a standalone
cluster with workers of one core each.

``python -m benchmarks.scaling`` receives W1's transaction into a journal. Tasks read its
partitions, decode and filter them, and encode the frames, as in a subscription; the frames are
dropped. Each cluster does this once before it is measured.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.receive import fill_journal
from benchmarks.workloads import BY_NAME
from subscriber.base.settings import Settings
from subscriber.postgres.publication.definition import Publication, TableEntry
from subscriber.postgres.publication.publishing import Publishing
from subscriber.postgres.schema.publisher_tables import PublisherColumn, PublisherTable, PublisherTables
from subscriber.spark.journal_frames import JournalFrames, JournalRange
from subscriber.spark.session import spark_session
from subscriber.stream.journal.positions import journal_positions
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.storage import open_storage

if TYPE_CHECKING:
    from pyspark import SparkContext

RUNS: Final = 3
FILTER: Final = "b > 300 AND c < 'c'"
_COLUMNS: Final = {"a": 20, "b": 23, "c": 25, "d": 1700, "e": 1184}


def measure(size: float = 1.0) -> dict[str, float]:
    """Changes per second with one worker and with two, as ``workers_1`` and ``workers_2``; medians
    of three.
    """
    workload = BY_NAME["W1"].scaled(size)
    found = {}
    with tempfile.TemporaryDirectory(prefix="subscriber-bench-") as name:
        journal = str(Path(name, "journal"))
        Path(journal).mkdir()
        publishing = _publishing(fill_journal(workload, journal).table_oid)
        for workers in (1, 2):
            with spark_session(f"local-cluster[{workers},1,1024]", Path(name, "spark.log")) as spark:
                seconds = [_seconds(spark.sparkContext, journal, publishing) for _ in range(1 + RUNS)]
            found[f"workers_{workers}"] = workload.amount / statistics.median(seconds[1:])
    return found


def _seconds(spark: SparkContext, journal: str, publishing: Publishing) -> float:
    settings = Settings(journal)
    frames = JournalFrames(journal, settings.segment_bytes, publishing=publishing)
    began = time.monotonic()
    begin, end = JournalReader(open_storage(journal)).control().begin, journal_positions(journal)[1]
    tasks = [frames.task(partition, None) for partition in frames.partitions(JournalRange(begin, end, 0))]
    rows = spark.parallelize(tasks, len(tasks))
    assert rows.map(lambda task: sum(len(frame) for frame in task(()))).sum() > 0
    return time.monotonic() - began


def _publishing(table_oid: int) -> Publishing:
    columns = tuple(
        PublisherColumn(name, number, type_oid, collation=100 if type_oid == 25 else 0)
        for number, (name, type_oid) in enumerate(_COLUMNS.items(), start=1)
    )
    table = PublisherTable(table_oid, "public", "t", "table", columns, "default", ("a",))
    publication = Publication("p", tables=(TableEntry("public", "t", where=FILTER),), publish=frozenset({"insert"}))
    return Publishing((publication,), PublisherTables(180000, {table.key: table}, frozenset({100})))


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"{name}: {value:,.0f}")
