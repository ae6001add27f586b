"""Many rows in parts. A batch that must end is rolled back soon, between two parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

ROWS_AT_A_TIME: Final = 1_024
"""Rows of one ``executemany``. The number is large enough that the cost of a call does not matter,
and small enough that the batch can be rolled back soon between two calls.
"""


def parts(rows: int, check: Callable[[], None], size: int | None = None) -> Iterator[tuple[int, int]]:
    """Ranges of row numbers, which together are all rows.

    Args:
        rows: the number of rows.
        check: raises an error when the batch must end; it is called before every part.
        size: the number of rows of a part; None for :data:`ROWS_AT_A_TIME`.
    """
    size = ROWS_AT_A_TIME if size is None else size
    for start in range(0, rows, size):
        check()
        yield start, min(rows, start + size)
