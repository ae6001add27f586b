"""Bulk writes to SQLite. What all targets share is tested in tests/targets/test_bulk.py."""

from __future__ import annotations

import pyarrow as pa
import pytest

from subscriber.errors import ConflictError
from subscriber.targets import Target, TargetTable
from subscriber.targets.loader import LoadColumn
from subscriber.targets.roles.bulk import BulkColumn
from tests.unit.targets.tables import execute, reflected, rows


@pytest.fixture
def table(target) -> TargetTable:
    execute(target, "CREATE TABLE t (a INT PRIMARY KEY ON CONFLICT REPLACE, b TEXT)", "INSERT INTO t VALUES (1, 'x')")
    return reflected(target, "t")


def sent(table: TargetTable, name: str, values: pa.Array) -> BulkColumn:
    column = table.column(name)
    assert column is not None
    return BulkColumn(column, 23 if name == "a" else 25, values)


def test_any_key_is_accepted_for_many_rows(target: Target, table):
    bulk = target.bulk
    assert bulk is not None
    with target.begin() as connection:
        least = {bulk.least_rows(connection, table, [LoadColumn(one, 25)]) for one in table.columns}
        assert least == {bulk.least_rows(connection, table, [])}
    assert None not in least


def test_rows_are_counted_and_converted(target, table):
    three, absent = pa.array([3, 9]), pa.array([9, 2])
    with target.begin() as connection:
        written = [sent(table, "a", pa.array([2, 3])), sent(table, "b", pa.array([None, "q"]))]
        assert target.bulk.insert(connection, table, written) == 2
        new = [sent(table, "b", pa.array(["r", "s"]))]
        assert target.bulk.update(connection, table, [sent(table, "a", three)], new) == 1
        assert target.bulk.delete(connection, table, [sent(table, "a", absent)]) == 1
    assert rows(target, "SELECT * FROM t ORDER BY a") == [{"a": 1, "b": "x"}, {"a": 3, "b": "r"}]


def test_an_insert_fails_whatever_the_constraint_says(target, table):
    """names_are_data: the constraint would replace the row."""
    with pytest.raises(ConflictError) as raised, target.begin() as connection:
        target.bulk.insert(
            connection, table, [sent(table, "a", pa.array([2, 1])), sent(table, "b", pa.array(["y", "z"]))]
        )
    assert (raised.value.sqlstate, raised.value.detail) == ("23505", "Key (a) already exists.")
    assert raised.value.__suppress_context__
    assert rows(target, "SELECT * FROM t") == [{"a": 1, "b": "x"}]
