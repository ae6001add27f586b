"""Loading into DuckDB from Arrow's memory."""

from __future__ import annotations

import pyarrow as pa
import pytest

from subscriber.errors import ConflictError, TargetRelationError
from subscriber.targets.loader import LoadColumn, write_block
from tests.frames import OIDS
from tests.unit.targets.tables import execute, load, reflected, rows


def test_a_load_that_fails_leaves_nothing(target):
    """any_crash, D3: rows that were there before stay"""
    execute(target, "CREATE TABLE t (a int PRIMARY KEY)", "INSERT INTO t VALUES (3)")
    table = reflected(target, "t")
    with pytest.raises(ConflictError) as raised:
        load(
            target, table, {"a": 23}, *(pa.record_batch([pa.array(a, pa.int32())], names=["a"]) for a in ([1, 2], [3]))
        )
    assert raised.value.sqlstate == "23505"
    assert rows(target, "SELECT a FROM t") == [{"a": 3}]


def test_a_table_of_the_block_s_name_is_not_loaded_in_its_place(target):
    """What the block had would be lost without a word"""
    execute(target, "CREATE TABLE t (a int)", "CREATE TABLE Subscriber_Block (c0 int)")
    batch = pa.record_batch([pa.array([1], pa.int32())], names=["a"])
    with pytest.raises(TargetRelationError, match='"subscriber_block" is already in use'):
        load(target, reflected(target, "t"), {"a": 23}, batch)


def test_columns_that_are_not_loaded_get_their_defaults(target):
    execute(target, "CREATE TABLE t (own int DEFAULT 7, b text, a int)")
    table = reflected(target, "t")
    batch = pa.record_batch([pa.array([1], pa.int32()), pa.array(["x"])], names=["a", "b"])
    load(target, table, {"a": 23, "b": 25}, batch)
    assert rows(target, "SELECT own, b, a FROM t") == [{"own": 7, "b": "x", "a": 1}]


def test_a_block_that_is_loaded_is_not_kept_until_the_commit(target):
    """bounded_memory: what is registered under a name, DuckDB keeps as long as the transaction
    lasts.
    """
    execute(target, "CREATE TABLE t (a VARCHAR)")
    table = reflected(target, "t")
    block = write_block(pa.RecordBatch.from_pydict({"a": pa.array(["x" * 1000] * 1000)}))
    columns = [LoadColumn(table.columns[0], OIDS["text"])]
    with target.begin() as connection, target.loading.loader(connection, table, columns) as load:
        load(block)
        held = pa.total_allocated_bytes()
        for _ in range(20):
            load(block)
        assert pa.total_allocated_bytes() - held < 2 * 1000 * 1000
    assert rows(target, "SELECT count(*) AS loaded FROM t") == [{"loaded": 21_000}]
