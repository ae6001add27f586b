"""The receiver with real walsenders of every version, without Spark and without a target."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from subscriber.base.errors import JournalGap, SubscriberError
from subscriber.base.lsn import INVALID_LSN, LSN, MAX_LSN
from subscriber.base.settings import Settings
from subscriber.publisher.client import PublisherClient
from subscriber.publisher.connection import ReplicationConnection, connect_publisher
from subscriber.publisher.slots import create_slot
from subscriber.stream.journal.browse import browse
from subscriber.stream.journal.positions import journal_positions
from subscriber.stream.journal.segment import EntryKind, journal_entries
from subscriber.stream.journal.storage import LocalStorage
from subscriber.worker.receiver_process import Assignment, receive
from tests.conftest import Database
from tests.journals import passed

PATIENCE_SECONDS = 60.0


def slot_of(database: Database) -> str:
    return f"slot_{database.name}"


class Receiving:
    """A receiver in a thread, its journal, and its publisher."""

    thread: threading.Thread

    def __init__(self, database: Database, folder: Path, start: LSN) -> None:
        self.database = database
        self.folder = folder
        self.start = start
        self.error: SubscriberError | None = None

    def lines(self) -> list[str]:
        """The contents of the journal: ``action relation`` of every message except descriptions."""
        found = browse(str(self.folder), INVALID_LSN, MAX_LSN, show_values=True)
        return [f"{line.action} {line.description}" for line in found if line.action not in "RY"]

    def changes(self) -> list[str]:
        return [line for line in self.lines() if line[0] in "IUDT"]

    def confirmed(self) -> LSN:
        with connect_publisher(self.database.conninfo, "test") as server:
            slot = PublisherClient(server).slot(slot_of(self.database))
        assert slot is not None
        return slot.confirmed_flush_lsn

    def flushed(self) -> LSN:
        with connect_publisher(self.database.conninfo, "test") as server:
            return PublisherClient(server).flushed_lsn()

    def wait(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert self.error is None, self.error
            assert time.monotonic() < deadline, self.lines()
            time.sleep(0.02)

    def wait_received(self) -> None:
        """Wait until everything that is committed now has been received."""
        with connect_publisher(self.database.conninfo, "test") as server:
            barrier = PublisherClient(server).write_barrier()
        self.wait(lambda: journal_positions(str(self.folder))[0] >= barrier)


def make_slot(database: Database, *, two_phase: bool = False) -> LSN:
    with ReplicationConnection(database.conninfo, "test") as connection:
        return create_slot(connection, slot_of(database), snapshot="nothing", two_phase=two_phase).consistent_point


@contextmanager
def receiving(
    database: Database,
    folder: Path,
    start: LSN,
    *,
    streaming: str = "parallel",
    two_phase: bool = False,
    binary: bool = False,
    applied: LSN | None = None,
) -> Iterator[Receiving]:
    with connect_publisher(database.conninfo, "test") as server:
        system = PublisherClient(server).system_identifier()
    assignment = Assignment(
        subscription="test",
        conninfo=database.conninfo,
        slot=slot_of(database),
        publications=("p",),
        streaming=streaming,  # type: ignore[arg-type]
        two_phase=two_phase,
        binary=binary,
        origin="any",
        system_identifier=system,
        journal=str(folder),
        applied_lsn=applied or start,
    )
    stop = threading.Event()
    handle = Receiving(database, folder, start)

    def work() -> None:
        try:
            receive(assignment, Settings(journal=str(folder), segment_bytes=64 * 1024), stop, lambda *_, **__: None)
        except SubscriberError as error:
            handle.error = error

    thread = handle.thread = threading.Thread(target=work)
    thread.start()
    try:
        yield handle
    finally:
        stop.set()
        thread.join(PATIENCE_SECONDS)


@pytest.fixture
def published(database: Database) -> Database:
    database.execute("CREATE TABLE t(a int PRIMARY KEY, b text); CREATE TABLE private(a int)")
    database.execute("CREATE PUBLICATION p FOR TABLE t")
    return database


def test_changes_arrive_in_commit_order_with_the_highest_protocol_version(published, tmp_path):
    """Rule A33."""
    start = make_slot(published)
    with receiving(published, tmp_path, start) as receiver:
        published.execute("INSERT INTO t VALUES (1, 'x'), (2, NULL)")
        published.execute("UPDATE t SET a = 3 WHERE a = 2")
        published.execute("DELETE FROM t WHERE a = 1")
        published.execute("TRUNCATE t")
        receiver.wait_received()
        assert receiver.changes() == [
            "I INSERT (a: '1', b: 'x')",
            "I INSERT (a: '2', b: null)",
            "U UPDATE old key (a: '2', b: null) (a: '3', b: null)",
            "D DELETE old key (a: '1', b: null)",
            "T TRUNCATE public.t",
        ]


def test_the_slot_is_confirmed_as_soon_as_the_journal_is_durable(published, tmp_path):
    start = make_slot(published)
    with receiving(published, tmp_path, start) as receiver:
        published.execute("INSERT INTO t VALUES (1, 'x')")
        receiver.wait_received()
        receiver.wait(lambda: receiver.confirmed() >= journal_entries(LocalStorage(tmp_path))[-1].end)
        assert receiver.confirmed() <= journal_positions(str(tmp_path))[0]


def test_a_slot_does_not_hold_the_wal_while_only_unpublished_tables_change(published, tmp_path):
    """Rule C36: the slot is confirmed further although nothing is published."""
    start = make_slot(published)
    with receiving(published, tmp_path, start) as receiver:
        published.execute("INSERT INTO private SELECT generate_series(1, 20000)")
        end = receiver.flushed()
        assert end - start > 500_000
        receiver.wait(lambda: receiver.confirmed() >= end)
        # A streamed transaction is announced even if nothing of it is published (rule A22).
        assert receiver.changes() == []


@pytest.mark.parametrize("streaming", ["off", "on", "parallel"])
def test_a_large_transaction_arrives_whole_whatever_the_streaming_mode(published, tmp_path, streaming):
    start = make_slot(published)
    with receiving(published, tmp_path, start, streaming=streaming) as receiver:
        published.execute("INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(1, 3000) i")
        receiver.wait_received()
        lines = receiver.lines()
        assert (lines[0][0], lines[-1][0], len(lines)) == ("B", "C", 3002)
        assert len(journal_entries(LocalStorage(tmp_path))[0].segments) > 3


def test_a_rolled_back_subtransaction_of_a_streamed_transaction_leaves_nothing(published, tmp_path):
    """Rule C43. The server streams, because logical_decoding_work_mem is 64 kB."""
    start = make_slot(published)
    with receiving(published, tmp_path, start) as receiver:
        published.execute(
            "BEGIN; INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(1, 2000) i; SAVEPOINT s;"
            " INSERT INTO t SELECT i, repeat('y', 100) FROM generate_series(5001, 7000) i; SAVEPOINT s2;"
            " UPDATE t SET b = 'z' WHERE a <= 2000; ROLLBACK TO s;"
            " INSERT INTO t VALUES (9999, 'after'); COMMIT"
        )
        receiver.wait_received()
        changes = receiver.changes()
        assert len(changes) == 2001
        assert changes[-1] == "I INSERT (a: '9999', b: 'after')"


def test_a_rolled_back_streamed_transaction_leaves_nothing_and_interleaves_with_others(published, tmp_path):
    """Rule C47."""
    start = make_slot(published)
    with receiving(published, tmp_path, start) as receiver, psycopg.connect(published.conninfo) as other:
        other.execute("INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(1, 3000) i")
        published.execute("INSERT INTO t VALUES (100001, 'committed')")
        receiver.wait_received()
        other.rollback()
        published.execute("INSERT INTO t VALUES (100002, 'committed')")
        receiver.wait_received()
        assert len(receiver.changes()) == 2
        receiver.wait(lambda: not list(tmp_path.glob("*.tmp")))


def test_a_prepared_transaction_survives_a_restart_of_the_receiver_until_it_is_finished(published, tmp_path):
    """Rules C49 to C51: the slot is confirmed past the PREPARE, so the journal has to keep the
    transaction.
    """
    start = make_slot(published, two_phase=True)
    with receiving(published, tmp_path, start, two_phase=True) as receiver:
        published.execute("BEGIN; INSERT INTO t VALUES (1, 'kept'); PREPARE TRANSACTION 'one'")
        published.execute("BEGIN; INSERT INTO t VALUES (2, 'dropped'); PREPARE TRANSACTION 'two'")
        receiver.wait(lambda: len(journal_entries(LocalStorage(tmp_path))) == 2)
        assert receiver.changes() == []
        passed(LocalStorage(tmp_path), journal_positions(str(tmp_path))[1])
    with receiving(published, tmp_path, start, two_phase=True) as receiver:
        published.execute("COMMIT PREPARED 'one'")
        published.execute("ROLLBACK PREPARED 'two'")
        receiver.wait_received()
        assert receiver.changes() == ["I INSERT (a: '1', b: 'kept')"]
        kinds = [entry.kind for entry in journal_entries(LocalStorage(tmp_path))]
        assert kinds[-2:] == [EntryKind.COMMIT_PREPARED, EntryKind.ROLLBACK_PREPARED]


def test_a_transaction_that_has_only_locked_rows_is_prepared_and_committed(publisher_database, tmp_path):
    """Rule C50. PostgreSQL 18 sends the PREPARE without a BEGIN PREPARE, and its own worker stops
    ("incorrect prepare LSN").
    """
    publisher_database.execute("CREATE TABLE t(a int PRIMARY KEY, b text); CREATE PUBLICATION p FOR TABLE t")
    publisher_database.execute("INSERT INTO t VALUES (1, 'x')")
    start = make_slot(publisher_database, two_phase=True)
    with receiving(publisher_database, tmp_path, start, two_phase=True) as receiver:
        publisher_database.execute("BEGIN; SELECT * FROM t FOR UPDATE; PREPARE TRANSACTION 'locked'")
        publisher_database.execute("COMMIT PREPARED 'locked'")
        publisher_database.execute("INSERT INTO t VALUES (2, 'y')")
        receiver.wait_received()
        assert receiver.changes() == ["I INSERT (a: '2', b: 'y')"]
        kinds = [entry.kind for entry in journal_entries(LocalStorage(tmp_path))]
        assert kinds == [EntryKind.PREPARED, EntryKind.COMMIT_PREPARED, EntryKind.TRANSACTIONS]


def test_after_a_restart_nothing_is_lost_and_nothing_comes_twice(published, tmp_path):
    start = make_slot(published)
    for number in range(1, 6):
        with receiving(published, tmp_path, start) as receiver:
            published.execute(f"INSERT INTO t VALUES ({number}, 'x')")
            receiver.wait_received()
    assert receiver.changes() == [f"I INSERT (a: '{number}', b: 'x')" for number in range(1, 6)]


def test_a_binary_stream_restarts_as_text_at_a_column_whose_binary_format_is_not_read(published, tmp_path):
    """Rules A12, A13: the description of an enum column has the enum's OID. Nothing is received
    twice, and nothing is lost.
    """
    start = make_slot(published)
    with receiving(published, tmp_path, start, binary=True) as receiver:
        published.execute("INSERT INTO t VALUES (1, 'x')")
        receiver.wait_received()
        published.execute("CREATE TYPE mood AS ENUM ('sad', 'ok'); ALTER TABLE t ADD m mood, ADD l int[]")
        published.execute("INSERT INTO t VALUES (2, 'y', 'ok', '{1,2}')")
        published.execute("UPDATE t SET m = 'sad' WHERE a = 1")
        receiver.wait_received()
        assert receiver.changes() == [
            r"I INSERT (a: \x00000001, b: \x78)",
            "I INSERT (a: '2', b: 'y', m: 'ok', l: '{1,2}')",
            "U UPDATE (a: '1', b: 'x', m: 'sad', l: null)",
        ]
    with receiving(published, tmp_path, start, binary=True) as receiver:
        published.execute("ALTER TABLE t DROP m; INSERT INTO t VALUES (3, 'z', '{}')")
        receiver.wait_received()
        assert receiver.changes()[3:] == [r"I INSERT (a: \x00000003, b: \x7a, l: \x000000000000000000000017)"]


def test_entries_that_every_consumer_has_passed_are_trimmed(published, tmp_path):
    start = make_slot(published)
    with receiving(published, tmp_path, start) as receiver:
        published.execute("INSERT INTO t VALUES (1, 'x')")
        receiver.wait_received()
        there = journal_positions(str(tmp_path))[1]
    passed(LocalStorage(tmp_path), there)
    with receiving(published, tmp_path, start, applied=there) as receiver:
        receiver.wait(lambda: journal_entries(LocalStorage(tmp_path)) == [])
        published.execute("INSERT INTO t VALUES (2, 'x')")
        receiver.wait_received()
        assert receiver.changes() == ["I INSERT (a: '2', b: 'x')"]


def test_a_lost_journal_is_refused_with_both_positions(published, tmp_path):
    """Invariant slot_after_disk."""
    start = make_slot(published)
    with receiving(published, tmp_path / "one", start) as receiver:
        published.execute("INSERT INTO t VALUES (1, 'x')")
        receiver.wait_received()
        receiver.wait(lambda: receiver.confirmed() > start)
    with receiving(published, tmp_path / "two", start) as receiver:
        pass
    assert receiver.error is not None
    assert "the slot was confirmed up to" in receiver.error.message
    assert "but the journal ends at" in receiver.error.message


def test_a_server_that_shuts_down_gets_the_confirmation_that_it_waits_for(postgresql18, publisher_database, tmp_path):
    """A walsender requests a status update before it ends. Without an answer the shutdown would
    hang.
    """
    publisher_database.execute("CREATE TABLE t(a int PRIMARY KEY, b text); CREATE PUBLICATION p FOR TABLE t")
    start = make_slot(publisher_database)
    with receiving(publisher_database, tmp_path, start) as receiver:
        publisher_database.execute("INSERT INTO t VALUES (1, 'x')")
        receiver.wait_received()
        postgresql18.restart()
        receiver_ended = time.monotonic() + PATIENCE_SECONDS
        while receiver.error is None and time.monotonic() < receiver_ended:
            time.sleep(0.05)
    assert receiver.error is not None
    assert receiver.error.transient


def test_a_slot_that_another_receiver_confirms_between_check_and_stream_is_refused(published, tmp_path, monkeypatch):
    """Invariant slot_after_disk: one connection checks the slot, and another one streams from
    it.
    """
    start = make_slot(published)
    begin = ReplicationConnection.start

    def confirmed_meanwhile(stream: ReplicationConnection, command: str) -> None:
        published.execute("INSERT INTO t VALUES (1, 'received by somebody else')")
        published.execute(f"SELECT pg_replication_slot_advance('{slot_of(published)}', pg_current_wal_lsn())")
        begin(stream, command)

    monkeypatch.setattr(ReplicationConnection, "start", confirmed_meanwhile)
    with receiving(published, tmp_path, start) as receiver:
        receiver.thread.join(PATIENCE_SECONDS)
    assert isinstance(receiver.error, JournalGap)
    assert "the slot was confirmed up to" in receiver.error.message
    assert receiver.changes() == []
