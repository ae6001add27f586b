"""Values that the target cannot hold, and NULL in their place (``unrepresentable_values = null``).

::

    group ──▶ for each column that the option names: mask ──▶ NULL in the new tuples, counted and recorded
                                                          └─▶ NULL in the old tuples, by which a row is found

The replacement comes before everything else, so the statements, the search for rows and the
conflicts see only values that the target can hold. A frame in which a value was replaced is applied
in the publisher's order, because only then it is known of which transaction each value is.
*Rejected:* replacing values when they are bound. The fast path does not write what later changes
overwrite, so it would count differently (invariant fast_equals_exact).

A column that does not allow NULL, or by which rows are found, is never replaced: if the option
names the column itself, the table is refused; if it names the table or all tables, such a column
stops the subscription as before.

In an initial copy, only the columns that matter are decoded, and a block without such a value stays
as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from subscriber.apply.conflicts.conflict import row_text
from subscriber.apply.frame_order import ChangeRun
from subscriber.apply.relations.target_relations import RelationMap, TargetRelation
from subscriber.apply.writing.bulk_writer import PipelinedChanges
from subscriber.base.errors import TargetRelationError
from subscriber.base.lsn import LSN
from subscriber.catalog.replaced_values import KEPT_VALUES, ReplacedColumn, ReplacedRow, ReplacedValues
from subscriber.postgres.protocol.changes import ChangeGroup, Frame
from subscriber.postgres.protocol.copy_text import NULL, copy_text_columns
from subscriber.postgres.protocol.messages import Relation
from subscriber.postgres.schema.value_rules import ValueRules
from subscriber.postgres.types.arrays import output_texts
from subscriber.postgres.types.registry import decode_column
from subscriber.targets import Target, TargetColumn
from subscriber.targets.base.loading import BlockFormat, read_block, write_block

_FULL: Final = "f"


def refusal(key: Collection[str], column: TargetColumn) -> str | None:
    """Why NULL cannot take the place of a column's values; None if it can."""
    if column.name in key:
        return "rows are found by it"
    if not column.nullable or column.null_is_generated:
        return "it does not allow NULL in the target"
    return None


def replaced_columns(rules: ValueRules, local: TargetRelation) -> dict[str, tuple[int, TargetColumn]]:
    """The columns in which NULL takes the place of values, each with the publisher's type OID. If
    the option names a column in which it cannot, that is a TargetRelationError with 42P16.
    """
    table = (local.remote.namespace, local.remote.name)
    named = {column for place, column in rules.named() if place == table}
    key = key_columns(local)
    found = {}
    for announced, column in zip(local.remote.columns, local.columns, strict=True):
        if not rules.replaces(table, column.name):
            continue
        reason = refusal(key, column)
        if reason is None:
            found[column.name] = (announced.type_oid, column)
        elif column.name in named:
            raise refused_column(local.qualified_name, column.name, reason)
    return found


def refused_column(relation: str, column: str, reason: str) -> TargetRelationError:
    return TargetRelationError(
        f'values of column "{column}" of table "{relation}" cannot be replaced by NULL, because {reason}',
        sqlstate="42P16",
        relation=relation,
        column=column,
        hint="Take the column out of the subscription's option unrepresentable_values,"
        " with ALTER SUBSCRIPTION ... SET (unrepresentable_values = '...').",
    )


def key_columns(local: TargetRelation) -> set[str]:
    """The columns by which rows are found; with REPLICA IDENTITY FULL, the target's key only."""
    relation = local.remote
    identity = () if relation.replica_identity == _FULL else relation.columns
    return {*(local.table.key or ()), *(column.name for column in identity if column.is_identity)}


@dataclass(frozen=True, slots=True)
class Replaced:
    """A group after the replacement and before it, and the masks of the new values."""

    group: ChangeGroup
    original: ChangeGroup
    masks: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)

    @property
    def is_changed(self) -> bool:
        """Whether any value was replaced, in a new or an old tuple."""
        return self.group is not self.original


class Replacement:
    """Replaces values of the groups of one batch, as the option's ``rules`` ask for it."""

    def __init__(self, target: Target, rules: ValueRules) -> None:
        self._target = target
        self._rules = rules
        self._columns: dict[TargetRelation, dict[str, tuple[int, TargetColumn]]] = {}

    def concerns(self, relation: Relation) -> bool:
        return self._rules.concern((relation.namespace, relation.name))

    def columns(self, local: TargetRelation) -> dict[str, tuple[int, TargetColumn]]:
        """The :func:`replaced_columns` of a table, once for each batch."""
        found = self._columns.get(local)
        if found is None:
            found = self._columns[local] = replaced_columns(self._rules, local)
        return found

    def replace(self, local: TargetRelation, group: ChangeGroup) -> Replaced:
        columns = self.columns(local)
        new, masks = replaced_batch(self._target, columns, group.new)
        old, olds = replaced_batch(self._target, columns, group.old)
        if not masks and not olds:
            return Replaced(group, group)
        return Replaced(replace(group, new=new, old=old), group, masks)


def replaced_batch(
    target: Target, columns: Mapping[str, tuple[int, TargetColumn]], batch: pa.RecordBatch | None
) -> tuple[pa.RecordBatch | None, dict[str, NDArray[np.bool_]]]:
    """A batch after the replacement, and the masks of its columns."""
    masks: dict[str, NDArray[np.bool_]] = {}
    if batch is None:
        return None, masks
    arrays = batch.columns
    for place, name in enumerate(batch.schema.names):
        if name not in columns:
            continue
        type_oid, column = columns[name]
        mask = target.values.unrepresentable_values(type_oid, column, arrays[place])
        if pc.any(mask).as_py():
            masks[name] = mask.to_numpy(zero_copy_only=False)
            arrays[place] = pc.if_else(mask, pa.scalar(None, arrays[place].type), arrays[place])
    if not masks:
        return batch, masks
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names), masks


class ReplacedTally:
    """The values replaced in a transaction: exact counts, and the first of each column."""

    def __init__(self, *, show_values: bool = False) -> None:
        self.columns: dict[ReplacedColumn, ReplacedValues] = {}
        self._shows_values = show_values

    def add(
        self, local: TargetRelation, masks: Mapping[str, NDArray[np.bool_]], rows: pa.RecordBatch, lsn: LSN
    ) -> None:
        """Count the values of ``rows``, as they were sent. ``lsn`` is the commit LSN of their
        transaction, or that of a copy's snapshot.
        """
        remote, key = local.remote, local.table.key or ()
        for name, mask in masks.items():
            numbers = np.flatnonzero(mask)
            if not len(numbers):
                continue
            column = ReplacedColumn(remote.namespace, remote.name, name, local.qualified_name, key)
            values = self.columns.setdefault(column, ReplacedValues(lsn, lsn))
            values.count += len(numbers)
            values.last = lsn
            values.rows += self._rows(rows, name, key, numbers[: KEPT_VALUES - len(values.rows)], lsn)

    def _rows(
        self, rows: pa.RecordBatch, name: str, key: Sequence[str], numbers: NDArray[np.int64], lsn: LSN
    ) -> Iterable[ReplacedRow]:
        if not self._shows_values:
            return [ReplacedRow(lsn)] * len(numbers)
        taken = rows.take(pa.array(numbers))
        names = [one for one in key if one in taken.schema.names]
        keys = zip(*(_texts(taken.column(one)) for one in names), strict=True) if names else repeat(())
        return [
            ReplacedRow(lsn, row_text(of) if names else None, row_text([value])[0])
            for of, value in zip(keys, _texts(taken.column(name)), strict=False)
        ]


def _texts(values: pa.Array) -> list[str | None]:
    texts = iter(output_texts(values.drop_null()))
    return [next(texts) if valid else None for valid in values.is_valid().to_pylist()]


# Blocks of a copy ---------------------------------------------------------------------------------


class BlockReplacement:
    """Replaces values in the blocks of one copy; ``lsn`` is the LSN of the copy's snapshot."""

    def __init__(
        self,
        target: Target,
        local: TargetRelation,
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
        fields = copy_text_columns(block, [self._names.index(name) for name in names])
        columns = [self._decoded(values, name) for values, name in zip(fields, names, strict=True)]
        return pa.RecordBatch.from_arrays(columns, names=list(names))

    def _decoded(self, texts: pa.Array, name: str) -> pa.Array:
        if self._target.capabilities.postgresql_text:
            return texts.cast(pa.string())
        place = self._names.index(name)
        type_oid = self._local.remote.columns[place].type_oid
        return decode_column(type_oid, texts, binary=False, column=place + 1)


# Groups of a frame --------------------------------------------------------------------------------


class ReplacedGroups:
    """The groups of the open frame; without a ``replacement`` as they were sent."""

    def __init__(self, replacement: Replacement | None, relations: RelationMap, pipelined: PipelinedChanges) -> None:
        self._replacement = replacement
        self._relations = relations
        self._pipelined = pipelined
        self._frame = Frame(())
        self._replaced: dict[int, Replaced] = {}

    def open_frame(self, frame: Frame) -> None:
        self._frame = frame
        self._replaced = {}

    def group(self, number: int) -> ChangeGroup:
        """A group, as it is written; raises TargetRelationError as :func:`replaced_columns`."""
        group = self._frame.groups[number]
        if self._replacement is None or not self._replacement.concerns(group.relation):
            return group
        if number in self._replaced:
            return self._replaced[number].group
        return self._replace(self._replacement, number, self._pipelined.open(group.relation)).group

    def may_replace(self, frame: Frame, is_applied: Callable[[Relation], bool]) -> bool:
        """Whether values of the open frame may be replaced. Only applied relations may be opened: a
        table that is being copied has the shape that its copy stores.
        """
        if self._replacement is None:
            return False
        for number, group in enumerate(frame.groups):
            if not (self._replacement.concerns(group.relation) and is_applied(group.relation)):
                continue
            local = self._relations.open_unchanged(group.relation)
            try:
                if local is None or self._replace(self._replacement, number, local).is_changed:
                    return True
            except TargetRelationError:
                return True  # the change itself fails, at its place
        return False

    def count(self, run: ChangeRun, tally: ReplacedTally, lsn: LSN) -> None:
        """Count the replaced values of a run that was written."""
        replaced = self._replaced.get(run.group)
        if replaced is None or not replaced.masks or replaced.original.new is None:
            return
        masks = {name: mask[run.start : run.stop] for name, mask in replaced.masks.items()}
        rows = replaced.original.new.slice(run.start, run.stop - run.start)
        tally.add(self._relations.open(replaced.group.relation), masks, rows, lsn)

    def _replace(self, replacement: Replacement, number: int, local: TargetRelation) -> Replaced:
        found = self._replaced.get(number)
        if found is None:
            found = self._replaced[number] = replacement.replace(local, self._frame.groups[number])
        return found
