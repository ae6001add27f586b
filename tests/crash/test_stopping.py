"""SIGTERM stops a run during any kind of work: nothing of the batch is in the target, and the next
run completes it.

A batch that takes long is one with a slow CHECK constraint on DuckDB, one with a slow trigger on
SQLite, and one that waits for a lock on the servers.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from subscriber.targets import open_target
from subscriber.testing.servers.open_servers import PostgreSQLServer
from tests.crash.harness import Runner, wait_until

ROWS = 20_000
SLOW_ROWS = 3_000
CREATE_TABLE = "CREATE TABLE t (id int PRIMARY KEY, b varchar(100))"
SLOW_TRIGGER = """
CREATE TABLE slowness (rows int);
INSERT INTO slowness VALUES (200000);
CREATE TRIGGER slow AFTER INSERT ON t BEGIN
    SELECT count(*) FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < (SELECT rows FROM slowness)) SELECT i FROM n);
END;
"""
"""Each row takes some 20 ms and can be interrupted, so 3,000 rows take a minute."""
SLOW_CHECK = "CHECK (levenshtein(repeat(b, 10), 'y' || repeat(b, 10)) >= 0)"
"""Each row takes half a millisecond, so 20,000 rows take ten seconds."""

LONG = pytest.mark.long
everybody = pytest.mark.parametrize("everybody", [False, True], ids=["the process", "everybody"])
process_first = pytest.mark.parametrize(
    "everybody", [False, pytest.param(True, marks=LONG)], ids=["the process", "everybody"]
)


@dataclass
class Slow:
    """A replication whose batches are slow.

    Attributes:
        publisher: the server.
        name: of the publisher's database and of the subscription.
        runner: what runs it.
        rows: how many are large.
        applying: whether a batch, or a copy, is at work in the target.
        let_go: takes away what makes it slow.
        hold: makes it slow, once it streams (a slot cannot be made while a transaction of the
            server is open).
    """

    publisher: PostgreSQLServer
    name: str
    runner: Runner
    rows: int
    applying: Callable[[], Any]
    let_go: Callable[[], None]
    hold: Callable[[], object] = lambda: None

    def subscribe(self, options: str = "copy_data = false") -> None:
        conninfo = self.publisher.conninfo(self.name)
        self.runner.sql(
            f"CREATE SUBSCRIPTION s CONNECTION '{conninfo}' PUBLICATION p WITH (slot_name = {self.name}, {options})"
        )

    def insert(self) -> None:
        self.hold()
        self.publisher.execute(
            f"INSERT INTO t SELECT n, repeat('x', 50) FROM generate_series(1, {self.rows}) n", self.name
        )

    def start(self) -> None:
        self.runner.start()
        self.wait_for_log("apply of subscription")

    def wait_for_log(self, text: str) -> None:
        wait_until(lambda: text in self.runner.said(), f"the log to say: {text}\n{self.runner.said()[-2000:]}")

    def in_target(self) -> int:
        with open_target(self.runner.target) as target, target.engine.connect() as connection:
            return int(connection.execute(sa.text("SELECT count(*) FROM t")).scalar_one())

    def ends_in_order(self, *, everybody: bool) -> None:
        assert self.runner.terminate(everybody=everybody) == 0, self.runner.said()[-3000:]
        said = self.runner.said()
        assert "Traceback" not in said
        assert "ERROR" not in said.partition("HINT")[0], said
        wait_until(lambda: not self.runner.processes(), "all processes to end", 30)


@contextlib.contextmanager
def slow(server: PostgreSQLServer, folder: Path, name: str, target: str, **how: Any) -> Iterator[Slow]:
    server.create_database(name)
    server.execute(f"{CREATE_TABLE}; CREATE PUBLICATION p FOR TABLE t", name)
    runner = Runner(target, folder)
    try:
        yield Slow(server, name, runner, **how)
    finally:
        how["let_go"]()
        runner.close()
        server.drop_database(name)


@contextlib.contextmanager
def on_sqlite(server: PostgreSQLServer, folder: Path, name: str) -> Iterator[Slow]:
    database = folder / "target.db"

    def execute(script: str) -> None:
        with contextlib.closing(sqlite3.connect(database, timeout=30)) as connection:
            connection.executescript(script)

    execute(f"{CREATE_TABLE}; {SLOW_TRIGGER}")
    journal = Path(f"{database}-journal")  # the file exists while a transaction has written
    with slow(
        server,
        folder,
        name,
        f"sqlite:///{database}",
        rows=SLOW_ROWS,
        applying=journal.exists,
        let_go=lambda: execute("UPDATE slowness SET rows = 0"),
    ) as replication:
        yield replication


@contextlib.contextmanager
def on_duckdb(server: PostgreSQLServer, folder: Path, name: str) -> Iterator[Slow]:
    database = folder / "target.duckdb"
    with open_target(f"duckdb:///{database}") as target, target.begin() as connection:
        connection.exec_driver_sql(f"{CREATE_TABLE.removesuffix(')')}, {SLOW_CHECK})")
    status = Path(f"{database}.subscriber-status")
    with slow(
        server, folder, name, f"duckdb:///{database}", rows=ROWS, applying=status.exists, let_go=lambda: None
    ) as replication:
        yield replication


@contextlib.contextmanager
def holding(url: str, lock: str, is_waited_for: str) -> Iterator[dict[str, Callable[[], Any]]]:
    """A session that can hold a lock, as arguments of :class:`Slow`."""
    engine = sa.create_engine(open_target(url).engine.url, isolation_level="AUTOCOMMIT")
    holder, watcher = engine.connect(), engine.connect()
    holder.exec_driver_sql(CREATE_TABLE)

    def waits() -> bool:
        return bool(watcher.exec_driver_sql(is_waited_for).scalar_one())

    try:
        yield {"applying": waits, "let_go": holder.invalidate, "hold": lambda: holder.exec_driver_sql(lock)}
    finally:
        for connection in (holder, watcher):
            connection.invalidate()
            connection.close()
        engine.dispose()


@contextlib.contextmanager
def on_server(server: PostgreSQLServer, folder: Path, name: str, url: str, lock: str, waits: str) -> Iterator[Slow]:
    with (
        holding(url, lock, waits) as held,
        slow(server, folder, name, url, rows=ROWS, **held) as replication,
    ):
        yield replication


@contextlib.contextmanager
def on_postgresql(server: PostgreSQLServer, folder: Path, name: str) -> Iterator[Slow]:
    database = f"{name}_target"
    server.create_database(database)
    lock = "BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE"
    waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 't'::regclass"
    try:
        with on_server(server, folder, name, server.url(database), lock, waits) as replication:
            yield replication
    finally:
        server.drop_database(database)


@pytest.fixture(
    params=[
        pytest.param("sqlite", marks=LONG),
        "duckdb",
        pytest.param("postgresql", marks=LONG),
        pytest.param("mariadb", marks=LONG),
    ]
)
def replication(request, own_server, tmp_path) -> Iterator[Slow]:
    name = f"stopping_{request.param}"
    if request.param == "mariadb":
        mariadb = request.getfixturevalue("mariadb")
        mariadb.create_database(name)
        waits = f"SELECT count(*) FROM information_schema.processlist WHERE db = '{name}' AND state LIKE 'Waiting for table%%'"
        try:
            with on_server(own_server, tmp_path, name, mariadb.url(name), "LOCK TABLES t WRITE", waits) as replication:
                yield replication
        finally:
            mariadb.drop_database(name)
        return
    begin = {"sqlite": on_sqlite, "duckdb": on_duckdb, "postgresql": on_postgresql}[request.param]
    with begin(own_server, tmp_path, name) as replication:
        yield replication


@process_first
def test_a_batch_in_progress_is_rolled_back_and_comes_again(replication, everybody):
    """any_crash, progress_with_data: nothing of the batch is in the target, and all of it after the
    next run
    """
    replication.subscribe()
    replication.start()
    replication.insert()
    wait_until(replication.applying, f"a batch to be applied\n{replication.runner.said()[-2000:]}")
    replication.ends_in_order(everybody=everybody)
    replication.let_go()
    assert replication.in_target() == 0
    answer = replication.runner.once()
    assert answer.returncode == 0, answer.stderr
    assert replication.in_target() == replication.rows


@pytest.fixture
def on_a_file(own_server, tmp_path) -> Iterator[Slow]:
    with on_sqlite(own_server, tmp_path, "stopping_file") as replication:
        yield replication


@process_first
def test_an_initial_copy_in_progress_is_taken_back(on_a_file, everybody):
    on_a_file.insert()
    on_a_file.subscribe("copy_data = true")
    on_a_file.runner.start()
    on_a_file.wait_for_log('table "public.t" has started')
    wait_until(on_a_file.applying, "the copy to be loaded")
    on_a_file.ends_in_order(everybody=everybody)
    on_a_file.let_go()
    assert on_a_file.in_target() == 0
    answer = on_a_file.runner.once()
    assert answer.returncode == 0, answer.stderr
    assert on_a_file.in_target() == on_a_file.rows


@LONG
@everybody
def test_a_run_that_starts_ends_all_the_same(on_a_file, everybody):
    on_a_file.subscribe()
    on_a_file.runner.start()
    on_a_file.wait_for_log("starting Spark")
    on_a_file.ends_in_order(everybody=everybody)


@LONG
@everybody
def test_a_wait_for_the_next_attempt_is_cut_short(on_a_file, everybody):
    """C35"""
    on_a_file.runner.environment["SUBSCRIBER_WAL_RETRIEVE_RETRY_INTERVAL"] = "1h"
    on_a_file.let_go()
    on_a_file.subscribe()
    with contextlib.closing(sqlite3.connect(on_a_file.runner.folder / "target.db")) as connection, connection:
        connection.execute("INSERT INTO t VALUES (1, 'in the way')")
    on_a_file.start()
    on_a_file.publisher.execute("INSERT INTO t VALUES (1, 'conflict')", on_a_file.name)
    on_a_file.wait_for_log("trying again in")
    wait_until(lambda: on_a_file.runner.status()["s"]["apply_errors"] >= 4, "a wait of 4 s")
    assert on_a_file.runner.terminate(everybody=everybody) == 0
    assert "Traceback" not in on_a_file.runner.said()


def test_status_is_told_while_a_batch_holds_the_target(own_server, tmp_path):
    """DuckDB does not let another process open the file at that time."""
    with on_duckdb(own_server, tmp_path, "stopping_status") as replication:
        replication.subscribe()
        replication.start()
        replication.insert()
        file = Path(f"{tmp_path}/target.duckdb.subscriber-status")
        wait_until(file.exists, "the run to leave its status")
        assert file.stat().st_mode & 0o777 == 0o600
        status = replication.runner.status()["s"]
        assert status["as_of"] is not None
        assert status["enabled"] is True
        assert (
            "while a batch or a copy of `subscriber run` locks the target" in replication.runner.call("status").stdout
        )
        replication.ends_in_order(everybody=False)
        assert not file.exists()
        assert replication.runner.status()["s"]["as_of"] is None
