r"""Digests of many rows at a time: a hash of each row, and sums of hashes for each bucket of rows.

::

    columns of text ──▶ hash of each value ──▶ hash of each row ──────┐
                                    └────────▶ hash of each key ──▶ bucket ──▶ rows, sum of hashes (modulo 2^128)

Two tables that have the same rows have the same sums in every bucket. A sum does not depend on the
order of the rows, so both sides are read in the order that is cheapest, and no collation matters.
Equal rows are counted, so tables without a key are compared as multisets. The key chooses the
bucket, so that a changed row is in the same bucket on both sides.

A hash has two halves of 64 bits. The words of a text, of 8 bytes each, are mixed with their places
and added up; so numpy hashes all values of a column in a few passes over their bytes. The halves
differ in their constants. The hashes are not meant to resist someone who chooses the values.

*Rejected:* a checksum that the servers compute. No function gives the same result in every
database, and a value would have to be written as the same text by each of them.

*Rejected:* ranges of keys. They need the same order on both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
"""Two rows, one for each half; a column for each value."""

_WORD: Final = 8
_MASKS: Final = np.array([(1 << 8 * size) - 1 for size in range(_WORD + 1)], np.uint64)
"""For each number of bytes that a word has: the bits to keep."""
_SEEDS: Final = np.array([[0x9E3779B97F4A7C15], [0xC2B2AE3D27D4EB4F]], np.uint64)
_STEPS: Final = np.array([[0xD6E8FEB86659FD93], [0xA0761D6478BD642F]], np.uint64)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)
_NULL: Final = np.array([[0x8EBC6AF09C88C6E3], [0x589965CC75374CC3]], np.uint64)
"""The hash of NULL."""


def hash_rows(values: Sequence[Hashes], count: int) -> Hashes:
    """The hash of each row.

    Args:
        values: the hashes of each column's values.
        count: the number of rows.
    """
    hashes = np.repeat(_SEEDS, count, axis=1)
    for column in values:
        hashes = _mixed(hashes * _STEPS + column)
    return hashes


def hash_values(values: pa.Array) -> Hashes:
    """The hash of each value of a column; that of NULL is not that of any text."""
    column = values.cast(pa.large_binary())
    _, offsets, content = column.buffers()
    ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    begins, sizes = ends[:-1], np.diff(ends)
    present = None
    if column.null_count:
        present = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), bool)
        sizes = np.where(present, sizes, 0)
    hashes = _mixed(_sums(content, begins, sizes) + sizes.astype(np.uint64) * _STEPS)
    return hashes if present is None else np.where(present, hashes, _NULL)


def _sums(content: pa.Buffer | None, begins: NDArray[np.int64], sizes: NDArray[np.int64]) -> Hashes:
    """The sum of the mixed words of each value."""
    words = (sizes + _WORD - 1) // _WORD
    sums = np.zeros((2, len(sizes)), np.uint64)
    total = int(words.sum())
    if not total or content is None:
        return sums
    if int(words.max()) == 1:
        return _sums_of_short(content, begins, sizes)
    first = np.cumsum(words) - words
    owner = np.repeat(np.arange(len(sizes)), words)
    place = np.arange(total) - first[owner]
    bits = _words(content, begins[owner] + place * _WORD, np.minimum(sizes[owner] - place * _WORD, _WORD))
    mixed = _mixed(bits + place.astype(np.uint64) * _STEPS + _SEEDS)
    some = words > 0
    sums[:, some] = np.add.reduceat(mixed, first[some], axis=1)
    return sums


def _sums_of_short(content: pa.Buffer, begins: NDArray[np.int64], sizes: NDArray[np.int64]) -> Hashes:
    """The result of :func:`_sums` for values of which none has more than one word."""
    mixed = _mixed(_words(content, begins, sizes) + _SEEDS)
    return np.where(sizes > 0, mixed, np.uint64(0))


def _words(content: pa.Buffer, begins: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Words of up to 8 bytes, filled up with zeros."""
    low, high = int(begins.min()), int((begins + sizes).max())
    data = np.zeros(high - low + _WORD, np.uint8)
    data[: high - low] = np.frombuffer(content, np.uint8)[low:high]
    windows = np.lib.stride_tricks.sliding_window_view(data, _WORD)
    words: NDArray[np.uint64] = windows[begins - low].view("<u8").reshape(len(begins))
    return words & _MASKS[sizes]


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

    def to_bytes(self) -> bytes:
        """The sums as bytes, compressed; the result of a task."""
        data = self._counts.astype("<i8").tobytes() + self._sums.astype("<u8").tobytes()
        return bytes(pa.compress(data, codec="lz4_raw", asbytes=True))

    @classmethod
    def from_bytes(cls, choice: Choice, data: bytes) -> Self:
        """Read the bytes that :meth:`to_bytes` wrote."""
        sums = cls(choice)
        plain = pa.decompress(data, choice.buckets * 24, codec="lz4_raw", asbytes=True)
        sums._counts = np.frombuffer(plain, "<i8", choice.buckets).astype(np.int64)
        sums._sums = np.frombuffer(plain, "<u8", offset=choice.buckets * 8).reshape(2, -1).astype(np.uint64)
        return sums
