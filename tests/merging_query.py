"""A user's query that a test kills: it appends each batch to one Delta table, and merges it into
another.

::

    python merging_query.py JOURNAL FOLDER [PLACE BATCH]

At PLACE of batch BATCH the process kills itself, its JVM and its Python workers: ``begin`` before
anything is written, ``append`` after the append, ``merge`` when the merge is computed and not
written, ``end`` when all is written and Spark has not stored that in the checkpoint.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame

from subscriber import PgoutputSource
from subscriber.spark import DeltaSink, append_changes, apply_changes
from subscriber.spark.session import spark_session


def main(journal: str, folder: Path, place: str, at: int) -> None:
    rows, changes = DeltaSink(str(folder / "rows")), DeltaSink(str(folder / "changes"))

    def kill_at(reached: str, number: int) -> None:
        if (place, at) == (reached, number):
            os.killpg(0, signal.SIGKILL)

    def write(batch: DataFrame, number: int) -> None:
        class KilledInMerge(DeltaSink):
            def merge(self, rows: pa.Table, deleted: pa.Table, version: int) -> None:
                kill_at("merge", number)
                super().merge(rows, deleted, version)

        kill_at("begin", number)
        append_changes(batch, changes)
        kill_at("append", number)
        apply_changes(batch, KilledInMerge(rows.uri), keys=["id"])
        kill_at("end", number)

    with spark_session("local[2]", folder / "spark.log") as spark:
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        spark.conf.set("spark.sql.codegen.wholeStage", "false")
        spark.dataSource.register(PgoutputSource)
        feed = spark.readStream.format("pgoutput").options(journal=journal, table="public.t", maxBytesPerTrigger="1")
        query = feed.load().writeStream.foreachBatch(write).trigger(availableNow=True)
        query.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()


if __name__ == "__main__":
    place, at = sys.argv[3:] or ("", "-1")
    main(sys.argv[1], Path(sys.argv[2]), place, int(at))
