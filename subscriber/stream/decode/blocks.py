r"""COPY data → blocks that a target's loader reads. These pure functions run on the executors.

::

    COPY … (FORMAT csv)  ──▶ binary columns ──types.decode_column──▶ Arrow block      most targets
    COPY … (text)        ───────────────────────────────────────────▶ the same bytes   targets that read COPY's text
    COPY … (binary)      ───────────────────────────────────────────▶ the same bytes   PostgreSQL, where types match

Arrow reads CSV at some millions of rows a second, and CSV distinguishes NULL (nothing) from the
empty string (two quotes). Delimiter and quote are control characters that values hardly ever
contain, so hardly any value is quoted. Blocks are compressed, because they pass through the JVM,
which copies each of them a few times.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyarrow import csv

from subscriber.base.errors import ProtocolError, SubscriberError
from subscriber.postgres.protocol.copy_text import copy_text_columns, with_columns
from subscriber.postgres.protocol.messages import Relation
from subscriber.postgres.schema.transform_rules import ColumnTransform
from subscriber.postgres.schema.transform_values import transformed, transformed_batch
from subscriber.postgres.types.registry import decode_column
from subscriber.publisher.copy_out import CopyBlock, CopyReader
from subscriber.publisher.copy_plan import CSV_DELIMITER, CSV_QUOTE, CopyFormat, CopyRange
from subscriber.targets.base.loading import write_block

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_CODEC: Final = "lz4_raw"
_NULL: Final = rb"\N"


@dataclass(frozen=True, slots=True)
class LoadBlock:
    """Some rows on their way to the loader. ``size`` is that of their COPY data;
    ``compressed_from`` is the size of ``data`` after decompression, or None.
    """

    data: bytes
    rows: int
    size: int
    compressed_from: int | None = None

    def content(self) -> bytes:
        """The block as the loader reads it, decompressed if necessary."""
        if self.compressed_from is None:
            return self.data
        return bytes(pa.decompress(self.data, self.compressed_from, codec=_CODEC, asbytes=True))


Transforms = Mapping[str, ColumnTransform]
"""The transforms of a table's columns."""
UNTRANSFORMED: Final[Transforms] = {}


def copied_block(block: CopyBlock) -> LoadBlock:
    """COPY data unchanged, but compressed, for a target that reads COPY data itself."""
    compressed = pa.compress(block.data, codec=_CODEC, asbytes=True)
    return LoadBlock(compressed, block.rows, len(block.data), len(block.data))


def _transformed_text(relation: Relation, lines: bytes, transforms: Transforms) -> bytes:
    places = [place for place, column in enumerate(relation.columns) if column.name in transforms]
    changed = {}
    for place, values in zip(places, copy_text_columns(lines, places), strict=True):
        column = relation.columns[place]
        try:
            texts = values.cast(pa.string())
            changed[place] = transformed(transforms[column.name], column.type_oid, texts, as_text=True)
        except pa.ArrowInvalid:
            raise _not_in_utf8(relation, column.name) from None
        except SubscriberError as error:
            raise error.replace(relation=relation.qualified_name, column=column.name) from None
    return with_columns(lines, changed)


def _not_in_utf8(relation: Relation, column: str) -> ProtocolError:
    return ProtocolError(
        'invalid byte sequence for encoding "UTF8"', sqlstate="22021", relation=relation.qualified_name, column=column
    )


def arrow_block(relation: Relation, block: CopyBlock, transforms: Transforms = UNTRANSFORMED) -> LoadBlock:
    """COPY's CSV as an Arrow block; a ProtocolError names the column of a wrong value."""
    rows = decode_csv(relation, block)
    if transforms:
        rows = transformed_batch(transforms, relation, rows, as_text=False)
    return LoadBlock(write_block(rows), block.rows, len(block.data))


def decode_csv(relation: Relation, block: CopyBlock) -> pa.RecordBatch:
    """The rows in COPY's CSV; raises as :func:`arrow_block`."""
    if not relation.columns:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * block.rows, pa.struct([])))
    arrays = []
    for number, (column, values) in enumerate(zip(relation.columns, parse_csv(relation, block), strict=True), 1):
        try:
            arrays.append(decode_column(column.type_oid, values, binary=False, column=number))
        except SubscriberError as error:
            raise error.replace(relation=relation.qualified_name, column=column.name) from None
    return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in relation.columns])


def parse_csv(relation: Relation, block: CopyBlock) -> list[pa.Array]:
    data = block.data
    # Arrow would remove a byte order mark at the beginning. PostgreSQL writes none, so it is part
    # of the first value.
    marked = data.startswith(_BYTE_ORDER_MARK)
    if marked:
        data = b"\n" + data
    names = [str(number) for number in range(len(relation.columns))]
    try:
        table = csv.read_csv(
            pa.py_buffer(data),
            read_options=csv.ReadOptions(
                column_names=names, skip_rows=int(marked), block_size=len(data) + 1, use_threads=False
            ),
            parse_options=csv.ParseOptions(
                delimiter=CSV_DELIMITER, quote_char=CSV_QUOTE, newlines_in_values=True, ignore_empty_lines=False
            ),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.binary()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                check_utf8=False,
            ),
        )
    except pa.ArrowInvalid:
        table = None  # the text of the error would show the row
    if table is None or table.num_rows != block.rows:
        raise ProtocolError(
            "the publisher's COPY data is not in the form that was asked for", relation=relation.qualified_name
        )
    return [column.combine_chunks() for column in table.columns]


def check_absent(rows: bytes, refused: Mapping[int, SubscriberError]) -> None:
    """Raise the error of the first column, by place in COPY's text, that has a value."""
    if refused:
        for row in rows.split(b"\n")[:-1]:
            values = row.split(b"\t")
            for place, error in refused.items():
                if values[place] != _NULL:
                    raise error


def load_block(
    relation: Relation, copy_format: CopyFormat, block: CopyBlock, transforms: Transforms = UNTRANSFORMED
) -> LoadBlock:
    """The block with the values of the target; ``relation`` has the publisher's types. Binary rows
    cannot be transformed.
    """
    if copy_format == "csv":
        return arrow_block(relation, block, transforms)
    if transforms:
        assert copy_format == "text"
        block = CopyBlock(_transformed_text(relation, block.data, transforms), block.rows)
    return copied_block(block)


def read_part(
    reader: CopyReader,
    relation: Relation,
    transforms: Transforms,
    part: CopyRange,
    most_bytes: int,
    nothing: Iterable[object],
) -> Iterator[LoadBlock | CopyRange | SubscriberError]:
    """The blocks of a range, and then the rest of it, or the error that ended it: as an object,
    because Spark would convert an exception into text.
    """
    # Spark reuses a Python worker only if the worker has read its input to the end, even if the
    # input is empty.
    deque(nothing, maxlen=0)
    try:
        for item in reader.read_range(part, most_bytes):
            if isinstance(item, CopyRange):
                yield item
            else:
                yield load_block(relation, reader.copy_format, item, transforms)
    except SubscriberError as error:
        yield error
