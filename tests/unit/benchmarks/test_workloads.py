"""The workloads as data, and their statements on a real publisher."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from benchmarks.workloads import BY_NAME, FEWEST_ROWS, WORKLOADS, Workload
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


def test_fewer_tables_keep_their_rows_and_each_subscription_keeps_one():
    assert (BY_NAME["W10"].scaled(0.1).tables, BY_NAME["W10"].scaled(0.1).rows) == (1_000, 10)
    assert BY_NAME["W10"].scaled(0.1).amount == 10_000
    assert BY_NAME["W11"].scaled(0.001).tables == BY_NAME["W11"].subscriptions


def test_a_query_of_a_check_has_fewer_tables_than_sqlite_reads_at_most():
    queries = list(BY_NAME["W10"].checks())
    assert sum(query.count(" FROM ") for query in queries) == BY_NAME["W10"].tables
    assert max(query.count(" FROM ") for query in queries) <= 500


def test_a_tenth_of_the_tables_is_filtered_in_the_publication_and_in_the_publishers_check():
    workload = BY_NAME["W9"]
    (published,) = workload.emulated_publications()
    (check,) = workload.checks(published=True)
    assert published.count(workload.filter) == check.count(workload.filter) == workload.tables / 10
    assert published in workload.preparation()


def changes(database: Any) -> int:
    """The number of rows that were inserted, updated and deleted, without the markers."""
    counted = "SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables WHERE relname LIKE 't%'"
    number: int = database.execute(counted)[0][0]
    return number


def _has_counted(database: Any, promised: int) -> bool:
    return changes(database) >= promised


def _rows(database: Any, small: Workload) -> int:
    return sum(database.execute(f"SELECT count(*) FROM {name}")[0][0] for name in small.table_names)


@pytest.mark.server
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda one: one.name)
def test_two_runs_commit_the_changes_that_a_workload_promises(workload, publisher_database):
    small = workload.scaled(0.002)
    for statement in [*small.preparation(), *small.filling()]:
        publisher_database.execute(statement)
    rows = small.rows * small.tables
    assert _rows(publisher_database, small) == rows
    assert publisher_database.execute(small.marker)[0][0] == 0
    for run in (1, 2):
        publisher_database.execute(small.backlog(run))
        promised = rows + (run * small.amount if small.kind == "stream" else 0)
        # A session that has ended reports its statistics a little later.
        wait_until(partial(_has_counted, publisher_database, promised))
        assert changes(publisher_database) == promised
        publisher_database.execute(small.marks(run))
        assert publisher_database.execute(small.marker)[0][0] == run
        assert publisher_database.execute(small.marked(run))[0][0] == small.subscriptions
    checked = [row for query in small.checks() for row in publisher_database.execute(query)]
    assert [row[0] for row in checked] == [*range(1, small.tables + 1)]
    assert sum(row[1] for row in checked) == _rows(publisher_database, small)
    published = publisher_database.execute("SELECT count(*) FROM pg_publication_tables WHERE pubname LIKE 'p%'")
    assert published[0][0] == small.tables + small.subscriptions
