"""The rows of a target's table, streamed in the order of the key. The publisher's rows are read in
tests/conformance/test_compare.py.
"""

from __future__ import annotations

import pytest

from subscriber.targets import open_target
from subscriber.verify.read_rows import target_rows

NUMBER_OF_ROWS = 2_500


@pytest.fixture(params=["sqlite", "duckdb"])
def read(request, tmp_path):
    """Creates a table, and reads columns of it in the order of a key."""
    with open_target(f"{request.param}:///{tmp_path / 'target.db'}") as target:

        def call(statements, columns, key=()):
            with target.begin() as connection:
                for statement in statements:
                    connection.exec_driver_sql(statement)
                table = target.shapes.reflect(connection, "public", "t")
                assert table is not None
                return list(target_rows(target, connection, table, columns, key))

        yield call


def test_rows_come_in_the_order_of_the_key(read):
    statements = ["CREATE TABLE t (a INTEGER, b TEXT)", "INSERT INTO t VALUES (2, 'x'), (1, 'y'), (2, 'a')"]
    assert read(statements, ["b", "a"], ["a", "b"]) == [("y", 1), ("a", 2), ("x", 2)]


def test_only_the_columns_that_are_named_are_read(read):
    statements = ['CREATE TABLE t (a INTEGER, "B c" TEXT, own TEXT)', "INSERT INTO t VALUES (1, NULL, 'mine')"]
    assert read(statements, ["B c"]) == [(None,)]


def test_an_empty_table_has_no_rows(read):
    assert read(["CREATE TABLE t (a INTEGER)"], ["a"], ["a"]) == []


def test_more_rows_than_are_read_at_once_are_all_there(read):
    numbers = ", ".join(f"({number})" for number in range(NUMBER_OF_ROWS))
    rows = read(["CREATE TABLE t (a INTEGER)", f"INSERT INTO t VALUES {numbers}"], ["a"], ["a"])
    assert rows == [(number,) for number in range(NUMBER_OF_ROWS)]
