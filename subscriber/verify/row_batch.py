"""Some rows of one side of a comparison. Texts and hashes are made when they are asked for.

The first reading of a table needs the hashes of all rows. The second one needs the key of every
row, and the other columns only of the rows that are in buckets that differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from subscriber.verify.row_digests import Choice, Hashes, hash_rows

Values: TypeAlias = pa.Array | Sequence[Any]
"""The values of a column, as the server or the driver returned them."""

Row = tuple[tuple[str | None, ...], tuple[str | None, ...]]
"""The canonical texts of a row, and its texts before that."""


class ColumnTexts(Protocol):
    """Makes the texts of the values of one side."""

    def stored(self, column: int, values: Values) -> pa.Array:
        """PostgreSQL's text of some values of a column.

        Args:
            column: the place of the column.
            values: the values.
        """

    def canonical(self, column: int, texts: pa.Array) -> pa.Array:
        """The canonical text of some texts of a column.

        Args:
            column: the place of the column.
            texts: texts of :meth:`stored`.
        """


class RowBatch:
    """Some rows of one side.

    Args:
        rows: the number of rows.
        values: the values of each column.
        texts: makes their texts.
        key: the places of the key's columns; empty for a table without a key, whose rows are told
            apart by all columns.
    """

    def __init__(self, rows: int, values: Sequence[Values], texts: ColumnTexts, key: Sequence[int]) -> None:
        self.rows = rows
        self._values = values
        self._texts = texts
        self._key = key
        self._canonical: dict[int, pa.Array] = {}

    @cached_property
    def keys(self) -> Hashes:
        """The hash of each row's key."""
        return self._hashes(self._key) if self._key else self.hashes

    @cached_property
    def hashes(self) -> Hashes:
        """The hash of each row."""
        return self._hashes(range(len(self._values)))

    def _hashes(self, columns: Sequence[int]) -> Hashes:
        for column in columns:
            if column not in self._canonical:
                texts = self._texts.stored(column, self._values[column])
                self._canonical[column] = self._texts.canonical(column, texts)
        return hash_rows([self._canonical[column] for column in columns], self.rows)

    def rows_of(self, choice: Choice, buckets: NDArray[np.int64]) -> Iterator[Row]:
        """The rows of some buckets, one at a time.

        Args:
            choice: how rows are put into buckets, and which rows are looked at.
            buckets: the buckets.
        """
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


def _taken(values: Values, places: NDArray[np.int64]) -> Values:
    if isinstance(values, pa.Array):
        return values.take(pa.array(places))
    return [values[place] for place in places]


def _tuples(columns: Sequence[pa.Array], rows: int) -> list[tuple[str | None, ...]]:
    if not columns:
        return [()] * rows
    return list(zip(*(column.to_pylist() for column in columns), strict=True))
