"""Receivers that are forked receive all that is committed, whoever of them is killed."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from subscriber.base.forked_process import fork_server
from subscriber.base.settings import Settings
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.commands.dispatch import run_command
from subscriber.commands.subscription_grammar import Query, parse
from subscriber.spark.apply_loop import ApplyLoop
from subscriber.spark.pending_session import PendingSession
from subscriber.spark.spark_functions import SparkFunctions
from subscriber.targets import Target, open_target
from subscriber.worker import RECEIVER_MODULE, RECEIVER_NAME
from subscriber.worker.supervisor import Supervisor
from tests.conftest import Database
from tests.spark_functions import nothing
from tests.waits import wait_until

pytestmark = [pytest.mark.server, pytest.mark.slow]

NAMES = ("s1", "s2")


class Run:
    """Two subscriptions, s1 of t1 and s2 of t2, without copies, and so without Spark."""

    def __init__(self, database: Database, target: Target, folder: Path, address: Path) -> None:
        self.address = address
        self._database = database
        self._target = target
        self._rows = 0
        settings = Settings(str(folder / "journal"), wal_retrieve_retry_interval=0.1)
        (folder / "journal").mkdir()
        for number, name in enumerate(NAMES, 1):
            self.publish(
                f"CREATE TABLE t{number} (a int PRIMARY KEY); CREATE PUBLICATION p{number} FOR TABLE t{number}"
            )
            command = parse(
                f"CREATE SUBSCRIPTION {name} CONNECTION '{database.conninfo}' PUBLICATION p{number}"
                f" WITH (create_tables = true, copy_data = false, slot_name = {name}_{database.name})"
            )
            assert not isinstance(command, Query)
            run_command(target, command, settings, lambda _: None)
        never_needed = PendingSession("local[1]", threading.Event().wait)  # type: ignore[arg-type]
        functions = SparkFunctions(partial(ApplyLoop, never_needed), nothing, fork_server=address)
        self.supervisor = Supervisor(target, functions, settings, once=False)

    def publish(self, sql: str) -> None:
        self._database.server.execute(sql, self._database.name)

    def receivers(self) -> list[int]:
        """The processes of the receivers that stream."""
        known = self.supervisor.snapshots(look=False).values()
        return [one.receiver_pid for one in known if one.receives and one.receiver_pid is not None]

    def await_rows(self) -> None:
        """Insert a row in each table, and wait until both targets have all rows."""
        self._rows += 1
        self.publish(f"INSERT INTO t1 VALUES ({self._rows}); INSERT INTO t2 VALUES ({self._rows})")
        for table in ("t1", "t2"):
            query = f"SELECT count(*), max(a) FROM {table}"
            wait_until(partial(self._has, query, (self._rows, self._rows)))

    def _has(self, query: str, expected: tuple[int, int]) -> bool:
        with self._target.engine.connect() as connection:
            return tuple(connection.exec_driver_sql(query).one()) == expected


@pytest.fixture
def run(publisher_database: Database, tmp_path: Path) -> Iterator[Run]:
    stop = threading.Event()
    with (
        fork_server(tmp_path / "socket", tmp_path / "log", [RECEIVER_MODULE]) as address,
        open_target(f"sqlite:///{tmp_path / 'target.db'}") as target,
    ):
        assert address is not None
        ensure_catalog(target.engine)
        run = Run(publisher_database, target, tmp_path, address)
        thread = threading.Thread(target=run.supervisor.run, args=(stop,))
        thread.start()
        try:
            yield run
        finally:
            stop.set()
            thread.join()
            for number in (1, 2):
                run.publish(f"SELECT pg_drop_replication_slot('s{number}_{publisher_database.name}')")
    assert (tmp_path / "log").read_text() == ""


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_receiver_that_is_killed_is_forked_again_and_nothing_is_lost_or_applied_twice(run):
    """any_crash, one_does_not_end_another"""
    run.await_rows()
    for kill in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
        wait_until(lambda: len(run.receivers()) == 2)
        first, second = run.receivers()
        assert parent_of(first) == parent_of(second) != os.getpid()
        assert Path(f"/proc/{first}/comm").read_text() == f"{RECEIVER_NAME}\n"
        os.kill(first, kill)
        run.await_rows()
        assert second in run.receivers()
    wait_until(lambda: len(run.receivers()) == 2)


def test_receivers_do_without_the_fork_server_when_it_was_killed(run):
    run.await_rows()
    wait_until(lambda: len(run.receivers()) == 2)
    first, second = run.receivers()
    os.kill(parent_of(first), signal.SIGKILL)
    run.await_rows()
    assert run.receivers() == [first, second], "those that it has forked go on"
    os.kill(first, signal.SIGKILL)
    run.await_rows()
    wait_until(lambda: len(run.receivers()) == 2)
    assert sorted(parent_of(pid) == os.getpid() for pid in run.receivers()) == [False, True]


def test_a_receiver_ends_with_its_standard_input_which_ends_with_the_supervisor(run):
    run.await_rows()
    wait_until(lambda: len(run.receivers()) == 2)
    receivers = run.receivers()
    for worker in run.supervisor.workers.values():
        process = worker._receiving.process
        assert process is not None
        assert process._process.stdin is not None
        process._process.stdin.close()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in receivers))
    run.await_rows()
