"""The publisher's side of a comparison: digests of ranges of a table, and the rows of some buckets.

::

    CopyRange ──COPY (csv)──▶ columns of text ──▶ canonical text ──▶ hashes ──┬─▶ BucketSums      (a task)
                                                                              └─▶ rows of buckets  (the driver)

These functions run in tasks of Spark, and in one process alike. They read the snapshot that the
caller holds.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from subscriber.errors import SubscriberError
from subscriber.protocol.messages import Relation
from subscriber.publisher.copy_out import CopyBlock, CopyReader
from subscriber.publisher.copy_plan import CopyRange
from subscriber.stages.blocks import parse_csv
from subscriber.verify.canonical_columns import ComparedColumn
from subscriber.verify.row_digests import BucketSums, Choice, Hashes, hash_rows, hash_values

_NO_LIMIT: Final = 1 << 62
"""The result of a task is small, whatever it reads."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Some rows of one side.

    Attributes:
        rows: the number of rows.
        columns: the canonical text of each column.
        stored: the text of each column before that.
        keys: the hash of each row's key.
        hashes: the hash of each row.
    """

    rows: int
    columns: Sequence[pa.Array]
    stored: Sequence[pa.Array]
    keys: Hashes
    hashes: Hashes

    @classmethod
    def of(cls, rows: int, columns: Sequence[pa.Array], stored: Sequence[pa.Array], key: Sequence[int]) -> Batch:
        """The batch of these columns.

        Args:
            rows: the number of rows.
            columns: the canonical text of each column.
            stored: the text of each column before that.
            key: the places of the key's columns; empty for a table without a key, whose rows are
                told apart by all columns.
        """
        values = [hash_values(column) for column in columns]
        hashes = hash_rows(values, rows)
        keys = hash_rows([values[place] for place in key], rows) if key else hashes
        return cls(rows, columns, stored, keys, hashes)

    def rows_of(self, choice: Choice, buckets: NDArray[np.int64]) -> Iterator[Row]:
        """The rows of some buckets, one at a time."""
        chosen = np.isin(choice.bucket(self.keys), buckets)
        looked_at = choice.looked_at(self.keys)
        if looked_at is not None:
            chosen &= looked_at
        places = np.flatnonzero(chosen)
        if len(places):
            where = pa.array(places)
            yield from zip(_tuples(self.columns, where), _tuples(self.stored, where), strict=True)


Row = tuple[tuple[str | None, ...], tuple[str | None, ...]]
"""The canonical texts of a row, and its texts before that."""


def _tuples(columns: Sequence[pa.Array], where: pa.Array) -> list[tuple[str | None, ...]]:
    if not columns:
        return [()] * len(where)
    return list(zip(*(column.take(where).to_pylist() for column in columns), strict=True))


@dataclass(frozen=True, slots=True)
class PublisherSide:
    """What tasks need to read a table of the publisher.

    Attributes:
        reader: reads ranges of the table.
        relation: the columns that are read.
        columns: the same columns, as they are compared.
        key: the places of the key's columns; empty for a table without a key.
        choice: how rows are put into buckets.
    """

    reader: CopyReader
    relation: Relation
    columns: tuple[ComparedColumn, ...]
    key: tuple[int, ...]
    choice: Choice

    def batches(self, part: CopyRange, stop: threading.Event) -> Iterator[Batch]:
        """The rows of a range.

        Raises:
            SubscriberError: the range cannot be read; see :meth:`CopyReader.read_range`.
        """
        if not part.piece.row_slots:
            yield from self._whole(part, stop)
            return
        with closing(self.reader.read_range(part, _NO_LIMIT)) as items:  # type: ignore[type-var]
            for item in items:
                if isinstance(item, CopyRange):
                    yield from self._whole(item, stop)
                else:
                    yield self._batch(item)

    def _whole(self, part: CopyRange, stop: threading.Event) -> Iterator[Batch]:
        with closing(self.reader.read_whole(part, stop)) as blocks:
            for block in blocks:
                yield self._batch(block)

    def _batch(self, block: CopyBlock) -> Batch:
        texts = parse_csv(self.relation, block) if self.columns else []
        texts = [text.cast(pa.string()) for text in texts]
        columns = []
        for compared, text in zip(self.columns, texts, strict=True):
            try:
                columns.append(compared.publisher_text(text))
            except SubscriberError as error:
                raise error.replace(relation=self.relation.qualified_name, column=compared.name) from None
        return Batch.of(block.rows, columns, texts, self.key)


def digest_range(
    side: PublisherSide, part: CopyRange, stop: threading.Event, on_rows: Callable[[int], None] = lambda _rows: None
) -> BucketSums:
    """The sums of a range.

    Args:
        side: the table.
        part: the range.
        stop: ends the reading with an error.
        on_rows: called with the number of rows of each batch.

    Raises:
        SubscriberError: the range cannot be read.
    """
    sums = BucketSums(side.choice)
    for batch in side.batches(part, stop):
        sums.add(batch.keys, batch.hashes)
        on_rows(batch.rows)
    return sums


def digest_task(side: PublisherSide, part: CopyRange, nothing: Iterable[object]) -> Iterator[bytes | SubscriberError]:
    """The result of a Spark task: the sums of a range as bytes, or the error that ended it.

    Errors are returned as objects, because Spark would convert an exception into text.
    """
    # Spark reuses a Python worker only if the worker has read its input to the end.
    deque(nothing, maxlen=0)
    try:
        yield digest_range(side, part, threading.Event()).to_bytes()
    except SubscriberError as error:
        yield error
