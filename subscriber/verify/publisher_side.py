"""The publisher's side of a comparison: its rows in batches, as columns of canonical text.

It is read in ranges, by tasks of Spark and in one process alike, with the snapshot that the caller
holds.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from subscriber.errors import SubscriberError
from subscriber.protocol.messages import Relation
from subscriber.publisher.copy_out import CopyBlock, CopyReader
from subscriber.publisher.copy_plan import CopyRange
from subscriber.stages.blocks import parse_csv
from subscriber.verify.canonical_columns import ComparedColumn
from subscriber.verify.row_batch import RowBatch, Values
from subscriber.verify.row_digests import Choice

_NO_LIMIT: Final = 1 << 62
"""The result of a task is small, whatever it reads."""


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

    def batches(self, part: CopyRange, stop: threading.Event) -> Iterator[RowBatch]:
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

    def _whole(self, part: CopyRange, stop: threading.Event) -> Iterator[RowBatch]:
        with closing(self.reader.read_whole(part, stop)) as blocks:
            for block in blocks:
                yield self._batch(block)

    def _batch(self, block: CopyBlock) -> RowBatch:
        values = parse_csv(self.relation, block) if self.columns else []
        return RowBatch(block.rows, values, self, self.key)

    def stored(self, column: int, values: Values) -> pa.Array:
        """See :meth:`.ColumnTexts.stored`."""
        del column
        assert isinstance(values, pa.Array)
        return values.cast(pa.string())

    def canonical(self, column: int, texts: pa.Array) -> pa.Array:
        """See :meth:`.ColumnTexts.canonical`.

        Raises:
            SubscriberError: a text is not a value of its type, or not one of the target's type.
        """
        compared = self.columns[column]
        try:
            return compared.publisher_text(texts)
        except SubscriberError as error:
            raise error.replace(relation=self.relation.qualified_name, column=compared.name) from None
