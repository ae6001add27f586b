"""Ranges of a table; those of a server are in tests/targets/test_reading.py."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from subscriber.targets.mariadb.reading import MariaDBReading
from subscriber.targets.target_table import TargetColumn, TargetTable


@pytest.fixture
def connection():
    """A database that answers the same query."""
    with sa.create_engine("sqlite://").connect() as connection:
        connection.exec_driver_sql("CREATE TABLE t (a INTEGER, b INTEGER)")
        connection.exec_driver_sql("INSERT INTO t VALUES (-5, 1), (10, 1), (25, 1)")
        yield connection


def ranges(connection, key, storage="bigint"):
    columns = TargetColumn("a", storage, storage), TargetColumn("b", "bigint", "bigint")
    table = TargetTable(None, "t", columns, key)
    return [(one.column, one.first, one.end) for one in MariaDBReading(None).ranges(connection, table, 3)]  # type: ignore[arg-type]


def test_a_key_of_one_integer_is_cut_into_ranges(connection):
    assert ranges(connection, ("a",)) == [("a", None, 5), ("a", 5, 15), ("a", 15, None)]


@pytest.mark.parametrize(("key", "storage"), [(None, "bigint"), (("a", "b"), "bigint"), (("a",), "varchar")])
def test_any_other_table_is_read_by_one_connection(connection, key, storage):
    assert ranges(connection, key, storage) == []
