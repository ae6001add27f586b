"""Row numbers that grow with time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from subscriber.catalog.row_numbers import RowNumbers


def test_numbers_grow_when_the_clock_stands_still_or_is_set_back(monkeypatch):
    moments = iter([100, 100, 50, 200])
    monkeypatch.setattr("subscriber.catalog.row_numbers.time.time_ns", lambda: next(moments))
    numbers = RowNumbers()
    assert [numbers.next() for _ in range(4)] == [100, 101, 102, 200]


def test_threads_never_get_the_same_number():
    numbers = RowNumbers()
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: [numbers.next() for _ in range(1000)], range(8)))
    assert all(part == sorted(part) for part in found)
    assert len({number for part in found for number in part}) == 8000
