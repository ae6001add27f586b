"""A worker: which of its parts are started again after a failure, and when it stops."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import pytest

from subscriber.base.errors import (
    ConflictError,
    JournalGap,
    ProgressConflict,
    ProtocolError,
    PublisherNotReady,
    PublisherUnavailable,
    RowFilterError,
    SlotLost,
    SubscriberError,
    TargetUnavailable,
)
from subscriber.base.retry import FailedAttempts, RetryState
from subscriber.base.settings import Settings
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.catalog.table_states import RelationState
from subscriber.worker.applying import Applying
from subscriber.worker.receiving import Receiving, start_receiver
from subscriber.worker.worker import SubscriptionWorker
from tests.frames import transaction
from tests.journals import T, insert, publish, writing
from tests.subscriptions import SUBSCRIPTION, create_subscription, set_state, stored_subscription
from tests.waits import wait_until


class Ended:
    """A receiver or query that has ended."""

    running = False
    streaming = True
    ready = False
    server = None
    pid = None
    batch_began = 12.5

    def __init__(self, error: SubscriberError | None) -> None:
        self._error = error
        self.stopped = False

    def failure(self) -> SubscriberError | None:
        return self._error

    def stop(self) -> None:
        self.stopped = True


class NoTarget:
    """A target that is away, so that no error can be recorded either."""

    def begin(self):
        raise TargetUnavailable("the target is not available")


@pytest.fixture
def worker(monkeypatch):
    worker = SubscriptionWorker(SUBSCRIPTION, NoTarget(), None, Settings(""), contextlib.nullcontext(), start_receiver)  # type: ignore[arg-type]
    monkeypatch.setattr(Receiving, "start", lambda self: starts.append("receiver"))
    monkeypatch.setattr(Applying, "start", lambda self: None)
    starts: list[str] = []
    worker.starts = starts  # type: ignore[attr-defined]
    return worker


PROVEN = [ProtocolError("bad message"), JournalGap("gap"), ProgressConflict("moved"), SlotLost("gone")]
OTHERS = [
    PublisherUnavailable("away"),
    PublisherNotReady("password authentication failed"),
    TargetUnavailable("away"),
    ConflictError("duplicate key"),
    RowFilterError("division by zero"),
]


@pytest.mark.parametrize("half", ["receiver", "query"])
@pytest.mark.parametrize("error", PROVEN, ids=lambda error: type(error).__name__)
def test_after_a_proven_loss_neither_half_is_started_again(worker, error, half, caplog):
    """The slot must not move past what could not be read, so nobody may stream from it; the log
    says what starts it again.
    """
    if half == "receiver":
        worker._receiving.process = Ended(error)
    else:
        worker._applying.loop = Ended(error)
    for _ in range(3):
        worker.tick()
    assert worker.snapshot().stopped
    assert worker.snapshot().state == "stopped"
    assert worker.snapshot().failure is error
    assert worker.starts == []
    assert "ALTER SUBSCRIPTION … ENABLE" in caplog.text


def test_a_worker_that_has_stopped_is_replaced_when_a_command_writes_its_subscription(worker):
    """ALTER SUBSCRIPTION … ENABLE changes nothing but the version of the row."""
    written = replace(SUBSCRIPTION, version=7)
    assert not worker.needs_restart(written)
    worker._receiving.process = Ended(SlotLost("gone"))
    worker.tick()
    assert not worker.needs_restart(SUBSCRIPTION)
    assert worker.needs_restart(written)


def test_a_command_that_writes_the_subscription_lets_a_failed_attempt_be_repeated_at_once(worker):
    worker._receiving.process = Ended(PublisherUnavailable("away"))
    worker.tick()
    worker.update(SUBSCRIPTION, worker._state.relations)
    worker.tick()
    assert worker.starts == []
    worker.update(replace(SUBSCRIPTION, version=7), worker._state.relations)
    worker.tick()
    assert worker.starts == ["receiver"]


def test_after_a_fault_of_the_program_all_parts_are_started_again(worker, monkeypatch):
    receiver = worker._receiving.process = Ended(None)
    try:
        raise ValueError("customer 17")
    except ValueError as error:
        worker.fault(error)
    assert worker.snapshot().state == "retrying"
    assert "customer" not in worker.snapshot().failure.report()
    wait_until(lambda: worker.ended)
    assert receiver.stopped
    worker.tick()
    assert worker.starts == []
    worker._faults.wait(0.0)
    worker.tick()
    assert worker.starts == ["receiver"]
    assert worker.snapshot().state == "retrying"
    worker._faults.wait(-61.0)
    worker.tick()
    assert worker.snapshot().failure is None


@pytest.mark.parametrize("error", OTHERS, ids=lambda error: type(error).__name__)
def test_every_other_failure_is_tried_again_after_a_while(worker, error):
    """C35"""
    worker._receiving.process = Ended(error)
    worker.tick()
    assert not worker.snapshot().stopped
    assert worker.starts == []
    assert worker.snapshot().state == "retrying"
    worker._receiving.attempts.wait(0.0)
    worker.tick()
    assert worker.starts == ["receiver"]


def test_a_change_that_cannot_be_applied_is_shown_with_the_begin_of_its_batch(worker):
    """C35: only a change that somebody makes in the target afterwards can let the batch succeed."""
    assert (worker.snapshot().stuck_since, worker.snapshot().failed_attempts) == (None, (0, 0, 0))
    worker._applying.loop = Ended(ConflictError("conflict"))
    worker.tick()
    assert (worker.snapshot().stuck_since, worker.snapshot().failed_attempts) == (12.5, (0, 1, 0))
    worker._applying.attempts.record_success()
    assert (worker.snapshot().stuck_since, worker.snapshot().failed_attempts) == (None, (0, 1, 0))


def test_a_change_that_cannot_be_applied_is_shown_after_its_failure_is_recorded(worker, monkeypatch):
    """A thread that waits for the failure reads the statistics next."""
    worker._applying.loop = Ended(ConflictError("conflict"))
    worker.tick()
    told = []
    monkeypatch.setattr("subscriber.worker.failures.record", lambda *_: told.append(worker.snapshot().stuck_since))
    worker._applying.loop = Ended(ConflictError("another"))
    worker._applying.loop.batch_began = 20.0
    worker.tick()
    assert (told, worker.snapshot().stuck_since) == ([12.5], 20.0)


def test_a_target_that_is_away_does_not_count_as_a_change_that_cannot_be_applied(worker):
    worker._applying.loop = Ended(TargetUnavailable("the target is not available"))
    worker.tick()
    assert (worker.snapshot().stuck_since, worker.snapshot().failed_attempts) == (None, (0, 1, 0))


# With a target that stores what has happened ------------------------------------------------------


@pytest.fixture
def stored(target) -> Callable[..., SubscriptionWorker]:
    """A function that stores subscription s with the given options, and returns its worker."""

    def make(**options: object) -> SubscriptionWorker:
        subscription = create_subscription(target, **options)  # type: ignore[arg-type]
        return SubscriptionWorker(subscription, target, None, Settings(""), contextlib.nullcontext(), start_receiver)  # type: ignore[arg-type]

    return make


@pytest.mark.parametrize("error", [ConflictError("duplicate key"), ProtocolError("bad message")], ids=repr)
def test_a_subscription_is_disabled_by_an_error_when_it_asks_for_that(stored, target, error, caplog):
    """C35"""
    worker = stored(disable_on_error=True)
    worker._applying.loop = Ended(error)
    worker.tick()
    assert worker.snapshot().stopped
    assert worker.snapshot().disabled
    assert not stored_subscription(target).enabled
    assert 'subscription "s" has been disabled because of an error' in caplog.text


def test_a_worker_goes_on_while_the_target_in_which_it_is_to_be_disabled_is_away(worker, caplog):
    worker._state.subscription = replace(SUBSCRIPTION, options=SubscriptionOptions(disable_on_error=True))
    worker._applying.loop = Ended(ConflictError("duplicate key"))
    worker.tick()
    assert not worker.snapshot().stopped
    assert worker.snapshot().failed_attempts == (0, 1, 0)
    assert "cannot be disabled now: the target is not available" in caplog.text


def test_a_lost_connection_does_not_disable_a_subscription(stored, target):
    worker = stored(disable_on_error=True)
    worker._receiving.process = Ended(PublisherUnavailable("away"))
    worker.tick()
    assert not worker.snapshot().stopped
    assert stored_subscription(target).enabled


def test_a_failed_copy_is_the_workers_failure(stored):
    worker = stored()
    error = ConflictError("duplicate key")
    worker._synchronizing.copy_failed(error, None)
    assert (worker.snapshot().failure, worker.snapshot().stopped) == (error, False)


def test_a_target_that_goes_away_before_the_consumers_are_known_is_waited_for(stored, tmp_path, monkeypatch):
    """The journal may be there and hold changes: nothing is applied from it by a worker that could
    not say how far it is.
    """
    worker = stored()
    worker._receiving._settings = Settings(str(tmp_path / "journals"))
    with writing(tmp_path / "journals" / "1_s") as journal:
        publish(journal, 0x200, transaction(0x200, T, insert(1)))

    def away(_connection):
        raise TargetUnavailable("the target is not available")

    monkeypatch.setattr("subscriber.worker.receiving.target_identifier", away)
    for _ in range(1000):
        worker.tick()
        if worker.snapshot().failure is not None:
            break
        time.sleep(0.01)  # another thread reads where the subscription begins
    assert isinstance(worker.snapshot().failure, TargetUnavailable)
    now = worker.snapshot()
    assert (now.stopped, now.received, now.last_entry) == (False, 0, 0)


def test_the_snapshot_of_a_worker_that_has_ended_shows_that_it_had_given_up(stored, target):
    """`run --once` once asked after the table synchronization had been discarded."""
    worker = stored()
    set_state(target, "a", RelationState.DATASYNC)
    worker._state.read_relations()

    class Failing:
        attempts = RetryState()
        failed_tables: ClassVar = {("public", "a"): FailedAttempts(in_a_row=2)}
        copies = ()
        loads_since = None

        def cancel(self):
            pass

        def stop(self):
            pass

    worker._synchronizing.sync = Failing()
    assert worker.snapshot().given_up
    worker.stop()
    assert worker.snapshot().given_up


def test_the_snapshot_of_a_worker_names_what_it_waits_for(stored, monkeypatch):
    answered = threading.Event()
    monkeypatch.setattr("subscriber.worker.receiving.adopt_slot", lambda *_: answered.wait(10) and None)
    worker = stored()
    assert worker.snapshot().waiting_for == ()
    worker.tick()
    assert worker.snapshot().waiting_for == ("slot of s",)
    answered.set()
