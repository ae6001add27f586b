"""A few jobs at a time, and their rows in order: with a Spark that runs its jobs on the spot."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from subscriber.errors import Stopped
from subscriber.pipeline.read_ahead import MOST_BYTES, ReadAhead, jobs_at_a_time
from tests.waits import wait_until

SCHEMA = pa.schema([pa.field("value", pa.string())])


class Spark:
    """A SparkContext with three cores, and a batch of so many partitions."""

    defaultParallelism = 3  # noqa: N815 - Spark's name

    def __init__(self, partitions: int) -> None:
        self.batch: Any = SimpleNamespace(getNumPartitions=lambda: partitions)
        self.begun: list[int] = []
        self.groups: set[str] = set()
        self.cancelled: set[str] = set()
        self.may_end = threading.Event()
        self.may_end.set()

    def setJobGroup(self, group: str, _description: str, *, interruptOnCancel: bool) -> None:  # noqa: N802, N803 - Spark's
        assert interruptOnCancel
        self.groups.add(group)

    def cancelJobGroup(self, group: str) -> None:  # noqa: N802 - Spark's name
        self.cancelled.add(group)
        self.may_end.set()

    def read(self, _context: Any, _rows: Any, partition: int) -> list[bytes]:
        self.begun.append(partition)
        self.may_end.wait()
        return [message(f"{partition}a"), message(f"{partition}b")]


def message(value: str) -> bytes:
    """A row as Spark sends it."""
    return bytes(pa.record_batch([pa.array([value])], SCHEMA).serialize())


class Rows:
    """The values of the rows that a reader returns."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows
        self.close = rows.close

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        (value,) = next(self._rows).column("value").to_pylist()
        return str(value)


@pytest.fixture
def opened() -> Iterator[Callable[..., Rows]]:
    readers: list[ReadAhead] = []

    def rows_of(spark: Any, read: Any = None) -> Rows:
        readers.append(ReadAhead(spark, SCHEMA, 1, lambda batch: batch, read or spark.read))
        return Rows(readers[-1].rows(spark.batch))

    yield rows_of
    for reader in readers:
        reader.close()


def test_a_job_that_is_waited_for_can_be_given_up():
    """It is cancelled."""
    spark: Any = Spark(3)
    spark.may_end.clear()

    def give_up() -> None:
        raise Stopped("stopped")

    reader = ReadAhead(spark, SCHEMA, 1, lambda batch: batch, spark.read, give_up)
    with pytest.raises(Stopped):
        next(iter(reader.rows(spark.batch)))
    assert spark.cancelled == spark.groups
    reader.close()


def test_the_rows_of_all_partitions_come_in_order(opened):
    spark = Spark(5)
    rows = list(opened(spark))
    assert rows == [f"{partition}{row}" for partition in range(5) for row in "ab"]
    assert len(spark.groups) == 1
    assert not spark.cancelled


def test_a_batch_without_partitions_has_no_rows(opened):
    spark = Spark(0)
    assert list(opened(spark)) == []


def test_as_many_partitions_are_read_ahead_as_there_are_cores(opened):
    """Invariant bounded_memory: not one more."""
    spark = Spark(10)
    rows = opened(spark)
    assert next(rows) == "0a"
    wait_until(lambda: len(spark.begun) == 4)
    assert sorted(spark.begun) == [0, 1, 2, 3]
    assert [next(rows), next(rows)] == ["0b", "1a"]
    wait_until(lambda: len(spark.begun) == 5)
    assert sorted(spark.begun) == [0, 1, 2, 3, 4]


def test_jobs_that_nobody_needs_any_more_are_cancelled(opened):
    spark = Spark(10)
    rows = opened(spark)
    next(rows)
    spark.may_end.clear()
    next(rows)
    next(rows)
    wait_until(lambda: spark.begun[-1] == 4)
    rows.close()
    assert spark.cancelled == spark.groups
    assert max(spark.begun) == 4, "what has not begun does not begin"


def test_the_error_of_a_job_is_raised_in_the_place_of_its_rows(opened):
    spark = Spark(3)

    def read(_context: Any, _rows: Any, partition: int) -> list[bytes]:
        if partition == 1:
            raise RuntimeError("the executor was lost")
        return [message(str(partition))]

    rows = opened(spark, read)
    assert next(rows) == "0"
    with pytest.raises(RuntimeError, match="lost"):
        next(rows)


def test_jobs_are_cancelled_even_if_spark_has_ended(opened):
    spark = Spark(3)

    def gone(_group: str) -> None:
        spark.may_end.set()
        raise ConnectionError

    spark.cancelJobGroup = gone  # type: ignore[method-assign, assignment]
    rows = opened(spark)
    next(rows)
    spark.may_end.clear()
    next(rows)
    rows.close()


def test_a_job_that_never_returns_does_not_keep_the_process():
    """Spark forgets a job that is submitted while it stops. One in ten runs that were told to end
    during the warm-up, which begins when the last copy has ended, never ended.
    """
    code = """
import threading
from tests.unit.pipeline.test_read_ahead import SCHEMA, Spark
from subscriber.pipeline.read_ahead import ReadAhead

spark, begun = Spark(1), threading.Event()

def read(*_):
    begun.set()
    threading.Event().wait()

rows = ReadAhead(spark, SCHEMA, 1, lambda batch: batch, read).rows(spark.batch)
threading.Thread(target=next, args=(rows,), daemon=True).start()
begun.wait()
"""
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (answer.returncode, answer.stderr) == (0, "")


@pytest.mark.parametrize(
    ("cores", "partition_bytes", "jobs"),
    [(8, 1, 8), (1, 1, 2), (1000, MOST_BYTES // 4, 4), (8, 10 * MOST_BYTES, 2)],
)
def test_the_jobs_at_a_time_follow_cores_and_memory(cores, partition_bytes, jobs):
    assert jobs_at_a_time(cores, partition_bytes) == jobs
