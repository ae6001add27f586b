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
from subscriber.journal.positions import journal_positions
from subscriber.lsn import format_lsn
from subscriber.pipeline.frame_source import FrameStreamReader
from subscriber.pipeline.session import spark_session
from subscriber.publication.definition import Publication, TableEntry
from subscriber.publication.publishing import Publishing
from subscriber.schema.publisher_tables import PublisherColumn, PublisherTable, PublisherTables
from subscriber.settings import Settings

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
    reader = FrameStreamReader(
        url=journal,
        starting_lsn=None,
        max_bytes=settings.max_batch_bytes,
        partition_bytes=settings.segment_bytes,
        as_text=False,
        publishing=publishing,
    )
    began = time.monotonic()
    end = {"lsn": format_lsn(journal_positions(journal)[1])}
    partitions = reader.partitions(reader.initialOffset(), end)
    tasks = spark.parallelize(partitions, len(partitions))
    assert tasks.map(lambda partition: sum(batch.nbytes for batch in reader.read(partition))).sum() > 0
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
