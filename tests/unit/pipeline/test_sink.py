"""A bad transaction does not hold back the good ones before it, and errors keep their type."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from subscriber.apply.applier import ApplyResult
from subscriber.apply.apply_batch import apply_batch
from subscriber.apply.exact import ExactApplier
from subscriber.catalog import OriginProgress
from subscriber.errors import (
    ConflictError,
    JournalGap,
    ProtocolError,
    RowFilterError,
    Stopped,
    SubscriberError,
    UnsupportedValue,
)
from subscriber.journal.local_storage import LocalStorage
from subscriber.journal.reader import JournalReader
from subscriber.lsn import LSN
from subscriber.pipeline import frame_source
from subscriber.pipeline import tail as tail_module
from subscriber.pipeline.apply_bound import ApplyBound
from subscriber.pipeline.frame_source import FrameSource, FrameStreamReader
from subscriber.pipeline.sink import BatchSink
from subscriber.pipeline.tail import Tail
from subscriber.protocol import messages as m
from subscriber.protocol.changes import Frame
from subscriber.publication.definition import Publication
from subscriber.publication.publishing import Publishing
from subscriber.stages import decode_frames
from subscriber.stages.emulate import emulate
from subscriber.targets import Target
from tests.frames import frame, transaction, values
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
from tests.waits import PATIENCE, wait_until


@pytest.fixture
def applier(target) -> ExactApplier:
    return ExactApplier(target, subscription="s", subid=1)


def state(target: Target) -> tuple[list[int], int]:
    """Keys of t, and the progress."""
    with target.begin() as connection:
        keys = [row[0] for row in connection.exec_driver_sql("SELECT a FROM t ORDER BY a")]
        return keys, OriginProgress(1).read(connection)


def test_a_good_batch_is_applied_once(applier, target):
    frames = [frame([T], [*transaction(0x200, insert(1)), *transaction(0x300, insert(2))])]
    result = apply_batch(applier, lambda: frames, LSN(0x100), LSN(0x300))
    assert (result.transactions, state(target)) == (2, ([1, 2], 0x300))


def bad_third() -> list[Frame]:
    messages = [*transaction(0x200, insert(1)), *transaction(0x300, insert(2)), *transaction(0x400, insert(3), insert(1)),
                *transaction(0x500, insert(5))]  # fmt: skip
    return [frame([T], messages)]


def test_the_good_prefix_is_committed_before_the_error_is_raised(applier, target):
    """Rule C35: PostgreSQL's worker would have committed each of them before it met the bad one."""
    with pytest.raises(ConflictError) as caught:
        apply_batch(applier, bad_third, LSN(0x100), LSN(0x500))
    assert caught.value.lsn == 0x3F8
    assert state(target) == ([1, 2], 0x300)


def test_once_the_obstacle_is_gone_the_rest_follows(applier, target):
    with pytest.raises(ConflictError):
        apply_batch(applier, bad_third, LSN(0x100), LSN(0x500))
    with target.begin() as connection:
        connection.exec_driver_sql("DELETE FROM t WHERE a = 1")
    result = apply_batch(applier, bad_third, LSN(0x300), LSN(0x500))
    assert (result.transactions, state(target)) == (2, ([1, 2, 3, 5], 0x500))


def test_a_bad_first_transaction_leaves_everything_as_it_was(applier, target):
    frames = [frame([T], [*transaction(0x200, insert(1), insert(1)), *transaction(0x300, insert(2))])]
    with pytest.raises(ConflictError):
        apply_batch(applier, lambda: frames, LSN(0x100), LSN(0x300))
    assert state(target) == ([], 0x100)


def test_an_error_that_cuts_the_frames_short_keeps_the_transactions_before_it(applier, target):
    """A partition that does not decode is an error in the middle of the frames."""

    def read() -> Iterator[Frame]:
        yield frame([T], [*transaction(0x200, insert(1)), *transaction(0x300, insert(2))[:-1]])
        raise UnsupportedValue("no", relation="public.t")

    with pytest.raises(UnsupportedValue):
        apply_batch(applier, read, LSN(0x100), LSN(0x300))
    assert state(target) == ([1], 0x200)


def reader_of(journal: Path) -> FrameStreamReader:
    reader = FrameSource({"journal": str(journal)}).streamReader(None)  # type: ignore[arg-type]
    assert isinstance(reader, FrameStreamReader)
    return reader


def no_rows(_batch: Any) -> Iterator[Any]:
    return iter(())


def test_the_end_of_a_batch_is_read_from_spark_s_offset_log(applier, tmp_path):
    """foreachBatch is told the batch's number only."""
    log = tmp_path / "offsets"
    log.mkdir()
    (log / "7").write_text('v1\n{"batchWatermarkMs":0,"conf":{}}\n{"lsn": "16/B374D848"}')
    sink = BatchSink(applier, tmp_path, LSN(0x100), lambda result: None, no_rows, reader_of(tmp_path))
    assert sink._end_of(7) == 0x16_B374D848


def test_what_a_task_has_left_to_the_driver_is_applied_in_its_place(applier, target, tmp_path, monkeypatch):
    """bounded_memory, commit_order: a frame that is too large for the JVM, and the one after it"""
    journal, offsets = tmp_path / "journal", tmp_path / "offsets"
    three_transactions(journal)
    monkeypatch.setattr(decode_frames, "JOINED_ROWS", 1)  # a frame for each transaction
    offsets.mkdir()
    (offsets / "0").write_text('v1\n{}\n{"lsn": "0/400"}')
    reader = reader_of(journal)
    padding = iter([0, frame_source.LARGEST_FRAME])
    monkeypatch.setattr(Frame, "encode", lambda frame, encode=Frame.encode: encode(frame) + bytes(next(padding)))
    rows = [
        row for partition in reader.partitions({"lsn": "0/100"}, {"lsn": "0/400"}) for row in reader.read(partition)
    ]
    assert [(row.column("frame").null_count == 1, row.column("rest").null_count == 1) for row in rows] == [
        (False, True),
        (True, False),
    ]
    batch: Any = None
    BatchSink(applier, tmp_path, LSN(0x100), lambda result: None, lambda _batch: iter(rows), reader)(batch, 0)
    assert state(target) == ([1, 2, 3], 0x400)


def test_frames_in_files_are_applied_and_removed(applier, target, tmp_path):
    """commit_order"""
    journal, offsets, folder = tmp_path / "journal", tmp_path / "offsets", tmp_path / "frames"
    three_transactions(journal)
    offsets.mkdir()
    folder.mkdir()
    (offsets / "0").write_text('v1\n{}\n{"lsn": "0/400"}')
    options = {"journal": str(journal), "frameFolder": str(folder)}
    reader: Any = FrameSource(options).streamReader(None)  # type: ignore[arg-type]
    rows = [
        row for partition in reader.partitions({"lsn": "0/100"}, {"lsn": "0/400"}) for row in reader.read(partition)
    ]
    assert len(list(folder.iterdir())) == len(rows)
    batch: Any = None
    BatchSink(applier, tmp_path, LSN(0x100), lambda result: None, lambda _batch: iter(rows), reader)(batch, 0)
    assert state(target) == ([1, 2, 3], 0x400)
    assert list(folder.iterdir()) == []


# Publications of the subscriber's own -------------------------------------------------------------

TABLE = table("public.t", {"a": "int4", "b": "text"}, key=["a"], oid=T.relation_id)


def publishing(where: str) -> Publishing:
    return Publishing((Publication("p", tables=(entry(TABLE, where),)),), tables(TABLE))


def test_a_filter_that_fails_is_an_error_of_its_change_after_the_good_ones(applier, target, tmp_path):
    """Rule C35; the server's walsender would stop there."""
    folder = tmp_path / "journal"
    with writing(folder) as journal:
        publish(journal, 0x200, transaction(0x200, T, insert(1)))
        publish(journal, 0x300, transaction(0x300, T, insert(0)))
    with pytest.raises(RowFilterError, match="division by zero") as caught:
        emulate(JournalReader(LocalStorage(folder)), applier, LSN(0x100), publishing=publishing("10 / a > 1"))
    assert (caught.value.sqlstate, caught.value.relation) == ("22012", "public.t")
    assert caught.value.lsn
    sent_at = f"{caught.value.lsn >> 32:X}/{caught.value.lsn & 0xFFFFFFFF:X}"
    assert f'CONTEXT:  filtering a change of relation "public.t", sent at {sent_at}' in caught.value.report()
    assert state(target) == ([1], 0x200)


def test_what_an_insert_that_was_an_update_could_not_borrow_is_null_and_no_default(applier, target, tmp_path):
    """Rules B18, C6: as PostgreSQL 18 stores it, seen on a native subscriber whose column has a
    default.
    """
    with target.begin() as connection:
        connection.exec_driver_sql("DROP TABLE t")
        connection.exec_driver_sql("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT DEFAULT 'default')")
    folder = tmp_path / "journal"
    change = m.Update(T.relation_id, "K", values("-1", None), values("1", m.UNCHANGED))
    with writing(folder) as journal:
        publish(journal, 0x200, transaction(0x200, T, change))
    emulate(JournalReader(LocalStorage(folder)), applier, LSN(0x100), publishing=publishing("a > 0"))
    with target.begin() as connection:
        assert connection.exec_driver_sql("SELECT a, b FROM t").all() == [(1, None)]


# The same without Spark ---------------------------------------------------------------------------


def test_a_journal_is_applied_in_one_process(applier, target, tmp_path):
    folder = tmp_path / "journal"
    three_transactions(folder)
    reader = JournalReader(LocalStorage(folder))
    assert emulate(reader, applier, LSN(0x100), LSN(0x200)).transactions == 1
    assert state(target) == ([1], 0x200)
    assert emulate(reader, applier, LSN(0x200)).transactions == 2
    assert state(target) == ([1, 2, 3], 0x400)
    assert emulate(reader, applier, LSN(0x100), LSN(0x400)).transactions == 0


def test_a_lost_segment_is_refused_and_nothing_after_it_is_applied(applier, target, tmp_path):
    """Invariant slot_after_disk: a gap is never skipped."""
    folder = tmp_path / "journal"
    three_transactions(folder)
    segment_files(folder)[1].unlink()
    with pytest.raises(JournalGap):
        emulate(JournalReader(LocalStorage(folder)), applier, LSN(0x100))
    assert state(target) == ([], 0x100)


def test_a_journal_in_a_shape_the_target_has_not_is_refused_with_the_good_prefix_applied(applier, target, tmp_path):
    folder = tmp_path / "journal"
    with writing(folder) as journal:
        publish(journal, 0x200, transaction(0x200, T, insert(1)))
        publish(journal, 0x300, transaction(0x300, T, m.Insert(T.relation_id, values("two", "x"))))
    with pytest.raises(ProtocolError, match="invalid input syntax for type integer"):
        emulate(JournalReader(LocalStorage(folder)), applier, LSN(0x100))
    assert state(target) == ([1], 0x200)


# A batch that fails -------------------------------------------------------------------------------


class Batch:
    """The DataFrame of a micro-batch over a journal, which knows how often Spark has read it, and
    how many readings are open.
    """

    def __init__(self, journal: Path, end: str, folder: Path) -> None:
        (folder / "offsets").mkdir(exist_ok=True)
        (folder / "offsets" / "0").write_text(f'v1\n{{}}\n{{"lsn": "{end}"}}')
        self.read = self.open = 0
        self._reader = reader_of(journal)
        # Spark plans a batch once, however often it is read.
        self._partitions = self._reader.partitions({"lsn": "0/100"}, {"lsn": end})

    def rows(self) -> Iterator[Any]:
        self.read += 1
        self.open += 1
        try:
            for partition in self._partitions:
                yield from self._reader.read(partition)
        finally:
            self.open -= 1


@pytest.fixture
def failing(applier, target, tmp_path) -> SimpleNamespace:
    """A batch of three transactions, the second of which meets a row that is there already; and a
    sink that has it tried again.
    """
    journal = tmp_path / "journal"
    three_transactions(journal)
    with target.begin() as connection:
        connection.exec_driver_sql("INSERT INTO t VALUES (2, 'in the way')")
    turn = threading.Lock()
    told: list[ApplyResult] = []
    batch: Any = Batch(journal, "0/400", tmp_path)
    sink = BatchSink(
        applier, tmp_path, LSN(0x100), told.append, lambda _batch: batch.rows(), reader_of(journal), turn=turn
    )
    return SimpleNamespace(batch=batch, sink=sink, turn=turn, told=told)


def test_a_batch_that_fails_is_tried_again_without_spark_until_it_can_be_applied(failing, target):
    """C35, bounded_memory: a conflict that stays costs one small transaction of the target each
    time
    """
    failures: list[SubscriberError] = []

    def on_failure(error: SubscriberError, _began: float) -> float | None:
        failures.append(error)
        assert not failing.turn.locked(), "others cannot write while it waits"
        assert (failing.batch.read, failing.batch.open) == (3, 0), (
            "to fail, to commit what is before, and to examine the conflict"
        )
        assert state(target) == ([1, 2], 0x200)
        if len(failures) == 20:
            with target.begin() as connection:
                connection.exec_driver_sql("DELETE FROM t WHERE a = 2")
        return 0.0

    failing.sink.on_failure = on_failure
    failing.sink(failing.batch, 0)
    assert len(failures) == 20
    assert {type(error) for error in failures} == {ConflictError}
    assert all(error.__traceback__ is None for error in failures), "what is kept of an error keeps no rows and no files"
    assert (failing.batch.read, failing.batch.open) == (3, 0), "the rest is read without Spark too"
    assert state(target) == ([1, 2, 3], 0x400)
    assert [result.progress for result in failing.told] == [0x300, 0x400]
    assert failing.sink.failure is None


def test_the_rest_of_a_batch_does_not_need_what_was_applied_and_trimmed(failing, target, tmp_path):
    """While a batch waits, what it has applied may be trimmed; read again, that would be a damaged
    journal.
    """

    def on_failure(_error: SubscriberError, _began: float) -> float | None:
        with target.begin() as connection:
            connection.exec_driver_sql("DELETE FROM t WHERE a = 2")
        folder = tmp_path / "journal"
        with writing(folder, applied=0x200) as journal:
            passed(LocalStorage(folder), 0x200)
            journal.trim()
        assert len(segment_files(folder)) == 2
        return 0.0

    failing.sink.on_failure = on_failure
    failing.sink(failing.batch, 0)
    assert state(target) == ([1, 2, 3], 0x400)
    assert failing.sink.failure is None


def test_an_error_that_needs_another_query_ends_this_one_with_its_type(failing):
    failing.sink.on_failure = lambda _error, _began: None
    with pytest.raises(ConflictError):
        failing.sink(failing.batch, 0)
    assert isinstance(failing.sink.failure, ConflictError)
    assert failing.batch.open == 0
    assert failing.sink.idle.is_set()


def test_a_wait_ends_when_the_batch_is_to_end(failing, target):
    def on_failure(_error: SubscriberError, _began: float) -> float | None:
        threading.Timer(0.05, failing.sink.applier.interruption.stop.set).start()
        return 3600.0

    failing.sink.on_failure = on_failure
    failing.sink(failing.batch, 0)
    assert failing.sink.failure is None, "nothing has failed"
    assert failing.sink.idle.is_set()
    assert state(target) == ([1, 2], 0x200)


def test_a_batch_that_is_to_end_is_rolled_back_with_the_transactions_before(applier, target, tmp_path, monkeypatch):
    """Those would be committed only where a change could not be applied; here time is short."""
    monkeypatch.setattr("subscriber.apply.statements.row_parts.ROWS_AT_A_TIME", 2)

    def read() -> Iterator[Frame]:
        yield frame([T], transaction(0x200, insert(1)))
        applier.interruption.stop.set()
        yield frame([T], transaction(0x300, *(insert(number) for number in range(2, 12))))

    with pytest.raises(Stopped):
        apply_batch(applier, read, LSN(0x100), LSN(0x300))
    assert state(target) == ([], 0x100)


def test_a_batch_ends_between_a_few_rows_of_one_run_too(applier, target, monkeypatch):
    """A frame has thousands of rows, and some targets take a minute for them."""
    monkeypatch.setattr("subscriber.apply.statements.row_parts.ROWS_AT_A_TIME", 2)
    monkeypatch.setattr("subscriber.apply.writing.bulk_writer.BULK_ROWS_AT_A_TIME", 2)
    checks = iter(range(100))
    check = applier.interruption.check

    def ending() -> None:
        if next(checks) == 5:
            applier.interruption.stop.set()
        check()

    monkeypatch.setattr(applier.interruption, "check", ending)
    rows = [frame([T], transaction(0x200, *(insert(number) for number in range(1, 101))))]
    with pytest.raises(Stopped):
        apply_batch(applier, lambda: rows, LSN(0x100), LSN(0x200))
    assert next(checks) < 20, "not all of its rows were written"
    assert state(target) == ([], 0x100)


# The end of the journal ---------------------------------------------------------------------------


class Stream:
    """A sink in a separate thread. Its batch has the first of the journal's three transactions."""

    def __init__(self, applier: ExactApplier, folder: Path) -> None:
        self.journal = folder / "journal"
        three_transactions(self.journal)
        (folder / "offsets").mkdir()
        (folder / "offsets" / "0").write_text('v1\n{}\n{"lsn": "0/200"}')
        reader = reader_of(self.journal)
        self.progress_file = folder / "progress"
        self.stop = applier.interruption.stop
        self.failures: list[SubscriberError] = []
        rows = [
            row for partition in reader.partitions({"lsn": "0/100"}, {"lsn": "0/200"}) for row in reader.read(partition)
        ]
        self.bound = ApplyBound()
        tail = Tail(reader, self.progress_file, self.stop, self.bound)
        self.sink = BatchSink(
            applier,
            folder,
            LSN(0x100),
            lambda _result: None,
            lambda _batch: iter(rows),
            reader,
            self._on_failure,
            tail,
            bound=self.bound,
        )
        batch: Any = None
        self.thread = threading.Thread(target=self.sink, args=(batch, 0), daemon=True)

    def _on_failure(self, error: SubscriberError, _began: float) -> float | None:
        self.failures.append(error)
        return 0.3  # in which SQLite lets another connection write


@pytest.fixture
def stream(applier, tmp_path) -> Iterator[Stream]:
    opened = Stream(applier, tmp_path)
    yield opened
    opened.stop.set()
    assert opened.sink.idle.wait(PATIENCE)
    if opened.thread.ident is not None:
        opened.thread.join(PATIENCE)
    assert not opened.thread.is_alive()


def test_what_follows_a_batch_is_applied_without_another_batch_of_spark(stream, target):
    """Invariant commit_order; Spark's batch ends at 0/200."""
    stream.thread.start()
    wait_until(lambda: state(target) == ([1, 2, 3], 0x400))
    with writing(stream.journal, applied=0x400) as journal:
        publish(journal, 0x500, transaction(0x500, T, insert(4)))
    wait_until(lambda: state(target) == ([1, 2, 3, 4], 0x500))
    assert stream.thread.is_alive(), "it waits for more"


def test_spark_gets_what_is_too_much_for_the_driver_and_where_it_begins(stream, target, monkeypatch):
    monkeypatch.setattr(tail_module, "SMALL_BYTES", 1)
    stream.thread.start()
    stream.thread.join(PATIENCE)
    assert state(target) == ([1], 0x200)
    assert stream.progress_file.read_text() == "0/200"
    assert stream.sink.failure is None


def test_a_change_that_cannot_be_applied_at_the_end_of_the_journal_is_tried_again(stream, target):
    with target.begin() as connection:
        connection.exec_driver_sql("INSERT INTO t VALUES (3, 'in the way')")
    stream.thread.start()
    wait_until(lambda: len(stream.failures) > 2)
    assert state(target) == ([1, 2, 3], 0x300)
    with target.begin() as connection:
        connection.exec_driver_sql("DELETE FROM t WHERE a = 3")
    wait_until(lambda: state(target) == ([1, 2, 3], 0x400))
    assert {type(error) for error in stream.failures} == {ConflictError}


def test_a_journal_that_cannot_be_read_at_its_end_is_tried_again(stream, target):
    """Invariant slot_after_disk: the gap is not skipped."""
    hidden = segment_files(stream.journal)[1]
    content = hidden.read_bytes()
    hidden.unlink()
    stream.thread.start()
    wait_until(lambda: len(stream.failures) > 2)
    assert {type(error) for error in stream.failures} == {JournalGap}
    assert state(target) == ([1], 0x200)
    hidden.write_bytes(content)
    wait_until(lambda: state(target) == ([1, 2, 3], 0x400))


# Until Spark has started the query ----------------------------------------------------------------


@pytest.fixture
def starting(stream: Stream) -> Stream:
    """A stream of which Spark's first batch is empty."""
    (stream.progress_file.parent / "offsets" / "0").write_text('v1\n{}\n{"lsn": "0/100", "empty": "1"}')
    return stream


def test_what_waits_is_applied_while_spark_starts(starting, target):
    starting.sink.begin("lead")
    wait_until(lambda: state(target) == ([1, 2, 3], 0x400))
    with writing(starting.journal, applied=0x400) as journal:
        publish(journal, 0x500, transaction(0x500, T, insert(4)))
    wait_until(lambda: state(target) == ([1, 2, 3, 4], 0x500))
    assert not starting.sink.idle.is_set()
    starting.thread.start()
    with writing(starting.journal, applied=0x500) as journal:
        publish(journal, 0x600, transaction(0x600, T, insert(5)))
    wait_until(lambda: state(target) == ([1, 2, 3, 4, 5], 0x600))


def test_an_entry_that_is_too_much_for_the_driver_waits_for_spark(starting, target, monkeypatch):
    monkeypatch.setattr(tail_module, "SMALL_BYTES", 1)
    starting.sink.begin("lead")
    assert starting.sink.idle.wait(PATIENCE)
    assert state(target) == ([], 0x100)
    starting.thread.start()
    starting.thread.join(PATIENCE)
    assert starting.progress_file.read_text() == "0/100"


def test_spark_waits_until_a_change_can_be_applied(starting, target):
    """Two threads never apply at the same time."""
    with target.begin() as connection:
        connection.exec_driver_sql("INSERT INTO t VALUES (1, 'in the way')")
    starting.sink.begin("lead")
    starting.thread.start()
    wait_until(lambda: len(starting.failures) > 2)
    with target.begin() as connection:
        connection.exec_driver_sql("DELETE FROM t WHERE a = 1")
    wait_until(lambda: state(target) == ([1, 2, 3], 0x400))
    assert starting.sink.failure is None


def test_an_error_that_needs_another_query_is_raised_in_spark_s_first_batch(starting, target):
    with target.begin() as connection:
        connection.exec_driver_sql("INSERT INTO t VALUES (1, 'in the way')")
    starting.sink.on_failure = lambda _error, _began: None
    starting.sink.begin("lead")
    assert starting.sink.idle.wait(PATIENCE)
    batch: Any = None
    with pytest.raises(ConflictError):
        starting.sink(batch, 0)
    assert isinstance(starting.sink.failure, ConflictError)


def test_a_query_that_is_to_end_before_its_first_batch_ends_at_once(starting):
    starting.sink.begin("lead")
    starting.stop.set()
    assert starting.sink.idle.wait(PATIENCE)
    assert starting.sink.failure is None


# A bound ------------------------------------------------------------------------------------------


def settles(target: Target, expected: tuple[list[int], int]) -> None:
    """Wait until the target is in this state, and check that it stays so for a moment."""
    wait_until(lambda: state(target) == expected)
    time.sleep(0.1)
    assert state(target) == expected


def test_the_end_of_the_journal_is_applied_up_to_the_bound_and_from_there_when_it_is_gone(stream, target):
    stream.bound.position = LSN(0x350)
    stream.thread.start()
    settles(target, ([1, 2], 0x350))
    stream.bound.position = LSN(0x400)
    settles(target, ([1, 2, 3], 0x400))
    with writing(stream.journal, applied=0x400) as journal:
        publish(journal, 0x500, transaction(0x500, T, insert(4)))
    settles(target, ([1, 2, 3], 0x400))
    stream.bound.position = None
    settles(target, ([1, 2, 3, 4], 0x500))


@pytest.mark.parametrize(("bound", "expected"), [(0, ([], 0x100)), (0x1F0, ([], 0x1F0)), (0x200, ([1], 0x200))])
def test_a_micro_batch_of_spark_waits_for_the_bound(stream, target, bound, expected):
    """Spark's batch ends at 0/200."""
    stream.bound.position = LSN(bound)
    stream.thread.start()
    settles(target, expected)
    stream.bound.position = None
    settles(target, ([1, 2, 3], 0x400))


def applying(applier: ExactApplier, batch: Any, journal: Path, **options: Any) -> threading.Thread:
    """A thread that gives the batch to a sink."""
    sink = BatchSink(
        applier,
        journal.parent,
        LSN(0x100),
        lambda _result: None,
        lambda _batch: batch.rows(),
        reader_of(journal),
        **options,
    )
    return threading.Thread(target=sink, args=(batch, 0), daemon=True)


def test_what_spark_has_planned_beyond_the_bound_is_divided_at_the_bound(applier, target, tmp_path):
    """commit_order: the rest of the micro-batch follows when the bound is gone."""
    journal = tmp_path / "journal"
    three_large_transactions(journal)
    batch: Any = Batch(journal, "0/400", tmp_path)
    bound = ApplyBound(LSN(0x310))
    thread = applying(applier, batch, journal, bound=bound)
    thread.start()
    settles(target, ([1, 2], 0x300))
    assert (batch.read, batch.open) == (0, 0), "no job of Spark is open while it waits"
    bound.position = None
    thread.join(PATIENCE)
    assert state(target) == ([1, 2, 3], 0x400)


def test_a_run_of_transactions_is_divided_at_the_bound(applier, target, tmp_path):
    """Small transactions that arrive together are one entry of the journal."""
    journal = tmp_path / "journal"
    with writing(journal) as opened:
        together = [*transaction(0x200, T, insert(1)), *transaction(0x300, insert(2)), *transaction(0x400, insert(3))]
        publish(opened, 0x400, together)
    batch: Any = Batch(journal, "0/400", tmp_path)
    bound = ApplyBound(LSN(0x310))
    thread = applying(applier, batch, journal, bound=bound)
    thread.start()
    settles(target, ([1, 2], 0x310))
    bound.position = None
    thread.join(PATIENCE)
    assert state(target) == ([1, 2, 3], 0x400)


def test_a_batch_that_has_got_its_turn_asks_for_the_bound_again(applier, target, tmp_path):
    """It may have waited for its turn for an hour."""
    journal = tmp_path / "journal"
    three_transactions(journal)
    batch: Any = Batch(journal, "0/400", tmp_path)
    bound, turn = ApplyBound(), threading.Lock()
    thread = applying(applier, batch, journal, turn=turn, bound=bound)
    with turn:
        thread.start()
        time.sleep(0.1)
        bound.position = LSN(0)
    settles(target, ([], 0x100))
    bound.position = None
    thread.join(PATIENCE)
    assert state(target) == ([1, 2, 3], 0x400)


def test_a_change_that_cannot_be_applied_does_not_go_beyond_the_bound_when_it_can(stream, target):
    with target.begin() as connection:
        connection.exec_driver_sql("INSERT INTO t VALUES (2, 'in the way')")
    stream.thread.start()
    wait_until(lambda: len(stream.failures) > 1)
    stream.bound.position = LSN(0x300)
    with target.begin() as connection:
        connection.exec_driver_sql("DELETE FROM t WHERE a = 2")
    settles(target, ([1, 2], 0x300))
    stream.bound.position = None
    settles(target, ([1, 2, 3], 0x400))


def test_a_wait_for_the_bound_ends_when_the_query_is_to_end(stream):
    stream.bound.position = LSN(0)
    stream.thread.start()
    time.sleep(0.05)
    stream.stop.set()
    stream.thread.join(PATIENCE)
    assert stream.sink.failure is None
