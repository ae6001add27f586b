"""Prepared transactions in a target that can prepare them."""

from __future__ import annotations

import pytest

from subscriber.apply.applier import ApplyResult, Rules
from subscriber.apply.exact import ExactApplier
from subscriber.base.errors import ApplyError, ConflictError
from subscriber.base.lsn import LSN
from subscriber.catalog.prepared_transactions import list_prepared
from subscriber.postgres.protocol import messages as m
from subscriber.targets import Target
from tests.changes import T, U, insert
from tests.failures import applied_before
from tests.frames import finishes_of, frame, prepared, transaction
from tests.prepared_transactions import with_prepared_transactions

START, END = LSN(100), LSN(1000)
pytestmark = pytest.mark.usefixtures("tables")


class Preparing:
    """Applies batches to a target that prepares transactions."""

    def __init__(self, target: Target) -> None:
        self.target, self.role = with_prepared_transactions(target)
        self.applier = ExactApplier(self.target, subscription="sub", subid=1)

    def apply(self, *messages: m.Message, end: int = 1000) -> ApplyResult:
        finishes = finishes_of(messages, two_phase=True)
        frames = [frame([T, U], messages, finishes=finishes)]
        return self.applier.apply(frames, start=START, end=LSN(end))

    def rows(self) -> list[int]:
        """The numbers of the transactions that have a row in the catalog."""
        with self.target.begin() as connection:
            return [row.xid for row in list_prepared(connection, 1)]


@pytest.fixture
def preparing(target) -> Preparing:
    return Preparing(target)


def rollback(messages: list[m.Message]) -> m.RollbackPrepared:
    """The ROLLBACK PREPARED of a transaction, 200 bytes after its PREPARE."""
    prepare = messages[-2]
    assert isinstance(prepare, m.Prepare)
    end = LSN(prepare.end_lsn + 200)
    return m.RollbackPrepared(LSN(prepare.end_lsn), end, prepare.prepare_timestamp, 9, prepare.xid, "g")


STEPS = ["PREPARE TRANSACTION pg_gid_1_9", "COMMIT PREPARED pg_gid_1_9 of pg_1"]


def test_a_transaction_is_prepared_and_committed_by_its_two_messages(preparing, rows, stored):
    """C49-C51"""
    messages = prepared(500, insert("1", "x", None), xid=9)
    result = preparing.apply(*messages[:-1], end=410)
    assert (preparing.role.steps, preparing.rows(), stored()) == (STEPS[:1], [9], 410)
    assert (result.transactions, result.changes) == (0, 1)
    result = preparing.apply(messages[-1])
    assert (preparing.role.steps, preparing.rows(), stored()) == (STEPS, [], 1000)
    assert (result.transactions, result.commit_timestamp) == (1, 2)
    assert [row["a"] for row in rows()] == [1]


def test_prepared_and_plain_transactions_keep_their_order(preparing, rows):
    """commit_order"""
    messages = prepared(500, insert("2", None, None), xid=9)
    between = transaction(450, insert("3", None, None))
    preparing.apply(*transaction(200, insert("1", None, None)), *messages[:-1], *between, messages[-1])
    assert preparing.role.steps == STEPS
    assert [row["a"] for row in rows()] == [1, 2, 3]


def test_a_replay_after_a_crash_prepares_and_commits_nothing_again(preparing, stored, execute):
    """C50a: the progress was restored to the one before the batch."""
    messages = prepared(500, insert("1", "x", None), xid=9)
    preparing.apply(*messages[:-1], end=410)
    execute("UPDATE subscriber_replication_origin_status SET remote_lsn = '0/64'")
    result = preparing.apply(*messages)
    assert (preparing.role.steps, preparing.rows(), stored()) == (STEPS, [], 1000)
    assert (result.transactions, result.changes) == (1, 0)


def test_a_rolled_back_transaction_is_rolled_back_in_the_target(preparing, stored):
    messages = prepared(500, insert("1", "x", None), xid=9)
    result = preparing.apply(*messages[:-1], rollback(messages))
    assert preparing.role.steps == [STEPS[0], "ROLLBACK PREPARED pg_gid_1_9 of pg_1"]
    assert (preparing.rows(), result.transactions, stored()) == ([], 0, 1000)


def test_the_rollback_of_a_transaction_that_was_never_prepared_here_is_ignored(preparing, stored):
    """C50"""
    preparing.apply(rollback(prepared(500, xid=9)))
    assert (preparing.role.steps, stored()) == ([], 1000)


def test_an_empty_transaction_is_prepared_too(preparing):
    """C50"""
    preparing.apply(*prepared(500, xid=9))
    assert preparing.role.steps == STEPS


def test_a_skipped_transaction_is_prepared_without_its_changes(preparing, rows):
    """C40: SKIP takes the LSN of its PREPARE."""
    preparing.applier = ExactApplier(
        preparing.target, subscription="sub", subid=1, read_rules=lambda _: Rules(skip_lsn=LSN(400))
    )
    preparing.apply(*prepared(500, insert("1", "x", None), xid=9))
    assert (preparing.role.steps, rows()) == (STEPS, [])


def test_a_commit_of_a_transaction_that_is_not_prepared_says_where_it_failed(preparing):
    """C37"""
    with pytest.raises(ApplyError, match='"pg_gid_1_9" does not exist') as caught:
        preparing.apply(prepared(500, xid=9)[-1])
    assert caught.value.lsn == 492
    assert caught.value.context == (
        'processing remote data for replication origin "pg_1" during message type "COMMIT PREPARED"'
        " in transaction 9, finished at 0/1EC"
    )


def test_a_gid_that_is_in_use_says_where_it_failed(preparing):
    preparing.role.gids.add("pg_gid_1_9")
    with pytest.raises(ApplyError, match='"pg_gid_1_9" is already in use') as caught:
        preparing.apply(*prepared(500, insert("1", "x", None), xid=9))
    assert 'during message type "BEGIN PREPARE" in transaction 9' in str(caught.value.context)


def test_a_prepared_transaction_that_fails_is_not_prepared(preparing, rows, stored):
    """C35: what was committed before it stays."""
    good = transaction(200, insert("1", None, None))
    with pytest.raises(ConflictError) as caught:
        preparing.apply(*good, *prepared(500, insert("1", None, None), xid=9))
    assert applied_before(caught.value) == 200
    assert (preparing.role.steps, len(rows()), stored()) == ([], 1, 200)
