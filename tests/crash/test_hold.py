"""The run is killed at every failpoint of a hold, and started again: the command gets its hold all
the same, and the target is at its LSN.
"""

from __future__ import annotations

import contextlib
import threading
import time

import pytest

from subscriber.base.failpoints import FAILPOINTS
from subscriber.base.settings import Settings
from subscriber.catalog.subscriptions import get_subscription
from subscriber.commands.hold_apply import hold_apply
from subscriber.publisher.snapshot import snapshot_session
from subscriber.targets import open_target
from tests.crash.conftest import caught_up_load, replicating
from tests.crash.harness import wait_until

HERE = sorted(name for name in FAILPOINTS if name.startswith("hold."))

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def replication(own_server, tmp_path_factory):
    with replicating(own_server, tmp_path_factory.mktemp("hold"), "hold") as replication:
        yield replication


@pytest.fixture(scope="module")
def load(replication):
    with caught_up_load(replication, seed=20261123) as load:
        yield load


@contextlib.contextmanager
def kept_running(runner):
    """Start the run again whenever it has ended, as systemd does."""
    ending = threading.Event()

    def keep() -> None:
        while not ending.wait(0.2):
            runner.restart_if_dead()

    thread = threading.Thread(target=keep, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


@pytest.mark.parametrize("failpoint", HERE)
def test_a_kill_of_the_run_during_a_hold_does_not_move_the_target(replication, load, failpoint):
    """any_crash"""
    runner = replication.runner
    before = runner.process
    orders = "SELECT id, customer FROM {}orders ORDER BY id"
    replication.failpoints.unlock(failpoint)
    with kept_running(runner), open_target(runner.target) as target:
        with target.engine.connect() as connection:
            subscription = get_subscription(connection, "hold")
        with hold_apply(target, subscription, Settings(journal=str(runner.journal)), seconds=120) as held:
            wait_until(lambda: replication.failpoints.fired(failpoint), f"{failpoint} to be passed")
            with snapshot_session(replication.conninfo, "s", held.snapshot.name) as server:
                expected = server.execute(orders.format("public.")).fetchall()
            for _ in range(2):
                with target.engine.connect() as connection:
                    found = [tuple(row) for row in connection.exec_driver_sql(orders.format(""))]
                assert found == expected
                wait_until(lambda: runner.running, "the run to be started again")
                time.sleep(3.0)
            held.check()
        wait_until(lambda: runner.process is not before, "the run to be started again")
        replication.settle(load)
