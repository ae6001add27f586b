"""The estimate of the initial copy."""

from __future__ import annotations

import pytest

from subscriber.migrate.check_migration import estimate_copy
from subscriber.publisher.copy_out import ReadingSpeed
from tests.unit.migrate.tables import table


def messages(tables, sample) -> list[str]:
    return [one.message for one in estimate_copy(tables, sample)]


def test_the_size_is_the_sum_of_all_tables():
    assert messages([table("a"), table("b")], None) == [
        "2 tables with about 2,000 rows, 200.0 kB on disk without indexes"
    ]


@pytest.mark.parametrize(
    ("rows_per_second", "duration"),
    [
        (1000, "about 1 s for one connection"),
        (5, "about 3 min for one connection"),
        (0.1, "about 2.8 h for one connection"),
    ],
)
def test_the_duration_is_that_of_the_sample_for_all_rows(rows_per_second, duration):
    sample = ReadingSpeed(text_bytes=1000, rows=10, seconds=10 / rows_per_second)
    assert messages([table()], sample)[1] == duration


@pytest.mark.parametrize("sample", [None, ReadingSpeed(0, 0, 1.0)])
def test_without_a_row_that_was_read_there_is_no_duration(sample):
    assert len(messages([table()], sample)) == 1


def test_a_table_that_was_never_analyzed_is_estimated_by_its_bytes():
    sample = ReadingSpeed(text_bytes=1000, rows=10, seconds=1.0)
    assert messages([table(rows=0, heap_bytes=60_000)], sample)[1] == "about 1 min for one connection"


def test_a_table_that_was_read_as_a_whole_is_as_large_as_it_is_on_disk():
    """A page of 8 kB with one row is no sample of a page that is full"""
    sample = ReadingSpeed(text_bytes=4, rows=1, seconds=0.001, is_whole=True)
    small = [table(str(number), rows=0, heap_bytes=8192) for number in range(17)]
    assert messages(small, sample)[1] == "about 1 s for one connection"


def test_tables_without_rows_have_no_duration():
    assert len(messages([table(rows=0, heap_bytes=0)], ReadingSpeed(1, 1, 1.0))) == 1
