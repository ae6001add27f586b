"""What is collected of the rows of one side: sums of hashes, or the rows of some buckets.

Several tasks collect of the same table, each of some ranges. Their collections are merged.
"""

from __future__ import annotations

from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from subscriber.verify.row_batch import Row, RowBatch
from subscriber.verify.row_digests import BucketSums, Choice


class Collected(Protocol):
    """What is collected. It is sent to tasks while it is empty, and back from them."""

    def fresh(self) -> Self:
        """An empty collection of the same kind."""

    def add(self, batch: RowBatch) -> None:
        """Add some rows."""

    def merge(self, other: Self) -> None:
        """Add what another collection has."""


class CollectedSums:
    """The sums of all rows.

    Args:
        choice: how rows are put into buckets, and which rows are looked at.
    """

    def __init__(self, choice: Choice) -> None:
        self.sums = BucketSums(choice)

    def fresh(self) -> CollectedSums:
        """See :meth:`Collected.fresh`."""
        return CollectedSums(self.sums.choice)

    def add(self, batch: RowBatch) -> None:
        """See :meth:`Collected.add`."""
        self.sums.add(batch.keys, batch.hashes)

    def merge(self, other: CollectedSums) -> None:
        """See :meth:`Collected.merge`."""
        self.sums.merge(other.sums)


class CollectedRows:
    """The rows of some buckets, unless they are too large to be held in memory.

    Args:
        choice: how rows are put into buckets, and which rows are looked at.
        buckets: the buckets.
        most: the largest number of characters that are held. If there are more, the rows are given
            up.
    """

    def __init__(self, choice: Choice, buckets: NDArray[np.int64], most: int) -> None:
        self._choice = choice
        self._buckets = buckets
        self._most = most
        self._size = 0
        self.rows: list[Row] = []

    @property
    def is_complete(self) -> bool:
        """Whether all rows are held."""
        return self._size <= self._most

    def fresh(self) -> CollectedRows:
        """See :meth:`Collected.fresh`."""
        return CollectedRows(self._choice, self._buckets, self._most)

    def add(self, batch: RowBatch) -> None:
        """See :meth:`Collected.add`."""
        for row in batch.rows_of(self._choice, self._buckets) if self.is_complete else ():
            self._hold([row], sum(len(text or "") for texts in row for text in texts))

    def merge(self, other: CollectedRows) -> None:
        """See :meth:`Collected.merge`."""
        self._hold(other.rows, other._size)

    def _hold(self, rows: list[Row], size: int) -> None:
        self._size += size
        if self.is_complete:
            self.rows += rows
        else:
            self.rows = []
