"""INSERT with many rows in VALUES: for new rows it takes six tenths of the time of ``executemany``.

::

    INSERT INTO t (a, b) VALUES (?, ?), (?, ?), (?, ?), …      as many rows as MOST_PARAMETERS allows
    INSERT INTO t (a, b) VALUES (?, ?)                         for each of the rows that are left

*Rejected:* the same for UPDATE and DELETE (``FROM (VALUES …)``, ``IN (…)``). To find the rows takes
most of their time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from subscriber.targets.loader import RowStatement

MOST_PARAMETERS: Final = 999
"""The parameters of one statement. Every version of SQLite allows as many."""
_MOST_STATEMENTS: Final = 100


def insert_rows(driver: sqlite3.Connection, statement: RowStatement, bound: Sequence[Sequence[Any]], rows: int) -> int:
    """Execute an INSERT for each row; returns how many rows were inserted.

    Args:
        driver: the driver's connection.
        statement: an INSERT of one row.
        bound: the values of each column.
        rows: the number of rows.

    Raises:
        sqlite3.Error: a row cannot be inserted. Rows before it may be inserted.
    """
    width = len(statement.order)
    done = inserted = 0
    many = _many_rows(statement.sql, width)
    if many is not None:
        values: list[Any] = [None] * (rows * width)
        for place, index in enumerate(statement.order):
            values[place::width] = bound[index]
        step = MOST_PARAMETERS // width
        cursor = driver.cursor()
        for done in range(step, rows + 1, step):
            inserted += cursor.execute(many, values[(done - step) * width : done * width]).rowcount
    if done < rows:
        inserted += driver.executemany(statement.sql, islice(statement.rows(bound, rows), done, None)).rowcount
    return inserted


@lru_cache(_MOST_STATEMENTS)
def _many_rows(sql: str, width: int) -> str | None:
    """The statement for as many rows as one statement may have; None if that is one row, or if the
    statement has no list of parameters at its end.
    """
    row = f"({', '.join('?' * width)})"
    start = sql.removesuffix(row)
    step = MOST_PARAMETERS // width if width else 1
    return None if start == sql or step < 2 else start + ", ".join([row] * step)
