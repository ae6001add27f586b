"""A few jobs at a time: with a Spark that runs its tasks on the spot."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from subscriber.errors import PipelineError, PublisherUnavailable
from subscriber.pipeline.jobs import MOST_BYTES, MOST_RANGES, RangeJobs
from subscriber.protocol.messages import Relation
from subscriber.publisher.copy_out import CopyBlock
from subscriber.publisher.copy_plan import CopyRange, Piece
from subscriber.stages.blocks import LoadBlock

T = Relation(1, "public", "t", "d", ())
PIECE = Piece("public", "t", 1, ((1, 1),), 100, 1.0)
UNCUT = Piece("public", "foreign", 1, ((1, 0),), 0, 1.0)


def part(first: int, end: int) -> CopyRange:
    return CopyRange(PIECE, first, end)


class Spark:
    """What RangeJobs asks of a SparkContext."""

    defaultParallelism = 8  # noqa: N815 - Spark's name

    def __init__(self) -> None:
        self.properties: set[tuple[str, str]] = set()
        self.cancelled = threading.Event()
        self.fails: Exception | None = None

    def setJobGroup(self, group: str, description: str, *, interruptOnCancel: bool) -> None:  # noqa: N802, N803 - Spark's
        assert interruptOnCancel
        self.properties.add(("group", group))

    def setLocalProperty(self, name: str, value: str) -> None:  # noqa: N802 - Spark's name
        self.properties.add((name, value))

    def cancelJobGroup(self, group: str) -> None:  # noqa: N802 - Spark's name
        self.cancelled.set()

    def parallelize(self, values: list[Any], partitions: int) -> Rdd:
        assert (values, partitions) == ([], 1)
        return Rdd(self)


class Rdd:
    def __init__(self, spark: Spark, task: Callable[[Iterator[Any]], Iterator[Any]] | None = None) -> None:
        self._spark = spark
        self._task = task

    def mapPartitions(self, task: Callable[[Iterator[Any]], Iterator[Any]]) -> Rdd:  # noqa: N802 - Spark's name
        return Rdd(self._spark, task)

    def toLocalIterator(self, *, prefetchPartitions: bool) -> Iterator[Any]:  # noqa: N802, N803 - Spark's names
        assert prefetchPartitions
        assert self._task is not None
        if self._spark.fails:
            raise self._spark.fails
        return self._task(iter(()))


class Reader:
    """Rows are positions; at most ``most`` of them a job, and one may be giant."""

    copy_format = "text"

    def __init__(
        self, most: int = 1000, *, before: Callable[[CopyRange], None] = lambda _part: None, giant: int | None = None
    ) -> None:
        self.most = most
        self.giant = giant
        self.before = before
        self.reading = 0
        self.most_reading = 0
        self._lock = threading.Lock()

    def read_range(self, wanted: CopyRange, most_bytes: int) -> Iterator[CopyBlock | CopyRange]:
        assert most_bytes in (1, 7), "the first jobs read less"
        with self._lock:
            self.reading += 1
            self.most_reading = max(self.reading, self.most_reading)
        self.before(wanted)
        end = min(wanted.end, wanted.first + self.most)
        rows = [row for row in range(wanted.first, end) if row != self.giant]
        yield CopyBlock(b"".join(b"%d\n" % row for row in rows), len(rows))
        if self.giant is not None:
            yield CopyRange(PIECE, self.giant, self.giant + 1, giant=True)
        with self._lock:
            self.reading -= 1
        if end < wanted.end:
            yield part(end, wanted.end)

    def read_whole(self, wanted: CopyRange, _stop: threading.Event) -> Iterator[CopyBlock]:
        assert self.giant is None or wanted.first == self.giant
        yield CopyBlock(b"whole\n", 1)


def jobs(reader: Reader, *ranges: CopyRange, spark: Spark | None = None) -> RangeJobs:
    context: Any = spark or Spark()
    anything: Any = reader
    return RangeJobs(context, anything, T, ranges, 7, group="g")


def lines(blocks: Iterator[LoadBlock]) -> list[str]:
    return [line for block in blocks for line in block.content().decode().splitlines()]


def test_every_range_and_every_rest_of_one_is_read():
    with jobs(Reader(most=3), part(0, 10), part(10, 11), part(11, 50)) as running:
        assert sorted(map(int, lines(running.blocks(threading.Event())))) == list(range(50))


def test_a_giant_row_is_read_by_the_driver():
    """bounded_memory: the JVM would be out of memory, and the run at its end"""
    reader = Reader(giant=4)
    with jobs(reader, part(0, 6)) as running:
        assert sorted(lines(running.blocks(threading.Event()))) == ["0", "1", "2", "3", "5", "whole"]


def test_no_ranges_are_nothing_to_read():
    with jobs(Reader()) as running:
        assert lines(running.blocks(threading.Event())) == []


def test_a_range_for_each_core_is_in_flight():
    """Invariant bounded_memory: no more."""
    reader = Reader(before=lambda _part: time.sleep(0.02))
    with jobs(reader, *(part(n, n + 1) for n in range(30))) as running:
        assert len(lines(running.blocks(threading.Event()))) == 30
    assert 2 <= reader.most_reading <= Spark.defaultParallelism < MOST_RANGES


def test_all_jobs_together_have_a_limited_amount_of_data():
    """Invariant bounded_memory: more cores read less at a time."""
    anything: Any = None
    shares = []
    for cores in (1, 2, 4, 8, 100):
        spark: Any = Spark()
        spark.defaultParallelism = cores
        opened = RangeJobs(spark, anything, T, [part(0, 1)], 2**40, group="g")
        shares.append(opened.job_bytes * max(2, min(cores, MOST_RANGES)))
    assert max(shares) <= MOST_BYTES


def test_jobs_have_a_group_and_the_pool_of_copies():
    spark = Spark()
    with jobs(Reader(), part(0, 1), spark=spark) as running:
        lines(running.blocks(threading.Event()))
    assert spark.properties == {("group", "g"), ("spark.scheduler.pool", "copy")}


def test_what_cannot_be_cut_is_read_without_a_job():
    spark = Spark()
    spark.fails = AssertionError("a job was started")
    with jobs(Reader(), CopyRange(UNCUT, 0, 0), spark=spark) as running:
        assert lines(running.blocks(threading.Event())) == ["whole"]


def test_without_spark_the_driver_reads_everything():
    reader: Any = Reader()
    with RangeJobs(None, reader, T, [part(0, 3)], 7, group="g") as running:
        assert lines(running.blocks(threading.Event())) == ["whole"]


def test_an_error_keeps_its_type_and_ends_the_other_jobs():
    def lose(wanted: CopyRange) -> None:
        if wanted.first == 1:
            raise PublisherUnavailable("gone")

    spark = Spark()
    with (
        pytest.raises(PublisherUnavailable, match="gone"),
        jobs(Reader(before=lose), *(part(n, n + 1) for n in range(1000)), spark=spark) as running,
    ):
        lines(running.blocks(threading.Event()))
    assert "g" not in {thread.name for thread in threading.enumerate()}


def test_an_error_of_sparks_is_worth_another_try_and_its_text_stays_out():
    spark = Spark()
    spark.fails = RuntimeError("row (secret)")
    with (
        pytest.raises(PipelineError, match="a Spark job of the initial copy failed") as raised,
        jobs(Reader(), part(0, 1), spark=spark) as running,
    ):
        lines(running.blocks(threading.Event()))
    assert raised.value.transient
    assert "secret" not in raised.value.report()


def test_a_module_that_the_workers_lack_is_named():
    spark = Spark()
    spark.fails = RuntimeError("ModuleNotFoundError: No module named 'psycopg'")
    with (
        pytest.raises(PipelineError, match='have no module "psycopg"'),
        jobs(Reader(), part(0, 1), spark=spark) as running,
    ):
        lines(running.blocks(threading.Event()))


def test_stopping_cancels_what_runs():
    """Nobody takes the blocks any more, and nobody waits for ever."""
    spark, stop = Spark(), threading.Event()
    reader = Reader(before=lambda wanted: None if wanted.first == 0 else assert_true(spark.cancelled.wait(10)))
    with (
        pytest.raises(PipelineError, match="stopped") as raised,
        jobs(reader, *(part(n, n + 1) for n in range(10)), spark=spark) as running,
    ):
        for _block in running.blocks(stop):
            stop.set()
    assert raised.value.sqlstate == "57014"
    assert "g" not in {thread.name for thread in threading.enumerate()}


def assert_true(condition: bool) -> None:
    assert condition
