"""Errors at COMMIT: the transactions before the one that the target refuses are committed."""

from __future__ import annotations

import pytest

from subscriber.apply.deferred import apply_before, apply_committable
from subscriber.errors import ConflictError, SubscriberError, TargetUnavailable
from subscriber.lsn import LSN, format_lsn
from subscriber.protocol import messages as m
from tests.appliers import Attempt, ModelApplier, reading
from tests.failures import applied_before
from tests.frames import prepared, transaction

START, END = LSN(100), LSN(1000)
FINISHES = tuple(range(200, 1000, 100))
"""Eight transactions. The final LSN of each is 8 less than its finish LSN, its number 700 more."""
ERROR = ConflictError("insert or update violates a foreign key constraint", sqlstate="23503")


def messages(*finishes: int) -> list[m.Message]:
    return [message for finish in finishes for message in transaction(finish, xid=700 + finish)]


READ = reading(messages(*FINISHES))


def committable(applier: ModelApplier, read=READ, start: int = START, end: int = END) -> SubscriberError:
    return apply_committable(applier, read, LSN(start), LSN(end), ERROR)


@pytest.mark.parametrize("refused", FINISHES)
def test_everything_before_the_refused_transaction_is_committed(refused):
    """C35"""
    applier = ModelApplier(FINISHES, refused={refused})
    error = committable(applier)
    assert applier.committed == list(range(200, refused, 100))
    assert (error.lsn, applied_before(error)) == (refused - 8, refused - 100)
    assert error.context == (
        'processing remote data for replication origin "pg_1" during message type "COMMIT"'
        f" in transaction {700 + refused}, finished at {format_lsn(LSN(refused - 8))}"
    )
    assert (error.message, error.sqlstate) == (ERROR.message, "23503")


@pytest.mark.parametrize("refused", FINISHES)
def test_each_attempt_halves_what_is_left(refused):
    applier = ModelApplier(FINISHES, refused={refused})
    committable(applier)
    assert len(applier.attempts) == 3, "the logarithm of eight transactions"


def test_of_several_refused_transactions_the_first_one_is_named():
    applier = ModelApplier(FINISHES, refused={400, 800, 900})
    assert committable(applier).lsn == 392
    assert applier.committed == [200, 300]


def test_a_single_transaction_is_named_without_another_attempt():
    applier = ModelApplier([200], refused={200})
    error = committable(applier, reading(messages(200)))
    assert (error.lsn, applied_before(error), applier.attempts) == (192, 100, [])


def test_only_the_transactions_of_the_batch_are_divided():
    applier = ModelApplier(FINISHES, progress=300, refused={500})
    assert committable(applier, start=300, end=500).lsn == 492
    assert applier.attempts == [Attempt(300, 400, before=400)]


def test_without_a_transaction_the_error_stays_as_it_is():
    assert committable(ModelApplier([]), reading([])) is ERROR


def test_a_prepared_transaction_finishes_at_its_commit():
    """C51"""
    applier = ModelApplier([200, 500], refused={500})
    error = committable(applier, reading([*messages(200), *prepared(500, xid=9)]))
    assert (error.lsn, applied_before(error)) == (492, 200)
    assert str(error.context).endswith("in transaction 9, finished at 0/1EC")


def test_another_error_ends_the_division():
    applier = ModelApplier(FINISHES, failing={300: TargetUnavailable("away")}, refused={900})
    with pytest.raises(TargetUnavailable):
        committable(applier)
    assert applier.committed == []


# Transactions before a change that cannot be applied ----------------------------------------------


def test_transactions_are_committed_up_to_an_lsn():
    applier = ModelApplier(FINISHES)
    apply_before(applier, READ, START, LSN(400))
    assert applier.attempts == [Attempt(100, 400, before=400)]
    assert applier.committed == [200, 300, 400]


def test_a_refused_transaction_among_them_is_named():
    applier = ModelApplier(FINISHES, refused={300})
    with pytest.raises(ConflictError, match="refused at commit") as caught:
        apply_before(applier, READ, START, LSN(400))
    assert caught.value.lsn == 292
    assert applier.committed == [200]


def test_another_error_among_them_is_raised_unchanged():
    error = TargetUnavailable("away")
    applier = ModelApplier(FINISHES, failing={300: error})
    with pytest.raises(TargetUnavailable) as caught:
        apply_before(applier, READ, START, LSN(400))
    assert caught.value is error
    assert applier.attempts == [Attempt(100, 400, before=400)]
