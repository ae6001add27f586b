r"""Digests of many rows at a time: a hash of each row, and sums of hashes for each bucket of rows.

::

    columns of text ──▶ hash of each row ─────────────────────┐
    columns of the key ──▶ hash of each key ──▶ bucket ──▶ rows, sum of hashes (modulo 2^128)

Two tables that have the same rows have the same sums in every bucket. A sum does not depend on the
order of the rows, so both sides are read in the order that is cheapest, and no collation matters.
Equal rows are counted, so tables without a key are compared as multisets. The key chooses the
bucket, so that a changed row is in the same bucket on both sides.

A hash has two halves of 64 bits. A text is cut into words of 8 bytes. Each word is multiplied by an
odd constant of its column and its place in the text, and so is the length of the text. The products
of a row are added up, and the sum is mixed. So numpy hashes all rows in a few passes over their
bytes. The halves differ in their constants. The hashes are not meant to resist someone who chooses
the values.

*Rejected:* a checksum that the servers compute. No function gives the same result in every
database, and a value would have to be written as the same text by each of them.

*Rejected:* ranges of keys. They need the same order on both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
"""Two rows, one for each half; a column for each row of the table."""

_WORD: Final = 8
_MASKS: Final = np.array([(1 << 8 * size) - 1 for size in range(_WORD + 1)], np.uint64)
"""For each number of bytes that a word has: the bits to keep."""
_WORDS: Final = 16
_LONGEST: Final = _WORDS * _WORD
"""A text with more bytes counts as its digest, which has two words."""
_DIGEST_BYTES: Final = 2 * _WORD
_SEEDS: Final = np.array([[0x9E3779B97F4A7C15], [0xC2B2AE3D27D4EB4F]], np.uint64)
_STEP: Final = np.uint64(0xD6E8FEB86659FD93)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)


def hash_rows(columns: Sequence[pa.Array], rows: int) -> Hashes:
    """The hash of each row.

    Args:
        columns: the texts of each column; NULL is not equal to any text.
        rows: the number of rows.
    """
    sums = np.repeat(_SEEDS, rows, axis=1)
    for place, column in enumerate(columns):
        _add_column(sums, column, _factors(place))
    return _mixed(sums)


@cache
def _factors(column: int) -> Hashes:
    """The odd numbers of a column: one for each word of a text, one for its length, and one for
    NULL.
    """
    count = _WORDS + 2
    numbers = np.arange(column * count, (column + 1) * count, dtype=np.uint64)
    return _mixed(numbers * _STEP + _SEEDS) | np.uint64(1)


def _add_column(sums: Hashes, column: pa.Array, factors: Hashes) -> None:
    column = column.cast(pa.large_binary())
    _, offsets, content = column.buffers()
    if not len(column):
        return
    ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    begins, sizes = ends[:-1], np.diff(ends)
    if column.null_count:
        absent = np.asarray(column.is_null().to_numpy(zero_copy_only=False), bool)
        sizes = np.where(absent, 0, sizes)
        sums += absent * factors[:, -1:]
    sums += sizes.astype(np.uint64) * factors[:, -2:-1]
    if content is None:
        return
    for place in np.flatnonzero(sizes > _LONGEST):
        text = content[int(begins[place]) : int(begins[place] + sizes[place])]
        words = np.frombuffer(blake2b(text, digest_size=_DIGEST_BYTES).digest(), "<u8")
        sums[:, place] += (_folded(words) * factors[:, : len(words)]).sum(axis=1, dtype=np.uint64)
    _add_words(sums, content, begins, np.where(sizes > _LONGEST, 0, sizes), factors)


def _add_words(
    sums: Hashes, content: pa.Buffer, begins: NDArray[np.int64], sizes: NDArray[np.int64], factors: Hashes
) -> None:
    """Add the products of the words of each text."""
    low, high = int(begins[0]), int(begins[-1] + sizes[-1])
    data = np.zeros(high - low + _WORD, np.uint8)
    data[: high - low] = np.frombuffer(content, np.uint8)[low:high]
    word_at = np.ndarray((high - low + 1,), np.dtype("<u8"), data, 0, (1,))
    begins = begins - low
    for place in range(-(-int(sizes.max()) // _WORD)):
        left = sizes - place * _WORD
        some = slice(None) if left.min() > 0 else np.flatnonzero(left > 0)
        words = word_at[begins[some] + place * _WORD] & _MASKS[np.minimum(left[some], _WORD)]
        sums[:, some] += _folded(words) * factors[:, place : place + 1]


def _folded(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Words whose low half depends on all bits. A product keeps a bit of the word from affecting
    lower bits of the hash.
    """
    return words ^ (words >> np.uint64(32))


def _mixed(numbers: Hashes) -> Hashes:
    """Numbers whose bits each depend on every bit of the number given (the end of splitmix64)."""
    numbers = numbers ^ (numbers >> np.uint64(30))
    numbers *= _FIRST
    numbers ^= numbers >> np.uint64(27)
    numbers *= _SECOND
    numbers ^= numbers >> np.uint64(31)
    return numbers


@dataclass(frozen=True, slots=True)
class Choice:
    """How rows are put into buckets, and which rows are looked at.

    Attributes:
        buckets: the number of buckets.
        share: the share of the rows that are looked at, from 0 to 1. The key chooses them, so both
            sides look at the same rows.
    """

    buckets: int
    share: float = 1.0

    def looked_at(self, keys: Hashes) -> NDArray[np.bool_] | None:
        """For each key whether its row is looked at; None for all."""
        if self.share >= 1:
            return None
        chosen: NDArray[np.bool_] = keys[1] < np.uint64(int(self.share * 2.0**64))
        return chosen

    def bucket(self, keys: Hashes) -> NDArray[np.int64]:
        """The bucket of each key."""
        bucket: NDArray[np.int64] = (keys[0] % np.uint64(self.buckets)).astype(np.int64)
        return bucket


class BucketSums:
    """The number of rows, and the sum of their hashes, for each bucket.

    Args:
        choice: how rows are put into buckets.
    """

    def __init__(self, choice: Choice) -> None:
        self.choice = choice
        self._counts = np.zeros(choice.buckets, np.int64)
        self._sums = np.zeros((2, choice.buckets), np.uint64)

    @property
    def rows(self) -> int:
        """The number of rows in all buckets."""
        return int(self._counts.sum())

    def rows_in(self, buckets: NDArray[np.int64]) -> int:
        """The number of rows in some buckets."""
        return int(self._counts[buckets].sum())

    def add(self, keys: Hashes, rows: Hashes) -> None:
        """Add rows.

        Args:
            keys: the hash of each row's key.
            rows: the hash of each row.
        """
        chosen = self.choice.looked_at(keys)
        if chosen is not None:
            keys, rows = keys[:, chosen], rows[:, chosen]
        bucket = self.choice.bucket(keys)
        self._counts += np.bincount(bucket, minlength=self.choice.buckets)
        for half in (0, 1):
            np.add.at(self._sums[half], bucket, rows[half])

    def merge(self, other: BucketSums) -> None:
        """Add the rows of another object of the same choice."""
        self._counts += other._counts
        self._sums += other._sums

    def differing(self, other: BucketSums) -> NDArray[np.int64]:
        """The buckets that do not have the same rows."""
        same = (self._counts == other._counts) & (self._sums == other._sums).all(axis=0)
        return np.flatnonzero(~same)
