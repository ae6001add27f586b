"""Rows are written in bulk where the target can and it is quicker, and one by one otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
import sqlalchemy as sa

from subscriber.apply.reorder import OrderMatters
from subscriber.apply.writing import bulk_writer
from subscriber.apply.writing.change_writer import ChangeWriter
from subscriber.base.errors import ConflictError, Stopped, SubscriberError, TargetUnavailable
from subscriber.postgres.protocol import messages as m
from subscriber.targets import Target, TargetTable
from subscriber.targets.base.loading import Bulk, BulkColumn, LoadColumn
from tests.changes import T, delete, insert, update
from tests.frames import frame, relation
from tests.runs import runs

pytestmark = pytest.mark.usefixtures("tables")


class RecordedBulk(Bulk):
    """A bulk writer that only records what it is asked to write."""

    def __init__(self, least: int | None) -> None:
        self.least = least
        self.written: list[tuple[object, ...]] = []

    def least_rows(self, connection: sa.Connection, table: TargetTable, key: Sequence[LoadColumn]) -> int | None:
        return self.least

    def insert(self, connection: sa.Connection, table: TargetTable, written: Sequence[BulkColumn]) -> int:
        self.written.append(("insert", as_lists(written)))
        return len(written[0].values)

    def update(
        self, connection: sa.Connection, table: TargetTable, key: Sequence[BulkColumn], written: Sequence[BulkColumn]
    ) -> int:
        self.written.append(("update", as_lists(key), as_lists(written)))
        return len(key[0].values)

    def delete(self, connection: sa.Connection, table: TargetTable, key: Sequence[BulkColumn]) -> int:
        self.written.append(("delete", as_lists(key)))
        return len(key[0].values) - 1


def as_lists(columns: Sequence[BulkColumn]) -> dict[str, list[Any]]:
    return {one.column.name: one.values.to_pylist() for one in columns}


def written_together(target: Target, bulk: RecordedBulk, *changes: m.Message, check: Any) -> bool:
    target.bulk = bulk
    with target.begin() as connection:
        using = ChangeWriter(target, connection, {}, check=check)
        made = frame([T], changes)
        using.open_frame(made)
        return using.write_together(made.groups[0])


@pytest.mark.parametrize(
    ("change", "expected", "all_found"),
    [
        (lambda key: insert(key, m.UNCHANGED, "c"), ("insert", {"a": [1, 2], "b": [None] * 2, "c": ["c"] * 2}), True),
        (lambda key: update((key, m.UNCHANGED, None)), ("update", {"a": [1, 2]}, {"c": [None] * 2}), True),
        (lambda key: delete(key, None, None), ("delete", {"a": [1, 2]}), False),
    ],
    ids=["insert", "update", "delete"],
)
def test_many_rows_are_written_in_bulk_in_parts(target, monkeypatch, change, expected, all_found):
    """absence_is_typed, C6, C9, C18; bounded_memory: a check before each part"""
    monkeypatch.setattr(bulk_writer, "LEAST_IN_BULK", 3)
    monkeypatch.setattr(bulk_writer, "BULK_ROWS_AT_A_TIME", 2)
    checks, bulk = count(), RecordedBulk(3)
    changes = [change(key) for key in ("1", "2", "3")]
    assert written_together(target, bulk, *changes, check=lambda: next(checks)) is all_found
    assert bulk.written[0] == expected
    assert len(bulk.written) == 2
    assert next(checks) == 3, "one check for the frame, and one before each part"


@pytest.mark.parametrize(("least_asked", "least"), [(4, 1), (1, 4), (1, None)])
def test_few_rows_are_written_by_single_statements(target, rows, monkeypatch, least_asked, least):
    monkeypatch.setattr(bulk_writer, "LEAST_IN_BULK", least_asked)
    bulk = RecordedBulk(least)
    assert written_together(target, bulk, *(insert(key, "x", None) for key in ("1", "2", "3")), check=lambda: None)
    assert bulk.written == []
    assert [row["a"] for row in rows()] == [1, 2, 3]


class RefusingBulk(RecordedBulk):
    """A bulk writer that inserts a row and then raises an error."""

    def __init__(self, error: SubscriberError) -> None:
        super().__init__(1)
        self.error = error

    def insert(self, connection: sa.Connection, table: TargetTable, written: Sequence[BulkColumn]) -> int:
        super().insert(connection, table, written)
        connection.execute(sa.insert(table.clause()).values(a=77))
        raise self.error


def written_in_order(
    target: Target, bulk: RecordedBulk, *changes: m.Message, of: m.Relation, attempt: bool = False
) -> None:
    target.bulk = bulk
    with target.begin() as connection:
        using = ChangeWriter(target, connection, {}, check=lambda: None)
        made = frame([of], changes)
        using.open_frame(made)
        if attempt:
            using.write_optimistically()
        for run in runs(made):
            using.write(run)


MANY = [insert(str(key), "x", "y") for key in range(bulk_writer.LEAST_IN_BULK)]
SHARED = relation("public.same", {"a": "int4", "b": "text", "c": "text"}, ["a"])
"""A relation of which the target's table has no other columns."""


@pytest.fixture
def same(execute) -> None:
    execute("CREATE TABLE same (a INTEGER PRIMARY KEY, b TEXT, c TEXT)")


@pytest.mark.usefixtures("same")
def test_a_long_run_of_inserts_is_written_in_bulk(target):
    bulk = RecordedBulk(1)
    written_in_order(target, bulk, *MANY, of=SHARED)
    columns = {"a": [*range(len(MANY))], "b": ["x"] * len(MANY), "c": ["y"] * len(MANY)}
    assert bulk.written == [("insert", columns)]


@pytest.mark.usefixtures("same")
@pytest.mark.parametrize("changes", [MANY[1:], [update((str(key), "x", "y")) for key in range(len(MANY))]])
def test_other_runs_are_written_by_single_statements(target, changes):
    bulk = RecordedBulk(1)
    written_in_order(target, bulk, *changes, of=SHARED)
    assert bulk.written == []


def test_rows_of_a_table_with_own_columns_are_inserted_one_by_one(target, rows):
    """A default may read the rows before it."""
    bulk = RecordedBulk(1)
    written_in_order(target, bulk, *MANY, of=T)
    assert bulk.written == []
    assert len(rows()) == len(MANY)


@pytest.mark.usefixtures("same")
def test_rows_that_cannot_be_inserted_in_bulk_are_inserted_one_by_one(target, rows):
    """C35: what the bulk write has done is undone"""
    bulk = RefusingBulk(ConflictError("refused", sqlstate="23505"))
    written_in_order(target, bulk, *MANY, of=SHARED)
    assert len(bulk.written) == 1
    assert [row["a"] for row in rows("same")] == [*range(len(MANY))]


@pytest.mark.usefixtures("same")
@pytest.mark.parametrize("error", [TargetUnavailable("gone"), Stopped("stopped")])
def test_an_error_that_is_not_of_a_row_ends_the_batch(target, rows, error):
    with pytest.raises(type(error)):
        written_in_order(target, RefusingBulk(error), *MANY, of=SHARED)
    assert rows("same") == []


@pytest.mark.usefixtures("same")
def test_without_savepoints_rows_are_inserted_one_by_one(target, rows, monkeypatch):
    target.capabilities = replace(target.capabilities, savepoints=False)
    bulk = RecordedBulk(1)
    written_in_order(target, bulk, *MANY, of=SHARED)
    assert bulk.written == []
    assert len(rows("same")) == len(MANY)


@pytest.mark.usefixtures("same")
def test_an_attempt_needs_no_savepoint_for_a_long_run_of_inserts(target, rows, monkeypatch):
    target.capabilities = replace(target.capabilities, savepoints=False)
    bulk = RecordedBulk(1)
    written_in_order(target, bulk, *MANY, of=SHARED, attempt=True)
    assert len(bulk.written) == 1
    with pytest.raises(OrderMatters):
        written_in_order(target, RefusingBulk(ConflictError("refused")), *MANY, of=SHARED, attempt=True)
    assert rows("same") == []
