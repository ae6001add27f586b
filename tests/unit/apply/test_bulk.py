"""Invariant fast_equals_exact: the bulk path falls back to the exact path, and comes back."""

from __future__ import annotations

import pytest

from subscriber.apply import reorder
from subscriber.apply.apply_batch import apply_batch
from subscriber.apply.exact import BulkApplier
from subscriber.apply.reorder import OrderMatters
from subscriber.base.errors import ConflictError
from subscriber.base.lsn import LSN
from subscriber.postgres.protocol import messages as m
from subscriber.targets import Target
from tests.changes import T, delete, insert, update
from tests.frames import frame, transaction

END = LSN(10_000)


@pytest.fixture
def applier(target: Target, execute, monkeypatch) -> BulkApplier:
    """An applier that knows the shape of T: the first batch of a relation records it, in order."""
    monkeypatch.setattr(reorder, "_LEAST_RUNS", 0)
    execute("CREATE TABLE t (a INTEGER PRIMARY KEY, c TEXT, b TEXT)")
    found = BulkApplier(target, subscription="s", subid=1)
    first = transaction(200, *(insert(str(key), "x", "x") for key in range(8)))
    found.apply([frame([T], first)], start=LSN(100), end=LSN(200))
    return found


def small(first: int, count: int = 8) -> list[m.Message]:
    """Transactions that update and insert a row each."""
    return [
        message
        for number in range(first, first + count)
        for message in transaction(
            1000 + 10 * number,
            update((str(number % 8), str(number), "y")),
            insert(str(100 + number), "x", "x"),
            xid=number,
        )
    ]


def test_reordered_changes_leave_what_the_publisher_has(applier, rows):
    messages = small(0)
    result = applier.apply([frame([T], messages)], start=LSN(200), end=END)
    assert (result.transactions, result.changes, result.conflicts) == (8, 16, {})
    assert [(row["a"], row["b"], row["c"]) for row in rows("t")] == [
        *((key, str(key), "y") for key in range(8)),
        *((key, "x", "x") for key in range(100, 108)),
    ]


def test_a_missing_row_is_left_to_the_exact_path(applier, rows):
    messages = [*small(0), *transaction(5000, delete("77"), delete("78"))]
    made = [frame([T], messages)]
    with pytest.raises(OrderMatters):
        applier.apply(made, start=LSN(200), end=END)
    assert len(rows("t")) == 8
    result = applier.apply(made, start=LSN(200), end=END)
    assert result.conflicts == {"delete_missing": 2}
    assert len(rows("t")) == 16


def test_a_conflict_stops_at_its_transaction_and_keeps_those_before(applier, rows):
    """C22, C35"""
    messages = [*small(0), *transaction(5000, insert("100", "x", "x"), xid=77), *small(500, 1)]
    made = [frame([T], messages)]
    with pytest.raises(ConflictError) as raised:
        apply_batch(applier, lambda: iter(made), LSN(200), END)
    assert raised.value.context is not None
    assert "transaction 77" in raised.value.context
    assert [row["a"] for row in rows("t")] == [*range(8), *range(100, 108)]
    assert applier.read_progress() == 1070


def test_after_a_failure_more_and_more_batches_are_applied_in_order(applier):
    """Until a reordered batch succeeds."""
    reordered = []
    end = 200
    for number in range(8):
        begin, end = end, 10_000 * (number + 1)
        missing = transaction(end, delete("77"), delete("78"), delete("79"), xid=number)
        changes = [
            message
            for place in range(4)
            for message in transaction(
                end - 1000 + 10 * place,
                update((str(place), "x", "y")),
                insert(str(100 * number + 300 + place), "x", "x"),
            )
        ]
        made = [frame([T], [*changes, *missing])]
        try:
            applier.apply(made, start=LSN(begin), end=LSN(end))
            reordered.append(False)
        except OrderMatters:
            reordered.append(True)
            applier.apply(made, start=LSN(begin), end=LSN(end))
    assert reordered == [True, True, False, True, False, False, False, True]


def test_a_second_pass_is_applied_in_order(applier, rows):
    """It must stop after one transaction of the publisher."""
    result = applier.apply([frame([T], small(0))], start=LSN(200), end=LSN(1030), before=LSN(1030))
    assert (result.transactions, result.progress) == (4, 1030)
    assert len(rows("t")) == 12


def test_a_table_with_columns_of_the_target_alone_keeps_the_order(applier, rows, execute):
    """A default may count: each row gets the next number in the order of the commits."""
    execute("ALTER TABLE t ADD COLUMN own TEXT DEFAULT 'mine'")
    messages = [*small(0), *transaction(5000, delete("77"), delete("78"))]
    result = applier.apply([frame([T], messages)], start=LSN(200), end=END)
    assert result.conflicts == {"delete_missing": 2}
    assert len(rows("t")) == 16
