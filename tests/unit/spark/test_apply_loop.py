"""The loop applies a journal range by range; a bad transaction does not hold back the good ones
before it, and errors keep their type. With Spark itself: tests/conformance/test_spark_source.py.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError

from subscriber.apply.applier import ApplyResult
from subscriber.apply.exact import ExactApplier
from subscriber.base.errors import (
    ConflictError,
    JournalGap,
    PipelineError,
    PublisherTablesOutdated,
    SubscriberError,
    UsageError,
)
from subscriber.base.lsn import LSN
from subscriber.base.settings import Settings
from subscriber.catalog.progress import OriginProgress
from subscriber.postgres.protocol.changes import Frame
from subscriber.postgres.publication.definition import Publication
from subscriber.postgres.publication.publishing import Publishing
from subscriber.spark import apply_loop, journal_frames
from subscriber.spark.apply_loop import ApplyLoop, JournalStream
from subscriber.spark.apply_pause import ApplyPause
from subscriber.spark.pending_session import PendingSession
from subscriber.stream.decode import decode_frames
from subscriber.stream.journal.storage import LocalStorage
from subscriber.targets import Target
from tests.frames import transaction
from tests.journals import (
    T,
    insert,
    passed,
    publish,
    segment_files,
    three_large_transactions,
    three_transactions,
    writing,
)
from tests.publications import entry, table, tables
from tests.waits import wait_until


def state(target: Target) -> tuple[list[int], int]:
    """Keys of t, and the progress."""
    with target.begin() as connection:
        keys = [row[0] for row in connection.exec_driver_sql("SELECT a FROM t ORDER BY a")]
        return keys, OriginProgress(1).read(connection)


class Context:
    """A SparkContext that runs its jobs on the spot."""

    defaultParallelism = 2  # noqa: N815 - Spark's name
    master = "local[2]"

    def __init__(self) -> None:
        self.jobs = 0
        self.descriptions: set[str] = set()
        self.fails: Exception | None = None

    def setJobGroup(self, _group: str, description: str, *, interruptOnCancel: bool) -> None:  # noqa: N802, N803 - Spark's
        assert interruptOnCancel
        self.descriptions.add(description)

    def cancelJobGroup(self, _group: str) -> None:  # noqa: N802 - Spark's name
        pass

    def parallelize(self, _values: list[Any], _partitions: int) -> Any:
        def run(task: Callable[[Iterator[Any]], Iterator[Any]]) -> list[Any]:
            self.jobs += 1
            if self.fails is not None:
                raise self.fails
            return list(task(iter(())))

        return SimpleNamespace(mapPartitions=lambda task: SimpleNamespace(collect=lambda: run(task)))

    _jsc = SimpleNamespace(sc=lambda: SimpleNamespace(isLocal=lambda: True))
    _gateway = SimpleNamespace(proc=None)


class Scene:
    """A loop over a journal that inserts 1, 2 and 3, and what it has told."""

    def __init__(self, target: Target, folder: Path) -> None:
        self.journal = folder / "journal"
        self.folder = folder
        self.pause = ApplyPause()
        self.applier = ExactApplier(target, subscription="s", subid=1)
        self.context = Context()
        self.create: Callable[[], Any] = lambda: SimpleNamespace(sparkContext=self.context)
        self.failures: list[SubscriberError] = []
        self.on_failure: Callable[[SubscriberError], float | None] = lambda _error: 0.3  # SQLite lets others write
        self.on_end: Callable[[], None] = lambda: None
        self.told: list[ApplyResult] = []
        self.stream: dict[str, Any] = {}
        self.loop: ApplyLoop

    def failed(self, error: SubscriberError, _began: float) -> float | None:
        self.failures.append(error)
        return self.on_failure(error)

    def start(self, *, wait_for_spark: bool = True) -> ApplyLoop:
        spark = PendingSession("local[2]", self.create)
        if wait_for_spark:
            spark.session()
        self.loop = ApplyLoop(
            spark,
            "apply 1: s",
            JournalStream(str(self.journal), LSN(0x100), **self.stream),
            self.applier,
            Settings(str(self.folder), segment_bytes=1),
            on_applied=self.told.append,
            pause=self.pause,
            on_failure=self.failed,
            on_end=self.on_end,
        )
        return self.loop

    def publish(self, end: int, key: int) -> None:
        with writing(self.journal, applied=end - 0x100) as journal:
            publish(journal, end, transaction(end, T, insert(key)))


@pytest.fixture
def scene(tmp_path, target) -> Iterator[Scene]:
    found = Scene(target, tmp_path)
    three_transactions(found.journal)
    yield found
    found.loop.stop()
    assert not found.loop.running


@pytest.fixture
def by_spark(monkeypatch) -> None:
    """Whatever waits is too much for the driver."""
    monkeypatch.setattr(apply_loop, "SMALL_BYTES", 1)


def test_what_waits_is_applied_and_then_what_arrives(scene, target):
    """Invariant commit_order"""
    loop = scene.start()
    wait_until(lambda: state(target) == ([1, 2, 3], 0x400))
    scene.publish(0x500, 4)
    wait_until(lambda: state(target) == ([1, 2, 3, 4], 0x500))
    assert loop.running, "it waits for more"
    assert [result.progress for result in scene.told] == [0x400, 0x500]
    assert scene.context.jobs == 0, "the driver reads so little itself"
    loop.stop()
    assert (loop.running, loop.failure(), loop.applied) == (False, None, 0x500)


def test_executors_decode_what_is_too_much_for_the_driver(scene, target, by_spark):
    scene.start()
    wait_until(lambda: state(target) == ([1, 2, 3], 0x400))
    assert scene.context.jobs == 3, "one for each partition"
    assert scene.context.descriptions == {"apply 1: s, 0/100 to 0/400"}


def test_a_frame_that_a_task_has_left_to_the_driver_is_applied_in_its_place(scene, target, by_spark, monkeypatch):
    """bounded_memory, commit_order"""
    monkeypatch.setattr(apply_loop, "is_local", lambda _master: False)
    monkeypatch.setattr(decode_frames, "JOINED_ROWS", 1)  # a frame for each transaction
    monkeypatch.setattr(journal_frames, "LARGEST_FRAME", 0)
    scene.start()
    wait_until(lambda: state(target) == ([1, 2, 3], 0x400))
    assert scene.failures == []


# Until Spark has started --------------------------------------------------------------------------


def test_what_waits_is_applied_before_spark_has_started(scene, target):
    never = threading.Event()
    scene.create = never.wait
    scene.start(wait_for_spark=False)
    wait_until(lambda: state(target) == ([1, 2, 3], 0x400))
    never.set()


def test_an_entry_that_is_too_much_for_the_driver_waits_for_spark(scene, target, by_spark):
    may_start, session = threading.Event(), SimpleNamespace(sparkContext=scene.context)

    def create() -> Any:
        may_start.wait()
        return session

    scene.create = create
    scene.start(wait_for_spark=False)
    time.sleep(0.1)
    assert state(target) == ([], 0x100)
    may_start.set()
    wait_until(lambda: state(target) == ([1, 2, 3], 0x400))


def test_a_failed_start_of_spark_is_no_error_of_the_loop(scene, by_spark):
    def create() -> Any:
        raise UsageError("could not start Spark")

    scene.create = create
    loop = scene.start(wait_for_spark=False)
    time.sleep(0.1)
    loop.stop()
    assert (loop.failure(), scene.failures) == (None, [])


def test_the_end_of_spark_is_no_error_of_the_loop(scene, by_spark, monkeypatch):
    """The supervisor then ends the run."""
    scene.context.fails = Py4JError("gone")
    monkeypatch.setattr(PendingSession, "has_ended", lambda _spark, _seconds=0: True)
    loop = scene.start()
    wait_until(lambda: scene.context.jobs > 0)
    time.sleep(0.1)
    loop.stop()
    assert (loop.failure(), scene.failures) == (None, [])


# A batch that fails -------------------------------------------------------------------------------


def in_the_way(target: Target, key: int) -> None:
    with target.begin() as connection:
        connection.exec_driver_sql(f"INSERT INTO t VALUES ({key}, 'in the way')")


def remove(target: Target, key: int) -> None:
    with target.begin() as connection:
        connection.exec_driver_sql(f"DELETE FROM t WHERE a = {key}")


def test_a_batch_that_fails_is_tried_again_without_spark_until_it_can_be_applied(scene, target, by_spark):
    """C35, bounded_memory: a conflict that stays costs one small transaction of the target each
    time
    """
    in_the_way(target, 2)
    writer_lock = threading.Lock()
    scene.pause = ApplyPause(writer_lock)

    def on_failure(error: SubscriberError) -> float | None:
        assert not writer_lock.locked(), "others cannot write while it waits"
        assert state(target) == ([1, 2], 0x200)
        assert error.__traceback__ is None, "what is kept of an error keeps no rows and no files"
        if len(scene.failures) == 20:
            assert scene.context.jobs <= 9, "to fail, to commit what is before, and to examine the conflict"
            remove(target, 2)
        return 0.0

    scene.on_failure = on_failure
    loop = scene.start()
    wait_until(lambda: len(scene.told) == 2)
    assert state(target) == ([1, 2, 3], 0x400)
    assert {type(error) for error in scene.failures} == {ConflictError}
    assert len(scene.failures) == 20
    assert [result.progress for result in scene.told] == [0x300, 0x400]
    assert loop.failure() is None


def test_what_was_applied_of_a_batch_that_failed_may_be_trimmed(scene, target):
    """While a batch waits, what it has applied may be trimmed; read again, that would be a damaged
    journal.
    """
    in_the_way(target, 2)

    def on_failure(_error: SubscriberError) -> float | None:
        remove(target, 2)
        with writing(scene.journal, applied=0x200) as journal:
            passed(LocalStorage(scene.journal), 0x200)
            journal.trim()
        assert len(segment_files(scene.journal)) == 2
        return 0.0

    scene.on_failure = on_failure
    loop = scene.start()
    wait_until(lambda: len(scene.told) == 2)
    assert state(target) == ([1, 2, 3], 0x400)
    assert loop.failure() is None


@pytest.mark.parametrize("large", [False, True])
def test_an_error_after_which_there_is_no_attempt_ends_the_loop_with_its_type(scene, target, large, monkeypatch):
    if large:
        monkeypatch.setattr(apply_loop, "SMALL_BYTES", 1)
    in_the_way(target, 2)
    scene.on_failure = lambda _error: None
    loop = scene.start()
    wait_until(lambda: not loop.running)
    assert isinstance(loop.failure(), ConflictError)
    assert state(target) == ([1, 2], 0x200)


def test_a_fault_of_the_program_is_raised(scene, monkeypatch):
    monkeypatch.setattr(Frame, "encode", None)
    monkeypatch.setattr(ExactApplier, "apply", None)
    loop = scene.start()
    wait_until(lambda: not loop.running)
    with pytest.raises(TypeError):
        loop.failure()


def test_a_failure_of_spark_is_told_without_its_text(scene, by_spark):
    scene.context.fails = RuntimeError("row (secret)")
    scene.on_failure = lambda _error: None
    loop = scene.start()
    wait_until(lambda: not loop.running)
    failure = loop.failure()
    assert isinstance(failure, PipelineError)
    assert (failure.message, failure.detail) == ("a Spark job that decodes changes failed", "RuntimeError")


def test_a_wait_ends_when_the_loop_is_to_end(scene, target):
    in_the_way(target, 2)
    scene.on_failure = lambda _error: 3600.0
    loop = scene.start()
    wait_until(lambda: len(scene.failures) == 1)
    loop.stop()
    assert loop.failure() is None, "nothing has failed"
    assert state(target) == ([1, 2], 0x200)


def test_a_journal_that_cannot_be_read_is_tried_again(scene, target):
    """Invariant slot_after_disk: the gap is not skipped."""
    hidden = segment_files(scene.journal)[1]
    content = hidden.read_bytes()
    hidden.unlink()
    scene.start()
    wait_until(lambda: len(scene.failures) > 2)
    assert {type(error) for error in scene.failures} == {JournalGap}
    assert state(target) == ([], 0x100)
    hidden.write_bytes(content)
    wait_until(lambda: state(target) == ([1, 2, 3], 0x400))


# Publications of the subscriber's own -------------------------------------------------------------

TABLE = table("public.t", {"a": "int4", "b": "text"}, key=["a"], oid=T.relation_id)


class Tables:
    """What is known of the publisher's tables: they have not changed, or they have."""

    def __init__(self, *, changed: bool = False) -> None:
        self.known_until = 0
        self.looked = 0
        self._changed = changed

    def check(self, described: int) -> None:
        if described >= self.known_until:
            raise PublisherTablesOutdated("they may have changed")

    def look_again(self) -> None:
        self.looked += 1
        if self._changed:
            raise PublisherTablesOutdated("they have changed")
        self.known_until = 0x1000


def publishing(where: str) -> Publishing:
    return Publishing((Publication("p", tables=(entry(TABLE, where),)),), tables(TABLE))


def test_a_batch_with_a_relation_message_is_applied_when_the_tables_are_found_unchanged(scene, target):
    scene.stream = {"publishing": publishing("a > 1"), "known": (known := Tables())}
    scene.start()
    wait_until(lambda: state(target) == ([2, 3], 0x400))
    assert (known.looked, scene.failures) == (1, [])


def test_a_batch_with_a_relation_message_ends_the_loop_when_the_tables_have_changed(scene, target):
    scene.stream = {"publishing": publishing("a > 0"), "known": Tables(changed=True)}
    scene.on_failure = lambda _error: None
    loop = scene.start()
    wait_until(lambda: not loop.running)
    failure = loop.failure()
    assert isinstance(failure, PublisherTablesOutdated)
    assert failure.message == "they have changed"
    assert state(target) == ([], 0x100)


# A bound ------------------------------------------------------------------------------------------


def settles(target: Target, expected: tuple[list[int], int]) -> None:
    """Wait until the target is in this state, and check that it stays so for a moment."""
    wait_until(lambda: state(target) == expected)
    time.sleep(0.1)
    assert state(target) == expected


def test_the_journal_is_applied_up_to_the_bound_and_from_there_when_it_is_gone(scene, target):
    scene.pause.limit = LSN(0x350)
    scene.start()
    settles(target, ([1, 2], 0x350))
    scene.pause.limit = LSN(0x400)
    settles(target, ([1, 2, 3], 0x400))
    scene.publish(0x500, 4)
    settles(target, ([1, 2, 3], 0x400))
    scene.pause.limit = None
    settles(target, ([1, 2, 3, 4], 0x500))


@pytest.mark.parametrize(("bound", "expected"), [(0, ([], 0x100)), (0x1F0, ([], 0x1F0)), (0x200, ([1], 0x200))])
def test_nothing_that_ends_after_the_bound_is_applied(scene, target, bound, expected, by_spark):
    scene.pause.limit = LSN(bound)
    scene.start()
    settles(target, expected)
    scene.pause.limit = None
    settles(target, ([1, 2, 3], 0x400))


def test_a_large_transaction_is_not_divided_at_the_bound(target, tmp_path):
    """commit_order"""
    scene = Scene(target, tmp_path)
    three_large_transactions(scene.journal)
    scene.pause.limit = LSN(0x310)
    loop = scene.start()
    settles(target, ([1, 2], 0x300))
    scene.pause.limit = None
    settles(target, ([1, 2, 3], 0x400))
    loop.stop()


def test_a_batch_that_has_got_its_turn_asks_for_the_bound_again(scene, target):
    """It may have waited for its writer_lock for an hour."""
    writer_lock = threading.Lock()
    scene.pause = ApplyPause(writer_lock)
    with writer_lock:
        scene.start()
        time.sleep(0.1)
        scene.pause.limit = LSN(0)
    settles(target, ([], 0x100))
    scene.pause.limit = None
    wait_until(lambda: state(target) == ([1, 2, 3], 0x400))


def test_a_change_that_cannot_be_applied_does_not_go_beyond_the_bound_when_it_can(scene, target):
    in_the_way(target, 2)
    scene.start()
    wait_until(lambda: len(scene.failures) > 1)
    scene.pause.limit = LSN(0x300)
    remove(target, 2)
    settles(target, ([1, 2], 0x300))
    scene.pause.limit = None
    settles(target, ([1, 2, 3], 0x400))


def test_a_wait_for_the_bound_ends_when_the_loop_is_to_end(scene):
    scene.pause.limit = LSN(0)
    loop = scene.start()
    time.sleep(0.05)
    loop.stop()
    assert loop.failure() is None


# Waiting ------------------------------------------------------------------------------------------


@pytest.fixture
def looks_only_when_woken(monkeypatch) -> None:
    monkeypatch.setattr(apply_loop, "RELIST_SECONDS", 3600.0)
    monkeypatch.setattr(apply_loop, "_LONGEST_POLL_SECONDS", 3600.0)


def test_an_entry_that_is_told_of_is_applied_although_nobody_looks_for_it(scene, target, looks_only_when_woken):
    scene.start()
    wait_until(lambda: state(target) == ([1, 2, 3], 0x400))
    scene.publish(0x500, 4)
    scene.pause.wake()
    wait_until(lambda: state(target) == ([1, 2, 3, 4], 0x500))


def test_another_bound_is_told(scene, target, looks_only_when_woken):
    scene.pause.limit = LSN(0x200)
    scene.start()
    wait_until(lambda: state(target) == ([1], 0x200))
    scene.pause.limit = None
    wait_until(lambda: state(target) == ([1, 2, 3], 0x400))


def test_a_loop_that_waits_ends_when_it_is_told_to_and_tells_that_it_has_ended(scene, target, looks_only_when_woken):
    ended: list[bool] = []
    scene.on_end = lambda: ended.append(scene.loop.running)
    loop = scene.start()
    wait_until(lambda: state(target) == ([1, 2, 3], 0x400))
    loop.stop()
    assert ended == [False]
