"""The failed attempts at one task, and the time of the next attempt (rule C35)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.base.errors import PublisherUnavailable, TargetError, TargetUnavailable, UsageError
from subscriber.base.retry import FailedAttempts, RetryState, repeat_if_busy

AWAY = PublisherUnavailable("away")


def test_a_task_that_was_never_tried_is_due():
    attempts = RetryState()
    assert attempts.is_due()
    assert attempts.failed == FailedAttempts()


def test_the_wait_doubles_up_to_the_longest():
    attempts = RetryState()
    assert [attempts.record_failure(AWAY, 5.0) for _ in range(6)] == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]


def test_a_failure_that_lasts_for_years_is_still_counted():
    attempts = RetryState()
    attempts.failed = replace(attempts.failed, in_a_row=10_000)
    assert attempts.record_failure(AWAY, 60.0) == 60.0


def test_failures_in_a_row_are_dated_by_the_first_of_them():
    attempts = RetryState()
    attempts.record_failure(AWAY, 60.0)
    first = attempts.failed.since
    attempts.record_failure(AWAY, 60.0)
    assert (attempts.failed.since, first > 0) == (first, True)


def test_a_failure_is_counted_and_postpones_the_next_attempt():
    attempts = RetryState()
    attempts.record_failure(AWAY, 60.0, began=12.5)
    failed = attempts.failed
    assert (failed.error, failed.in_a_row, failed.in_all, failed.began) == (AWAY, 1, 1, 12.5)
    assert attempts.error is AWAY
    assert not attempts.is_due()


def test_the_next_attempt_is_due_when_its_time_has_come():
    attempts = RetryState()
    attempts.record_failure(AWAY, 60.0)
    attempts.failed = replace(attempts.failed, not_before=attempts.failed.not_before - 0.5)
    assert attempts.is_due()


def test_a_success_resets_the_wait_and_keeps_the_number_of_all_failures():
    attempts = RetryState()
    for _ in range(3):
        attempts.record_failure(AWAY, 60.0)
    attempts.record_success()
    assert (attempts.error, attempts.failed.in_a_row, attempts.failed.in_all) == (None, 0, 3)
    assert attempts.record_failure(AWAY, 60.0) == 0.5


def test_a_wait_postpones_the_next_attempt_and_is_no_failure():
    attempts = RetryState()
    attempts.wait(60.0)
    assert not attempts.is_due()
    assert (attempts.error, attempts.failed.in_a_row, attempts.failed.in_all) == (None, 0, 0)
    attempts.wait(0.0)
    assert attempts.is_due()


def test_a_stored_error_does_not_keep_the_frames_of_its_traceback():
    """They hold rows and connections."""
    attempts = RetryState()
    with pytest.raises(PublisherUnavailable) as raised:
        raise PublisherUnavailable("away")
    attempts.record_failure(raised.value, 5.0)
    assert attempts.error is raised.value
    assert raised.value.__traceback__ is None


def test_a_snapshot_of_the_attempts_does_not_change_later():
    """Other threads read it without a lock."""
    attempts = RetryState()
    attempts.record_failure(AWAY, 5.0)
    before = attempts.failed
    attempts.record_failure(AWAY, 5.0)
    assert (before.in_a_row, attempts.failed.in_a_row) == (1, 2)


@pytest.mark.parametrize(
    "error", [TargetUnavailable("busy"), TargetError("conflict", sqlstate="40001")], ids=["busy", "serialization"]
)
def test_a_step_is_tried_again_while_the_target_is_busy(error):
    failures = iter([error, error])

    def step() -> str:
        for failure in failures:
            raise failure
        return "done"

    assert repeat_if_busy(step, 0.0) == "done"


def test_a_step_that_is_refused_is_not_tried_again():
    attempts = []

    def step() -> None:
        attempts.append(1)
        raise UsageError("no")

    with pytest.raises(UsageError):
        repeat_if_busy(step, 0.0)
    assert len(attempts) == 1


def test_a_target_that_stays_away_is_an_error():

    def step() -> None:
        raise TargetUnavailable("away")

    with pytest.raises(TargetUnavailable):
        repeat_if_busy(step, 0.0)


def test_a_step_that_must_not_wait_for_a_target_that_is_away_is_not_tried_again():
    attempts = []

    def step() -> None:
        attempts.append(1)
        raise TargetUnavailable("away")

    with pytest.raises(TargetUnavailable):
        repeat_if_busy(step, 0.0, even_if_away=False)
    assert len(attempts) == 1
