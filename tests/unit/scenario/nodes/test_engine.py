"""When a session need not wait any longer for a subscription."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from subscriber.catalog import RelationState, Subscription, SubscriptionRelation
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.errors import PublisherUnavailable
from subscriber.lsn import LSN
from subscriber.scenario.nodes.engine import Engine, _Wait
from subscriber.settings import Settings

SUBSCRIPTION = Subscription(
    subid=1,
    name="s",
    conninfo="",
    publications=("p",),
    options=SubscriptionOptions(),
    enabled=True,
    slot_name="s",
    skip_lsn=LSN(0),
    system_identifier="1",
    two_phase_state="d",
)
READY = SubscriptionRelation("public", "t", RelationState.READY, None)


@dataclass
class Worker:
    """A worker that has done all there is to do, unless told otherwise."""

    subscription: Subscription = SUBSCRIPTION
    relations: tuple[SubscriptionRelation, ...] = (READY,)
    state: str = "streaming"
    stopped: bool = False
    disabled: bool = False
    stuck_since: float | None = None
    failed_attempts: tuple[int, int, int] = (0, 0, 0)
    copies: list[str] = field(default_factory=list)
    copy_failed_at: float = float("inf")
    """When the last attempt began that failed; infinite where none is needed."""
    caught_up: bool = True
    reachable: bool = True

    def wants_caught_up(self):
        if not self.reachable:
            raise PublisherUnavailable("no connection")

    def stream_caught_up(self):
        return self.caught_up

    def sync_settled(self, moment):
        return self.copy_failed_at > moment


def waiting_for(worker: Any) -> _Wait:
    return _Wait(worker)


def test_it_is_over_when_all_is_streamed_and_every_table_ready():
    assert waiting_for(Worker()).is_over(0.0)


@pytest.mark.parametrize(
    "worker",
    [
        Worker(caught_up=False),
        Worker(reachable=False),
        Worker(copy_failed_at=0.0),
        Worker(state="starting"),
        Worker(subscription=replace(SUBSCRIPTION, two_phase_state="p")),
    ],
)
def test_it_goes_on_while_anything_may_still_come(worker):
    """C48: with all tables ready a pending two_phase becomes enabled"""
    assert not waiting_for(worker).is_over(0.0)


def test_a_pending_two_phase_is_not_waited_for_while_a_copy_keeps_failing():
    """C48"""
    failing = replace(READY, state=RelationState.DATASYNC)
    pending = replace(SUBSCRIPTION, two_phase_state="p")
    assert waiting_for(Worker(subscription=pending, relations=(failing,), state="retrying")).is_over(0.0)


def test_a_copy_that_fails_is_over_when_an_attempt_since_the_waiting_began_has_failed():
    """The publisher may have mended what the attempt before met"""
    worker = Worker(copy_failed_at=time.monotonic())
    wait = waiting_for(worker)
    assert not wait.is_over(0.0)
    worker.copy_failed_at = time.monotonic() + 0.001
    assert wait.is_over(0.0)
    assert not wait.is_over(worker.copy_failed_at + 1)


def test_a_change_that_cannot_be_applied_is_over_unless_the_session_has_changed_something_or_a_copy_runs():
    worker = Worker(stuck_since=5.0, caught_up=False)
    assert waiting_for(worker).is_over(4.0)
    assert not waiting_for(worker).is_over(6.0)
    worker.copies = ["t"]
    assert not waiting_for(worker).is_over(4.0)


def test_two_failures_since_the_waiting_began_are_enough():
    worker = Worker(caught_up=False, failed_attempts=(7, 1, 0))
    wait = waiting_for(worker)
    assert not wait.is_over(0.0)
    worker.failed_attempts = (8, 2, 1)
    assert not wait.is_over(0.0)
    worker.failed_attempts = (8, 2, 2)
    assert wait.is_over(0.0)


def test_nobody_waits_for_one_that_has_stopped_for_good():
    assert waiting_for(Worker(stopped=True, reachable=False)).is_over(0.0)


@pytest.mark.parametrize("looks_again", [False, True])
def test_starting_waits_for_a_supervisor_that_is_about_to_end_or_looks_at_the_catalog_once_more(
    monkeypatch, looks_again
):
    """Its only worker has stopped for good, and the command that starts the engine may be what mends it."""
    made: list[Any] = []
    asked = threading.Event()

    class Supervisor:
        def __init__(self, *_, **__):
            self.workers = {1: Worker(stopped=not made)}
            made.append(self)

        def run(self, stop):
            if self.workers[1].stopped:
                asked.wait()
                if not looks_again:
                    return
                self.workers = {1: Worker()}
            stop.wait()

    target: Any = SimpleNamespace(running=contextlib.nullcontext)
    pipeline: Any = SimpleNamespace(copy_table=None, start_query=None)
    monkeypatch.setattr("subscriber.scenario.nodes.engine.Supervisor", Supervisor)
    monkeypatch.setattr(Engine, "_subscriptions", lambda self: [SUBSCRIPTION])
    engine = Engine("node", target, pipeline, Settings(""))
    engine.start()
    threading.Timer(0.05, asked.set).start()
    engine.start()
    assert len(made) == (1 if looks_again else 2)
    engine.close()
