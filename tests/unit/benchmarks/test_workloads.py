"""The workloads as data, and their statements on a real publisher."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from benchmarks.workloads import BY_NAME, FEWEST_ROWS, MARKER, WORKLOADS
from tests.waits import wait_until


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda one: one.name)
def test_a_phrase_has_the_numbers_of_its_size(workload):
    for size in (1, 0.1):
        assert "{" not in workload.scaled(size).what


def test_a_smaller_workload_has_fewer_transactions_of_the_same_size():
    small = BY_NAME["W2"].scaled(0.1)
    assert (small.transactions, small.changes, small.rows) == (10_000, 4, 100_000)
    assert small.amount == 40_000
    assert small.what == "10,000 transactions of 2 updates, 1 insert, 1 delete, on 100,000 rows"


def test_the_only_transaction_of_a_workload_becomes_smaller():
    assert BY_NAME["W1"].scaled(0.1).amount == 100_000


def test_hot_rows_stay_as_hot():
    assert BY_NAME["W4"].scaled(0.01).rows == FEWEST_ROWS


def test_the_amount_of_a_copy_is_its_rows():
    assert BY_NAME["W5"].scaled(0.1).amount == 300_000


def changes(database: Any) -> int:
    """The number of rows of t that were inserted, updated and deleted."""
    counted = "SELECT n_tup_ins + n_tup_upd + n_tup_del FROM pg_stat_user_tables WHERE relname = 't'"
    number: int = database.execute(counted)[0][0]
    return number


def _has_counted(database: Any, promised: int) -> bool:
    return changes(database) >= promised


@pytest.mark.server
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda one: one.name)
def test_two_runs_commit_the_changes_that_a_workload_promises(workload, publisher_database):
    small = workload.scaled(0.002)
    for statement in [*small.preparation(), *small.filling()]:
        publisher_database.execute(statement)
    assert publisher_database.execute("SELECT count(*) FROM t")[0][0] == small.rows
    assert publisher_database.execute(MARKER)[0][0] == 0
    for run in (1, 2):
        publisher_database.execute(small.backlog(run))
        promised = small.rows + (run * small.amount if small.kind == "stream" else 0)
        # A session that has ended reports its statistics a little later.
        wait_until(partial(_has_counted, publisher_database, promised))
        assert changes(publisher_database) == promised
    assert publisher_database.execute(small.check)[0][0] == publisher_database.execute("SELECT count(*) FROM t")[0][0]
