"""A worker's two halves: what is tried again, and what stays stopped."""

from __future__ import annotations

import contextlib

import pytest

from subscriber.errors import (
    ConflictError,
    JournalGap,
    ProgressConflict,
    ProtocolError,
    PublisherUnavailable,
    SubscriberError,
    TargetUnavailable,
)
from subscriber.lsn import LSN
from subscriber.settings import Settings
from subscriber.subscription.catalog import Subscription
from subscriber.subscription.options import SubscriptionOptions
from subscriber.subscription.worker import SubscriptionWorker

SUBSCRIPTION = Subscription(
    1, "s", "", ("p",), SubscriptionOptions(), enabled=True, slot_name="s", skip_lsn=LSN(0), system_identifier="1"
)


class Ended:
    """A receiver or query that has ended."""

    running = False
    streaming = True
    batch_began = 12.5

    def __init__(self, error: SubscriberError) -> None:
        self._error = error

    def failure(self) -> SubscriberError:
        return self._error

    def stop(self) -> None:
        pass


class NoTarget:
    """A target that is away, so that no error can be recorded either."""

    def begin(self):
        raise TargetUnavailable("the target is not available")


@pytest.fixture
def worker(monkeypatch):
    worker = SubscriptionWorker(SUBSCRIPTION, NoTarget(), None, Settings(""), contextlib.nullcontext())  # type: ignore[arg-type]
    monkeypatch.setattr(SubscriptionWorker, "_start_receiver", lambda self: starts.append("receiver"))
    monkeypatch.setattr(SubscriptionWorker, "_start_query", lambda self: starts.append("query"))
    starts: list[str] = []
    worker.starts = starts  # type: ignore[attr-defined]
    return worker


LASTING = [ProtocolError("bad message"), JournalGap("gap"), ProgressConflict("moved")]
PASSING = [PublisherUnavailable("away"), TargetUnavailable("away"), ConflictError("duplicate key")]


@pytest.mark.parametrize("half", ["_receiver", "_query"])
@pytest.mark.parametrize("error", LASTING, ids=lambda error: type(error).__name__)
def test_after_a_lasting_failure_neither_half_is_started_again(worker, error, half):
    """The slot must not move past what could not be read, so nobody may stream from it."""
    setattr(worker, half, Ended(error))
    for _ in range(3):
        worker.tick()
    assert worker.stopped
    assert worker.state == "stopped"
    assert worker.failure is error
    assert worker.starts == []


@pytest.mark.parametrize("error", PASSING, ids=lambda error: type(error).__name__)
def test_a_passing_failure_is_tried_again_after_a_while(worker, error):
    """C35: the wait doubles up to wal_retrieve_retry_interval"""
    worker._receiver = Ended(error)
    worker.tick()
    assert not worker.stopped
    assert worker.starts == []
    assert worker.state == "retrying"
    worker._receiving.not_before = 0.0
    worker.tick()
    assert worker.starts == ["receiver"]


def test_the_wait_doubles_up_to_the_longest(worker):
    waits = [worker._receiving.failed(PASSING[0], 5.0) for _ in range(6)]
    assert waits == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]


def test_a_change_that_cannot_be_applied_tells_when_its_batch_began(worker):
    """C35: so that one who waits knows whether a change of the target's came before it or after"""
    assert (worker.stuck_since, worker.failed_attempts) == (None, (0, 0))
    worker._query = Ended(ConflictError("conflict"))
    worker.tick()
    assert (worker.stuck_since, worker.failed_attempts) == (12.5, (0, 1))
    worker._applying.works()
    assert (worker.stuck_since, worker.failed_attempts) == (None, (0, 1))


def test_a_target_that_is_away_is_no_change_that_cannot_be_applied(worker):
    worker._query = Ended(TargetUnavailable("the target is not available"))
    worker.tick()
    assert (worker.stuck_since, worker.failed_attempts) == (None, (0, 1))
