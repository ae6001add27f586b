"""What a snapshot says of a worker: facts of one moment, and what follows from them."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from subscriber.base.errors import ConflictError, PublisherUnavailable, TargetUnavailable
from subscriber.base.lsn import LSN
from subscriber.base.retry import PATIENT_FAILURES, FailedAttempts
from subscriber.catalog.table_states import RelationState, SubscriptionRelation, TableStates
from subscriber.worker.worker_snapshot import WorkerSnapshot
from tests.copy_statuses import COPY
from tests.subscriptions import SUBSCRIPTION

STREAMING = WorkerSnapshot(SUBSCRIPTION, receives=True, applies=True)
CONFLICT = ConflictError("duplicate key")


def changed(changes: dict[str, Any]) -> WorkerSnapshot:
    return replace(STREAMING, **changes)


def tables(**states: RelationState) -> TableStates:
    return TableStates(SubscriptionRelation("public", name, state, None) for name, state in states.items())


def test_a_snapshot_does_not_change():
    with pytest.raises(FrozenInstanceError):
        STREAMING.applied = LSN(7)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, "streaming"),
        ({"receives": False}, "starting"),
        ({"applies": False}, "starting"),
        ({"copies": (COPY,)}, "copying"),
        ({"copies": (COPY,), "applying": FailedAttempts(CONFLICT, 1)}, "retrying"),
        ({"stopped": True, "copies": (COPY,), "applying": FailedAttempts(CONFLICT, 1)}, "stopped"),
    ],
)
def test_the_state_has_the_most_important_fact(changes: dict[str, Any], state: str):
    assert changed(changes).state == state


@pytest.mark.parametrize("part", ["receiving", "applying", "synchronizing", "once_target_attempts"])
def test_the_failure_of_any_part_is_in_the_snapshot(part: str):
    assert changed({part: FailedAttempts(CONFLICT, 1)}).failure is CONFLICT


def test_an_error_of_the_stream_comes_before_the_error_of_a_copy():
    away = PublisherUnavailable("away")
    assert replace(STREAMING, copy_error=CONFLICT).failure is CONFLICT
    assert replace(STREAMING, copy_error=CONFLICT, receiving=FailedAttempts(away, 1)).failure is away


@pytest.mark.parametrize(
    ("received", "last_entry", "applied", "reached"),
    [
        (400, 390, 99, False),  # under load some entries are always received and not applied yet
        (400, 390, 100, True),
        (400, 390, 200, True),
        (120, 50, 49, False),
        (120, 50, 50, True),  # after the last entry nothing was published
        (99, 50, 50, False),
    ],
)
def test_a_position_is_applied_if_it_is_received_and_every_entry_before_it_is_applied(
    received, last_entry, applied, reached
):
    now = replace(STREAMING, received=LSN(received), last_entry=LSN(last_entry), applied=LSN(applied))
    assert now.has_applied(LSN(100)) == reached
    assert replace(now, once_target=LSN(100)).stream_caught_up == reached
    assert not replace(now, applies=False).has_applied(LSN(100))
    assert not now.stream_caught_up


def test_a_worker_has_caught_up_only_when_every_table_is_ready():
    now = replace(STREAMING, received=LSN(100), applied=LSN(100), once_target=LSN(100))
    assert replace(now, relations=tables(a=RelationState.READY)).caught_up
    assert not replace(now, relations=tables(a=RelationState.READY, b=RelationState.SYNCDONE)).caught_up


@pytest.mark.parametrize("part", ["receiving", "applying", "rounds", "once_target_attempts"])
def test_a_part_that_fails_for_long_is_given_up(part: str):
    away = TargetUnavailable("away")
    nearly, enough = ({part: FailedAttempts(away, count, 9)} for count in (PATIENT_FAILURES - 1, PATIENT_FAILURES))
    assert not changed(nearly).given_up
    assert changed(enough).given_up


def test_failing_tables_are_given_up_when_nothing_else_is_left():
    """They may take hours; what fails is said when the others are done."""
    failing = {("public", "a"): FailedAttempts(CONFLICT, 2)}
    now = replace(STREAMING, relations=tables(a=RelationState.DATASYNC), failed_tables=failing)
    assert now.given_up
    assert not replace(now, relations=tables(a=RelationState.DATASYNC, b=RelationState.INIT)).given_up
    assert not replace(now, once_target=LSN(100)).given_up
    assert replace(now, once_target=LSN(100), received=LSN(100), applied=LSN(100)).given_up


def test_copies_are_settled_when_each_table_is_ready_or_has_failed_since():
    now = replace(STREAMING, failed_tables={("public", "b"): FailedAttempts(CONFLICT, 1, 1, began=5.0)})
    assert now.copies_settled(tables(a=RelationState.READY), 9.0)
    assert now.copies_settled(tables(a=RelationState.READY, b=RelationState.DATASYNC), 4.0)
    assert not now.copies_settled(tables(b=RelationState.DATASYNC), 5.0)
    assert not now.copies_settled(tables(c=RelationState.DATASYNC), 4.0)


def test_the_summary_has_positions_lag_and_counts():
    now = replace(
        STREAMING, received=LSN(0x70), last_entry=LSN(0x60), applied=LSN(0x50), transactions=1234, changes=56789
    )
    assert now.summary() == ("s streaming, received 0/70, applied 0/50, lag 16 B, 1,234 transactions, 56,789 changes")
    assert replace(now, applied=LSN(0x68)).lag_bytes == 0


@pytest.mark.parametrize(
    ("changes", "is_idle"),
    [
        ({}, True),
        ({"receives": False}, True),
        ({"stopped": True, "applies": False}, True),
        ({"applies": False}, False),
        ({"busy_since": 1.0}, False),
        ({"last_entry": LSN(9), "applied": LSN(8)}, False),
        ({"last_entry": LSN(9), "applied": LSN(9)}, True),
        ({"relations": tables(t=RelationState.INIT)}, False),
        ({"relations": tables(t=RelationState.READY)}, True),
    ],
)
def test_a_worker_is_idle_if_nothing_is_left_to_copy_or_to_apply(changes: dict[str, Any], is_idle: bool):
    assert changed(changes).is_idle == is_idle


@pytest.mark.parametrize(
    ("changes", "is_settled"),
    [
        ({}, True),
        ({"busy_since": 1.0}, True),
        ({"last_entry": LSN(9), "applied": LSN(8)}, True),
        ({"stopped": True, "applies": False}, True),
        ({"receives": False}, False),
        ({"applies": False}, False),
        ({"applying": FailedAttempts(CONFLICT, 1, 1)}, False),
        ({"waiting_for": ("slot of s",)}, False),
        ({"relations": tables(t=RelationState.SYNCDONE)}, False),
    ],
)
def test_a_worker_is_settled_if_all_parts_work_and_no_table_is_on_its_way(changes: dict[str, Any], is_settled: bool):
    assert changed(changes).is_settled == is_settled


def test_a_sequence_that_is_not_set_is_waited_for_until_its_attempts_fail():
    states = TableStates()
    states.unfinished_sequences = [SubscriptionRelation("public", "q", RelationState.INIT, None, is_sequence=True)]
    now = replace(STREAMING, relations=states, received=LSN(9), applied=LSN(9), once_target=LSN(9))
    assert (now.stream_caught_up, now.caught_up, now.is_idle, now.given_up) == (True, False, False, False)
    failing = {("public", "q"): FailedAttempts(CONFLICT, 9, 9, began=5.0)}
    assert replace(now, failed_tables=failing).given_up
    assert replace(now, failed_tables=failing).copies_settled(states, 4.0)
