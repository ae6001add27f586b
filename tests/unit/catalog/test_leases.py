"""Leases: who holds one, and when its holder is dead."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from subscriber.base.errors import TargetUnavailable
from subscriber.base.lsn import LSN
from subscriber.catalog import leases
from subscriber.catalog.apply_pauses import PauseState, acknowledge_bound, acknowledge_pause, bind_pause
from subscriber.catalog.leases import (
    STALE_SECONDS,
    Lease,
    LeaseKind,
    LeaseWatch,
    Renewal,
    claim,
    delete_dead,
    find_lease,
    find_run,
    is_running,
    is_silent,
    new_lease,
    read_leases,
    release,
    renew,
    renewing,
    write_run,
)
from subscriber.targets import Target
from tests.leases import pause_lease
from tests.waits import wait_until


def ago(seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat()


def pause(connection) -> Lease | None:
    return find_lease(connection, LeaseKind.PAUSE, 1)


# A row --------------------------------------------------------------------------------------------


def test_a_lease_is_claimed_renewed_and_released(connection):
    lease = new_lease(LeaseKind.PAUSE, 1, PauseState.REQUESTED)
    assert claim(connection, lease) is None
    assert (pause(connection), lease.is_mine, lease.is_alive()) == (lease, True, True)
    assert renew(connection, lease)
    assert release(connection, lease)
    assert (pause(connection), renew(connection, lease), release(connection, lease)) == (None, False, False)


def test_a_lease_whose_holder_is_alive_is_not_claimed(connection):
    first = pause_lease()
    claim(connection, first)
    assert claim(connection, pause_lease(holder="b" * 32)) == first
    assert pause(connection) == first
    assert claim(connection, pause_lease(2, holder="b" * 32)) is None
    assert claim(connection, new_lease(LeaseKind.CUTOVER, 1)) is None


def test_a_lease_whose_holder_is_dead_is_claimed_by_another(connection):
    claim(connection, pause_lease(heartbeat=ago(STALE_SECONDS + 5)))
    second = pause_lease(holder="b" * 32)
    assert claim(connection, second) is None
    assert read_leases(connection, LeaseKind.PAUSE) == {1: second}


def test_nobody_changes_the_lease_of_a_later_holder(connection):
    first, later = pause_lease(), pause_lease(holder="b" * 32)
    claim(connection, later)
    assert not renew(connection, first)
    assert not acknowledge_pause(connection, first)
    assert not release(connection, first)
    assert not delete_dead(connection, first)
    assert pause(connection) == later


def test_a_lease_that_was_renewed_meanwhile_is_not_deleted(connection):
    lease = pause_lease(heartbeat=ago(60))
    claim(connection, lease)
    assert renew(connection, lease)
    assert not delete_dead(connection, lease)
    found = pause(connection)
    assert found is not None
    assert delete_dead(connection, found)


def test_a_pause_goes_through_its_states(connection):
    lease = pause_lease()
    claim(connection, lease)
    assert not bind_pause(connection, lease, LSN(0x100)), "the run has not paused yet"
    assert acknowledge_pause(connection, lease)
    assert not acknowledge_bound(connection, lease, LSN(0x100)), "there is no bound yet"
    assert bind_pause(connection, lease, LSN(0x100))
    assert not acknowledge_bound(connection, lease, LSN(0x200)), "another bound"
    assert acknowledge_bound(connection, lease, LSN(0x100))
    assert pause(connection) == replace(lease, state=PauseState.HELD, bound=LSN(0x100), reached=LSN(0x100))
    assert not acknowledge_pause(connection, lease), "a state is not taken back"


def test_each_run_replaces_the_one_before(connection):
    assert find_run(connection) is None
    run = new_lease(LeaseKind.RUN)
    busy = replace(run, busy_since=ago(60))
    other = replace(busy, holder="b", host="db2", process_id=1, busy_since=None, ended_at=ago(0))
    for one in (run, busy, other):
        write_run(connection, one)
        assert find_run(connection) == one


# Who is alive -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seconds", "alive"), [(STALE_SECONDS - 5, True), (STALE_SECONDS + 5, False), (-3600, True)])
def test_a_holder_on_another_machine_is_judged_by_its_heartbeat(seconds, alive):
    assert pause_lease(heartbeat=ago(seconds)).is_alive() is alive


def test_a_holder_in_another_container_of_this_host_is_judged_by_its_heartbeat():
    """The number of its process means another process here, or none."""
    lease = replace(new_lease(LeaseKind.PAUSE, 1), machine="another", process_id=2**22 + 1)
    assert lease.is_alive()
    assert not replace(lease, heartbeat=ago(STALE_SECONDS + 5)).is_alive()


def test_a_process_of_this_machine_is_alive_although_it_cannot_renew_its_lease():
    """A copy may hold SQLite's only writer for an hour."""
    lease = replace(new_lease(LeaseKind.PAUSE, 1), process_id=os.getppid(), heartbeat=ago(1.0))
    assert lease.is_alive(silence=3600.0)


def test_a_process_that_has_ended_holds_nothing():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
        lease = replace(new_lease(LeaseKind.PAUSE, 1), process_id=process.pid)
        assert not lease.is_alive(silence=0.0)


def test_a_younger_process_of_the_same_number_holds_nothing():
    assert not replace(new_lease(LeaseKind.PAUSE, 1), heartbeat="2001-01-01T00:00:00.000+00:00").is_alive(0.0)


def test_a_process_that_was_stopped_is_judged_by_its_heartbeat():
    with subprocess.Popen(["/bin/sh", "-c", "kill -STOP $$"]) as process:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        lease = replace(new_lease(LeaseKind.PAUSE, 1), process_id=process.pid)
        assert [lease.is_alive(silence) for silence in (STALE_SECONDS - 5, STALE_SECONDS + 5)] == [True, False]
        process.kill()


def test_a_run_is_alive_by_its_lock_or_without_a_lock_as_any_holder(target, connection, monkeypatch):
    run = replace(new_lease(LeaseKind.RUN), host="db1")
    old = replace(run, heartbeat=ago(STALE_SECONDS + 5))
    assert not is_running(target, connection, run), "nobody has the lock"
    with target.running():
        assert is_running(target, connection, old)
    monkeypatch.setattr(target, "run_lock", None)
    assert [is_running(target, connection, one) for one in (run, old)] == [True, False]
    assert not is_running(target, connection, replace(run, ended_at=run.heartbeat))


@pytest.mark.parametrize(
    ("seconds", "may_be_busy", "silent"),
    [(50, False, False), (70, False, True), (70, True, False), (310, True, True)],
)
def test_a_run_without_a_heartbeat_may_hang_unless_a_batch_explains_that(seconds, may_be_busy, silent):
    run = replace(new_lease(LeaseKind.RUN), heartbeat=ago(seconds))
    assert is_silent(run, may_be_busy=may_be_busy) is silent


# Watching -----------------------------------------------------------------------------------------

HELD = pause_lease(heartbeat="1970-01-01T00:00:00+00:00")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def monotonic() -> Clock:
    return Clock()


def test_a_watched_holder_is_dead_when_its_heartbeat_has_not_changed_for_a_while(monotonic):
    """The times that are written count for nothing: the other machine's clock may be wrong."""
    watch = LeaseWatch(monotonic)
    watch.update(HELD)
    monotonic.now += STALE_SECONDS - 1
    watch.update(HELD)
    assert not watch.is_dead()
    monotonic.now += 2
    assert watch.is_dead()


def test_a_holder_whose_process_has_ended_here_is_dead_at_once(monotonic):
    watch = LeaseWatch(monotonic)
    watch.update(replace(HELD, host=socket.gethostname(), machine=leases._machine(), process_id=2**22 + 1))
    assert watch.is_dead()


@pytest.mark.parametrize("changes", [{"heartbeat": "1970-01-02T00:00:00+00:00"}, {"holder": "b"}])
def test_another_heartbeat_or_holder_begins_the_time_again(monotonic, changes):
    watch = LeaseWatch(monotonic)
    watch.update(HELD)
    monotonic.now += STALE_SECONDS + 1
    watch.update(replace(HELD, **changes))
    assert not watch.is_dead()


def test_nobody_is_dead_without_a_lease(monotonic):
    watch = LeaseWatch(monotonic)
    monotonic.now += STALE_SECONDS + 1
    assert not watch.is_dead()
    watch.update(HELD)
    watch.update(None)
    monotonic.now += STALE_SECONDS + 1
    assert not watch.is_dead()


def test_an_outage_of_the_target_does_not_count(monotonic):
    """The holder could not renew its heartbeat either."""
    watch = LeaseWatch(monotonic)
    watch.update(HELD)
    monotonic.now += STALE_SECONDS + 1
    watch.catalog_unreachable()
    watch.update(HELD)
    assert not watch.is_dead()
    monotonic.now += STALE_SECONDS + 1
    assert watch.is_dead()


# Renewing -----------------------------------------------------------------------------------------


@pytest.fixture
def lease(target: Target, monkeypatch) -> Lease:
    """A stored lease that is renewed a hundred times a second."""
    monkeypatch.setattr(leases, "RENEW_SECONDS", 0.01)
    monkeypatch.setattr(leases, "_AGAIN_SECONDS", 0.01)
    lease = new_lease(LeaseKind.PAUSE, 1)
    with target.begin() as connection:
        claim(connection, lease)
    return lease


def heartbeat(target: Target) -> str:
    with target.engine.connect() as connection:
        found = pause(connection)
    assert found is not None
    return found.heartbeat


def test_the_heartbeat_changes_while_the_block_runs(target, lease):
    with renewing(target, Renewal(lease)):
        seen = {heartbeat(target)}

        def changed() -> bool:
            seen.add(heartbeat(target))
            return len(seen) > 3

        wait_until(changed)


def test_a_renewal_that_fails_is_repeated(target, lease, monkeypatch):
    begin, attempts = target.begin, []

    def busy():
        attempts.append(1)
        if len(attempts) < 4:
            raise TargetUnavailable("the file is busy")
        return begin()

    monkeypatch.setattr(target, "begin", busy)
    with renewing(target, Renewal(lease)):
        wait_until(lambda: len(attempts) > 5)
    assert heartbeat(target) != lease.heartbeat


def test_a_lease_that_was_deleted_is_not_made_again(target, lease):
    with target.begin() as connection:
        release(connection, lease)
    with renewing(target, Renewal(lease)):
        pass
    with target.engine.connect() as connection:
        assert pause(connection) is None
