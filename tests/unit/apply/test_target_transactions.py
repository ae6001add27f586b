"""The transactions of the target in which a batch is applied."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from subscriber.apply.applier import Rules
from subscriber.apply.conflicts.conflict import ApplyFailure
from subscriber.apply.target_transactions import TargetTransactions
from subscriber.base import failpoints
from subscriber.base.errors import ConflictError, ProgressConflict
from subscriber.base.lsn import LSN
from subscriber.catalog.prepared_transactions import PreparedTransaction, read_prepared, write_prepared
from subscriber.catalog.progress import OriginProgress
from subscriber.catalog.schema_changes import Alteration
from subscriber.targets import Interruption, Target
from tests.failures import applied_before
from tests.prepared_transactions import with_prepared_transactions

PREPARED = PreparedTransaction(subid=1, xid=731, gid="g", prepare_end_lsn=LSN(160), prepare_timestamp=0)
ALTERATION = Alteration("public.t", ("public", "t"), "A column was added.")


@pytest.fixture(autouse=True)
def table(execute) -> None:
    execute("CREATE TABLE t (a INTEGER)")


class Recorder:
    """Makes writers that alter a table, and records the rules of each transaction."""

    def __init__(self) -> None:
        self.rules: list[str] = []
        self.writers: list[str] = []
        self.altered: list[Alteration] = []

    def read_rules(self, connection: sa.Connection) -> Rules:
        self.rules.append("rules")
        return Rules()

    def make_writer(self, connection: sa.Connection, rules: Rules, *, prepared: bool = False) -> Any:
        self.writers.append("prepared" if prepared else "plain")
        return SimpleNamespace(alterations=[ALTERATION])


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def transactions(target, recorder):
    """The transactions of a batch, by default in the target as it is."""

    def make(on: Target = target, progress: Any = None) -> TargetTransactions:
        return TargetTransactions(
            on,
            progress or OriginProgress(1),
            recorder.read_rules,
            recorder.make_writer,
            Interruption(on),
            recorder.altered.extend,
        )

    return make


def insert(local: TargetTransactions, number: int) -> None:
    local.connection.exec_driver_sql(f"INSERT INTO t VALUES ({number})")


def test_data_and_progress_are_committed_together(transactions, recorder, execute, stored):
    """progress_with_data"""
    with transactions() as local:
        assert local.start(LSN(100), LSN(200)) == 100
        local.take()
        insert(local, 1)
        local.commit(LSN(200))
        assert local.stored == 200
    assert (execute("SELECT a FROM t"), stored()) == ([(1,)], 200)
    assert (recorder.rules, recorder.writers, recorder.altered) == (["rules"], ["plain"], [ALTERATION])


def test_an_error_rolls_the_open_transaction_back(transactions, recorder, execute, stored):
    with pytest.raises(InterruptedError), transactions() as local:
        local.start(LSN(100), LSN(200))
        local.take()
        insert(local, 1)
        raise InterruptedError
    assert (execute("SELECT a FROM t"), stored(), recorder.altered) == ([], 100, [])


def test_the_next_transaction_reads_the_rules_again(transactions, recorder, execute, stored):
    """What was committed before it stays when it fails."""
    with pytest.raises(InterruptedError), transactions() as local:
        local.start(LSN(100), LSN(200))
        local.take()
        insert(local, 1)
        local.commit(LSN(200))
        local.begin()
        insert(local, 2)
        raise InterruptedError
    assert (execute("SELECT a FROM t"), stored()) == ([(1,)], 200)
    assert recorder.rules == ["rules", "rules"]


def test_progress_that_another_session_has_moved_is_noticed(transactions):
    """progress_with_data"""
    with transactions() as local:
        local.start(LSN(100), LSN(100))
        OriginProgress(1).advance(local.connection, LSN(100), LSN(150))
        with pytest.raises(ProgressConflict, match="no longer at 0/64"):
            local.take()


def test_a_batch_begins_where_the_target_is_also_if_that_is_further(transactions, stored):
    """progress_with_data"""
    with transactions() as local:
        assert local.start(LSN(50), LSN(200)) == 100
        local.take()
        local.commit(LSN(200))
    assert stored() == 200


@pytest.mark.parametrize("end", [100, 150, 300])
def test_the_progress_is_where_the_transaction_ends_and_not_where_its_batch_would(transactions, stored, end):
    """progress_with_data: a transaction that is to be prepared ends the one before it early."""
    with transactions() as local:
        local.start(LSN(100), LSN(300))
        local.take()
        local.commit(LSN(end))
        local.begin()
        with pytest.raises(ProgressConflict, match="cannot move back"):
            local.commit(LSN(end - 1))
    assert stored() == end


def test_an_unknown_progress_cannot_be_started(transactions):
    with transactions(progress=OriginProgress(2)) as local, pytest.raises(ProgressConflict, match='"pg_2"'):
        local.start(LSN(100), LSN(200))


def test_the_failpoints_are_on_both_sides_of_the_commit(transactions, target, monkeypatch):
    """any_crash, progress_with_data"""
    other = sqlite3.connect(target.url.database)
    seen = []

    def look(name):
        rows = other.execute("SELECT count(*) FROM t").fetchone()
        lsn = other.execute("SELECT remote_lsn FROM subscriber_replication_origin_status").fetchone()
        seen.append((name, *rows, *lsn))

    monkeypatch.setattr(failpoints, "hit", look)
    with transactions() as local:
        local.start(LSN(100), LSN(200))
        local.take()
        insert(local, 1)
        local.commit(LSN(200))
    other.close()
    assert seen == [("target.commit.before", 0, "0/64"), ("target.commit.after", 1, "0/C8")]


class RefusedAtCommit:
    """Transactions whose deferred constraint is violated."""

    def __init__(self, target: Target) -> None:
        self._target = target

    @contextmanager
    def begin(self) -> Iterator[sa.Connection]:
        with self._target.begin() as connection:
            yield connection
            raise ConflictError("violates foreign key constraint", sqlstate="23503")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target.transactions, name)


def test_an_error_at_commit_says_so(transactions, target, execute, stored):
    """C35"""
    refusing = replace(target, transactions=RefusedAtCommit(target))
    with pytest.raises(ConflictError) as caught, transactions(refusing) as local:
        local.start(LSN(100), LSN(200))
        local.take()
        insert(local, 1)
        local.commit(LSN(200))
    assert ApplyFailure.of(caught.value).at_commit
    assert applied_before(caught.value) is None
    assert (execute("SELECT a FROM t"), stored()) == ([], 100)


# Replication origins ------------------------------------------------------------------------------


class RecordedOrigins:
    """The role :class:`~subscriber.targets.base.transactions.Origins`, which records its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def set(self, connection: sa.Connection, name: str) -> None:
        self.calls.append(("set", name))

    def set_position(self, connection: sa.Connection, lsn: int, timestamp: int | None) -> None:
        self.calls.append(("position", lsn, timestamp))

    def others(self, connection: sa.Connection) -> None:
        return None

    def drop(self, connection: sa.Connection, name: str) -> None:
        raise AssertionError


def test_each_transaction_is_marked_with_the_origin_and_its_position(transactions, target):
    """C32"""
    origins = RecordedOrigins()
    with transactions(replace(target, origins=origins)) as local:
        local.start(LSN(100), LSN(200))
        local.take()
        local.commit(LSN(200), 1_000_000)
        local.begin()
        local.commit(LSN(300))
    assert origins.calls == [("set", "pg_1"), ("position", 200, 1_000_000), ("set", "pg_1"), ("position", 300, None)]


# Prepared transactions ----------------------------------------------------------------------------


def test_a_transaction_is_prepared_between_two_others(transactions, target, recorder, execute, stored):
    """C50: it does not move the progress, and does not read the catalog."""
    able, prepared = with_prepared_transactions(target)
    with transactions(able) as local:
        local.start(LSN(100), LSN(200))
        local.take()
        write_prepared(local.connection, PREPARED)
        insert(local, 1)
        local.commit(LSN(200))
        local.begin_prepared(PREPARED)
        insert(local, 2)
        local.prepare()
        assert prepared.steps == ["PREPARE TRANSACTION g"]
        assert read_prepared(local.connection, 1, 731) == PREPARED
        local.finish_prepared("g", LSN(300), commit=True)
        assert read_prepared(local.connection, 1, 731) == replace(PREPARED, committed=True)
    assert prepared.steps == ["PREPARE TRANSACTION g", "COMMIT PREPARED g of pg_1"]
    assert (execute("SELECT a FROM t"), stored()) == ([(1,), (2,)], 300)
    assert recorder.writers == ["plain", "prepared", "plain", "plain"]
    assert len(recorder.rules) == 3


def test_a_transaction_that_fails_before_its_prepare_is_not_prepared(transactions, target, execute, stored):
    able, prepared = with_prepared_transactions(target)
    with pytest.raises(InterruptedError), transactions(able) as local:
        local.start(LSN(100), LSN(200))
        local.take()
        local.commit(LSN(200))
        local.begin_prepared(PREPARED)
        insert(local, 2)
        raise InterruptedError
    assert (prepared.steps, execute("SELECT a FROM t"), stored()) == ([], [], 200)


def test_the_progress_is_committed_before_rollback_prepared(transactions, target, stored):
    able, prepared = with_prepared_transactions(target)
    prepared.gids.add("g")
    with transactions(able) as local:
        local.start(LSN(100), LSN(200))
        local.take()
        local.finish_prepared("g", LSN(300), commit=False)
    assert (prepared.steps, stored()) == (["ROLLBACK PREPARED g of pg_1"], 300)
