from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from subscriber.verify.row_batch import RowBatch
from subscriber.verify.row_digests import Choice

EVERY = np.arange(4)


def numbers(batch, choice, buckets):
    """The numbers in the first column of the rows of some buckets."""
    return [int(canonical[0] or "") for canonical, _ in batch.rows_of(choice, buckets)]


class Texts:
    """Makes texts of numbers, and remembers the columns of which it made them."""

    def __init__(self):
        self.made = []

    def stored(self, column, values):
        self.made.append((column, len(values)))
        return pa.array([f"{value}.0" for value in (values.to_pylist() if isinstance(values, pa.Array) else values)])

    def canonical(self, column, texts):
        return pa.array([text.removesuffix(".0") for text in texts.to_pylist()])


@pytest.fixture
def texts():
    return Texts()


@pytest.mark.parametrize("form", [list, pa.array])
def test_rows_have_their_texts_before_and_after_they_were_made_canonical(texts, form):
    batch = RowBatch(2, [form([1, 2]), form([3, 4])], texts, (0,))
    assert list(batch.rows_of(Choice(4), EVERY)) == [(("1", "3"), ("1.0", "3.0")), (("2", "4"), ("2.0", "4.0"))]


def test_only_the_rows_of_the_chosen_buckets_are_returned(texts):
    choice = Choice(4)
    batch = RowBatch(100, [list(range(100)), [0] * 100], texts, (0,))
    found = [number for bucket in EVERY for number in numbers(batch, choice, np.array([bucket]))]
    assert sorted(found) == list(range(100))
    assert {batch.keys.shape, batch.hashes.shape} == {(2, 100)}
    buckets = choice.bucket(batch.keys)
    assert numbers(batch, choice, np.array([1])) == np.flatnonzero(buckets == 1).tolist()


def test_a_sample_returns_only_the_rows_that_it_looks_at(texts):
    choice = Choice(4, 0.5)
    batch = RowBatch(100, [list(range(100))], texts, (0,))
    looked_at = choice.looked_at(batch.keys)
    assert looked_at is not None
    assert 0 < looked_at.sum() < 100
    assert numbers(batch, choice, EVERY) == np.flatnonzero(looked_at).tolist()


def test_looking_for_rows_makes_texts_of_the_key_and_of_the_rows_that_are_found(texts):
    batch = RowBatch(100, [list(range(100)), [0] * 100], texts, (0,))
    found = len(list(batch.rows_of(Choice(64), np.array([7]))))
    assert 0 < found < 100
    assert texts.made == [(0, 100), (0, found), (1, found)]


def test_the_rows_of_a_table_without_a_key_are_told_apart_by_all_columns(texts):
    batch = RowBatch(3, [[1, 1, 1], [1, 2, 1]], texts, ())
    assert batch.keys is batch.hashes
    assert (batch.keys[:, 0] == batch.keys[:, 2]).all()
    assert (batch.keys[:, 0] != batch.keys[:, 1]).all()
