"""Blocks of an initial copy with NULL in the place of values that the target cannot hold.

A block of Arrow data is read, and written again only if a value was replaced. A block of COPY's
text is loaded by the target's server as it is, so only its columns that matter are decoded here,
and a block without such a value stays the same bytes. In the other blocks the fields are replaced
in their lines. So the fast loaders stay in use (invariant fast_equals_exact: values are decoded,
judged and counted by the same functions as in the stream).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from subscriber.apply.relations.local_relations import LocalRelation
from subscriber.apply.writing.unrepresentable import ReplacedTally, replaced_batch
from subscriber.lsn import LSN
from subscriber.protocol.copy_text import NULL, copy_text_columns
from subscriber.targets import Target, TargetColumn
from subscriber.targets.loader import BlockFormat, read_block, write_block
from subscriber.types import decode_column


class BlockReplacement:
    """Replaces values in the blocks of one copy.

    Args:
        target: the target.
        local: the table.
        columns: the columns to look at, as
            :func:`subscriber.apply.writing.unrepresentable.replaced_columns` returns them.
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
                fields[place] = NULL
                lines[number] = b"\t".join(fields)
        return b"\n".join(lines)

    def _read_text(self, block: bytes, names: Sequence[str]) -> pa.RecordBatch:
        """The values of some columns of COPY's text."""
        fields = copy_text_columns(block, [self._names.index(name) for name in names])
        columns = [self._decoded(values, name) for values, name in zip(fields, names, strict=True)]
        return pa.RecordBatch.from_arrays(columns, names=list(names))

    def _decoded(self, texts: pa.Array, name: str) -> pa.Array:
        if self._target.capabilities.postgresql_text:
            return texts.cast(pa.string())
        place = self._names.index(name)
        type_oid = self._local.remote.columns[place].type_oid
        return decode_column(type_oid, texts, binary=False, column=place + 1)
