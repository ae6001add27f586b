from __future__ import annotations

import pickle
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.verify.row_digests import BucketChoice, BucketRows, BucketSums, RowBatch, hash_rows

EDGES = ["", "\0", "\0\0", "a", "a" * 8, "a" * 9, "é", *("b" * size for size in (127, 128, 129, 500))]
VALUES = st.none() | st.text(max_size=20) | st.sampled_from(EDGES)
ROWS = st.lists(st.tuples(VALUES, VALUES), max_size=12)


def sums_of(rows, choice, *, key=False, cuts=()):
    """The sums of rows that come in batches, cut at these places."""
    sums = BucketSums(choice)
    for start, stop in zip((0, *cuts), (*cuts, len(rows)), strict=True):
        part = rows[start:stop]
        columns = [pa.array([row[place] for row in part], pa.string()) for place in (0, 1)]
        hashes = hash_rows(columns, len(part))
        sums.add_hashes(hash_rows(columns[:1], len(part)) if key else hashes, hashes)
    return sums


@given(ROWS, ROWS, st.integers(1, 40))
def test_two_multisets_have_the_same_sums_exactly_if_they_are_equal(ours, theirs, buckets):
    choice = BucketChoice(buckets)
    differing = sums_of(ours, choice).differing(sums_of(theirs, choice))
    assert bool(len(differing)) == (Counter(ours) != Counter(theirs))


@given(ROWS, st.randoms(use_true_random=False), st.integers(1, 40))
def test_neither_the_order_of_rows_nor_the_batches_matter(rows, source, buckets):
    choice = BucketChoice(buckets)
    other = source.sample(rows, len(rows))
    cuts = sorted(source.randint(0, len(rows)) for _ in range(2))
    assert len(sums_of(rows, choice, key=True).differing(sums_of(other, choice, key=True, cuts=cuts))) == 0


@given(ROWS, VALUES, VALUES)
def test_a_row_that_is_there_once_more_is_found(rows, one, two):
    choice = BucketChoice(8)
    assert len(sums_of([*rows, (one, two)], choice).differing(sums_of(rows, choice))) == 1


def hash_values(values):
    return hash_rows([values], len(values))


@given(st.lists(VALUES, min_size=1, max_size=30))
def test_each_value_has_one_hash_wherever_it_is(values):
    together = hash_values(pa.array(values, pa.string()))
    for place, value in enumerate(values):
        assert (hash_values(pa.array([value], pa.string()))[:, 0] == together[:, place]).all()
    sliced = hash_values(pa.array(["before", *values, "after"], pa.string()).slice(1, len(values)))
    assert (sliced == together).all()


def test_many_different_values_have_different_hashes():
    numbers = range(200_000)
    values = [f"{n}" for n in numbers] + [f"row number {n}" for n in numbers] + [f"{'-' * 200}{n}" for n in numbers]
    hashes = hash_values(pa.array(values))
    assert len(np.unique(hashes[0])) == len(np.unique(hashes[1])) == len(values)


@pytest.mark.parametrize("size", [8, 20, 128, 200])
def test_texts_that_differ_in_one_byte_or_two_have_different_hashes(size):
    """Products alone would lose the differences in the last bytes of two words."""
    texts = [bytes(size)]
    for place in range(size):
        texts += [_with(bytes(size), place, byte) for byte in (1, 64, 127)]
        texts += [_with(_with(bytes(size), place, one), size - 1, 127) for one in (1, 64) if place < size - 1]
    hashes = hash_values(pa.array([text.decode() for text in texts]))
    assert len(np.unique(hashes[0])) == len(np.unique(hashes[1])) == len(texts)


def _with(text, place, byte):
    return text[:place] + bytes([byte]) + text[place + 1 :]


def test_values_that_change_columns_have_another_hash():
    pairs = [(str(one), str(other)) for one in range(300) for other in range(300)] + [("", "0"), (None, "0"), ("0", "")]
    ours, theirs = (pa.array(column) for column in zip(*pairs, strict=True))
    hashes = hash_rows([ours, theirs], len(pairs))
    assert len(np.unique(hashes[0])) == len(np.unique(hashes[1])) == len(pairs)


def test_a_changed_row_is_in_the_bucket_of_its_key_on_both_sides():
    choice = BucketChoice(1 << 16)
    rows = [(str(number), "same") for number in range(1000)]
    changed = [*rows[:500], ("500", "other"), *rows[501:]]
    differing = sums_of(rows, choice, key=True).differing(sums_of(changed, choice, key=True))
    assert len(differing) == 1
    assert sums_of(rows, choice, key=True).rows == 1000


@pytest.mark.parametrize("share", [0.01, 0.5])
def test_a_sample_is_a_share_of_the_keys_and_the_same_on_both_sides(share):
    rows = [(str(number), "v") for number in range(20_000)]
    whole, sample = BucketChoice(64), BucketChoice(64, share)
    assert sums_of(rows, whole, key=True).rows == 20_000
    assert abs(sums_of(rows, sample, key=True).rows / 20_000 - share) < 0.02
    assert len(sums_of(rows, sample, key=True).differing(sums_of(rows[::-1], sample, key=True))) == 0


@given(ROWS, ROWS)
def test_sums_are_merged_and_come_through_a_task_unchanged(some, others):
    choice = BucketChoice(16)
    merged = pickle.loads(pickle.dumps(sums_of(some, choice)))
    merged.merge(pickle.loads(pickle.dumps(sums_of(others, choice))))
    assert len(merged.differing(sums_of([*some, *others], choice))) == 0
    assert merged.rows == len(some) + len(others)


def test_rows_without_columns_are_counted():
    choice = BucketChoice(4)
    sums = BucketSums(choice)
    hashes = hash_rows([], 3)
    sums.add_hashes(hashes, hashes)
    assert sums.rows == 3
    assert len(sums.differing(BucketSums(choice))) == 1


EVERY = np.arange(4)


def numbers(batch, choice, buckets):
    """The numbers in the first column of the rows of some buckets."""
    return [int(canonical[0] or "") for canonical, _ in batch.rows_of(choice, buckets)]


class CountedTexts:
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
    return CountedTexts()


@pytest.mark.parametrize("form", [list, pa.array])
def test_rows_have_their_texts_before_and_after_they_were_made_canonical(texts, form):
    batch = RowBatch(2, [form([1, 2]), form([3, 4])], texts, (0,))
    assert list(batch.rows_of(BucketChoice(4), EVERY)) == [(("1", "3"), ("1.0", "3.0")), (("2", "4"), ("2.0", "4.0"))]


def test_only_the_rows_of_the_chosen_buckets_are_returned(texts):
    choice = BucketChoice(4)
    batch = RowBatch(100, [list(range(100)), [0] * 100], texts, (0,))
    found = [number for bucket in EVERY for number in numbers(batch, choice, np.array([bucket]))]
    assert sorted(found) == list(range(100))
    assert {batch.keys.shape, batch.hashes.shape} == {(2, 100)}
    buckets = choice.bucket(batch.keys)
    assert numbers(batch, choice, np.array([1])) == np.flatnonzero(buckets == 1).tolist()


def test_a_sample_returns_only_the_rows_that_it_looks_at(texts):
    choice = BucketChoice(4, 0.5)
    batch = RowBatch(100, [list(range(100))], texts, (0,))
    looked_at = choice.looked_at(batch.keys)
    assert looked_at is not None
    assert 0 < looked_at.sum() < 100
    assert numbers(batch, choice, EVERY) == np.flatnonzero(looked_at).tolist()


def test_looking_for_rows_makes_texts_of_the_key_and_of_the_rows_that_are_found(texts):
    batch = RowBatch(100, [list(range(100)), [0] * 100], texts, (0,))
    found = len(list(batch.rows_of(BucketChoice(64), np.array([7]))))
    assert 0 < found < 100
    assert texts.made == [(0, 100), (0, found), (1, found)]


def test_the_rows_of_a_table_without_a_key_are_told_apart_by_all_columns(texts):
    batch = RowBatch(3, [[1, 1, 1], [1, 2, 1]], texts, ())
    assert batch.keys is batch.hashes
    assert (batch.keys[:, 0] == batch.keys[:, 2]).all()
    assert (batch.keys[:, 0] != batch.keys[:, 1]).all()


CHOICE = BucketChoice(4)


class Texts:
    def stored(self, _column, values):
        return values.cast(pa.string())

    def canonical(self, _column, texts):
        return texts


def batch(*numbers):
    return RowBatch(len(numbers), [pa.array(numbers)], Texts(), (0,))


@pytest.mark.parametrize("empty", [BucketSums(CHOICE), BucketRows(CHOICE, np.array([0, 3]), 100)])
def test_what_two_tasks_collect_is_what_one_would_collect(empty):
    whole, first, second = empty.fresh(), empty.fresh(), empty.fresh()
    whole.add(batch(1, 2, 3, 4, 5, 6, 7, 8))
    first.add(batch(1, 2, 3))
    second.add(batch(4, 5))
    second.add(batch(6, 7, 8))
    first.merge(second)
    if isinstance(whole, BucketRows):
        assert 0 < len(whole.rows) < 8
        assert first.rows == whole.rows
    else:
        assert whole.rows == 8
        assert len(first.differing(whole)) == 0


def test_a_fresh_collection_is_empty():
    rows = BucketRows(CHOICE, np.arange(4), 100)
    rows.add(batch(1))
    assert len(rows.rows) == 1
    assert rows.fresh().rows == []


def test_rows_that_are_too_large_to_be_held_are_given_up():
    """Each row counts with its texts before and after they were made canonical."""
    empty = BucketRows(CHOICE, np.arange(4), 8)
    first, second = empty.fresh(), empty.fresh()
    first.add(batch(10, 20))
    second.add(batch(3))
    assert (first.is_complete, len(first.rows)) == (True, 2)
    first.merge(second)
    assert (first.is_complete, first.rows) == (False, [])
    first.add(batch(4))
    assert first.rows == []
