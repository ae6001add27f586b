"""Blocks of an initial copy with NULL in the place of values that the target cannot hold.

A block of Arrow data is read, and written again only if a value was replaced. A block of COPY's text
is loaded by the target's server as it is, so only its columns that matter are decoded here, and a
block without such a value stays the same bytes. In the other blocks the fields are replaced in their
lines. So the fast loaders stay in use (invariant fast_equals_exact: values are decoded, judged and
counted by the same functions as in the stream).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from subscriber.apply.local_relations import LocalRelation
from subscriber.apply.unrepresentable import ReplacedTally, replaced_batch
from subscriber.lsn import LSN
from subscriber.targets import Target, TargetColumn
from subscriber.targets.loader import BlockFormat, read_block, write_block
from subscriber.types import decode_column

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_NULL: Final = rb"\N"
_ESCAPE: Final = re.compile(rb"\\(.)", re.DOTALL)
_ESCAPES: Final = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


class BlockReplacement:
    """Replaces values in the blocks of one copy.

    Args:
        target: the target.
        local: the table.
        columns: the columns to look at, as
            :func:`subscriber.apply.unrepresentable.replaced_columns` returns them.
        tally: counts the values.
        lsn: the LSN of the copy's snapshot.
    """

    def __init__(
        self,
        target: Target,
        local: LocalRelation,
        columns: Mapping[str, tuple[int, TargetColumn]],
        tally: ReplacedTally,
        lsn: LSN,
    ) -> None:
        self._target = target
        self._local = local
        self._columns = columns
        self._tally = tally
        self._lsn = lsn
        self._names = [column.name for column in local.columns]

    def replace(self, block: bytes, block_format: BlockFormat) -> bytes:
        """The block with NULL in the place of values that the target cannot hold.

        Args:
            block: a block.
            block_format: its format, text or Arrow.
        """
        assert block_format != "binary"
        return self._replace_arrow(block) if block_format == "arrow" else self._replace_text(block)

    def _replace_arrow(self, block: bytes) -> bytes:
        batch = read_block(block).rename_columns(self._names)
        replaced, masks = replaced_batch(self._target, self._columns, batch)
        if replaced is None or not masks:
            return block
        self._tally.add(self._local, masks, batch, self._lsn)
        return write_block(replaced)

    def _replace_text(self, block: bytes) -> bytes:
        key = self._local.table.key or ()
        names = [name for name in self._names if name in self._columns or name in key]
        batch = self._read_text(block, names)
        _, masks = replaced_batch(self._target, self._columns, batch)
        if not masks:
            return block
        self._tally.add(self._local, masks, batch, self._lsn)
        lines = block.split(b"\n")
        for name, mask in masks.items():
            place = self._names.index(name)
            for number in np.flatnonzero(mask).tolist():
                fields = lines[number].split(b"\t")
                fields[place] = _NULL
                lines[number] = b"\t".join(fields)
        return b"\n".join(lines)

    def _read_text(self, block: bytes, names: Sequence[str]) -> pa.RecordBatch:
        """The values of some columns of COPY's text."""
        fields = {name: f"f{self._names.index(name)}" for name in names}
        table = csv.read_csv(
            # Arrow removes a byte order mark, which may be the first value's.
            pa.BufferReader(_BYTE_ORDER_MARK + block if block.startswith(_BYTE_ORDER_MARK) else block),
            csv.ReadOptions(autogenerate_column_names=True, use_threads=False, block_size=len(block) + 4),
            csv.ParseOptions(delimiter="\t", quote_char=False, newlines_in_values=False, ignore_empty_lines=False),
            csv.ConvertOptions(
                column_types=dict.fromkeys(fields.values(), pa.binary()),
                include_columns=list(fields.values()),
                null_values=[_NULL.decode()],
                strings_can_be_null=True,
            ),
        )
        columns = [self._decoded(table.column(field).combine_chunks(), name) for name, field in fields.items()]
        return pa.RecordBatch.from_arrays(columns, names=list(fields))

    def _decoded(self, texts: pa.Array, name: str) -> pa.Array:
        if pc.any(pc.match_substring(texts, "\\")).as_py():
            texts = pa.array([None if text is None else _unescaped(text) for text in texts.to_pylist()], pa.binary())
        if self._target.capabilities.postgresql_text:
            return texts.cast(pa.string())
        place = self._names.index(name)
        type_oid = self._local.remote.columns[place].type_oid
        return decode_column(type_oid, texts, binary=False, column=place + 1)


def _unescaped(field: bytes) -> bytes:
    return _ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[1]), field)
