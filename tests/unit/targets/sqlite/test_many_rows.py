"""Rows that are inserted by one statement are those that single statements would insert."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest

from subscriber.targets.loader import RowStatement
from subscriber.targets.sqlite.many_rows import MOST_PARAMETERS, insert_rows

AT_ONCE = MOST_PARAMETERS // 2
INSERT = RowStatement("INSERT INTO t (b, a) VALUES (?, ?)", (1, 0), None)


@pytest.fixture
def driver() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE t (a INT PRIMARY KEY, b TEXT)")
    yield connection
    connection.close()


def statements(driver: sqlite3.Connection) -> list[str]:
    executed: list[str] = []
    driver.set_trace_callback(executed.append)
    return executed


@pytest.mark.parametrize(
    ("rows", "executed"),
    [(0, 0), (1, 1), (AT_ONCE - 1, AT_ONCE - 1), (AT_ONCE, 1), (AT_ONCE + 1, 2), (3 * AT_ONCE + 2, 5)],
)
def test_every_row_is_inserted_once(driver, rows, executed):
    trace = statements(driver)
    bound: list[list[object]] = [[*range(rows)], [f"row {number}" for number in range(rows)]]
    assert insert_rows(driver, INSERT, bound, rows) == rows
    assert len(trace) == executed
    assert driver.execute("SELECT a, b FROM t ORDER BY a").fetchall() == list(zip(*bound, strict=True))


def test_rows_that_a_trigger_leaves_out_are_not_counted(driver):
    driver.execute(
        "CREATE TRIGGER skip BEFORE INSERT ON t WHEN new.a % 2 = 0 BEGIN SELECT raise(IGNORE); END",
    )
    rows = AT_ONCE + 1
    assert insert_rows(driver, INSERT, [list(range(rows)), ["x"] * rows], rows) == rows // 2


def test_a_row_that_cannot_be_inserted_is_an_error(driver):
    keys = [*range(AT_ONCE), 7]
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE constraint failed"):
        insert_rows(driver, INSERT, [keys, ["x"] * len(keys)], len(keys))
    assert driver.execute("SELECT count(*) FROM t WHERE a = 7").fetchone() == (1,)


@pytest.mark.parametrize("columns", [MOST_PARAMETERS, MOST_PARAMETERS // 2 + 1])
def test_wide_rows_are_inserted_one_by_one(driver, columns):
    names = ", ".join(f"c{number}" for number in range(columns))
    driver.execute(f"CREATE TABLE wide ({names})")
    insert = RowStatement(f"INSERT INTO wide ({names}) VALUES ({', '.join('?' * columns)})", (*range(columns),), None)
    trace = statements(driver)
    assert insert_rows(driver, insert, [[number, number] for number in range(columns)], 2) == 2
    assert len(trace) == 2
    assert driver.execute("SELECT * FROM wide").fetchall() == [(*range(columns),)] * 2


def test_rows_without_columns_have_defaults_only(driver):
    driver.execute("CREATE TABLE defaults (a INT DEFAULT 5)")
    assert insert_rows(driver, RowStatement("INSERT INTO defaults DEFAULT VALUES", (), None), [], 3) == 3
    assert driver.execute("SELECT a FROM defaults").fetchall() == [(5,)] * 3
