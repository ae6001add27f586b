from __future__ import annotations

import pytest

from subscriber.targets import open_target


@pytest.fixture
def target(tmp_path):
    with open_target(f"sqlite:///{tmp_path / 't.db'}") as opened:
        yield opened


def ranges_of(target, columns, rows):
    with target.begin() as connection:
        connection.exec_driver_sql(f"CREATE TABLE t {columns}")
        for row in rows:
            connection.exec_driver_sql("INSERT INTO t VALUES (?, ?)", row)
    with target.engine.connect() as connection:
        table = target.shapes.reflect(connection, "public", "t")
        ranges = target.reader.ranges(connection, table, 3)
        parts = [
            [
                row
                for some in target.reader.rows(connection, table, table.columns, part)
                for row in zip(*some.columns, strict=True)
            ]
            for part in ranges
        ]
    return ranges, parts


def test_ranges_are_ranges_of_row_numbers(target):
    rows = [(f"k{number}", number) for number in range(9)]
    ranges, parts = ranges_of(target, "(a TEXT PRIMARY KEY, b INTEGER)", rows)
    assert [(one.first, one.end) for one in ranges] == [(None, 3), (3, 6), (6, None)]
    assert [len(part) for part in parts] == [2, 3, 4]
    assert [row for part in parts for row in part] == rows


def test_a_column_that_is_named_rowid_is_not_taken_for_it(target):
    ranges, parts = ranges_of(target, "(rowid TEXT, b INTEGER)", [(f"k{number}", number) for number in range(9)])
    assert {one.column for one in ranges} == {"_rowid_"}
    assert sum(len(part) for part in parts) == 9


def test_a_table_without_row_numbers_has_no_ranges(target):
    assert ranges_of(target, "(a INTEGER PRIMARY KEY, b INTEGER) WITHOUT ROWID", [(n, n) for n in range(9)])[0] == ()
