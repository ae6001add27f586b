"""A query of the change feed is killed in the middle of micro-batches and started again from
Spark's checkpoint: every row comes once.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from subscriber.postgres.protocol import messages as m
from tests.change_feeds import FoldedTable
from tests.frames import relation, transaction, values
from tests.journals import publish, writing
from tests.waits import wait_until

pytestmark = pytest.mark.spark

T = relation("public.t", {"a": "int4", "b": "text"}, key=["a"])
TRANSACTIONS = 12
ROOT = Path(__file__).resolve().parents[2]

QUERY = """
import json, os, sys, time
from pathlib import Path
from subscriber import PgoutputSource
from subscriber.spark.session import spark_session

folder, seconds = Path(sys.argv[1]), float(sys.argv[2])

def write(batch, number):
    rows = [row.asDict() for row in batch.drop("_commit_timestamp").collect()]
    time.sleep(seconds)
    part = folder / "out" / f"{number:04d}.part"
    part.write_text(json.dumps(rows))
    part.rename(part.with_suffix(".json"))
    time.sleep(seconds)

with spark_session("local[1]", folder / "spark.log") as spark:
    spark.dataSource.register(PgoutputSource)
    options = {"journal": str(folder / "journal"), "table": "t", "consumer": "c", "maxBytesPerTrigger": "1"}
    stream = spark.readStream.format("pgoutput").options(**options).load()
    query = stream.writeStream.foreachBatch(write).option("checkpointLocation", str(folder / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()
"""


def start(folder: Path, seconds: float) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-c", QUERY, str(folder), str(seconds)]
    return subprocess.Popen(command, env=environment, start_new_session=True)


def test_a_query_that_is_killed_goes_on_and_has_every_row_once(tmp_path):
    for name in ("journal", "out"):
        (tmp_path / name).mkdir()
    with writing(tmp_path / "journal") as journal:
        for number in range(TRANSACTIONS):
            end = 0x200 + 0x100 * number
            changes: list[m.Message] = [m.Insert(T.relation_id, values(str(number), "x"))]
            if number:
                changes.append(m.Update(T.relation_id, None, None, values(str(number - 1), "y")))
            publish(journal, end, transaction(end, T, *changes, xid=number + 1))

    def written() -> list[Path]:
        return sorted((tmp_path / "out").glob("*.json"))

    for batches in (2, 4):
        query = start(tmp_path, 0.3)
        try:
            wait_until(lambda: len(written()) >= batches or query.poll() is not None, 240)  # noqa: B023
            assert query.poll() is None
        finally:
            os.killpg(query.pid, signal.SIGKILL)
            query.wait()
    assert start(tmp_path, 0).wait(400) == 0
    rows = [row for file in written() for row in json.loads(file.read_text())]
    places = [(row["_commit_version"], row["_sequence"]) for row in rows]
    assert places == sorted(set(places))
    table = FoldedTable(("a", "b"), ("a",))
    table.fold(rows)
    assert len(written()) == TRANSACTIONS
    assert sorted(table.rows.values()) == [
        *((number, "y") for number in range(TRANSACTIONS - 1)),
        (TRANSACTIONS - 1, "x"),
    ]
