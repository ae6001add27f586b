"""What is logged, recorded and decided after a failure of a worker (rule C35)."""

from __future__ import annotations

import logging
import time
from typing import Any

import pytest
import sqlalchemy as sa

from subscriber.apply.conflicts.conflict import ChangePlace, Conflict
from subscriber.apply.conflicts.failure import as_conflict
from subscriber.catalog import ConflictKind, RelationState
from subscriber.catalog.own_tables import CONFLICT
from subscriber.errors import (
    ConflictError,
    HistoryDiverged,
    JournalCorrupt,
    JournalGap,
    MessageListenerError,
    NotSupportedError,
    OtherSystem,
    PipelineError,
    ProgressConflict,
    ProtocolError,
    PublisherNotReady,
    PublisherUnavailable,
    RowFilterError,
    SlotInUse,
    SlotLost,
    TargetRelationError,
    TargetUnavailable,
    UnsupportedValue,
)
from subscriber.lsn import LSN
from subscriber.publisher.server_errors import connection_refused
from subscriber.runtime import failures
from subscriber.runtime.attempts import Attempts
from subscriber.runtime.failures import FailureLog, disable, record
from subscriber.runtime.worker_state import WorkerState
from subscriber.settings import Settings
from tests.subscriptions import set_state, stored_relations, stored_statistics, stored_subscription
from tests.waits import wait_until

LATER = 10.0


class AwayTarget:
    """A target that cannot be reached."""

    def begin(self):
        raise TargetUnavailable("the target is not available")


def failure_log(state: WorkerState, longest: float = 5.0) -> FailureLog:
    return FailureLog(state, Settings("", wal_retrieve_retry_interval=longest))


@pytest.mark.parametrize(
    ("error", "stops"),
    [
        (PublisherUnavailable("away"), False),
        (PublisherNotReady("password authentication failed"), False),
        (SlotInUse("active"), False),
        (TargetUnavailable("locked"), False),
        (PipelineError("Spark"), False),
        (ConflictError("duplicate key"), False),
        (TargetRelationError("no such table"), False),
        (UnsupportedValue("out of range"), False),
        (RowFilterError("division by zero"), False),
        (MessageListenerError("the function failed"), False),
        (NotSupportedError("an option that the server does not have"), False),
        (SlotLost("dropped"), True),
        (HistoryDiverged("restored"), True),
        (OtherSystem("another"), True),
        (ProgressConflict("another process has advanced it"), True),
        (ProtocolError("bad message"), True),
        (JournalGap("gap"), True),
        (JournalCorrupt("checksum"), True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_only_a_proven_loss_or_a_contradiction_stops_a_subscription(error, stops):
    assert error.stops == stops


def test_a_failure_is_logged_recorded_and_counted(worker_state, target, caplog):
    log, attempts = failure_log(worker_state()), Attempts()
    error = ConflictError("duplicate key", detail="Key (id) exists.", lsn=0x100)
    assert [log.note(attempts, error, 12.5), log.note(attempts, error, 13.5)] == [0.5, 1.0]
    assert (attempts.error, attempts.failed.in_all, attempts.failed.began) == (error, 2, 13.5)
    statistics = stored_statistics(target)
    assert (statistics["apply_error_count"], statistics["sync_error_count"]) == (2, 0)
    assert statistics["last_error"] == error.report()
    assert statistics["last_error_lsn"] == "0/100"
    assert caplog.text.count(f'subscription "s": {error.report()}') == 2


def test_a_change_that_cannot_be_applied_is_tried_again_after_wal_retrieve_retry_interval(worker_state):
    log, attempts = failure_log(worker_state(), 0.7), Attempts()
    assert [log.note(attempts, ConflictError("duplicate key")) for _ in range(3)] == [0.5, 0.7, 0.7]


def test_the_waits_for_a_server_double_up_to_a_minute(worker_state):
    log, attempts = failure_log(worker_state()), Attempts()
    waits = [log.note(attempts, PublisherUnavailable("away")) for _ in range(9)]
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]


def test_a_failure_is_recorded_before_the_attempts_show_it(worker_state, target):
    """A thread that waits for the failure reads the statistics next."""
    counts: list[int] = []

    class Watched(Attempts):
        def note_failure(self, *args, **kwargs):
            counts.append(stored_statistics(target)["apply_error_count"])
            return super().note_failure(*args, **kwargs)

    failure_log(worker_state()).note(Watched(), ConflictError("duplicate key"))
    assert counts == [1]


def test_a_failed_copy_is_counted_apart_and_kept_with_its_table(worker_state, target, caplog):
    log = failure_log(worker_state())
    set_state(target, "t", RelationState.DATASYNC)
    (relation,) = stored_relations(target)
    log.note_copy(ConflictError("duplicate key"), relation)
    statistics = stored_statistics(target)
    assert (statistics["apply_error_count"], statistics["sync_error_count"]) == (0, 1)
    assert stored_relations(target)[0].error == "ERROR:  duplicate key"
    assert 'subscription "s", table "public.t": ERROR:  duplicate key' in caplog.text


def test_a_failed_round_of_copies_names_no_table(worker_state, target, caplog):
    failure_log(worker_state()).note_copy(PublisherUnavailable("away"), None)
    assert stored_statistics(target)["sync_error_count"] == 1
    assert 'subscription "s": ERROR:  away' in caplog.text


def test_every_attempt_that_meets_a_conflict_is_counted_and_one_row_is_kept(worker_state, target):
    """C22, C35: apply_error_count and the kind's counter go up together, as in PostgreSQL."""
    subscription = worker_state().subscription
    for attempt in range(3):
        conflict = Conflict(ConflictKind.INSERT_EXISTS, "public.t", ChangePlace(731, LSN(0x100), attempt))
        record(target, subscription, as_conflict(ConflictError("duplicate key", lsn=100), conflict))
    statistics = stored_statistics(target)
    assert (statistics["apply_error_count"], statistics["confl_insert_exists"]) == (3, 3)
    with target.engine.connect() as connection:
        (row,) = connection.execute(sa.select(CONFLICT)).all()
    assert (row.subname, row.relation, row.attempts, row.remote_commit_lsn) == ("s", "public.t", 3, "0/100")


def test_a_failure_that_cannot_be_recorded_is_still_logged_and_counted(worker_state, caplog):
    """The failure may be that the target cannot be reached."""
    state = WorkerState(AwayTarget(), worker_state().subscription)  # type: ignore[arg-type]
    attempts = Attempts()
    assert failure_log(state).note(attempts, TargetUnavailable("the target is not available")) == 0.5
    assert attempts.failed.in_a_row == 1
    assert "the target is not available" in caplog.text


@pytest.mark.parametrize(("sqlstate", "lost", "recorded"), [("40001", 3, 1), ("40001", 4, 0), ("58000", 1, 0)])
def test_a_failure_is_recorded_again_if_another_transaction_was_in_the_way(
    worker_state, target, monkeypatch, sqlstate, lost, recorded
):
    """DuckDB lets one of two transactions fail that write the same row."""
    monkeypatch.setattr(failures, "_RECORD_SECONDS", 0.0)
    in_the_way = iter([TargetUnavailable("another transaction", sqlstate=sqlstate)] * lost)
    write = failures._write

    def writing(*arguments: Any, **options: Any) -> None:
        for error in in_the_way:
            raise error
        write(*arguments, **options)

    monkeypatch.setattr(failures, "_write", writing)
    record(target, worker_state().subscription, ConflictError("duplicate key"))
    assert stored_statistics(target)["apply_error_count"] == recorded


@pytest.mark.parametrize(
    ("disable_on_error", "error", "disables"),
    [
        (True, ConflictError("duplicate key"), True),
        (True, ProtocolError("bad message"), True),
        (True, PublisherUnavailable("away"), False),
        (True, connection_refused("password authentication failed"), False),
        (True, PublisherNotReady("publication does not exist"), True),
        (False, ConflictError("duplicate key"), False),
    ],
)
def test_a_lasting_error_disables_a_subscription_that_asks_for_that(worker_state, disable_on_error, error, disables):
    log = failure_log(worker_state(disable_on_error=disable_on_error))
    assert log.disables(error) == disables


def test_a_subscription_that_is_disabled_stops_its_worker(worker_state, target, caplog):
    state = worker_state(disable_on_error=True)
    failure_log(state).disable()
    assert (state.stopped, state.disabled) == (True, True)
    assert not stored_subscription(target).enabled
    assert 'subscription "s" has been disabled because of an error' in caplog.text


def test_a_worker_does_not_stop_while_its_subscription_cannot_be_disabled(worker_state):
    state = WorkerState(AwayTarget(), worker_state().subscription)  # type: ignore[arg-type]
    with pytest.raises(TargetUnavailable):
        failure_log(state).disable()
    assert (state.stopped, state.disabled) == (False, False)


def test_disabling_leaves_other_subscriptions_enabled(worker_state, target):
    first, second = worker_state(name="s"), worker_state(name="t")
    disable(target, second.subscription)
    assert stored_subscription(target, first.subscription.name).enabled
    assert not stored_subscription(target, second.subscription.name).enabled


def test_the_time_of_the_next_attempt_is_logged(worker_state, caplog):
    with caplog.at_level(logging.INFO):
        failure_log(worker_state()).say_when(0.5)
    assert 'subscription "s": trying again in 0.5 s' in caplog.text


# When the last error is resolved ------------------------------------------------------------------


def resolve(log: FailureLog) -> None:
    """Have it checked now whether the last error is resolved, and wait for the answer.

    A call begins a check, or takes the answer of an earlier one; a quick check does both.
    """
    for _ in range(4):
        log._resolve_again = 0.0
        log.resolve()
        wait_until(lambda: not log.resolving.is_under_way())


def resolved_at(target) -> str | None:
    resolved: str | None = stored_statistics(target)["last_error_resolved_at"]
    return resolved


def test_the_error_of_an_earlier_run_is_resolved_when_everything_is_applied(worker_state, target):
    state = worker_state()
    record(target, state.subscription, ConflictError("duplicate key"))
    resolve(failure_log(state))
    assert resolved_at(target)


def test_an_error_is_not_resolved_while_received_changes_wait(worker_state, target):
    state = worker_state()
    log = failure_log(state)
    log.note(Attempts(), ConflictError("duplicate key"))
    state.applied, state.positions = LSN(50), (LSN(90), LSN(80))
    resolve(log)
    assert resolved_at(target) is None
    state.applied = LSN(80)
    resolve(log)
    assert resolved_at(target)


def test_without_a_new_error_the_catalog_is_not_asked_again(worker_state, target):
    state = worker_state()
    log = failure_log(state)
    resolve(log)
    # An error that somebody else has recorded is not looked for.
    record(target, state.subscription, ConflictError("duplicate key"))
    resolve(log)
    assert resolved_at(target) is None
    log.note(Attempts(), ConflictError("duplicate key"))
    resolve(log)
    assert resolved_at(target)


def test_the_catalog_is_asked_at_most_once_a_second(worker_state):
    log = failure_log(worker_state())
    log._resolve_again = time.monotonic() + LATER
    log.resolve()
    assert not log.resolving.is_under_way()


def test_a_target_that_is_away_is_asked_again_later(worker_state, target):
    state = worker_state()
    record(target, state.subscription, ConflictError("duplicate key"))
    away = WorkerState(AwayTarget(), state.subscription)  # type: ignore[arg-type]
    log = failure_log(away)
    resolve(log)
    assert resolved_at(target) is None
    away.target = target
    resolve(log)
    assert resolved_at(target)
