"""Values that the target cannot hold, and NULL in their place (``unrepresentable_values = null``).

::

    group ──▶ for each column that the option names: mask ──▶ NULL in the new tuples, counted and recorded
                                                          └─▶ NULL in the old tuples, by which a row is found

The replacement comes before everything else that is done with the values, so the statements, the
search for rows and the conflicts see only values that the target can hold. A frame in which a value
was replaced is applied in the publisher's order, change by change, because only then it is known of
which transaction each value is. Frames without such a value are regrouped and folded as usual, so
the option costs the masks of the columns that it names. *Rejected:* replacing values when they are
bound. The fast and the exact path would then count differently, because the fast one does not write
what later changes overwrite (invariant fast_equals_exact).

A row of a table without a key is found by all its values, so an old value is replaced as well. A
column in which NULL is not allowed, or by which rows are found, is never replaced: if the option
names the column itself, the table is refused; if it names the table or all tables, such a column
stops the subscription as before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from subscriber.apply.conflicts.conflict import row_text
from subscriber.apply.relations.local_relations import LocalRelation
from subscriber.catalog.replaced_values import KEPT_VALUES, ReplacedColumn, ReplacedRow, ReplacedValues
from subscriber.errors import TargetRelationError
from subscriber.lsn import LSN
from subscriber.protocol.changes import ChangeGroup
from subscriber.protocol.messages import Relation
from subscriber.schema.value_rules import ValueRules
from subscriber.targets import Target, TargetColumn
from subscriber.types.output import output_texts

_FULL: Final = "f"


def refusal(key: Collection[str], column: TargetColumn) -> str | None:
    """Why NULL cannot take the place of a column's values; None if it can.

    Args:
        key: the columns by which rows are found.
        column: the target's column.
    """
    if column.name in key:
        return "rows are found by it"
    if not column.nullable or column.null_is_generated:
        return "it does not allow NULL in the target"
    return None


def replaced_columns(rules: ValueRules, local: LocalRelation) -> dict[str, tuple[int, TargetColumn]]:
    """The columns of a table in which NULL takes the place of values, each with the type OID of the
    publisher's column.

    Raises:
        TargetRelationError: 42P16, the option names a column in which it cannot.
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
    """The error for a column that the option names, and in which NULL cannot take the place of
    values.

    Args:
        relation: the target's table.
        column: the column.
        reason: what :func:`refusal` has returned.
    """
    return TargetRelationError(
        f'values of column "{column}" of table "{relation}" cannot be replaced by NULL, because {reason}',
        sqlstate="42P16",
        relation=relation,
        column=column,
        hint="Take the column out of the subscription's option unrepresentable_values,"
        " with ALTER SUBSCRIPTION ... SET (unrepresentable_values = '...').",
    )


def key_columns(local: LocalRelation) -> set[str]:
    """The columns by which rows of a table are found, for :func:`refusal`.

    With REPLICA IDENTITY FULL every column is sent, and none of them identifies a row alone.
    """
    relation = local.remote
    identity = () if relation.replica_identity == _FULL else relation.columns
    return {*(local.table.key or ()), *(column.name for column in identity if column.is_identity)}


@dataclass(frozen=True, slots=True)
class Replaced:
    """A group after the replacement.

    Attributes:
        group: the changes, with NULL in the place of values that the target cannot hold.
        original: the changes as they were sent.
        masks: for each column of which new values were replaced, the mask of the changes.
    """

    group: ChangeGroup
    original: ChangeGroup
    masks: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)

    @property
    def is_changed(self) -> bool:
        """Whether any value was replaced, in a new or an old tuple."""
        return self.group is not self.original


class Replacement:
    """Replaces values of the groups of one batch.

    Args:
        target: the target of the changes.
        rules: the option.
    """

    def __init__(self, target: Target, rules: ValueRules) -> None:
        self._target = target
        self._rules = rules
        self._columns: dict[LocalRelation, dict[str, tuple[int, TargetColumn]]] = {}

    def concerns(self, relation: Relation) -> bool:
        """Whether values of a relation may be replaced."""
        return self._rules.concern((relation.namespace, relation.name))

    def columns(self, local: LocalRelation) -> dict[str, tuple[int, TargetColumn]]:
        """See :func:`replaced_columns`; it is determined once for each table of a batch.

        Raises:
            TargetRelationError: 42P16.
        """
        found = self._columns.get(local)
        if found is None:
            found = self._columns[local] = replaced_columns(self._rules, local)
        return found

    def replace(self, local: LocalRelation, group: ChangeGroup) -> Replaced:
        """Replace the values of a group that its table cannot hold.

        Raises:
            TargetRelationError: as :meth:`columns`.
        """
        columns = self.columns(local)
        new, masks = replaced_batch(self._target, columns, group.new)
        old, olds = replaced_batch(self._target, columns, group.old)
        if not masks and not olds:
            return Replaced(group, group)
        return Replaced(replace(group, new=new, old=old), group, masks)


def replaced_batch(
    target: Target, columns: Mapping[str, tuple[int, TargetColumn]], batch: pa.RecordBatch | None
) -> tuple[pa.RecordBatch | None, dict[str, NDArray[np.bool_]]]:
    """A batch with NULL in the place of values that the target cannot hold, and the mask of each
    column of which values were replaced.

    Args:
        target: the target.
        columns: the columns to look at, as :func:`replaced_columns` returns them.
        batch: the values; None if there are none.
    """
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
    """The values that were replaced in a transaction of the target. Its size is limited: exact
    counts, and the first values of each column.

    Args:
        show_values: record the values and the keys of their rows.
    """

    def __init__(self, *, show_values: bool = False) -> None:
        self.columns: dict[ReplacedColumn, ReplacedValues] = {}
        self._shows_values = show_values

    def add(self, local: LocalRelation, masks: Mapping[str, NDArray[np.bool_]], rows: pa.RecordBatch, lsn: LSN) -> None:
        """Count values.

        Args:
            local: their table.
            masks: for each column the mask of its rows.
            rows: the rows as they were sent, for the values.
            lsn: the commit LSN of their transaction, or the LSN of the snapshot of a copy.
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
