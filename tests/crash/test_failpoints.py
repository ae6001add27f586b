"""The processes are killed at every failpoint under load and started again: nothing is lost, and
nothing is applied twice.

One ``subscriber run`` serves all failpoints, since each of them leaves behind what the next one
starts from - as crashes do. A killed walreceiver is the supervisor's to start again, a killed
supervisor is ours, as it would be systemd's.
"""

from __future__ import annotations

import os
import signal

import pytest

from subscriber.base.failpoints import FAILPOINTS
from tests.crash.conftest import caught_up_load, replicating
from tests.crash.harness import wait_until

ELSEWHERE = (
    "journal.merge", "copy.", "handover.", "hold.", "target.prepare", "target.finish", "target.alter", "cutover.", "recreate.",
)  # fmt: skip
STREAM = [name for name in FAILPOINTS if not name.startswith(ELSEWHERE)]
"""The other failpoints are reached by compaction (unit/journal/test_compaction.py), by copies
(test_copy.py), by commands that hold the apply (test_hold.py), by targets that can prepare
transactions (test_two_phase.py), by tables that are altered (test_schema_changes.py), by a
cutover (test_cutover.py), and by RECREATE SLOT (conformance/test_recreate_slot.py).
"""
SUPERVISOR = ("target.commit.before", "target.commit.after")


@pytest.fixture(scope="module")
def replication(own_server, tmp_path_factory):
    with replicating(own_server, tmp_path_factory.mktemp("failpoints"), "failpoints") as replication:
        yield replication


@pytest.fixture(scope="module")
def load(replication):
    with caught_up_load(replication, seed=20261121) as load:
        yield load


@pytest.mark.parametrize("failpoint", sorted(STREAM))
def test_a_kill_at_any_failpoint_loses_nothing_and_applies_nothing_twice(replication, load, failpoint):
    """any_crash, progress_with_data, slot_after_disk, C32-C36"""
    runner = replication.runner
    supervisor = runner.process
    replication.failpoints.unlock(failpoint)
    wait_until(lambda: replication.failpoints.fired(failpoint), f"{failpoint} to be passed")
    if failpoint in SUPERVISOR:
        wait_until(lambda: not runner.running, "the supervisor to die")
    replication.settle(load)
    assert (runner.process is supervisor) == (failpoint not in SUPERVISOR)


def test_a_walreceiver_killed_from_outside_is_started_again(replication, load):
    """any_crash"""
    (receiver,) = wait_until(replication.runner.walreceivers, "a walreceiver")
    os.kill(receiver, signal.SIGKILL)
    replication.settle(load)
    assert replication.runner.walreceivers() not in ([], [receiver])


def test_after_all_crashes_one_more_run_finds_everything_equal(replication, load):
    """any_crash: the last run also applies what was written while no run was active, and ends by
    itself
    """
    assert replication.runner.interrupt() == 0
    with load.paused():
        answer = replication.runner.once()
        assert answer.returncode == 0, answer.stderr
        replication.compare()
