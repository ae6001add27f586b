"""Parts of many rows, with a check before each."""

from __future__ import annotations

from itertools import count

import pytest

from subscriber.apply.statements import row_parts
from subscriber.apply.statements.row_parts import parts
from subscriber.errors import Stopped


@pytest.mark.parametrize(("rows", "expected"), [(0, []), (1, [(0, 1)]), (2, [(0, 2)]), (5, [(0, 2), (2, 4), (4, 5)])])
def test_the_parts_are_all_rows_and_each_is_checked(rows, expected):
    checks: list[int] = []
    assert [*parts(rows, lambda: checks.append(1), 2)] == expected
    assert len(checks) == len(expected)


def test_the_usual_size_is_that_of_one_executemany(monkeypatch):
    monkeypatch.setattr(row_parts, "ROWS_AT_A_TIME", 3)
    assert [*parts(4, lambda: None)] == [(0, 3), (3, 4)]


def test_a_batch_that_must_end_gets_no_further_part():
    checks = count()

    def check() -> None:
        if next(checks) == 1:
            raise Stopped("the work was stopped")

    with pytest.raises(Stopped):
        [*parts(9, check, 3)]
    assert next(checks) == 2
