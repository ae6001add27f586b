from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from subscriber.verify.collected import CollectedRows, CollectedSums
from subscriber.verify.row_batch import RowBatch
from subscriber.verify.row_digests import Choice

CHOICE = Choice(4)


class Texts:
    def stored(self, _column, values):
        return values.cast(pa.string())

    def canonical(self, _column, texts):
        return texts


def batch(*numbers):
    return RowBatch(len(numbers), [pa.array(numbers)], Texts(), (0,))


@pytest.mark.parametrize("empty", [CollectedSums(CHOICE), CollectedRows(CHOICE, np.array([0, 3]), 100)])
def test_what_two_tasks_collect_is_what_one_would_collect(empty):
    whole, first, second = empty.fresh(), empty.fresh(), empty.fresh()
    whole.add(batch(1, 2, 3, 4, 5, 6, 7, 8))
    first.add(batch(1, 2, 3))
    second.add(batch(4, 5))
    second.add(batch(6, 7, 8))
    first.merge(second)
    if isinstance(whole, CollectedRows):
        assert 0 < len(whole.rows) < 8
        assert first.rows == whole.rows
    else:
        assert whole.sums.rows == 8
        assert len(first.sums.differing(whole.sums)) == 0


def test_a_fresh_collection_is_empty():
    rows = CollectedRows(CHOICE, np.arange(4), 100)
    rows.add(batch(1))
    assert len(rows.rows) == 1
    assert rows.fresh().rows == []


def test_rows_that_are_too_large_to_be_held_are_given_up():
    """Each row counts with its texts before and after they were made canonical."""
    empty = CollectedRows(CHOICE, np.arange(4), 8)
    first, second = empty.fresh(), empty.fresh()
    first.add(batch(10, 20))
    second.add(batch(3))
    assert (first.is_complete, len(first.rows)) == (True, 2)
    first.merge(second)
    assert (first.is_complete, first.rows) == (False, [])
    first.add(batch(4))
    assert first.rows == []
