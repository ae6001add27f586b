"""The heartbeat of a run: written beside its work, left out while nobody else may write, and not
the only thing that tells who is alive.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from subscriber.base.errors import PublisherUnavailable, TargetUnavailable
from subscriber.base.retry import FailedAttempts
from subscriber.catalog import leases
from subscriber.catalog.counters import WorkerCounters
from subscriber.catalog.worker_status import WorkerStatus, read_worker_statuses
from subscriber.targets import Target
from subscriber.worker import heartbeat, read_status
from subscriber.worker.heartbeat import beating, worker_statuses
from subscriber.worker.subscription_status import RunnerStatus
from subscriber.worker.worker_snapshot import WorkerSnapshot
from tests.subscriptions import SUBSCRIPTION
from tests.waits import wait_until

PATIENCE = 30.0


@pytest.fixture
def target(target: Target, monkeypatch) -> Target:
    """A target whose run beats a hundred times a second."""
    monkeypatch.setattr(leases, "RENEW_SECONDS", 0.01)
    monkeypatch.setattr(leases, "_AGAIN_SECONDS", 0.01)
    return target


def known(target: Target) -> bool:
    return runner_status(target) is not None


def runner_status(target: Target) -> RunnerStatus | None:
    with target.reporting(), target.engine.connect() as connection:
        return read_status.runner_status(target, connection)


def last(target: Target) -> RunnerStatus:
    found = runner_status(target)
    assert found is not None
    return found


def test_a_run_writes_its_row_renews_its_heartbeat_and_writes_its_end(target):
    assert runner_status(target) is None
    with target.running(), beating(target, lambda: None):
        wait_until(lambda: known(target))
        first = last(target)
        assert (first.alive, first.ended_at, first.busy_since) == (True, None, None)
        wait_until(lambda: last(target).heartbeat_at > first.heartbeat_at)
        assert last(target).started_at == first.started_at
    ended = last(target)
    assert not ended.alive
    assert ended.ended_at is not None
    assert ended.ended_at >= first.heartbeat_at


def test_no_heartbeat_is_written_while_a_batch_is_the_only_writer(target):
    """SQLite's; the run is alive all the same, because it holds its lock."""
    busy = threading.Event()
    with target.running(), beating(target, lambda: time.monotonic() if busy.is_set() else None):
        wait_until(lambda: known(target))
        busy.set()
        with target.begin():
            before = last(target)
            time.sleep(0.1)
            assert last(target).heartbeat_at == before.heartbeat_at
        assert last(target).alive


def test_a_run_goes_on_without_heartbeats_while_the_target_is_away(target, monkeypatch):
    asked = []

    def away() -> None:
        asked.append(1)
        raise TargetUnavailable("the target is away")

    monkeypatch.setattr(target, "begin", away)
    with beating(target, lambda: None):
        wait_until(lambda: len(asked) > 2)


def test_a_heartbeat_has_the_start_of_the_batch_in_progress_if_the_target_has_several_writers(target, monkeypatch):
    monkeypatch.setattr(target, "capabilities", replace(target.capabilities, single_writer=False))
    with beating(target, lambda: time.monotonic() - 60):
        wait_until(lambda: known(target))
    since = datetime.fromisoformat(last(target).busy_since or "")
    assert 59 < (datetime.now(UTC) - since).total_seconds() < 60 + PATIENCE


# What the workers do ------------------------------------------------------------------------------

AWAY = PublisherUnavailable("the publisher is away")
NOON = datetime(2026, 11, 27, 12, tzinfo=UTC).timestamp()


def snapshot(**fields: Any) -> WorkerSnapshot:
    return WorkerSnapshot(SUBSCRIPTION, **fields)


def status_of(now: WorkerSnapshot, before: WorkerStatus | None = None, later: float = 0.0) -> WorkerStatus:
    known = {} if before is None else {1: before}
    return worker_statuses({1: now}, known, NOON + later, 100.0 + later)[1]


def test_a_worker_that_retries_has_since_when_its_error_its_attempts_and_the_next_one():
    failed = FailedAttempts(AWAY, in_a_row=3, since=NOON - 60, not_before=104.0)
    assert status_of(snapshot(receiving=failed)) == WorkerStatus(
        1,
        "retrying",
        "2026-11-27T11:59:00.000+00:00",
        "ERROR:  the publisher is away",
        3,
        "2026-11-27T12:00:04.000+00:00",
    )


def test_a_worker_keeps_the_time_since_when_it_streams_and_gets_another_one_when_it_stops():
    streaming = status_of(snapshot(receives=True, applies=True))
    assert (streaming.state, streaming.since) == ("streaming", "2026-11-27T12:00:00.000+00:00")
    assert status_of(snapshot(receives=True, applies=True), streaming, later=5.0) == streaming
    stopped = status_of(snapshot(stopped=True, receiving=FailedAttempts(AWAY, 1)), streaming, later=5.0)
    assert (stopped.state, stopped.since) == ("stopped", "2026-11-27T12:00:05.000+00:00")
    assert (stopped.error, stopped.attempts, stopped.next_attempt) == ("ERROR:  the publisher is away", 0, None)


def test_a_status_has_the_server_that_is_streamed_from_and_the_number_of_its_notices():
    status = status_of(
        snapshot(receives=True, applies=True, server='host "db1", port 5432', counters=WorkerCounters(notices=3))
    )
    assert (status.server, status.notices) == ('host "db1", port 5432', 3)


def test_a_status_does_not_change_because_the_two_clocks_drift():
    failed = snapshot(receiving=FailedAttempts(AWAY, in_a_row=3, since=NOON - 60, not_before=104.0))
    first = worker_statuses({1: failed}, {}, NOON, 100.0)
    assert worker_statuses({1: failed}, first, NOON + 1.004, 101.0) == first


def test_the_states_of_the_workers_are_written_when_they_change(target, monkeypatch):
    monkeypatch.setattr(leases, "RENEW_SECONDS", 3600.0)
    monkeypatch.setattr(heartbeat, "_POLL_SECONDS", 0.01)
    workers = {1: snapshot()}

    def stored() -> str | None:
        with target.engine.connect() as connection:
            found = read_worker_statuses(connection).get(1)
        return None if found is None else found.state

    with target.running(), beating(target, lambda: None, lambda: dict(workers)):
        wait_until(lambda: stored() == "starting")
        workers[1] = snapshot(receives=True, applies=True)
        wait_until(lambda: stored() == "streaming")
