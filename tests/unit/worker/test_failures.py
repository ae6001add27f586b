"""What is logged, recorded and decided after a failure of a worker (rule C35)."""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import Any

import pytest

from subscriber.apply.conflicts.conflict import ChangePlace, Conflict, as_conflict
from subscriber.base.errors import (
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
from subscriber.base.lsn import LSN
from subscriber.base.retry import RetryState
from subscriber.base.run_log import fields_of
from subscriber.base.settings import Settings
from subscriber.catalog.own_tables import CONFLICT, ConflictKind
from subscriber.catalog.table_states import RelationState
from subscriber.publisher.server_errors import connection_refused
from subscriber.worker import failures
from subscriber.worker.failures import FailureLog, disable, record, with_name
from subscriber.worker.worker_state import WorkerState
from tests.subscriptions import as_stored, set_state, stored_relations, stored_statistics, stored_subscription
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
    log, attempts = failure_log(worker_state()), RetryState()
    error = ConflictError("duplicate key", detail="Key (id) exists.", lsn=0x100)
    assert [log.record_failure(attempts, error, 12.5), log.record_failure(attempts, error, 13.5)] == [0.5, 1.0]
    assert (attempts.error, attempts.failed.in_all, attempts.failed.began) == (error, 2, 13.5)
    statistics = stored_statistics(target)
    assert (statistics["apply_error_count"], statistics["sync_error_count"]) == (2, 0)
    assert statistics["last_error"] == error.report()
    assert statistics["last_error_lsn"] == "0/100"
    assert caplog.messages == [
        f'subscription "s": duplicate key (attempt {number}, trying again in {wait} s)\nDETAIL:  Key (id) exists.'
        for number, wait in ((1, 0.5), (2, 1.0))
    ]


def test_a_change_that_cannot_be_applied_is_tried_again_after_wal_retrieve_retry_interval(worker_state):
    log, attempts = failure_log(worker_state(), 0.7), RetryState()
    assert [log.record_failure(attempts, ConflictError("duplicate key")) for _ in range(3)] == [0.5, 0.7, 0.7]


def test_the_waits_for_a_server_double_up_to_a_minute(worker_state):
    log, attempts = failure_log(worker_state()), RetryState()
    waits = [log.record_failure(attempts, PublisherUnavailable("away")) for _ in range(9)]
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]


def test_a_failure_is_recorded_before_the_attempts_show_it(worker_state, target):
    """A thread that waits for the failure reads the statistics next."""
    counts: list[int] = []

    class Watched(RetryState):
        def record_failure(self, *args, **kwargs):
            counts.append(stored_statistics(target)["apply_error_count"])
            return super().record_failure(*args, **kwargs)

    failure_log(worker_state()).record_failure(Watched(), ConflictError("duplicate key"))
    assert counts == [1]


def test_a_failed_copy_is_counted_apart_and_kept_with_its_table(worker_state, target, caplog):
    log = failure_log(worker_state())
    set_state(target, "t", RelationState.DATASYNC)
    (relation,) = stored_relations(target)
    log.record_copy_failure(ConflictError("duplicate key"), relation)
    statistics = stored_statistics(target)
    assert (statistics["apply_error_count"], statistics["sync_error_count"]) == (0, 1)
    assert stored_relations(target)[0].error == "ERROR:  duplicate key"
    assert 'subscription "s", table "public.t": duplicate key (attempt 1)' in caplog.text


def test_a_failed_round_of_copies_names_no_table(worker_state, target, caplog):
    failure_log(worker_state()).record_copy_failure(PublisherUnavailable("away"), None)
    assert stored_statistics(target)["sync_error_count"] == 1
    assert 'subscription "s": away (attempt 1)' in caplog.text


def test_every_attempt_that_meets_a_conflict_is_counted_and_one_row_is_kept(worker_state, target):
    """C22, C35: apply_error_count and the kind's counter go up together, as in PostgreSQL."""
    subscription = worker_state().subscription
    for attempt in range(3):
        conflict = Conflict(ConflictKind.INSERT_EXISTS, "public.t", ChangePlace(731, LSN(0x100), attempt))
        record(target, subscription, as_conflict(ConflictError("duplicate key", lsn=100), conflict))
    statistics = stored_statistics(target)
    assert (statistics["apply_error_count"], statistics["confl_insert_exists"]) == (3, 3)
    with target.engine.connect() as connection:
        (row,) = connection.execute(as_stored(*CONFLICT.c)).all()
    assert (row.subname, row.relation, row.attempts, row.remote_commit_lsn) == ("s", "public.t", 3, "0/100")


def test_a_failure_that_cannot_be_recorded_is_still_logged_and_counted(worker_state, caplog):
    """The failure may be that the target cannot be reached."""
    state = WorkerState(AwayTarget(), worker_state().subscription)  # type: ignore[arg-type]
    attempts = RetryState()
    assert failure_log(state).record_failure(attempts, TargetUnavailable("the target is not available")) == 0.5
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


def test_the_log_has_what_a_machine_needs_and_when_it_works_again(worker_state, caplog):
    log = failure_log(worker_state())
    attempts = RetryState("apply")
    attempts.on_over = partial(log.over, "apply")
    error = ConflictError("duplicate key", hint="Delete it.", relation="public.t", lsn=0x100).replace(xid=731)
    with caplog.at_level(logging.INFO):
        log.record_failure(attempts, error)
        log.record_failure(attempts, error)
        attempts.record_success()
        attempts.record_success()
    _, second, over = caplog.records
    assert (
        second.getMessage() == 'subscription "s": duplicate key (attempt 2, trying again in 1.0 s)\nHINT:  Delete it.'
    )
    expected = {"subscription": "s", "relation": "public.t", "lsn": "0/100", "xid": 731, "stage": "apply"}
    assert fields_of(second).items() >= {**expected, "sqlstate": "23505", "attempt": 2}.items()
    assert over.getMessage().startswith('subscription "s" works again (apply): attempts had failed for')
    assert fields_of(over)["attempt"] == 2


def test_an_error_that_stops_a_subscription_is_not_said_to_be_tried_again(worker_state, caplog):
    failure_log(worker_state()).record_failure(RetryState("receive"), JournalGap("gap"))
    assert caplog.messages == ['subscription "s": gap (attempt 1)']


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
    log.record_failure(RetryState(), ConflictError("duplicate key"))
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
    log.record_failure(RetryState(), ConflictError("duplicate key"))
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


def test_the_statements_of_a_hint_have_the_subscriptions_name(worker_state, target, caplog):
    log, attempts = failure_log(worker_state()), RetryState()
    hint = "Run ALTER SUBSCRIPTION … REFRESH PUBLICATION, or ALTER SUBSCRIPTION ... DISABLE."
    named = "HINT:  Run ALTER SUBSCRIPTION s REFRESH PUBLICATION, or ALTER SUBSCRIPTION s DISABLE."
    log.record_failure(attempts, TargetRelationError("no such table", hint=hint))
    assert str(stored_statistics(target)["last_error"]).endswith(named)
    log.record_copy_failure(TargetRelationError("no such table", hint=hint), None)
    assert caplog.text.count(named) == 2


@pytest.mark.parametrize("hint", [None, "Add the table."])
def test_an_error_without_such_a_statement_is_the_same(worker_state, hint):
    error = TargetRelationError("no such table", hint=hint)
    assert with_name(error, worker_state().subscription) is error
