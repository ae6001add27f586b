"""The initial copy: the target's table, its jobs, and how an error is worded. Copies from a
publisher are tested in tests/conformance/test_copy.py.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from subscriber.base.errors import ConflictError, PipelineError, PublisherUnavailable, TargetRelationError
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.schema_changes import SchemaChanges
from subscriber.postgres.protocol.messages import Relation
from subscriber.postgres.schema.relation_names import parse_names
from subscriber.publisher.copy_out import CopyBlock
from subscriber.publisher.copy_plan import CopyRange, Piece
from subscriber.publisher.snapshot import CopySession
from subscriber.spark import copy, copy_part
from subscriber.spark.copy import (
    MOST_BYTES,
    CopySource,
    _target_relation,
    _with_context,
    bytes_of_job,
    driver_blocks,
    executor_blocks,
)
from subscriber.spark.jobs import MOST_JOBS, JobGroup
from subscriber.stream.decode.blocks import LoadBlock
from subscriber.targets import Target, open_target
from tests.frames import relation

T = relation("public.t", {"a": "int4", "b": "text"}, key=["a"])


@pytest.fixture
def target(tmp_path):
    with open_target(f"sqlite:///{tmp_path / 'target.db'}") as opened:
        ensure_catalog(opened.engine)
        with opened.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE t (a INTEGER PRIMARY KEY)")
            connection.exec_driver_sql("CREATE TABLE kept (a INTEGER PRIMARY KEY, b TEXT)")
        yield opened


def source(**options: object) -> CopySource:
    return CopySource(
        conninfo="password=hush",
        subscription="s",
        schema="public",
        table="t",
        snapshot="00000003-1",
        files=(),
        session=CopySession("password=hush", "s", "00000003-1"),
        **options,  # type: ignore[arg-type]
    )


def columns_of(target: Target, table: str) -> list[str]:
    with target.engine.connect() as connection:
        reflected = target.shapes.reflect(connection, "public", table)
    assert reflected is not None
    return [column.name for column in reflected.columns]


def test_a_column_that_the_target_does_not_have_is_an_error(target):
    """D10: as in the stream."""
    with pytest.raises(TargetRelationError, match="b"):
        _target_relation(source(), target, T)
    assert columns_of(target, "t") == ["a"]


def test_a_missing_column_is_added_when_the_subscription_asks_for_that(target, caplog):
    changes = SchemaChanges(1, "s")
    with caplog.at_level("INFO"):
        local = _target_relation(source(add_columns=target.begin, changes=changes), target, T)
    assert [column.name for column in local.columns] == ["a", "b"]
    assert columns_of(target, "t") == ["a", "b"]
    assert "ADD COLUMN" in caplog.text


def test_the_table_of_the_map_is_filled(target):
    local = _target_relation(source(names=parse_names("public.t => public.kept")), target, T)
    assert local.table.name == "kept"


def test_an_error_names_the_table_and_the_column_as_postgresql_does():
    error = _with_context(ConflictError("out of range", relation="public.t", column="a"), None)
    assert error.context == 'initial copy of table "public.t", column "a"'
    assert _with_context(ConflictError("away", relation="public.t"), None).context == 'initial copy of table "public.t"'


def test_an_error_that_has_a_context_keeps_it():
    error = ConflictError("out of range", relation="public.t", context="line 3")
    assert _with_context(error, None).context == "line 3"


def test_no_password_is_in_the_repr_of_a_copy():
    """names_are_data"""
    assert "hush" not in repr(source())


# Jobs, with a Spark that runs its tasks on the spot -----------------------------------------------

R = Relation(1, "public", "t", "d", ())
PIECE = Piece("public", "t", 1, ((1, 1),), 100, 1.0)
UNCUT = Piece("public", "foreign", 1, ((1, 0),), 0, 1.0)


def part(first: int, end: int) -> CopyRange:
    return CopyRange(PIECE, first, end)


class Spark:
    """What a copy asks of a SparkContext."""

    defaultParallelism = 8  # noqa: N815 - Spark's name
    _jsc = SimpleNamespace(sc=lambda: SimpleNamespace(isLocal=lambda: True))

    def __init__(self, master: str = "local[8]") -> None:
        self.master = master
        self.properties: set[tuple[str, str]] = set()
        self.cancelled = threading.Event()
        self.fails: Exception | None = None

    def setJobGroup(self, group: str, description: str, *, interruptOnCancel: bool) -> None:  # noqa: N802, N803 - Spark's
        assert interruptOnCancel
        self.properties.add(("group", description))

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

    def collect(self) -> list[Any]:
        assert self._task is not None
        if self._spark.fails:
            raise self._spark.fails
        return list(self._task(iter(())))


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
        self.sessions: list[object] = []
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

    def read_whole(self, wanted: CopyRange, _stop: threading.Event, session: object = None) -> Iterator[CopyBlock]:
        self.sessions.append(session)
        assert self.giant is None or wanted.first == self.giant
        yield CopyBlock(b"whole\n", 1)


def blocks(
    reader: Reader, *ranges: CopyRange, spark: Spark | None = None, stop: threading.Event | None = None
) -> Generator[LoadBlock, None, None]:
    context: Any = spark or Spark()
    anything: Any = reader
    group = JobGroup("g", "copy of t", copy._FAILURE, "copy")
    return executor_blocks(context, anything, R, ranges, 7, stop or threading.Event(), group=group)


def lines(found: Iterator[LoadBlock]) -> list[str]:
    return [line for block in found for line in block.content().decode().splitlines()]


@pytest.mark.parametrize("master", ["local[2]", "spark://elsewhere:7077"], ids=["in files", "through the JVM"])
def test_every_range_and_every_rest_of_one_is_read(master):
    spark = Spark(master)
    found = lines(blocks(Reader(most=3), part(0, 10), part(10, 11), part(11, 50), spark=spark))
    assert sorted(map(int, found)) == list(range(50))


def test_files_that_nobody_has_read_are_removed_with_their_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with closing(blocks(Reader(most=3), part(0, 10), part(10, 20))) as running:
        next(running)
        assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []


def test_blocks_pass_the_jvm_where_their_files_cannot_be_written(monkeypatch):
    monkeypatch.setattr(copy_part, "write_result", lambda _folder, _content: None)
    assert lines(blocks(Reader(), part(0, 3))) == ["0", "1", "2"]


def test_a_giant_row_is_read_by_the_driver():
    """bounded_memory: the JVM would be out of memory, and the run at its end"""
    reader = Reader(giant=4)
    assert sorted(lines(blocks(reader, part(0, 6)))) == ["0", "1", "2", "3", "5", "whole"]


def test_no_ranges_are_nothing_to_read():
    assert lines(blocks(Reader())) == []


def test_a_range_for_each_core_is_in_flight():
    """Invariant bounded_memory: no more."""
    reader = Reader(before=lambda _part: time.sleep(0.02))
    assert len(lines(blocks(reader, *(part(n, n + 1) for n in range(30))))) == 30
    assert 2 <= reader.most_reading <= Spark.defaultParallelism < MOST_JOBS


def test_all_jobs_together_have_a_limited_amount_of_data():
    """Invariant bounded_memory: more cores read less at a time."""
    for in_files in (False, True):
        sizes = [bytes_of_job(2**40, at_a_time, in_files=in_files) * at_a_time for at_a_time in (2, 4, 8, MOST_JOBS)]
        assert max(sizes) <= MOST_BYTES


def test_jobs_have_a_group_and_the_pool_of_copies():
    spark = Spark()
    lines(blocks(Reader(), part(0, 1), spark=spark))
    assert spark.properties == {("group", "copy of t"), ("spark.scheduler.pool", "copy")}


def test_what_cannot_be_cut_is_read_without_a_job():
    spark = Spark()
    spark.fails = AssertionError("a job was started")
    assert lines(blocks(Reader(), CopyRange(UNCUT, 0, 0), spark=spark)) == ["whole"]


def test_a_small_table_is_read_by_the_driver_in_one_session():
    reader: Any = Reader()
    session: Any = object()
    found = driver_blocks(reader, R, [part(0, 3), part(3, 6)], threading.Event(), session)
    assert lines(found) == ["whole", "whole"]
    assert reader.sessions == [session, session]


def test_an_error_keeps_its_type_and_ends_the_other_jobs():
    def lose(wanted: CopyRange) -> None:
        if wanted.first == 1:
            raise PublisherUnavailable("gone")

    spark = Spark()
    with pytest.raises(PublisherUnavailable, match="gone"):
        lines(blocks(Reader(before=lose), *(part(n, n + 1) for n in range(1000)), spark=spark))
    assert "g" not in {thread.name for thread in threading.enumerate()}


def test_an_error_of_sparks_is_worth_another_try_and_its_text_stays_out():
    spark = Spark()
    spark.fails = RuntimeError("row (secret)")
    with pytest.raises(PipelineError, match="a Spark job of the initial copy failed") as raised:
        lines(blocks(Reader(), part(0, 1), spark=spark))
    assert raised.value.transient
    assert "secret" not in raised.value.report()


def test_stopping_cancels_what_runs():
    """Nobody takes the blocks any more, and nobody waits for ever."""
    spark, stop = Spark(), threading.Event()
    reader = Reader(before=lambda wanted: None if wanted.first == 0 else assert_true(spark.cancelled.wait(10)))
    with (
        pytest.raises(PipelineError, match="stopped") as raised,
        closing(blocks(reader, *(part(n, n + 1) for n in range(10)), spark=spark, stop=stop)) as running,
    ):
        for _block in running:
            stop.set()
    assert raised.value.sqlstate == "57014"
    assert "g" not in {thread.name for thread in threading.enumerate()}


def assert_true(condition: bool) -> None:
    assert condition
