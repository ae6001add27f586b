"""ALTER SUBSCRIPTION … RECREATE SLOT with real servers: one command replaces a slot that is lost,
and afterwards the target has what the publisher has.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from subscriber.base.failpoints import ENVIRONMENT
from subscriber.testing.servers.open_servers import PostgreSQLServer, find_postgresql
from tests.conformance.test_publisher_history import copied, restore
from tests.conftest import server_or_skip
from tests.crash.harness import Runner, differences, wait_until
from tests.target_databases import opened

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow]

TABLES = ("t", "u")
PUBLISHER = """
CREATE TABLE t (id int PRIMARY KEY, note text);
CREATE TABLE u (id int PRIMARY KEY, note text);
CREATE PUBLICATION p FOR TABLE t, u;
INSERT INTO t SELECT n, 'note ' || n FROM generate_series(1, 500) n;
INSERT INTO u SELECT n, 'u' FROM generate_series(1, 100) n;
"""
RECREATE = "ALTER SUBSCRIPTION s RECREATE SLOT"
BEYOND_THE_SLOT = (
    "DELETE FROM t WHERE id <= 50; UPDATE t SET note = 'changed' WHERE id > 450; INSERT INTO t VALUES (1000, 'new');"
    " INSERT INTO u VALUES (1000, 'new')"
)


class System:
    """A publisher, and a target whose subscription s has copied its tables."""

    def __init__(self, server: PostgreSQLServer, database: str, url: str, folder: Path) -> None:
        self.server = server
        self.database = database
        self.runner = Runner(url, folder)

    @property
    def conninfo(self) -> str:
        return self.server.conninfo(self.database)

    def subscribe(self, options: str = "create_tables") -> None:
        self.runner.sql(f"CREATE SUBSCRIPTION s CONNECTION '{self.conninfo}' PUBLICATION p WITH ({options})")
        self.once()

    def at_publisher(self, sql: str) -> list[tuple[object, ...]]:
        return self.server.execute(sql, self.database)

    def once(self) -> None:
        answer = self.runner.once()
        assert answer.returncode == 0, answer.stderr

    def refused(self, statement: str = RECREATE) -> str:
        answer = self.runner.call("sql", "-c", statement)
        assert answer.returncode == 1, answer.stdout
        return answer.stderr

    def recreate(self) -> str:
        answer = self.runner.call("sql", "-c", RECREATE)
        assert (answer.returncode, answer.stdout) == (0, "ALTER SUBSCRIPTION\n"), answer.stderr
        return answer.stderr

    def drop_slot(self) -> None:
        self.at_publisher("SELECT pg_drop_replication_slot('s')")

    def lose_slot(self) -> None:
        """Have the slot invalidated, because the server must keep hardly any WAL."""

        def lost() -> bool:
            self.at_publisher("SELECT pg_logical_emit_message(true, 'x', repeat('x', 1000)), pg_switch_wal()")
            self.at_publisher("CHECKPOINT")
            return self.at_publisher("SELECT wal_status FROM pg_replication_slots WHERE slot_name = 's'") == [("lost",)]

        self.at_publisher("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
        self.at_publisher("SELECT pg_reload_conf()")
        wait_until(lost, "the slot to be lost")
        self.at_publisher("ALTER SYSTEM RESET max_slot_wal_keep_size")
        self.at_publisher("SELECT pg_reload_conf()")

    def differences(self) -> list[object]:
        return [*differences(self.conninfo, self.runner.target, TABLES)]

    def states(self) -> dict[str, int]:
        states: dict[str, int] = self.runner.status()["s"]["tables"]
        return states

    def keys(self) -> int:
        """How many rows of t a reader of the SQLite file sees."""
        with contextlib.closing(sqlite3.connect(self.runner.target.removeprefix("sqlite:///"), timeout=30)) as reader:
            return int(reader.execute("SELECT count(*) FROM t").fetchone()[0])


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSQLServer]:
    """A server whose slots may be lost."""
    with server_or_skip(lambda: PostgreSQLServer(find_postgresql(18), {"max_prepared_transactions": "10"})) as server:
        yield server


@contextlib.contextmanager
def made(server: PostgreSQLServer, url: str, folder: Path) -> Iterator[System]:
    server.create_database("shop")
    server.execute(PUBLISHER, "shop")
    system = System(server, "shop", url, folder)
    try:
        yield system
    finally:
        system.runner.close()
        server.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT temporary", "shop"
        )
        server.drop_database("shop")


@pytest.fixture
def system(server, tmp_path) -> Iterator[System]:
    with made(server, f"sqlite:///{tmp_path / 'target.db'}", tmp_path) as system:
        yield system


def test_a_slot_that_was_dropped_is_recreated_while_the_run_goes_on(system):
    """slot_after_disk: the receiver refuses the missing slot; the command brings everything back,
    and readers see the old rows meanwhile.
    """
    system.subscribe()
    runner = system.runner
    runner.start()
    wait_until(lambda: runner.status()["s"]["slot_active"], "the run to stream")
    assert "is active for PID" in system.refused()
    system.at_publisher("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = 's'")
    wait_until(lambda: _dropped(system), "the slot to be dropped")
    system.at_publisher(BEYOND_THE_SLOT)
    wait_until(lambda: "does not exist" in (runner.status()["s"]["last_error"] or ""), "the run to miss the slot")
    counts: list[int] = []
    ending = threading.Event()

    def read() -> None:
        while not ending.wait(0.005):
            counts.append(system.keys())

    reader = threading.Thread(target=read)
    reader.start()
    try:
        runner.restart_if_dead()
        said = system.recreate()
        assert 'NOTICE:  subscription "s" cannot continue with its slot: replication slot "s" does not exist' in said
        assert 'created replication slot "s" on publisher' in said
        wait_until(lambda: runner.restart_if_dead() or system.states() == {"r": 2}, "the tables to be ready")
    finally:
        ending.set()
        reader.join()
    assert min(counts) >= 451
    system.at_publisher("DELETE FROM t WHERE id = 60; INSERT INTO u VALUES (2000, 'after')")
    wait_until(lambda: system.differences() == [], f"the tables to be equal\n{runner.said()}", patience=30)
    assert runner.interrupt() == 0


def _dropped(system: System) -> bool:
    with contextlib.suppress(Exception):
        system.at_publisher(
            "SELECT pg_terminate_backend(active_pid), pg_drop_replication_slot(slot_name)"
            " FROM pg_replication_slots WHERE slot_name = 's'"
        )
    return system.at_publisher("SELECT FROM pg_replication_slots WHERE slot_name = 's'") == []


def test_a_slot_that_lost_its_wal_is_recreated(system):
    """Run, status and command agree on the loss; the new slot has the options of the old one."""
    system.subscribe("create_tables, failover")
    system.at_publisher(BEYOND_THE_SLOT)
    system.lose_slot()
    answer = system.runner.once()
    assert answer.returncode == 1
    assert "RECREATE SLOT" in answer.stderr
    (warning,) = [
        line
        for line in system.runner.call("status").stdout.splitlines()
        if line.startswith("WARNING:") and "is lost" in line
    ]
    assert "wal_removed" in warning
    said = system.recreate()
    assert 'dropped replication slot "s" on publisher' in said
    assert "2 tables are copied again" in said
    assert system.at_publisher("SELECT failover, two_phase FROM pg_replication_slots WHERE slot_name = 's'") == [
        (True, False)
    ]
    system.once()
    assert system.differences() == []
    assert system.states() == {"r": 2}


@pytest.mark.parametrize("moment", [pytest.param("before", marks=pytest.mark.long), "after"])
def test_a_command_that_was_killed_is_repeated(system, moment):
    """any_crash: without a slot, and with a slot that the catalog does not know"""
    system.subscribe()
    system.drop_slot()
    system.at_publisher(BEYOND_THE_SLOT)
    killed = system.runner.call("sql", "-c", RECREATE, **{ENVIRONMENT: f"recreate.{moment}=kill"})
    assert killed.returncode == -9
    assert system.keys() == 500
    assert system.runner.once().returncode == 1  # nothing is skipped meanwhile
    assert system.keys() == 500
    system.recreate()
    system.once()
    assert system.differences() == []


def test_a_slot_that_is_well_is_refused(system):
    system.subscribe()
    system.at_publisher(BEYOND_THE_SLOT)
    said = system.refused()
    assert 'replication slot "s" of subscription "s" does not need to be recreated' in said
    assert "REFRESH TABLE" in said
    assert system.states() == {"r": 2}
    system.once()
    assert system.differences() == []


def test_a_restored_target_whose_journal_was_trimmed_is_brought_back(system, tmp_path):
    """slot_after_disk: the journal does not have what the backup lacks, and the hint leads out."""
    system.subscribe()
    file = tmp_path / "target.db"
    shutil.copyfile(file, tmp_path / "backup.db")
    for number in range(3):
        system.at_publisher(f"INSERT INTO u VALUES ({3000 + number}, 'x'); DELETE FROM t WHERE id = {100 + number}")
        system.once()
    for left in tmp_path.glob("target.db*"):
        left.unlink()
    shutil.copyfile(tmp_path / "backup.db", file)
    answer = system.runner.once()
    assert answer.returncode == 1
    assert "the journal begins at" in answer.stderr
    assert "ALTER SUBSCRIPTION s RECREATE SLOT" in answer.stderr
    assert "SUBSCRIBER_JOURNAL_KEEP_SIZE" in answer.stderr
    # REFRESH TABLE alone does not lead out: the receiver does not open this journal.
    system.runner.sql("ALTER SUBSCRIPTION s REFRESH TABLE t, u")
    assert system.runner.once().returncode == 1
    assert "the journal begins at" in system.recreate()
    system.once()
    assert system.differences() == []
    assert system.states() == {"r": 2}


@pytest.mark.long
def test_a_journal_that_was_deleted_is_no_dead_end(system, tmp_path):
    system.subscribe()
    runner = system.runner
    system.runner.sql("ALTER SUBSCRIPTION s DISABLE")
    system.at_publisher("SELECT pg_replication_slot_advance('s', pg_current_wal_flush_lsn())")
    system.at_publisher("INSERT INTO u VALUES (4000, 'x')")
    shutil.rmtree(runner.journal)
    system.at_publisher("SELECT pg_replication_slot_advance('s', pg_current_wal_flush_lsn())")
    assert "there is no journal here" in system.recreate()
    runner.sql("ALTER SUBSCRIPTION s ENABLE")
    system.once()
    assert system.differences() == []
    # A subscription gets a slot of its own in the same way.
    runner.sql("ALTER SUBSCRIPTION s SET (slot_name = s_own)")
    system.at_publisher("DELETE FROM u WHERE id = 4000")
    assert 'replication slot "s_own" does not exist' in system.recreate()
    system.once()
    assert system.differences() == []


@pytest.mark.long
def test_a_publisher_that_was_restored_to_an_older_state_is_followed(system, tmp_path):
    """The new slot begins before what the target has applied, and the copies remove what the
    publisher has lost; the journal of the other history is removed.
    """
    system.subscribe()
    copy = copied(system.server, tmp_path)
    system.at_publisher("INSERT INTO t SELECT n, repeat('lost', 100) FROM generate_series(10000, 30000) n")
    system.once()
    assert system.keys() == 20501
    restore(system.server, copy)
    system.at_publisher("INSERT INTO u VALUES (7000, 'the other history')")
    answer = system.runner.once()
    assert answer.returncode == 1
    assert "RECREATE SLOT" in answer.stderr
    assert "but the publisher's WAL ends at" in system.recreate()
    system.once()
    assert system.differences() == []
    assert system.keys() == 500


@pytest.mark.long
def test_without_copies_only_the_stream_begins_again(system):
    system.subscribe()
    system.drop_slot()
    system.at_publisher(BEYOND_THE_SLOT)
    answer = system.runner.call("sql", "-c", f"{RECREATE} WITH (copy_data = false)")
    assert answer.returncode == 0, answer.stderr
    assert "lack the changes between" in answer.stderr
    system.at_publisher("INSERT INTO u VALUES (5000, 'after')")
    system.once()
    assert len(system.differences()) == 2
    assert system.keys() == 500
    with contextlib.closing(sqlite3.connect(system.runner.target.removeprefix("sqlite:///"))) as reader:
        assert reader.execute("SELECT note FROM u WHERE id IN (1000, 5000)").fetchall() == [("after",)]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_a_transaction_that_is_prepared_in_the_target_is_rolled_back(server, request, tmp_path, kind):
    """C48-C50: it was committed at the publisher, and the copy has it; two-phase commit is enabled
    again when the tables are ready.
    """
    with opened(kind, request, tmp_path) as target:
        url = target.engine.url.render_as_string(hide_password=False)
        with made(server, url, tmp_path) as system:
            system.subscribe("create_tables, two_phase")
            system.once()
            system.at_publisher(
                "BEGIN; DELETE FROM t WHERE id = 1; INSERT INTO u VALUES (6000, 'x'); PREPARE TRANSACTION 'one'"
            )
            system.once()
            system.at_publisher("COMMIT PREPARED 'one'")
            system.drop_slot()
            said = system.recreate()
            assert "rolled back prepared transaction" in said
            system.once()
            assert system.differences() == []
            system.once()
            assert system.at_publisher("SELECT two_phase FROM pg_replication_slots WHERE slot_name = 's'") == [(True,)]
