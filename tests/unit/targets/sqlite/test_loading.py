"""Loading into SQLite. What all loaders share is tested in tests/unit/targets/test_loader.py."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from subscriber.errors import ConflictError, UnsupportedValue
from subscriber.targets.loader import LoadColumn
from subscriber.targets.sqlite.column_values import SQLiteValues
from subscriber.targets.sqlite.errors import SQLiteErrors
from subscriber.targets.sqlite.loading import SQLiteLoading
from tests.unit.targets.tables import execute, load, reflected, rows


def batch(**columns: list[object]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


@pytest.fixture
def table(target):
    execute(target, "CREATE TABLE t (b TEXT DEFAULT 'default', a INT UNIQUE)")
    return reflected(target, "t")


def test_a_block_is_a_batch_of_arrow(target, table):
    assert target.loading.block_format([LoadColumn(column, 25) for column in table.columns]) == "arrow"


def test_an_error_of_the_driver_is_translated(target, table):
    """names_are_data, any_crash"""
    with pytest.raises(ConflictError) as raised:
        load(target, table, {"a": 23, "b": 25}, batch(a=[1], b=["x"]), batch(a=[1], b=["secret"]))
    assert (raised.value.sqlstate, raised.value.detail) == ("23505", "Key (a) already exists.")
    assert raised.value.__suppress_context__
    assert rows(target, "SELECT * FROM t") == []


class _Objects(SQLiteValues):
    """Values that no driver takes."""

    def bind_values(self, type_oid, column, values):
        del type_oid, column
        return [object() for _ in values]


def test_what_pythons_module_refuses_is_an_unsupported_value(target, table):
    errors = SQLiteErrors(str(target.url.database))
    loading = SQLiteLoading(target.engine, errors, _Objects(), target.writing)
    roles = replace(target.open_table_roles(), loading=loading)
    with pytest.raises(UnsupportedValue, match="cannot hold a value exactly"):
        load(replace(target, open_table_roles=lambda: roles), table, {"a": 23}, batch(a=[1]))
