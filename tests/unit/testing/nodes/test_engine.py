"""When a session need not wait any longer for a subscription."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from subscriber.base.errors import PublisherUnavailable
from subscriber.base.lsn import LSN
from subscriber.base.retry import FailedAttempts
from subscriber.base.settings import Settings
from subscriber.catalog.subscriptions import Subscription
from subscriber.catalog.table_states import RelationState, SubscriptionRelation, TableStates
from subscriber.testing.nodes.engine import Engine, _Wait
from subscriber.worker.worker_snapshot import WorkerSnapshot
from tests.copy_statuses import COPY
from tests.spark_functions import unused_functions
from tests.subscriptions import SUBSCRIPTION

READY = SubscriptionRelation("public", "t", RelationState.READY, None)
COPYING = TableStates([replace(READY, state=RelationState.DATASYNC)])


STREAMING = WorkerSnapshot(
    SUBSCRIPTION,
    relations=TableStates([READY]),
    receives=True,
    applies=True,
    received=LSN(100),
    last_entry=LSN(100),
    applied=LSN(100),
)
"""A worker that has done all there is to do."""
BEHIND = replace(STREAMING, applied=LSN(50))
FAILED = PublisherUnavailable("no connection")


class Publisher:
    """Writes marks, unless it is away."""

    away = False

    def write_once_target(self, _subscription: Subscription) -> LSN:
        if self.away:
            raise FAILED
        return LSN(80)


@pytest.fixture(autouse=True)
def publisher(monkeypatch) -> Publisher:
    played = Publisher()
    monkeypatch.setattr("subscriber.testing.nodes.engine.write_once_target", played.write_once_target)
    return played


def wait_for(worker: WorkerSnapshot, relations: TableStates | None = None) -> _Wait:
    return _Wait(worker, lambda _subid: worker.relations if relations is None else relations)


def copy_failed(began: float) -> WorkerSnapshot:
    """A worker whose table's last copy has failed, in an attempt that began then."""
    failed = {("public", "t"): FailedAttempts(FAILED, 1, 1, began)}
    return replace(STREAMING, relations=COPYING, failed_tables=failed, copy_error=FAILED)


def test_it_is_over_when_all_is_streamed_and_every_table_ready():
    assert wait_for(STREAMING).is_over(STREAMING, 0.0)


@pytest.mark.parametrize(
    "worker",
    [
        BEHIND,
        replace(STREAMING, receives=False),
        replace(STREAMING, subscription=replace(SUBSCRIPTION, two_phase_state="p")),
    ],
)
def test_it_goes_on_while_anything_may_still_come(worker):
    """C48: with all tables ready a pending two_phase becomes enabled"""
    assert not wait_for(worker).is_over(worker, 0.0)


def test_it_goes_on_while_the_publisher_cannot_be_asked(publisher):
    publisher.away = True
    assert not wait_for(STREAMING).is_over(STREAMING, 0.0)


def test_a_table_that_a_command_has_just_added_is_waited_for():
    """The worker may not know it yet."""
    assert not wait_for(STREAMING, relations=COPYING).is_over(STREAMING, 0.0)


def test_a_pending_two_phase_is_not_waited_for_while_a_copy_keeps_failing():
    """C48"""
    worker = replace(copy_failed(float("inf")), subscription=replace(SUBSCRIPTION, two_phase_state="p"))
    assert wait_for(worker).is_over(worker, 0.0)


def test_a_copy_that_fails_is_over_when_an_attempt_since_the_waiting_began_has_failed():
    """The cause of an earlier failure may have been removed at the publisher."""
    before = copy_failed(time.monotonic())
    wait = wait_for(before)
    assert not wait.is_over(before, 0.0)
    since = time.monotonic() + 0.001
    assert wait.is_over(copy_failed(since), 0.0)
    assert not wait.is_over(copy_failed(since), since + 1)


def test_a_change_that_cannot_be_applied_is_over_unless_the_session_has_changed_something_or_a_copy_runs():
    stuck = replace(BEHIND, stuck_since=5.0)
    assert wait_for(stuck).is_over(stuck, 4.0)
    assert not wait_for(stuck).is_over(stuck, 6.0)
    assert not wait_for(stuck).is_over(replace(stuck, copies=(COPY,)), 4.0)


def test_two_failures_since_the_waiting_began_are_enough():
    def failing(receiving: int, applying: int, rounds: int) -> WorkerSnapshot:
        return replace(
            BEHIND,
            receiving=FailedAttempts(FAILED, 1, receiving),
            applying=FailedAttempts(FAILED, 1, applying),
            rounds=FailedAttempts(FAILED, 1, rounds),
        )

    wait = wait_for(failing(7, 1, 0))
    assert not wait.is_over(failing(7, 1, 0), 0.0)
    assert not wait.is_over(failing(8, 2, 1), 0.0)
    assert wait.is_over(failing(8, 2, 2), 0.0)


def test_nobody_waits_for_one_that_has_stopped_for_good(publisher):
    publisher.away = True
    stopped = replace(BEHIND, stopped=True)
    assert wait_for(stopped).is_over(stopped, 0.0)


@pytest.mark.parametrize("looks_again", [False, True])
def test_starting_waits_for_a_supervisor_that_is_about_to_end_or_looks_at_the_catalog_once_more(
    monkeypatch, looks_again
):
    """Its only worker has stopped for good, and the command that starts the engine may be what
    mends it.
    """
    made: list[Any] = []
    asked = threading.Event()

    class Supervisor:
        def __init__(self, *_, **__):
            self.worker = replace(STREAMING, stopped=not made)
            made.append(self)

        def snapshots(self):
            return {1: self.worker}

        def run(self, stop):
            if self.worker.stopped:
                asked.wait()
                if not looks_again:
                    return
                self.worker = STREAMING
            stop.wait()

    target: Any = SimpleNamespace(running=contextlib.nullcontext)
    pipeline = unused_functions()
    monkeypatch.setattr("subscriber.testing.nodes.engine.Supervisor", Supervisor)
    monkeypatch.setattr(Engine, "_subscriptions", lambda self: [SUBSCRIPTION])
    engine = Engine("node", target, pipeline, Settings(""))
    engine.start()
    threading.Timer(0.05, asked.set).start()
    engine.start()
    assert len(made) == (1 if looks_again else 2)
    engine.close()
