r"""COPY data → blocks that a target's loader reads. These pure functions run on the executors.

::

    COPY … (FORMAT csv)  ──▶ binary columns ──types.decode_column──▶ Arrow block      most targets
    COPY … (text)        ───────────────────────────────────────────▶ the same bytes   targets that read COPY's text
    COPY … (binary)      ───────────────────────────────────────────▶ the same bytes   PostgreSQL, where types match

Arrow reads CSV at some millions of rows a second, and CSV distinguishes NULL (nothing) from the
empty string (two quotes). Delimiter and quote are control characters that values hardly ever
contain, so hardly any value is quoted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyarrow import csv

from subscriber.base.errors import ProtocolError, SubscriberError
from subscriber.postgres.protocol.copy_text import copy_text_columns, with_columns
from subscriber.postgres.protocol.messages import Relation
from subscriber.postgres.schema.transform_rules import ColumnTransform
from subscriber.postgres.schema.transform_values import transformed, transformed_batch
from subscriber.postgres.types.registry import decode_column
from subscriber.publisher.copy_out import CopyBlock
from subscriber.publisher.copy_plan import CSV_DELIMITER, CSV_QUOTE, CopyFormat
from subscriber.targets.base.loading import block_buffer

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_CODEC: Final = "lz4_raw"
_NULL: Final = rb"\N"


@dataclass(frozen=True, slots=True)
class LoadBlock:
    """Some rows on their way to the loader. ``size`` is that of their COPY data;
    ``compressed_from`` is the size of ``data`` after decompression, or None.
    """

    data: bytes | pa.Buffer
    rows: int
    size: int
    compressed_from: int | None = None

    def content(self) -> bytes:
        """The block as the loader reads it, decompressed if necessary."""
        if self.compressed_from is None:
            return bytes(self.data)
        return bytes(pa.decompress(self.data, self.compressed_from, codec=_CODEC, asbytes=True))

    def compressed(self) -> LoadBlock:
        """The block for the way through the JVM, which copies it a few times."""
        data = pa.compress(self.data, codec=_CODEC, asbytes=True)
        return replace(self, data=data, compressed_from=memoryview(self.data).nbytes)


Transforms = Mapping[str, ColumnTransform]
"""The transforms of a table's columns."""
UNTRANSFORMED: Final[Transforms] = {}


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
    return LoadBlock(block_buffer(rows), block.rows, len(block.data))


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
    return LoadBlock(block.data, block.rows, len(block.data))
