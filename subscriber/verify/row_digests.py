r"""Digests of many rows at a time: a hash of each row, and sums of hashes for each bucket of rows.

::

    columns of text ──▶ hash of each row ─────────────────────┐
    columns of the key ──▶ hash of each key ──▶ bucket ──▶ BucketSums: rows, sum of hashes (modulo 2^128)
                                                       └─▶ BucketRows: the rows of buckets that differ

Two tables that have the same rows have the same sums in every bucket. A sum does not depend on the
order of the rows, so both sides are read in the order that is cheapest, and no collation matters.
Equal rows are counted, so tables without a key are compared as multisets. The key chooses the
bucket, so that a changed row is in the same bucket on both sides.

A hash has two halves of 64 bits, with different constants. A text is cut into words of 8 bytes.
Each word is multiplied by an odd constant of its column and its place in the text, and so is the
length of the text. The products of a row are added up, and the sum is mixed. So numpy hashes all
rows in a few passes over their bytes. The hashes do not resist someone who chooses the values.

*Rejected:* a checksum that the servers compute. No function gives the same result in every
database, and each would have to write a value as the same text. *Rejected:* ranges of keys. They
need the same order on both sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import blake2b
from typing import Final, Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from subscriber.verify.canonical_text import ColumnValues

Hashes = NDArray[np.uint64]
"""Two rows, one for each half; a column for each row of the table."""

RowTexts = tuple[str | None, ...]

ComparedRow = tuple[RowTexts, RowTexts]
"""The canonical texts of a row, and its texts before that."""

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
    sums = np.repeat(_SEEDS, rows, axis=1)
    for place, column in enumerate(columns):
        _add_column(sums, column, _factors(place))
    return _mixed(sums)


@cache
def _factors(column: int) -> Hashes:
    """The odd numbers of a column: for each word of a text, for its length, and for NULL."""
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
    """Words whose low half depends on all bits: in a product, a bit never affects lower bits."""
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
class BucketChoice:
    """The number of buckets, and the share of rows (0 to 1) to look at, which the keys choose."""

    buckets: int
    share: float = 1.0

    def looked_at(self, keys: Hashes) -> NDArray[np.bool_] | None:
        """For each key whether its row is looked at; None for all."""
        if self.share >= 1:
            return None
        chosen: NDArray[np.bool_] = keys[1] < np.uint64(int(self.share * 2.0**64))
        return chosen

    def bucket(self, keys: Hashes) -> NDArray[np.int64]:
        bucket: NDArray[np.int64] = (keys[0] % np.uint64(self.buckets)).astype(np.int64)
        return bucket


class ColumnTexts(Protocol):
    """Makes the texts of the values of one side. Columns are given by their place."""

    def stored(self, column: int, values: ColumnValues) -> pa.Array:
        """PostgreSQL's text of some values of a column."""

    def canonical(self, column: int, texts: pa.Array) -> pa.Array:
        """The canonical text of some texts of :meth:`stored`."""


class RowBatch:
    def __init__(self, rows: int, values: Sequence[ColumnValues], texts: ColumnTexts, key: Sequence[int]) -> None:
        self.rows = rows
        self._values = values
        self._texts = texts
        self._key = key
        self._canonical: dict[int, pa.Array] = {}

    @cached_property
    def keys(self) -> Hashes:
        return self._hashes(self._key) if self._key else self.hashes

    @cached_property
    def hashes(self) -> Hashes:
        return self._hashes(range(len(self._values)))

    def _hashes(self, columns: Sequence[int]) -> Hashes:
        for column in columns:
            if column not in self._canonical:
                texts = self._texts.stored(column, self._values[column])
                self._canonical[column] = self._texts.canonical(column, texts)
        return hash_rows([self._canonical[column] for column in columns], self.rows)

    def rows_of(self, choice: BucketChoice, buckets: NDArray[np.int64]) -> Iterator[ComparedRow]:
        chosen = np.isin(choice.bucket(self.keys), buckets)
        looked_at = choice.looked_at(self.keys)
        if looked_at is not None:
            chosen &= looked_at
        places = np.flatnonzero(chosen)
        if not len(places):
            return
        stored = [self._texts.stored(column, _taken(values, places)) for column, values in enumerate(self._values)]
        canonical = [self._texts.canonical(column, texts) for column, texts in enumerate(stored)]
        yield from zip(_tuples(canonical, len(places)), _tuples(stored, len(places)), strict=True)


def _taken(values: ColumnValues, places: NDArray[np.int64]) -> ColumnValues:
    if isinstance(values, pa.Array):
        return values.take(pa.array(places))
    return [values[place] for place in places]


def _tuples(columns: Sequence[pa.Array], rows: int) -> list[RowTexts]:
    if not columns:
        return [()] * rows
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


class Collected(Protocol):
    """What is collected of one side; it goes to tasks empty, and comes back to be merged."""

    def fresh(self) -> Self: ...

    def add(self, batch: RowBatch) -> None: ...

    def merge(self, other: Self) -> None: ...


class BucketSums:
    """The number of rows, and the sum of their hashes, for each bucket."""

    def __init__(self, choice: BucketChoice) -> None:
        self._choice = choice
        self._counts = np.zeros(choice.buckets, np.int64)
        self._sums = np.zeros((2, choice.buckets), np.uint64)

    @property
    def rows(self) -> int:
        return int(self._counts.sum())

    def rows_in(self, buckets: NDArray[np.int64]) -> int:
        return int(self._counts[buckets].sum())

    def fresh(self) -> BucketSums:
        return BucketSums(self._choice)

    def add(self, batch: RowBatch) -> None:
        self.add_hashes(batch.keys, batch.hashes)

    def add_hashes(self, keys: Hashes, rows: Hashes) -> None:
        chosen = self._choice.looked_at(keys)
        if chosen is not None:
            keys, rows = keys[:, chosen], rows[:, chosen]
        bucket = self._choice.bucket(keys)
        self._counts += np.bincount(bucket, minlength=self._choice.buckets)
        for half in (0, 1):
            np.add.at(self._sums[half], bucket, rows[half])

    def merge(self, other: BucketSums) -> None:
        self._counts += other._counts
        self._sums += other._sums

    def differing(self, other: BucketSums) -> NDArray[np.int64]:
        """The buckets that do not have the same rows."""
        same = (self._counts == other._counts) & (self._sums == other._sums).all(axis=0)
        return np.flatnonzero(~same)


class BucketRows:
    """The rows of some buckets, unless they are too large to be held in memory."""

    def __init__(self, choice: BucketChoice, buckets: NDArray[np.int64], most: int) -> None:
        self._choice = choice
        self._buckets = buckets
        self._most = most
        self._size = 0
        self.rows: list[ComparedRow] = []

    @property
    def is_complete(self) -> bool:
        return self._size <= self._most

    def fresh(self) -> BucketRows:
        return BucketRows(self._choice, self._buckets, self._most)

    def add(self, batch: RowBatch) -> None:
        for row in batch.rows_of(self._choice, self._buckets) if self.is_complete else ():
            self._hold([row], sum(len(text or "") for texts in row for text in texts))

    def merge(self, other: BucketRows) -> None:
        self._hold(other.rows, other._size)

    def _hold(self, rows: list[ComparedRow], size: int) -> None:
        self._size += size
        if self.is_complete:
            self.rows += rows
        else:
            self.rows = []
