"""The part of a worker that keeps the query running (rule C35)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from subscriber.apply.applier import ApplyResult
from subscriber.apply.exact import BulkApplier
from subscriber.apply.parallel.parallel_applier import ParallelApplier
from subscriber.base.errors import (
    ConflictError,
    JournalGap,
    PipelineError,
    ProgressConflict,
    ProtocolError,
    PublicationsChanged,
    PublisherTablesOutdated,
    SubscriberError,
    TargetUnavailable,
)
from subscriber.base.lsn import LSN
from subscriber.base.settings import Settings
from subscriber.commands.consumers import JournalConsumers, apply_consumer
from subscriber.spark.apply_pause import ApplyPause
from subscriber.spark.spark_functions import SparkFunctions
from subscriber.stream.journal.positions import CachedAnswer
from subscriber.stream.journal.retention import read_consumer
from subscriber.stream.journal.storage import open_storage
from subscriber.worker.applying import Applying
from subscriber.worker.failures import FailureLog
from subscriber.worker.worker_state import WorkerState
from tests.spark_functions import nothing
from tests.subscriptions import stored_statistics
from tests.waits import wait_until

TARGET = "8c1f" * 8


class Query:
    """A query that runs until :attr:`error` ends it."""

    batch_began = 12.5

    def __init__(self, error: SubscriberError | None = None, *, running: bool = False, applied: int = 0) -> None:
        self.running = running
        self.applied = LSN(applied)
        self.stopped = False
        self._error = error

    def failure(self) -> SubscriberError | None:
        return self._error

    def stop(self) -> None:
        self.stopped = True


class Half(Applying):
    """The part of a worker whose queries are kept in :attr:`started`, with their options."""

    def __init__(self, state: WorkerState) -> None:
        self.started: list[dict[str, Any]] = []

        def start_apply(name: str, stream: Any, applier: Any, settings: Settings, **options: Any) -> Any:
            self.started.append({"name": name, "stream": stream, "applier": applier, **options})
            return Query(running=True)

        settings = Settings("")
        pause = ApplyPause()
        super().__init__(
            state, SparkFunctions(start_apply, nothing), settings, pause, FailureLog(state, settings), None
        )


@pytest.fixture
def half(worker_state) -> Half:
    return Half(worker_state())


def journal_of(half: Half, folder: Any, received: int, last_entry: int) -> None:
    """Open a journal that has received this much."""
    state = half._state
    state.consumers = JournalConsumers(str(folder), TARGET, 1, subscription="s", place="sqlite:///t.db")
    state.watched = CachedAnswer(lambda: (LSN(received), LSN(last_entry)), remote=False)


def start(half: Half) -> None:
    """Start a query; the publisher's tables are read in the background first."""

    def has_started() -> bool:
        half.start()
        return half.loop is not None

    wait_until(has_started)


# Starting -----------------------------------------------------------------------------------------


def test_no_query_is_started_before_anything_is_received(half):
    half.start()
    assert (half.loop, half.started) == (None, [])


def test_a_query_begins_at_the_progress_of_the_target(half, tmp_path):
    """Whatever the worker has remembered: the target may have been restored."""
    journal_of(half, tmp_path, 300, 300)
    half._state.applied = LSN(200)
    start(half)
    (query,) = half.started
    assert query["name"] == "apply 1: s"
    assert (query["stream"].journal, query["stream"].applied) == (str(tmp_path), 50)
    assert half._state.applied == 50
    assert read_consumer(open_storage(str(tmp_path)), apply_consumer(TARGET, 1)) == 50


@pytest.mark.parametrize(("writers", "kind"), [(1, BulkApplier), (3, ParallelApplier)])
def test_a_subscription_with_parallel_apply_has_several_writers(half, tmp_path, writers, kind):
    journal_of(half, tmp_path, 300, 300)
    subscription = half._state.subscription
    half._state.subscription = replace(subscription, options=replace(subscription.options, parallel_apply=writers))
    start(half)
    (query,) = half.started
    assert type(query["applier"]) is kind


def test_an_applied_batch_moves_the_progress_and_the_consumer_and_ends_the_failure(half, tmp_path):
    journal_of(half, tmp_path, 300, 300)
    start(half)
    half.attempts.record_failure(ConflictError("duplicate key"), 5.0)
    (query,) = half.started
    query["on_applied"](ApplyResult(transactions=2, changes=7, progress=LSN(300)))
    query["on_applied"](ApplyResult(transactions=1, changes=1, progress=LSN(310)))
    assert (half.transactions, half.changes, half._state.applied, half.attempts.error) == (3, 8, 310, None)
    assert read_consumer(open_storage(str(tmp_path)), apply_consumer(TARGET, 1)) == 310


# Failures -----------------------------------------------------------------------------------------


def test_a_batch_that_fails_is_logged_recorded_and_counted(half, target, caplog):
    waits = [half.batch_failed(ConflictError("duplicate key"), 7.0 + attempt) for attempt in range(6)]
    assert waits == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
    assert (half.stuck_since, half.attempts.failed.in_all) == (12.0, 6)
    assert stored_statistics(target)["apply_error_count"] == 6
    assert caplog.text.count("duplicate key (attempt ") == 6


@pytest.mark.parametrize(
    "error",
    [
        ProtocolError("bad message"),
        JournalGap("gap"),
        ProgressConflict("moved"),
        PublicationsChanged("changed"),
        PublisherTablesOutdated("changed"),
        PipelineError("Spark"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_batch_is_not_tried_again_if_that_would_not_help(half, error, caplog):
    """Its query ends; the worker then reports the error and decides, once."""
    assert half.batch_failed(error, 7.0) is None
    assert half.attempts.failed.in_all == 0
    assert not caplog.text


def test_a_conflict_ends_the_query_of_a_subscription_that_it_disables(worker_state):
    half = Half(worker_state(disable_on_error=True))
    assert half.batch_failed(ConflictError("duplicate key"), 7.0) is None
    assert half.batch_failed(TargetUnavailable("away"), 7.0) == 0.5


def test_only_a_change_that_cannot_be_applied_is_stuck(half):
    seen = [half.stuck_since]
    for error in (ConflictError("duplicate key"), TargetUnavailable("away")):
        half.attempts.record_failure(error, 5.0, began=7.0)
        seen.append(half.stuck_since)
    assert seen == [None, 7.0, None]


# Watching -----------------------------------------------------------------------------------------


def test_a_query_that_has_ended_raises_its_reason_and_is_forgotten(half):
    half.loop = query = Query(JournalGap("gap"))
    with pytest.raises(JournalGap):
        half.watch()
    assert (half.loop, query.stopped, half.batch_began) == (None, True, 12.5)


def test_a_query_that_was_stopped_is_no_failure(half):
    half.loop = Query()
    half.watch()
    assert half.loop is None


def test_a_query_that_has_filtered_by_old_publications_is_started_again_at_once(half, caplog):
    half.loop = Query(PublicationsChanged("publication p was altered"))
    with caplog.at_level("INFO"):
        half.watch()
    assert half.loop is None
    assert (half.attempts.is_due(), half.attempts.error) == (True, None)
    assert 'subscription "s": publication p was altered' in caplog.text


@pytest.mark.parametrize(("applied", "works"), [(70, False), (80, True), (90, True)])
def test_a_batch_that_failed_works_again_when_nothing_is_left_to_apply(half, tmp_path, applied, works):
    """The last entry of the journal ends at 80."""
    journal_of(half, tmp_path, 100, 80)
    half.attempts.record_failure(ConflictError("duplicate key"), 5.0)
    half.loop = Query(running=True, applied=applied)
    half.watch()
    assert (half.attempts.error is None) == works
    assert half._state.applied == applied
