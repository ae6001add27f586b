"""The heartbeat of a run: written beside its work, left out while nobody else may write, and not
the only thing that tells who is alive.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from subscriber.errors import TargetUnavailable
from subscriber.runtime import heartbeat
from subscriber.runtime.heartbeat import beating
from subscriber.runtime.read_status import runner_status
from subscriber.runtime.subscription_status import RunnerStatus
from subscriber.targets import Target
from tests.waits import wait_until

PATIENCE = 30.0


@pytest.fixture
def target(target: Target, monkeypatch) -> Target:
    """A target whose run beats a hundred times a second."""
    monkeypatch.setattr(heartbeat, "INTERVAL_SECONDS", 0.01)
    return target


def known(target: Target) -> bool:
    return runner_status(target) is not None


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
