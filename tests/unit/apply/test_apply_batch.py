"""The steps between two attempts to apply a batch."""

from __future__ import annotations

import pytest

from subscriber.apply.applier import ApplyResult
from subscriber.apply.apply_batch import apply_batch, apply_before, apply_committable, retry_with_column_defaults
from subscriber.apply.conflicts.conflict import ChangePlace, Conflict, ViolatedKey, with_failure
from subscriber.base.errors import (
    ColumnsToAdd,
    ConflictError,
    PublisherUnavailable,
    Stopped,
    SubscriberError,
    TargetRelationError,
    TargetUnavailable,
)
from subscriber.base.lsn import LSN, format_lsn
from subscriber.catalog.own_tables import ConflictKind
from subscriber.postgres.protocol import messages as m
from tests.appliers import Attempt, ModelApplier, reading
from tests.failures import applied_before, conflict_of
from tests.frames import prepared, transaction

START, END = LSN(100), LSN(500)
FINISHES = (200, 300, 400)
READ = reading([message for finish in FINISHES for message in transaction(finish, xid=finish)])
INSERT_EXISTS = Conflict(ConflictKind.INSERT_EXISTS, "public.t", ChangePlace(731, LSN(292), 0))


def apply(applier: ModelApplier) -> ApplyResult:
    return apply_batch(applier, READ, START, END)


def failed(applier: ModelApplier) -> SubscriberError:
    with pytest.raises(SubscriberError) as caught:
        apply(applier)
    return caught.value


def test_a_batch_is_applied_at_once():
    applier = ModelApplier(FINISHES)
    assert apply(applier) == ApplyResult(END, transactions=3)
    assert applier.attempts == [Attempt(100, 500)]


def test_the_transactions_before_the_failing_one_are_committed_in_a_second_attempt():
    """C35"""
    error = TargetRelationError("no such table")
    applier = ModelApplier(FINISHES, failing={300: error})
    caught = failed(applier)
    assert (caught.message, applied_before(caught)) == ("no such table", 200)
    assert applier.attempts == [Attempt(100, 500), Attempt(100, 200, before=200)]
    assert applier.committed == [200]


def test_there_is_no_second_attempt_where_no_transaction_comes_before():
    applier = ModelApplier(FINISHES, failing={200: TargetRelationError("no such table")})
    assert applied_before(failed(applier)) == 100
    assert applier.attempts == [Attempt(100, 500)]


@pytest.mark.parametrize(
    "error", [TargetUnavailable("away"), Stopped("the work was stopped")], ids=["transient", "stopped"]
)
def test_an_error_that_may_pass_is_not_handled(error):
    applier = ModelApplier(FINISHES, failing={300: error})
    assert failed(applier) is error
    assert (applier.attempts, applier.committed) == ([Attempt(100, 500)], [])


def violating(examined: Conflict | None) -> ModelApplier:
    error = with_failure(ConflictError("duplicate key", detail="Key (a) already exists."), conflict=INSERT_EXISTS)
    return ModelApplier(FINISHES, failing={300: error}, examined=examined)


def test_a_conflict_is_reported_with_every_violated_key():
    """C22: it is examined when the transactions before it are committed."""
    keys = (ViolatedKey("t_pkey", ("a",)), ViolatedKey("t_c_key", ("c",)))
    examined = Conflict(ConflictKind.MULTIPLE_UNIQUE_CONFLICTS, "public.t", INSERT_EXISTS.place, keys)
    applier = violating(examined)
    error = failed(applier)
    assert error.message == 'conflict detected on relation "public.t": conflict=multiple_unique_conflicts'
    assert (conflict_of(error), applied_before(error)) == (examined, 200)
    assert applier.committed == [200]


def test_a_conflict_that_no_longer_exists_is_reported_as_the_target_did():
    error = failed(violating(examined=None))
    assert (error.message, conflict_of(error)) == ("duplicate key", INSERT_EXISTS)


def test_an_error_at_commit_is_placed_at_its_transaction():
    """C35"""
    applier = ModelApplier(FINISHES, refused={300})
    error = failed(applier)
    assert (error.lsn, applied_before(error)) == (292, 200)
    assert applier.committed == [200]


def test_a_prefix_that_the_target_refuses_at_commit_is_divided_too():
    applier = ModelApplier(FINISHES, failing={400: TargetRelationError("no such table")}, refused={300})
    error = failed(applier)
    assert (error.message, error.lsn) == ("refused at commit", 292)
    assert applier.committed == [200]


# Columns to be added ------------------------------------------------------------------------------


def test_the_publisher_is_asked_before_anything_is_committed():
    needed = ColumnsToAdd("columns are missing")
    applier = ModelApplier(FINISHES, failing={300: needed})
    error = failed(applier)
    assert isinstance(error, ColumnsToAdd)
    assert (applier.attempts, applier.committed, applier.added) == ([Attempt(100, 500)], [], 0)


@pytest.mark.parametrize(
    ("finish", "attempts"),
    [
        (200, [Attempt(100, 500), Attempt(100, 500)]),
        (300, [Attempt(100, 500), Attempt(100, 200, before=200), Attempt(200, 500), Attempt(200, 500)]),
    ],
    ids=["the first transaction brings the column", "a later transaction brings it"],
)
def test_columns_are_added_when_only_their_transaction_is_left(finish, attempts):
    applier = ModelApplier(FINISHES, failing={finish: ColumnsToAdd("columns are missing")})
    result = retry_with_column_defaults(applier, lambda: apply(applier))
    assert result.progress == END
    assert (applier.asked, applier.added) == (1, 1)
    assert applier.committed == [200, 300, 400]
    assert applier.attempts == [Attempt(100, 500), *attempts]


def test_an_attempt_that_does_not_ask_is_made_once():
    applier = ModelApplier(FINISHES, failing={300: TargetRelationError("no such table")})
    with pytest.raises(TargetRelationError):
        retry_with_column_defaults(applier, lambda: apply(applier))
    assert applier.asked == 0


def test_a_publisher_that_cannot_be_asked_ends_the_attempts():
    class Unanswered(ModelApplier):
        def ask_publisher(self, needed: ColumnsToAdd) -> None:
            raise PublisherUnavailable("away")

    applier = Unanswered(FINISHES, failing={300: ColumnsToAdd("columns are missing")})
    with pytest.raises(PublisherUnavailable):
        retry_with_column_defaults(applier, lambda: apply(applier))
    assert applier.attempts == [Attempt(100, 500)]


# Errors at COMMIT: the transactions before the one that the target refuses are committed.


DEFERRED_END = LSN(1000)
DEFERRED_FINISHES = tuple(range(200, 1000, 100))
"""Eight transactions. The final LSN of each is 8 less than its finish LSN, its number 700 more."""
ERROR = ConflictError("insert or update violates a foreign key constraint", sqlstate="23503")


def messages(*finishes: int) -> list[m.Message]:
    return [message for finish in finishes for message in transaction(finish, xid=700 + finish)]


READ_DEFERRED = reading(messages(*DEFERRED_FINISHES))


def committable(
    applier: ModelApplier, read=READ_DEFERRED, start: int = START, end: int = DEFERRED_END
) -> SubscriberError:
    return apply_committable(applier, read, LSN(start), LSN(end), ERROR)


@pytest.mark.parametrize("refused", DEFERRED_FINISHES)
def test_everything_before_the_refused_transaction_is_committed(refused):
    """C35"""
    applier = ModelApplier(DEFERRED_FINISHES, refused={refused})
    error = committable(applier)
    assert applier.committed == list(range(200, refused, 100))
    assert (error.lsn, applied_before(error)) == (refused - 8, refused - 100)
    assert error.context == (
        'processing remote data for replication origin "pg_1" during message type "COMMIT"'
        f" in transaction {700 + refused}, finished at {format_lsn(LSN(refused - 8))}"
    )
    assert (error.message, error.sqlstate) == (ERROR.message, "23503")


@pytest.mark.parametrize("refused", DEFERRED_FINISHES)
def test_each_attempt_halves_what_is_left(refused):
    applier = ModelApplier(DEFERRED_FINISHES, refused={refused})
    committable(applier)
    assert len(applier.attempts) == 3, "the logarithm of eight transactions"


def test_of_several_refused_transactions_the_first_one_is_named():
    applier = ModelApplier(DEFERRED_FINISHES, refused={400, 800, 900})
    assert committable(applier).lsn == 392
    assert applier.committed == [200, 300]


def test_a_single_transaction_is_named_without_another_attempt():
    applier = ModelApplier([200], refused={200})
    error = committable(applier, reading(messages(200)))
    assert (error.lsn, applied_before(error), applier.attempts) == (192, 100, [])


def test_only_the_transactions_of_the_batch_are_divided():
    applier = ModelApplier(DEFERRED_FINISHES, progress=300, refused={500})
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
    applier = ModelApplier(DEFERRED_FINISHES, failing={300: TargetUnavailable("away")}, refused={900})
    with pytest.raises(TargetUnavailable):
        committable(applier)
    assert applier.committed == []


# Transactions before a change that cannot be applied ----------------------------------------------


def test_transactions_are_committed_up_to_an_lsn():
    applier = ModelApplier(DEFERRED_FINISHES)
    apply_before(applier, READ_DEFERRED, START, LSN(400))
    assert applier.attempts == [Attempt(100, 400, before=400)]
    assert applier.committed == [200, 300, 400]


def test_a_refused_transaction_among_them_is_named():
    applier = ModelApplier(DEFERRED_FINISHES, refused={300})
    with pytest.raises(ConflictError, match="refused at commit") as caught:
        apply_before(applier, READ_DEFERRED, START, LSN(400))
    assert caught.value.lsn == 292
    assert applier.committed == [200]


def test_another_error_among_them_is_raised_unchanged():
    error = TargetUnavailable("away")
    applier = ModelApplier(DEFERRED_FINISHES, failing={300: error})
    with pytest.raises(TargetUnavailable) as caught:
        apply_before(applier, READ_DEFERRED, START, LSN(400))
    assert caught.value is error
    assert applier.attempts == [Attempt(100, 400, before=400)]
