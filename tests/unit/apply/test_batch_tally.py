"""What a batch counts: each transaction once, and in one transaction of the target."""

from __future__ import annotations

import pytest

from subscriber.apply.batch_tally import BatchTally
from subscriber.apply.conflicts.conflict import ChangePlace, Conflict
from subscriber.catalog.conflict_kinds import ConflictKind
from subscriber.lsn import LSN

MISSING = Conflict(ConflictKind.DELETE_MISSING, "public.t", ChangePlace(731, LSN(192), 0))
COUNTED = "SELECT confl_delete_missing FROM subscriber_stat_subscription_stats"
RECORDED = "SELECT count(*) FROM subscriber_conflict"


@pytest.fixture
def tally() -> BatchTally:
    return BatchTally(1, "sub", show_values=False)


def write(target, tally: BatchTally) -> None:
    with target.begin() as connection:
        tally.write(connection, show_values=False)


def test_the_conflicts_of_a_transaction_count_when_it_is_applied(tally):
    tally.add(MISSING, 2)
    assert tally.conflicts.by_kind() == {}
    tally.finish(applied=True)
    tally.finish(applied=True)
    assert tally.conflicts.by_kind() == {ConflictKind.DELETE_MISSING: 2}


def test_the_conflicts_of_a_transaction_that_is_not_applied_do_not_count(target, execute, tally):
    tally.add(MISSING, 2)
    tally.finish(applied=False)
    tally.finish(applied=True)
    write(target, tally)
    assert tally.conflicts.by_kind() == {}
    assert execute(RECORDED) == [(0,)]


def test_what_was_written_is_not_written_again(target, execute, tally):
    """A batch may have several transactions of the target."""
    for _ in range(2):
        tally.add(MISSING, 1)
        tally.finish(applied=True)
        write(target, tally)
        write(target, tally)
    assert execute(COUNTED) == [(2,)]
    assert execute(RECORDED) == [(2,)]
    assert tally.conflicts.by_kind() == {ConflictKind.DELETE_MISSING: 2}
