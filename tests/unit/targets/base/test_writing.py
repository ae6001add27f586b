from __future__ import annotations

from typing import Any, cast

import pyarrow as pa
import pytest
import sqlalchemy as sa

from subscriber.base.errors import TargetRelationError
from subscriber.targets import TargetColumn, TargetTable
from subscriber.targets.base.errors import Errors
from subscriber.targets.base.loading import BulkColumn, LoadColumn, RowBulk
from subscriber.targets.base.writing import Matching, Writing
from tests.unit.targets.tables import execute, reflected, rows


@pytest.fixture
def tables(target):
    """Two tables with one row each."""
    execute(target, "CREATE TABLE t (a INT)", "CREATE TABLE u (a INT)")
    execute(target, "INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (1)")
    return [reflected(target, "t"), reflected(target, "u")]


def test_truncate_deletes_the_rows_of_all_tables(target, tables):
    """C29"""
    with target.begin() as connection:
        target.writing.truncate(connection, tables, restart_identity=False)
    assert rows(target, "SELECT * FROM t UNION ALL SELECT * FROM u") == []


def test_a_truncate_is_rolled_back_with_its_transaction(target, tables):
    with pytest.raises(InterruptedError), target.begin() as connection:
        target.writing.truncate(connection, tables, restart_identity=False)
        raise InterruptedError
    assert rows(target, "SELECT a FROM t") == [{"a": 1}]


def test_restart_identity_is_refused_before_any_row_is_deleted(target, tables):
    """C29, refuse_not_guess"""
    with target.begin() as connection:
        with pytest.raises(TargetRelationError) as raised:
            target.writing.truncate(connection, tables, restart_identity=True)
        assert connection.exec_driver_sql("SELECT count(*) FROM t").scalar_one() == 1
    assert (raised.value.message, raised.value.sqlstate) == (
        "the target cannot restart identities on TRUNCATE",
        "0A000",
    )
    assert raised.value.hint == "Truncate at the publisher with CONTINUE IDENTITY."


def test_statements_are_left_as_they_are(target, tables):
    (table, _) = tables
    insert = sa.insert(table.clause()).values(a=1)
    assert target.writing.or_fail(table, insert) is insert
    assert target.writing.override_identity("INSERT INTO t (a) VALUES (?)") == "INSERT INTO t (a) VALUES (?)"
    assert not target.writing.may_suppress(table)
    with target.begin() as connection:
        assert target.writing.replacement_error(connection, table) is None


# Bulk writes with the statements for one row. The driver is a recorder of what it receives.


A, B, P = (TargetColumn(name, "INTEGER", "INTEGER") for name in ("a", "b", "p0"))
TABLE = TargetTable(None, "t", (A, B, P), ("a", "b"))
CONNECTION = cast("sa.Connection", None)


class Recorder(RowBulk):
    """Records each statement with its rows; every row is found."""

    def __init__(self, url: str) -> None:
        super().__init__(sa.create_engine(url), Matching(), Writing(Errors("it")))
        self.executed: list[tuple[str, list[Any]]] = []

    def least_rows(self, connection, table, key):
        return 1

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


# Loading by INSERT. What is loaded is tested in tests/unit/targets/test_loader.py.


def test_a_block_is_a_batch_of_arrow(target):
    execute(target, "CREATE TABLE t (a INT, b TEXT)")
    columns = [LoadColumn(column, 25) for column in reflected(target, "t").columns]
    assert target.loading.block_format(columns) == "arrow"
    assert target.loading.block_format([]) == "arrow"


def test_the_last_writer_of_a_row_is_not_known(target):
    """C20"""
    table = TargetTable(None, "t", (), None)
    with target.engine.connect() as connection:
        assert target.row_versions.columns() == ()
        assert target.row_versions.read(connection, table, []) is None
        assert target.row_versions.index_of_partition(connection, table, "i", ("public", "t_1")) == "i"
