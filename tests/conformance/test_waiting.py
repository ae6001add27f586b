"""A session that waits for another session reports for which one: a slot for the publisher's
transactions, a target for its locks.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import psycopg
import pytest
import sqlalchemy as sa

from subscriber.base import waiting
from subscriber.base.lsn import parse_lsn
from subscriber.base.waiting import notices_to
from subscriber.commands import subscription_slots
from subscriber.publisher.client import PublisherClient
from subscriber.publisher.connection import ReplicationConnection, connect_publisher
from subscriber.publisher.fence.open_transactions import blockers_of, standbys_of
from subscriber.publisher.slots import StreamOptions, create_slot, start_command
from subscriber.publisher.snapshot import exported_snapshot
from subscriber.stream.journal.positions import journal_positions
from subscriber.stream.receive import quiet
from subscriber.targets import Target, open_target
from tests.conformance.test_publisher_notices import heard
from tests.conformance.test_walreceiver import slot_of
from tests.conftest import Database
from tests.crash.harness import COMMAND, wait_until
from tests.target_databases import applied_to

pytestmark = pytest.mark.server


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(waiting, "PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(waiting, "_LONGEST_SECONDS", 0.2)


class Waiter:
    """Does something in a thread, and collects the reports of its waits."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.told: list[str] = []
        self.errors: list[BaseException] = []
        self._work = work
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with notices_to(self.told.append):
                self._work()
        except BaseException as error:
            self.errors.append(error)

    def says(self) -> str:
        return str(wait_until(lambda: self.told, "it to say for whom it waits")[-1])

    def end(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()
        assert self.errors == []


def holding(conninfo: str, *statements: str) -> psycopg.Connection[tuple[object, ...]]:
    """A session in a transaction that has executed ``statements``."""
    connection = psycopg.connect(conninfo, application_name="the shop")
    for statement in statements:
        connection.execute(statement.encode())
    return connection


def slot_made(database: Database, name: str) -> Callable[[], object]:
    def make() -> None:
        with ReplicationConnection(database.conninfo, "sub") as connection:
            create_slot(connection, name, snapshot="nothing", stop=threading.Event())

    return make


def test_a_slot_reports_the_sessions_it_waits_for(database):
    """Versions 15, 16 and 18. The report has user, database, start and state, but no query's
    text.
    """
    database.execute("CREATE TABLE t (a text)")
    with holding(database.conninfo, "INSERT INTO t VALUES ('secret 17')") as busy:
        waiter = Waiter(slot_made(database, f"waits_{database.name}"))
        said = waiter.says()
        process = busy.info.backend_pid
        busy.rollback()
    waiter.end()
    assert said.startswith(
        f'creating replication slot "waits_{database.name}" at the publisher waits for process {process} (user "'
    )
    assert f'database "{database.name}", application "the shop", idle in transaction, since 20' in said
    assert "secret" not in said
    assert "INSERT" not in said


def test_a_role_that_may_not_see_other_sessions_gets_their_process_ids(publisher_database):
    role = f"blind_{publisher_database.name}"
    publisher_database.execute(f"CREATE TABLE t (a int); CREATE ROLE {role} LOGIN REPLICATION")
    blind = Database(publisher_database.server, publisher_database.name, f"{publisher_database.conninfo} user={role}")
    try:
        with holding(publisher_database.conninfo, "INSERT INTO t VALUES (1)") as busy:
            waiter = Waiter(slot_made(blind, f"blind_{publisher_database.name}"))
            assert f"waits for process {busy.info.backend_pid} (" in waiter.says()
            busy.rollback()
        waiter.end()
    finally:
        publisher_database.execute(f"DROP ROLE {role}")


def test_a_slot_and_the_snapshot_of_a_copy_report_the_prepared_transactions_they_wait_for(publisher_database):
    publisher_database.execute("CREATE TABLE t (a int)")
    gid = f"gid_{publisher_database.name}"
    publisher_database.execute(f"BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION '{gid}'")

    def snapshot() -> None:
        with exported_snapshot(publisher_database.conninfo, "sub", threading.Event()):
            pass

    waiters = [Waiter(slot_made(publisher_database, f"waits_{publisher_database.name}")), Waiter(snapshot)]
    try:
        said = [waiter.says() for waiter in waiters]
    finally:
        publisher_database.execute(f"ROLLBACK PREPARED '{gid}'")
    for waiter in waiters:
        waiter.end()
    wanted = f'prepared transaction "{gid}" in database "{publisher_database.name}" (prepared by "'
    assert [wanted in one for one in said] == [True, True]


def test_a_copy_reports_who_has_locked_its_table_at_the_publisher(publisher_database):
    publisher_database.execute("CREATE TABLE t (a int)")
    conninfo = publisher_database.conninfo

    def copy() -> None:
        with connect_publisher(conninfo, "sub") as server:
            server.execute("SELECT * FROM t")

    with holding(conninfo, "LOCK TABLE t") as busy:
        assert blockers_of(conninfo, "sub") == []
        waiter = Waiter(copy)
        (said,) = wait_until(lambda: blockers_of(conninfo, "sub"), "the copy to wait")
        assert said.startswith(f"process {busy.info.backend_pid} (user ")
        busy.rollback()
    waiter.end()


def test_a_command_that_needs_a_slot_reports_who_streams_from_it(publisher_database):
    """DROP SUBSCRIPTION waits until `subscriber run` has released the slot."""
    name = f"used_{publisher_database.name}"
    conninfo = publisher_database.conninfo
    publisher_database.execute("CREATE PUBLICATION p")
    with ReplicationConnection(conninfo, "the run") as stream:
        made = create_slot(stream, name, snapshot="nothing")
        stream.start(start_command(stream.server_version, name, made.consistent_point, StreamOptions(("p",))))

        def drop() -> None:
            with connect_publisher(conninfo, "sub") as server:
                subscription_slots.remove_slot(PublisherClient(server), name)

        waiter = Waiter(drop)
        said = waiter.says()
        process = stream.process_id
    waiter.end()
    assert said.startswith(f'releasing replication slot "{name}" waits for process {process} (user ')
    assert 'application "the run", active, since 20' in said


# Targets ------------------------------------------------------------------------------------------


@contextlib.contextmanager
def target_with_a_table(kind: str, request: pytest.FixtureRequest, tmp_path) -> Iterator[Target]:
    with applied_to(kind, request, tmp_path) as on:
        on.execute("CREATE TABLE t (a int PRIMARY KEY, b int)", "INSERT INTO t VALUES (1, 1)")
        yield on.target


def written(target: Target, statement: str = "UPDATE t SET b = 2 WHERE a = 1") -> Callable[[], object]:
    def write() -> None:
        with target.begin() as connection:
            connection.execute(sa.text(statement))

    return write


@pytest.mark.parametrize("lock", ["UPDATE t SET b = 3", "LOCK TABLE t"])
def test_a_transaction_in_postgresql_reports_the_session_whose_lock_it_waits_for(request, tmp_path, lock):
    with target_with_a_table("postgresql", request, tmp_path) as target:
        with target.engine.connect() as busy:
            busy.execute(sa.text(lock if lock.startswith("UPDATE") else "LOCK TABLE t IN ACCESS EXCLUSIVE MODE"))
            waiter = Waiter(written(target, "UPDATE public.t SET b = 2 WHERE a = 1"))
            said = waiter.says()
            process = target.transactions.session_id(busy)
            busy.rollback()
        waiter.end()
    assert said.startswith(f'a transaction of the target (PostgreSQL) waits for process {process} (user "')
    assert "idle in transaction, since 20" in said


def test_a_transaction_in_postgresql_reports_the_prepared_transaction_whose_lock_it_waits_for(request, tmp_path):
    with target_with_a_table("postgresql", request, tmp_path) as target:
        gid = f"held_{os.getpid()}"
        assert target.prepared is not None
        with target.prepared.begin(gid) as connection:
            connection.execute(sa.text("UPDATE public.t SET b = 3"))
        waiter = Waiter(written(target, "UPDATE public.t SET b = 2 WHERE a = 1"))
        try:
            said = waiter.says()
        finally:
            target.prepared.finish(gid, commit=False)
        waiter.end()
    assert f'waits for prepared transaction "{gid}" (prepared by "' in said


def test_a_transaction_in_mariadb_reports_the_session_that_has_locked_its_row(request, tmp_path):
    with target_with_a_table("mariadb", request, tmp_path) as target:
        with target.engine.connect() as busy:
            busy.execute(sa.text("UPDATE t SET b = 3"))
            waiter = Waiter(written(target))
            said = waiter.says()
            process = target.transactions.session_id(busy)
            busy.rollback()
        waiter.end()
    assert said.startswith(f'a transaction of the target (MariaDB) waits for process {process} (user "')
    assert "idle in transaction, since 20" in said


def test_a_transaction_in_mariadb_reports_the_sessions_that_may_hold_a_metadata_lock(request, tmp_path):
    with target_with_a_table("mariadb", request, tmp_path) as target:
        with target.engine.connect() as busy:
            busy.execute(sa.text("UPDATE t SET b = 3"))
            waiter = Waiter(written(target, "ALTER TABLE t ADD c int"))
            said = waiter.says()
            process = target.transactions.session_id(busy)
            busy.rollback()
        waiter.end()
    assert f"waits for a lock of the table's definition, perhaps held by process {process} (user " in said


LOCKS_SQLITE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""
LOCKS_DUCKDB = """
import duckdb, sys
connection = duckdb.connect(sys.argv[1])
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("kind", "program", "wal"),
    [("sqlite", LOCKS_SQLITE, False), ("sqlite", LOCKS_SQLITE, True), ("duckdb", LOCKS_DUCKDB, False)],
)
def test_a_transaction_reports_the_process_that_has_locked_its_file(request, tmp_path, kind, program, wal):
    """SQLite has a busy timeout, and DuckDB locks its whole file. The kernel knows the process."""
    with target_with_a_table(kind, request, tmp_path) as target:
        file = str(target.url.database)
        if wal:
            with contextlib.closing(sqlite3.connect(file)) as connection:
                connection.execute("PRAGMA journal_mode = WAL")
        target.close()
        other = subprocess.Popen(
            [sys.executable, "-c", program, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert other.stdin is not None
        assert other.stdout is not None
        with other, open_target(target.url) as ours:
            assert other.stdout.readline() == "locked\n"
            waiter = Waiter(written(ours))
            said = waiter.says()
            other.stdin.close()
            waiter.end()
    assert f"waits for process {other.pid} (python" in said


def test_create_subscription_prints_a_notice_about_the_session_it_waits_for(publisher_database, tmp_path):
    """The notice comes after two seconds. The command continues when the transaction has ended."""
    publisher_database.execute("CREATE TABLE t (a int PRIMARY KEY); CREATE PUBLICATION p FOR TABLE t")
    name = f"s_{publisher_database.name}"
    statement = f"CREATE SUBSCRIPTION {name} CONNECTION '{publisher_database.conninfo}' PUBLICATION p WITH (create_tables = true)"
    arguments = ["sql", "--target", f"sqlite:///{tmp_path / 't.db'}", "-c"]
    environment = {**os.environ, "SUBSCRIBER_JOURNAL": str(tmp_path / "journal")}
    with holding(publisher_database.conninfo, "INSERT INTO t VALUES (1)") as busy:
        command = subprocess.Popen(
            [*COMMAND, *arguments, statement],
            env=environment,
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert command.stderr is not None
        said = next(line for line in command.stderr if "waits for" in line)
        process = busy.info.backend_pid
        busy.rollback()
    assert "CREATE SUBSCRIPTION" in command.communicate()[0]
    assert said.startswith(
        f'NOTICE:  creating replication slot "{name}" at the publisher waits for process {process} (user '
    )


# A standby ----------------------------------------------------------------------------------------


@pytest.fixture
def behind_a_standby(publisher_database) -> Iterator[Database]:
    """A database with a failover slot, whose walsender waits for the standby of slot sb."""
    publisher_database.execute("CREATE TABLE t (a int PRIMARY KEY); CREATE PUBLICATION p FOR TABLE t")
    publisher_database.execute("CREATE PUBLICATION q; SELECT pg_create_physical_replication_slot('sb', true)")
    publisher_database.execute("ALTER SYSTEM SET synchronized_standby_slots = 'sb'")
    publisher_database.execute("SELECT pg_reload_conf()")
    try:
        yield publisher_database
    finally:
        let_go(publisher_database)
        publisher_database.execute("SELECT pg_drop_replication_slot('sb')")


def let_go(database: Database) -> None:
    database.execute("ALTER SYSTEM RESET synchronized_standby_slots")
    database.execute("SELECT pg_reload_conf()")


@contextlib.contextmanager
def standby_that_hangs(database: Database) -> Iterator[None]:
    """Streams from slot sb, and confirms nothing."""
    ((start,),) = database.execute("SELECT restart_lsn::text FROM pg_replication_slots WHERE slot_name = 'sb'")
    with ReplicationConnection(database.conninfo, "standby") as connection:
        connection.start(f"START_REPLICATION SLOT sb PHYSICAL {start}")
        yield


def test_a_walsender_that_waits_for_a_standby_is_told_apart_from_an_idle_one(behind_a_standby, tmp_path, monkeypatch):
    """The publisher says nothing by itself while the standby is connected and hangs. For a standby
    that is away it sends a WARNING.
    """
    monkeypatch.setattr(quiet, "QUIET_SECONDS", 0.2)
    database = behind_a_standby
    with ReplicationConnection(database.conninfo, "test") as connection:
        start = create_slot(connection, slot_of(database), snapshot="nothing", failover=True).consistent_point
    standby = contextlib.ExitStack()
    standby.enter_context(standby_that_hangs(database))
    with standby, heard(database, tmp_path, start) as receiver:
        database.execute("INSERT INTO t VALUES (1)")
        told = wait_until(lambda: [one["message"] for one in receiver.events if one["event"] == "warning"], "a report")
        assert re.fullmatch(
            'the walsender waits for the standby of replication slot "sb", which lags behind, [0-9,]+ bytes behind'
            r" \(synchronized_standby_slots\)",
            told[0],
        )
        assert receiver.notices() == []
        with connect_publisher(database.conninfo, "test") as server:
            slot = PublisherClient(server).slot(slot_of(database))
            assert slot is not None
            assert slot.active_pid is not None
            (awaited,) = standbys_of(server, slot.active_pid)
        assert 'slot "sb", which lags behind' in awaited
        standby.close()
        database.execute("INSERT INTO t VALUES (2)")
        wait_until(receiver.notices, "the publisher's own warning")
        assert (
            'replication slot "sb" specified in parameter "synchronized_standby_slots" does not have active_pid'
            in (receiver.notices()[0]["report"])
        )
        let_go(database)
        ((end,),) = database.execute("SELECT pg_current_wal_flush_lsn()::text")
        wait_until(lambda: journal_positions(str(tmp_path))[0] >= parse_lsn(end), "both rows")
        with connect_publisher(database.conninfo, "test") as server:
            assert standbys_of(server, slot.active_pid) == []
