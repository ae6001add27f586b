"""While a command holds the apply, the target has exactly the transactions of a snapshot of the
publisher, although the publisher is written all the time.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import psycopg
import pytest

from subscriber.base.errors import ApplyNotHeld, SubscriberError, UsageError
from subscriber.base.settings import Settings
from subscriber.catalog.leases import Lease, LeaseKind, find_lease
from subscriber.catalog.subscriptions import Subscription, get_subscription
from subscriber.commands.hold_apply import PauseRequest, RequestedPause, hold_apply
from subscriber.publisher.snapshot import snapshot_session
from subscriber.targets import Target, open_target
from tests.conftest import Database
from tests.crash.harness import Runner, wait_until
from tests.subscriptions import SUBSCRIPTION
from tests.target_databases import opened

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow]

ROWS = "SELECT id, n, note FROM {table} ORDER BY id"
TABLES = ("a", "b")
PATIENCE = 60.0

LONG = [pytest.param(kind, marks=pytest.mark.long) for kind in ("postgresql", "mariadb", "duckdb")]
ANY_KIND = pytest.mark.parametrize("kind", ["sqlite", *LONG])
SQLITE = pytest.mark.parametrize("kind", ["sqlite"])


class Writer:
    """A thread that writes transactions to both tables at the publisher, until it is stopped. Some
    of them are large, some change several rows, and some are rolled back.
    """

    def __init__(self, conninfo: str) -> None:
        self.transactions = 0
        self._conninfo = conninfo
        self._random = random.Random(18)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def writes(self, transactions: int) -> None:
        """Wait until so many transactions were written."""
        enough = self.transactions + transactions
        wait_until(lambda: self.transactions > enough, "some transactions", PATIENCE)

    def _run(self) -> None:
        with psycopg.connect(self._conninfo, autocommit=True) as connection:
            while not self._ending.wait(0.003):
                with contextlib.suppress(psycopg.errors.UniqueViolation), connection.transaction():
                    self._write(connection)
                self.transactions += 1

    def _write(self, connection: psycopg.Connection[Any]) -> None:
        key, table = self._random.randrange(500), self._random.choice(TABLES)
        if self.transactions % 100 == 50:
            connection.execute("DELETE FROM b WHERE id > 1000")
            connection.execute("INSERT INTO b SELECT 1000 + i, i, repeat('x', 30) FROM generate_series(1, 3000) i")
        choice = self._random.randrange(4)
        if choice == 0:
            connection.execute(f"DELETE FROM {table} WHERE id BETWEEN %s AND %s", (key, key + 5))
        elif choice == 1:
            connection.execute(f"UPDATE {table} SET n = n + 1 WHERE id BETWEEN %s AND %s", (key, key + 20))
        else:
            for one in TABLES:
                connection.execute(
                    f"INSERT INTO {one} VALUES (%s, 0, 'new') ON CONFLICT (id) DO UPDATE SET n = {one}.n + 1", (key,)
                )
        if choice == 3 and key % 7 == 0:
            connection.execute("INSERT INTO a SELECT * FROM a LIMIT 1")  # violates the key: all is rolled back


@dataclass
class Held:
    """A subscription that a run applies, and what is needed to hold it.

    Attributes:
        publisher: the publisher's database.
        target: the target.
        runner: the run.
    """

    publisher: Database
    target: Target
    runner: Runner
    settings: Settings = field(init=False)

    def __post_init__(self) -> None:
        self.settings = Settings(journal=str(self.runner.journal))

    @property
    def subscription(self) -> Subscription:
        with self.target.engine.connect() as connection:
            return get_subscription(connection, "s")

    def hold(self, seconds: float | None = PATIENCE) -> contextlib.AbstractContextManager[RequestedPause]:
        return hold_apply(self.target, self.subscription, self.settings, seconds=seconds)

    def row(self) -> Lease | None:
        with self.target.reporting(), self.target.engine.connect() as connection:
            return find_lease(connection, LeaseKind.PAUSE, 1)

    def published(self, held: RequestedPause) -> dict[str, list[tuple[Any, ...]]]:
        """The rows of the publisher in the snapshot."""
        with snapshot_session(self.publisher.conninfo, "s", held.snapshot.name) as server:
            return {table: server.execute(ROWS.format(table=f"public.{table}")).fetchall() for table in TABLES}

    def applied(self) -> dict[str, list[tuple[Any, ...]]]:
        """The rows of the target now."""
        prefix = "public." if self.target.capabilities.postgresql_text else ""
        with self.target.reporting(), self.target.engine.connect() as connection:
            return {
                table: [tuple(row) for row in connection.exec_driver_sql(ROWS.format(table=prefix + table))]
                for table in TABLES
            }

    def catches_up(self) -> None:
        """Wait until the target has what the publisher has now."""
        with psycopg.connect(self.publisher.conninfo, autocommit=True) as server:
            (lsn,) = server.execute("SELECT pg_logical_emit_message(true, 'test', '')").fetchone()  # type: ignore[misc]
            assert lsn
            expected = {table: server.execute(ROWS.format(table=table)).fetchall() for table in TABLES}
        wait_until(lambda: self.applied() == expected, "the target to have everything", PATIENCE)


@pytest.fixture
def running(kind: str, request: pytest.FixtureRequest, publisher_database: Database, tmp_path) -> Iterator[Held]:
    """A run with subscription s of tables a and b, which it has copied."""
    for table in TABLES:
        publisher_database.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, n int, note text)")
        publisher_database.execute(f"INSERT INTO {table} SELECT i, 0, 'old' FROM generate_series(1, 200) i")
    publisher_database.execute("CREATE PUBLICATION p FOR TABLE a, b")
    with opened(kind, request, tmp_path) as target:
        runner = Runner(target.url.render_as_string(hide_password=False), tmp_path)
        with contextlib.closing(runner):
            runner.sql(
                f"CREATE SUBSCRIPTION s CONNECTION '{publisher_database.conninfo}' PUBLICATION p"
                f" WITH (create_tables = true, slot_name = {publisher_database.name})"
            )
            runner.start()
            wait_until(lambda: runner.status()["s"]["tables"] == {"r": 2}, "the tables to be ready")
            yield Held(publisher_database, target, runner)


@ANY_KIND
def test_the_target_is_at_the_snapshot_while_the_publisher_is_written(running):
    """commit_order: exactly the transactions of the snapshot, also after a while; then the apply
    goes on.
    """
    with Writer(running.publisher.conninfo) as writer:
        reached = []
        for _ in range(3):
            writer.writes(50)
            with running.hold() as held:
                expected = running.published(held)
                assert running.applied() == expected
                assert held.tables == {("public", "a"), ("public", "b")}
                time.sleep(1.0)
                assert running.applied() == expected, "nothing is applied while it is held"
                held.check()
            reached.append(held.lsn)
        assert reached == sorted(set(reached))
        assert running.row() is None
    running.catches_up()
    assert "Traceback" not in running.runner.said()
    with pytest.raises(ApplyNotHeld, match="no longer held"):
        held.check()


@SQLITE
def test_an_idle_publisher_is_held_too_and_status_shows_it(running):
    with running.hold() as held:
        assert running.applied() == running.published(held)
        status = running.runner.status()["s"]["hold"]
        assert (status["state"], status["process_id"]) == ("held", os.getpid())
        text = running.runner.call("status").stdout
        assert "held at" in text
        with pytest.raises(UsageError, match="is held by another command") as caught, running.hold():
            pass
        assert caught.value.sqlstate == "55P03"
        held.check()
    assert running.runner.status()["s"]["hold"] is None


@SQLITE
@pytest.mark.long
def test_dropping_the_subscription_ends_the_hold(running):
    with running.hold() as held:
        running.runner.sql("DROP SUBSCRIPTION s")
        with pytest.raises(ApplyNotHeld, match="no longer held"):
            held.check()
    assert running.row() is None


@SQLITE
@pytest.mark.long
def test_disable_and_enable_during_a_hold_do_not_apply_anything(running):
    with Writer(running.publisher.conninfo), running.hold() as held:
        expected = running.published(held)
        running.runner.sql("ALTER SUBSCRIPTION s DISABLE")
        running.runner.sql("ALTER SUBSCRIPTION s ENABLE")
        wait_until(lambda: running.runner.status()["s"]["slot_active"], "the worker to be back")
        time.sleep(1.0)
        assert running.applied() == expected
        held.check()
    running.catches_up()


@SQLITE
@pytest.mark.long
def test_a_change_that_cannot_be_applied_is_the_error_of_the_hold(running):
    with running.target.begin() as connection:
        connection.exec_driver_sql("INSERT INTO a VALUES (1000000, 0, 'in the way')")
    running.publisher.execute("INSERT INTO a VALUES (1000000, 1, 'new')")
    with pytest.raises(ApplyNotHeld, match="it is failing with: conflict detected"), running.hold():
        pass
    assert running.row() is None


@SQLITE
@pytest.mark.long
def test_the_time_limit_ends_the_wait_for_a_transaction_of_the_publisher(running):
    with psycopg.connect(running.publisher.conninfo) as connection:
        connection.execute("INSERT INTO a VALUES (999, 0, 'open')")
        with (
            pytest.raises(ApplyNotHeld, match='could not pause subscription "s" within 2 s') as caught,
            running.hold(2.0),
        ):
            pass
    assert caught.value.sqlstate == "57014"
    assert running.row() is None
    running.catches_up()


@SQLITE
@pytest.mark.long
def test_without_a_run_the_command_says_how_to_start_it(running):
    assert running.runner.interrupt() == 0
    with pytest.raises(UsageError, match="no `subscriber run` is running") as caught, running.hold():
        pass
    assert "subscriber run --target sqlite:///" in (caught.value.hint or "")
    running.runner.sql("ALTER SUBSCRIPTION s DISABLE")
    with pytest.raises(UsageError, match="disabled"), running.hold():
        pass


@SQLITE
@pytest.mark.long
def test_a_run_that_is_killed_during_a_hold_starts_again_held(running):
    """any_crash"""
    with Writer(running.publisher.conninfo), running.hold() as held:
        expected = running.published(held)
        running.runner.kill()
        running.runner.start()
        wait_until(lambda: running.runner.status()["s"]["slot_active"], "the run to be back")
        time.sleep(3.0)
        assert running.applied() == expected
        held.check()
    running.catches_up()


HOLDER = """
import sys, time
from subscriber.catalog.subscriptions import get_subscription
from subscriber.commands.hold_apply import hold_apply
from subscriber.base.settings import Settings
from subscriber.targets import open_target

with open_target(sys.argv[1]) as target:
    with target.engine.connect() as connection:
        subscription = get_subscription(connection, "s")
    with hold_apply(target, subscription, Settings(journal=sys.argv[2])):
        print("held", flush=True)
        time.sleep(600)
"""


@ANY_KIND
@pytest.mark.long
def test_the_run_goes_on_when_the_holder_is_killed(running):
    command = [sys.executable, "-c", HOLDER, running.runner.target, running.settings.journal]
    with Writer(running.publisher.conninfo), subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        wait_until(lambda: running.row() is None, "the pause to be removed")
    assert "was removed: its holder" in running.runner.said()
    running.catches_up()


@SQLITE
@pytest.mark.long
def test_an_interrupted_holder_lets_the_apply_go_on(running):
    command = [sys.executable, "-c", HOLDER, running.runner.target, running.settings.journal]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        holder.send_signal(signal.SIGINT)
        holder.wait(PATIENCE)
    assert running.row() is None
    running.publisher.execute("INSERT INTO a VALUES (777, 0, 'after')")
    running.catches_up()


@SQLITE
@pytest.mark.long
def test_a_target_that_is_ahead_is_refused(running, monkeypatch):
    with running.target.begin() as connection:
        progress = running.subscription.progress
        ahead = progress.read(connection) + 2**40
    monkeypatch.setattr(type(progress), "find", lambda _self, _connection: ahead)
    with pytest.raises(SubscriberError, match="but the publisher has WAL only up to"), running.hold():
        pass
    assert running.row() is None


def test_a_hold_ends_where_commits_of_the_publisher_wait_for_the_apply(publisher_database, tmp_path, monkeypatch):
    """The snapshot waits for a commit that waits for the apply, which waits for the snapshot."""
    name, waiting = publisher_database.name, "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    monkeypatch.setattr("subscriber.commands.hold_apply.SYNCHRONOUS_SECONDS", 1.0)
    publisher_database.execute(f"CREATE TABLE t (a int); ALTER DATABASE {name} SET synchronous_commit = remote_apply")
    subscription = replace(SUBSCRIPTION, name=f"s_{name}", connection=publisher_database.conninfo)
    writer = threading.Thread(target=publisher_database.execute, args=("INSERT INTO t VALUES (1)",))
    with open_target(f"sqlite:///{tmp_path / 'target.db'}") as target:
        hold = PauseRequest(target, subscription, Settings(str(tmp_path / "journal")), None)
        publisher_database.execute(f"ALTER SYSTEM SET synchronous_standby_names = 's_{name}'")
        try:
            publisher_database.execute("SELECT pg_reload_conf()")
            wait_until(lambda: publisher_database.execute("SHOW synchronous_standby_names") != [("",)], "the setting")
            writer.start()
            wait_until(lambda: publisher_database.execute(waiting), "a commit that waits")
            with (
                pytest.raises(ApplyNotHeld, match="the publisher's commits wait for this subscription"),
                hold.snapshot(),
            ):
                pass
        finally:
            publisher_database.execute("ALTER SYSTEM RESET synchronous_standby_names")
            publisher_database.execute("SELECT pg_reload_conf()")
            writer.join()
