"""The applier: a batch and its progress are one transaction of the target."""

from __future__ import annotations

import sqlite3
import traceback
from collections.abc import Iterator

import pytest

from subscriber.apply.applier import ApplyResult, Rules
from subscriber.apply.exact import ExactApplier
from subscriber.base.errors import ApplyError, ConflictError, JournalGap, ProgressConflict, TargetUnavailable
from subscriber.base.lsn import LSN
from subscriber.catalog.progress import OriginProgress
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.changes import Frame
from tests.changes import T, insert
from tests.failures import applied_before, conflict_kind
from tests.frames import frame, transaction

START, END = LSN(100), LSN(1000)
pytestmark = pytest.mark.usefixtures("tables")


def test_replaying_a_batch_changes_nothing(run, rows, stored):
    """progress_with_data, C34"""
    batch = [*transaction(200, insert("1", "x", None)), *transaction(300, insert("2", "y", None))]
    run(*batch, end=300)
    assert run(*batch, end=300) == ApplyResult(LSN(300))
    assert stored() == 300
    assert len(rows()) == 2


def test_a_batch_that_begins_below_the_progress_applies_only_what_is_new(run, rows, stored):
    """progress_with_data"""
    first = transaction(200, insert("1", "x", None))
    run(*first, end=200)
    result = run(*first, *transaction(300, insert("2", "y", None)), end=300)
    assert (result.transactions, result.changes) == (1, 1)
    assert stored() == 300
    assert len(rows()) == 2


def test_a_batch_that_begins_above_the_progress_is_a_gap(run, stored):
    """progress_with_data: the changes between are not skipped."""
    with pytest.raises(JournalGap, match="applied up to 0/64, but the batch begins at 0/65") as raised:
        run(*transaction(200), start=101)
    assert applied_before(raised.value) is None
    assert stored() == 100


def test_a_batch_without_transactions_moves_the_progress(run, stored):
    run(end=500)
    assert stored() == 500


def test_an_unknown_origin_is_refused(target):
    applier = ExactApplier(target, subscription="other", subid=2)
    with pytest.raises(ProgressConflict, match='"pg_2" does not exist'):
        applier.apply([], start=START, end=END)


def test_frames_are_taken_one_at_a_time(target):
    """bounded_memory"""
    events = []

    def frames() -> Iterator[Frame]:
        for number in range(3):
            events.append("frame")
            yield frame([T], transaction(200 + 100 * number, insert(str(number), None, None)))

    def noting(_relation, _lsn):
        events.append("change")
        return True

    applier = ExactApplier(target, subscription="sub", subid=1, read_rules=lambda _: Rules(noting))
    applier.apply(frames(), start=START, end=END)
    assert events == ["frame", "change"] * 3


def test_two_runners_cannot_both_apply(target, applier, rows):
    """progress_with_data: compare-and-set stops a second runner that has read the same progress."""

    def frames() -> Iterator[Frame]:
        with target.engine.connect() as elsewhere:
            assert OriginProgress(1).read(elsewhere) == 100
        yield frame([T], transaction(200, insert("1", None, None)))

    applier.apply(frames(), start=START, end=LSN(200))
    with target.begin() as connection, pytest.raises(ProgressConflict):
        OriginProgress(1).lock(connection, START)
    assert len(rows()) == 1


def failing() -> list[m.Message]:
    good = transaction(200, insert("1", "x", None), xid=700) + transaction(300, insert("2", "x", None), xid=701)
    return good + transaction(400, insert("3", "y", None), insert("1", "secret", None), xid=702)


def test_a_failing_transaction_rolls_the_whole_batch_back(run, rows, stored):
    """C35, commit_order"""
    with pytest.raises(ApplyError):
        run(*failing())
    assert rows() == []
    assert stored() == 100


def test_a_unique_violation_has_postgresqls_message(run):
    """C19, C22, C37, names_are_data"""
    with pytest.raises(ConflictError) as raised:
        run(*failing())
    error = raised.value
    assert error.message == 'conflict detected on relation "public.t": conflict=insert_exists'
    assert (error.sqlstate, error.relation, error.lsn, conflict_kind(error)) == (
        "23505",
        "public.t",
        392,
        "insert_exists",
    )
    assert error.detail == "Key (a) already exists."
    assert error.context == (
        'processing remote data for replication origin "pg_1" during message type "INSERT" for replication target'
        ' relation "public.t" in transaction 702, finished at 0/188'
    )
    assert "secret" not in error.report()
    assert "secret" not in "".join(traceback.format_exception(error))


def test_the_transactions_before_the_failing_one_can_be_committed_in_a_second_pass(run, rows, stored):
    """C35"""
    with pytest.raises(ApplyError) as raised:
        run(*failing())
    before = applied_before(raised.value)
    assert before == 300
    result = run(*failing(), end=before, before=before)
    assert (result.transactions, stored()) == (2, 300)
    assert [row["a"] for row in rows()] == [1, 2]


def test_a_change_of_the_targets_table_is_seen_by_the_next_batch(run, execute, rows):
    """C1: each batch looks its tables up again."""
    run(*transaction(200, insert("1", "x", None)), end=200)
    execute("ALTER TABLE t RENAME TO old")
    execute("CREATE TABLE t (c TEXT, b TEXT, a INTEGER PRIMARY KEY)")
    run(*transaction(300, insert("1", "x", None)), end=300, start=200)
    assert rows() == [{"c": None, "b": "x", "a": 1}]


def test_a_locked_database_is_a_transient_error(run, target, monkeypatch):
    with target.engine.connect() as connection:
        connection.connection.driver_connection.execute("PRAGMA busy_timeout = 0")
    other = sqlite3.connect(target.url.database, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(TargetUnavailable, match="SQLITE_BUSY") as raised:
            run(*transaction(200))
    finally:
        other.close()
    assert raised.value.transient
    assert applied_before(raised.value) is None


def test_a_batch_may_move_another_progress_than_the_subscriptions(target, rows):
    """progress_with_data: a table that catches up has its own progress."""

    class Kept:
        name = "other"
        of_subscription = False
        position = LSN(100)

        def read(self, connection):
            return self.position

        def lock(self, connection, expected):
            assert expected == self.position

        def begin(self, connection, from_lsn, to_lsn):
            assert connection.in_transaction()
            assert from_lsn == self.position
            self.position = to_lsn
            return True

        def advance(self, connection, from_lsn, to_lsn):
            assert self.begin(connection, from_lsn, to_lsn)

        restart = advance

    kept = Kept()
    applier = ExactApplier(target, subscription="sub", subid=1, kept=kept)
    applier.apply([frame([T], transaction(200, insert("1", None, None)))], start=START, end=LSN(200))
    assert kept.position == 200
    assert len(rows()) == 1
    with target.begin() as connection:
        assert OriginProgress(1).read(connection) == 100
