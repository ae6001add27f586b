"""Loading into SQLite. What all loaders share is tested in tests/unit/targets/test_loader.py."""

from __future__ import annotations

import pyarrow as pa
import pytest

from subscriber.errors import ConflictError
from subscriber.targets.loader import LoadColumn
from tests.unit.targets.tables import execute, load, reflected, rows


def batch(**columns: list[object]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


@pytest.fixture
def table(target):
    execute(target, "CREATE TABLE t (b TEXT DEFAULT 'default', a INT UNIQUE)")
    return reflected(target, "t")


def test_a_block_is_a_batch_of_arrow(target, table):
    assert target.loading.block_format([LoadColumn(column, 25) for column in table.columns]) == "arrow"


def test_blocks_are_inserted_by_the_names_of_their_columns(target, table):
    load(target, table, {"a": 23, "b": 25}, batch(a=[1], b=["x"]), batch(a=[None, 2], b=[None, "y"]))
    assert rows(target, "SELECT a, b FROM t ORDER BY rowid") == [
        {"a": 1, "b": "x"},
        {"a": None, "b": None},
        {"a": 2, "b": "y"},
    ]


def test_a_column_that_is_not_loaded_gets_its_default(target, table):
    load(target, table, {"a": 23}, batch(a=[1]))
    assert rows(target, "SELECT a, b FROM t") == [{"a": 1, "b": "default"}]


def test_an_error_of_the_driver_is_translated(target, table):
    """names_are_data, any_crash"""
    with pytest.raises(ConflictError) as raised:
        load(target, table, {"a": 23, "b": 25}, batch(a=[1], b=["x"]), batch(a=[1], b=["secret"]))
    assert (raised.value.sqlstate, raised.value.detail) == ("23505", "Key (a) already exists.")
    assert raised.value.__suppress_context__
    assert rows(target, "SELECT * FROM t") == []
