"""Bulk writes with the statements for one row. The driver is a recorder of what it receives."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa
import pytest
import sqlalchemy as sa

from subscriber.targets import TargetColumn, TargetTable
from subscriber.targets.generic.bulk import GenericBulk
from subscriber.targets.generic.errors import GenericErrors
from subscriber.targets.generic.matching import GenericMatching
from subscriber.targets.generic.writing import GenericWriting
from subscriber.targets.roles.bulk import BulkColumn

A, B, P = (TargetColumn(name, "INTEGER", "INTEGER") for name in ("a", "b", "p0"))
TABLE = TargetTable(None, "t", (A, B, P), ("a", "b"))
CONNECTION = cast("sa.Connection", None)


class Recorder(GenericBulk):
    """Records each statement with its rows; every row is found."""

    def __init__(self, url: str) -> None:
        super().__init__(sa.create_engine(url), GenericMatching(), GenericWriting(GenericErrors("it")))
        self.executed: list[tuple[str, list[Any]]] = []

    def _execute(self, connection, statement, columns):
        rows = list(statement.rows([one.values.to_pylist() for one in columns], len(columns[0].values)))
        self.executed.append((statement.sql, rows))
        return len(rows)

    def _insert(self, connection, statement, columns):
        return self._execute(connection, statement, columns)


@pytest.fixture
def bulk() -> Recorder:
    return Recorder("sqlite://")


def sent(column: TargetColumn, *values: int | None) -> BulkColumn:
    return BulkColumn(column, 23, pa.array(values, pa.int32()))


def test_an_insert_keeps_the_order_of_the_rows(bulk):
    assert bulk.insert(CONNECTION, TABLE, [sent(B, 5, None), sent(A, 2, 1)]) == 2
    assert bulk.executed == [("INSERT INTO t (a, b) VALUES (?, ?)", [(2, 5), (1, None)])]


def test_an_update_goes_through_the_rows_in_the_order_of_the_key(bulk):
    assert bulk.update(CONNECTION, TABLE, [sent(B, 1, 1, 0), sent(A, 9, 8, 7)], [sent(P, 10, 11, None)]) == 3
    ((sql, rows),) = bulk.executed
    assert sql == "UPDATE t SET p0=? WHERE t.b = ? AND t.a = ?"
    assert rows == [(None, 0, 7), (11, 1, 8), (10, 1, 9)]


def test_an_update_may_set_a_column_of_the_key(bulk):
    bulk.update(CONNECTION, TABLE, [sent(A, 2, 1)], [sent(A, 2, 1), sent(B, 3, 4)])
    assert bulk.executed == [("UPDATE t SET a=?, b=? WHERE t.a = ?", [(1, 4, 1), (2, 3, 2)])]


def test_an_update_that_sets_nothing_sets_the_key_to_itself(bulk):
    """C18: the rows are counted."""
    assert bulk.update(CONNECTION, TABLE, [sent(A, 1)], []) == 1
    assert bulk.executed == [("UPDATE t SET a=t.a WHERE t.a = ?", [(1,)])]


def test_a_delete_goes_through_the_rows_in_the_order_of_the_key(bulk):
    assert bulk.delete(CONNECTION, TABLE, [sent(A, 3, 1, 2)]) == 3
    assert bulk.executed == [("DELETE FROM t WHERE t.a = ?", [(1,), (2,), (3,)])]


def test_the_parameters_have_names_if_the_driver_wants_names():
    bulk = Recorder("mysql+pymysql://")
    bulk.update(CONNECTION, TABLE, [sent(A, 1)], [sent(P, 2)])
    assert bulk.executed == [("UPDATE t SET p0=%(p_1)s WHERE t.a = %(p_0)s", [{"p_0": 1, "p_1": 2}])]


def test_a_statement_is_compiled_once(bulk):
    for number in (1, 2):
        bulk.insert(CONNECTION, TABLE, [sent(A, number)])
        bulk.update(CONNECTION, TABLE, [sent(A, number)], [sent(B, number)])
        bulk.delete(CONNECTION, TABLE, [sent(A, number)])
    assert {sql for sql, _ in bulk.executed[:3]} == {sql for sql, _ in bulk.executed[3:]}
    assert [one.cache_info().misses for one in (bulk._insert_of, bulk._update_of, bulk._delete_of)] == [1, 1, 1]
