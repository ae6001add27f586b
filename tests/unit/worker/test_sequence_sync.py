"""The sequence synchronization of a worker (D14): attempts, retries, counts and the log."""

from __future__ import annotations

import contextlib
import logging

import pytest

from subscriber.base.errors import PublisherUnavailable
from subscriber.base.lsn import LSN
from subscriber.base.settings import Settings
from subscriber.catalog.table_states import RelationState, advance_sequences, set_relation_states
from subscriber.worker import sequence_sync
from subscriber.worker.failures import FailureLog
from subscriber.worker.sequence_sync import SequenceSync
from tests.subscriptions import stored_statistics, stored_subscription
from tests.waits import wait_until

MISMATCHED = 'mismatched or renamed sequence on subscriber ("public.q")'


class Synchronizing:
    """``sync``, with sequence public.q in state i, and what the attempts find, in their order."""

    def __init__(self, state, target, monkeypatch):
        self.state, self.target = state, target
        self.outcomes: list[list[str] | Exception] = []
        monkeypatch.setattr(sequence_sync, "synchronize_sequences", self._synchronize)
        with target.begin() as connection:
            set_relation_states(connection, 1, [("public", "q")], RelationState.INIT, are_sequences=True)
        state.read_relations()
        settings = Settings("", wal_retrieve_retry_interval=0.0)
        self.sync = SequenceSync(state, contextlib.nullcontext(), settings, FailureLog(state, settings))

    def _synchronize(self, target, subscription, write):
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        if not outcome:
            with write() as connection:
                advance_sequences(connection, subscription.subid, {("public", "q"): LSN(70)})
        return outcome

    def attempt(self, outcome) -> None:
        self.outcomes.append(outcome)
        failures = self.sync.attempts.failed.in_all
        wait_until(lambda: self._is_over(failures))

    def _is_over(self, failures: int) -> bool:
        self.sync.tick()
        return self.sync.attempts.failed.in_all > failures or not self.state.relations.unfinished_sequences


@pytest.fixture
def synchronizing(worker_state, target, monkeypatch):
    return lambda **options: Synchronizing(worker_state(**options), target, monkeypatch)


def test_a_sequence_is_ready_when_its_value_is_set(synchronizing, caplog):
    scene = synchronizing()
    with caplog.at_level(logging.INFO):
        scene.attempt([])
    assert scene.state.relations.pending == ()
    assert [record.message for record in caplog.records] == [
        'logical replication sequence synchronization worker for subscription "s" has started',
        'logical replication sequence synchronization worker for subscription "s" has finished',
    ]


def test_a_sequence_that_cannot_be_set_is_logged_counted_and_tried_again(synchronizing, target, caplog):
    scene = synchronizing()
    scene.attempt([MISMATCHED])
    assert MISMATCHED in caplog.messages
    assert 'logical replication sequence synchronization failed for subscription "s"' in caplog.text
    counts = stored_statistics(target)
    assert (counts["sync_seq_error_count"], counts["sync_error_count"], counts["apply_error_count"]) == (1, 0, 0)
    assert list(scene.sync.failed_sequences) == [("public", "q")]
    scene.attempt(PublisherUnavailable("away"))
    assert stored_statistics(target)["sync_seq_error_count"] == 2
    scene.attempt([])
    assert scene.sync.failed_sequences == {}


def test_the_option_disable_on_error_disables_the_subscription(synchronizing, target):
    scene = synchronizing(disable_on_error=True)
    scene.attempt(PublisherUnavailable("away"))
    assert stored_subscription(target).enabled
    scene.attempt([MISMATCHED])
    assert not stored_subscription(target).enabled


def test_without_sequences_nothing_is_asked(worker_state, target, monkeypatch):
    scene = Synchronizing(worker_state(), target, monkeypatch)
    with target.begin() as connection:
        advance_sequences(connection, 1, {("public", "q"): LSN(70)})
    scene.state.read_relations()
    scene.sync.tick()  # an attempt would find no outcome
    assert scene.sync.attempts.error is None
