"""The pure parts of a measurement."""

from __future__ import annotations

import pytest

from benchmarks.measure import latencies, rotated


def test_each_run_begins_with_the_next_subscriber():
    assert [rotated("abc", run) for run in range(4)] == [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"], list("abc")]
    assert rotated("", 2) == []


def test_a_row_counts_as_seen_when_it_or_a_later_one_was_seen():
    committed = {1: 10.0, 2: 10.05, 3: 10.1}
    arrived = [(0, 9.0), (2, 10.2), (3, 10.3)]
    assert latencies(committed, arrived) == pytest.approx([200, 150, 200])


def test_a_row_that_is_seen_before_the_publishers_answer_has_no_latency():
    assert latencies({1: 10.0}, [(1, 9.99)]) == [0]
