"""Converts changes of one shape, by a plan, to the changes that pgoutput would have sent.

This is pgoutput's ``pgoutput_row_filter`` (rules B15-B17). *true* is a filter whose result is true;
*false* is any other result, NULL included (rule B11)::

    change              old row   new row   sent
    INSERT                 -       false    nothing
    INSERT                 -       true     INSERT
    DELETE               false       -      nothing
    DELETE               true        -      DELETE
    UPDATE, no old row     -       false    nothing
    UPDATE, no old row     -       true     UPDATE
    UPDATE               false     false    nothing
    UPDATE               false     true     INSERT    of the new row, with the values borrowed from the old one
    UPDATE               true      false    DELETE    of the old row
    UPDATE               true      true     UPDATE    as it came

An UPDATE is evaluated by the filter for updates only, whatever is sent for it (rules B10, B19).
*Borrowed* values are out-of-line values that the UPDATE did not change and that the stream has only
in the old row. Other unchanged out-of-line values are not sent, and an INSERT then stores NULL for
them, as in the native subscriber (rules B17, B18, C6).

A filter is evaluated for the whole row as it was received. Columns that are not published are left
out afterwards (rule B12a), and the others get the names of the table as which the row is published
(rule B12). If the stream lacks a value that a filter needs, that is an error (rules B13, B33).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from subscriber.base.errors import RowFilterError
from subscriber.postgres.protocol.changes import Action, ChangeGroup, OldKind
from subscriber.postgres.protocol.messages import Relation
from subscriber.postgres.publication.combine import RelationPlan
from subscriber.postgres.publication.definition import Operation
from subscriber.postgres.types.registry import family_of

OPERATION_OF: Final[Mapping[Action, Operation]] = {"I": "insert", "U": "update", "D": "delete"}

SENT: Final[Mapping[tuple[Action, bool | None, bool | None], Action | None]] = {
    ("I", None, False): None,
    ("I", None, True): "I",
    ("D", False, None): None,
    ("D", True, None): "D",
    ("U", None, False): None,
    ("U", None, True): "U",
    ("U", False, False): None,
    ("U", False, True): "I",
    ("U", True, False): "D",
    ("U", True, True): "U",
}
"""The table of this module; None: there is no old or no new row."""

Mask = npt.NDArray[np.bool_]


class RowFilter(Protocol):
    @property
    def columns(self) -> Collection[str]:
        """The columns that the filter uses."""

    def evaluate(self, columns: Mapping[str, pa.Array], count: int) -> pa.BooleanArray:
        """True, false or null for each of ``count`` rows."""


def transform(
    group: ChangeGroup, plan: RelationPlan, filters: Mapping[Operation, RowFilter]
) -> tuple[ChangeGroup, ...]:
    """The changes that are sent for a group: none, the group itself, or up to one group of each
    action. RowFilterError if a filter needs a column that the stream does not have, or fails for a
    row.
    """
    operation = OPERATION_OF[group.action]
    if plan.publish_as is None or operation not in plan.operations:
        return ()
    row_filter = filters.get(operation)
    if row_filter is None:
        return (_sent_as(plan.publish_as, group, group.action, None),)
    old, new = filter_results(group, row_filter)
    sent = decisions(group.action, _matches(old), _matches(new), len(group))
    return tuple(_sent_as(plan.publish_as, group, action, rows) for action, rows in sent)


def filter_results(
    group: ChangeGroup, row_filter: RowFilter, *, old: bool = True, new: bool = True
) -> tuple[pa.BooleanArray | None, pa.BooleanArray | None]:
    """Results for old and new rows: true, false or null; None if there are no such rows."""
    return (
        None if group.old is None or not old else _evaluate(row_filter, _columns(group.old), group, "old"),
        None if group.new is None or not new else _evaluate(row_filter, _completed(group), group, "new"),
    )


def _evaluate(row_filter: RowFilter, columns: Mapping[str, pa.Array], group: ChangeGroup, side: str) -> pa.BooleanArray:
    for name in row_filter.columns:
        if name not in columns:
            raise _missing(group.relation, name, side)
    return row_filter.evaluate(columns, len(group))


def _missing(relation: Relation, column: str, side: str) -> RowFilterError:
    return RowFilterError(
        f'row filter of table "{relation.qualified_name}" needs column "{column}" of the {side} row,'
        " which the publisher did not send",
        sqlstate="42P10",
        detail="Column used in the publication WHERE expression is not part of the replica identity.",
        hint="Run ALTER TABLE ... REPLICA IDENTITY FULL at the publisher, so that it sends whole rows from then on. Use ALTER"
        " SUBSCRIPTION ... SKIP to skip the transaction that fails.",
        relation=relation.qualified_name,
        column=column,
    )


def decisions(action: Action, old: Mask | None, new: Mask | None, count: int) -> Iterator[tuple[Action, Mask | None]]:
    """The actions that are sent, by :data:`SENT`, each with its rows; None for all rows."""
    for (change, old_matches, new_matches), sent in SENT.items():
        if change != action or sent is None or (old_matches is None) != (old is None):
            continue
        if (new_matches is None) != (new is None):
            continue
        rows = np.ones(count, np.bool_)
        for matches, wanted in ((old, old_matches), (new, new_matches)):
            if matches is not None:
                rows &= matches if wanted else ~matches
        if rows.all():
            yield sent, None
        elif rows.any():
            yield sent, rows


def _matches(results: pa.BooleanArray | None) -> Mask | None:
    if results is None:
        return None
    matches: Mask = results.fill_null(False).to_numpy(zero_copy_only=False)
    return matches


def _columns(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    return dict(zip(batch.schema.names, batch.columns, strict=True))


def _completed(group: ChangeGroup) -> dict[str, pa.Array]:
    """The new rows' columns, with the values that can be borrowed, never NULL (rule B17)."""
    assert group.new is not None
    columns = _columns(group.new)
    if group.old is None or len(columns) == len(group.relation.columns):
        return columns
    old = _columns(group.old)
    return columns | {name: old[name] for name in old.keys() - columns.keys() if not old[name].null_count}


def _sent_as(target: Relation, group: ChangeGroup, action: Action, rows: Mask | None) -> ChangeGroup:
    old_kind = None if action == "I" else _old_kind(target, group)
    old = new = None
    if old_kind is not None:
        old = _batch(_old_columns(target, group, old_kind), len(group), rows)
    if group.new is not None and action != "D":
        columns = _completed(group) if action == "I" and group.action == "U" else _columns(group.new)
        sent = {column.name: columns[column.name] for column in target.columns if column.name in columns}
        new = _batch(sent, len(group), rows)
    positions = group.positions if rows is None else group.positions[rows]
    return ChangeGroup(target, action, old_kind, positions, old, new, group.binary)


def _old_kind(target: Relation, group: ChangeGroup) -> OldKind | None:
    """The relation that the message names decides (rule A10)."""
    if group.old is None or target.relation_id == group.relation.relation_id:
        return group.old_kind
    return "O" if target.replica_identity == "f" else "K"


def _old_columns(target: Relation, group: ChangeGroup, old_kind: OldKind) -> dict[str, pa.Array]:
    """The old rows' columns; keys outside of the partition's identity are sent as NULL."""
    assert group.old is not None
    columns = _columns(group.old)
    wanted = [column.name for column in target.columns if old_kind == "O" or column.is_identity]
    if group.old_kind == "K":
        columns |= {name: pa.nulls(len(group), _type(name, group)) for name in wanted if name not in columns}
    return {name: columns[name] for name in wanted if name in columns}


def _type(name: str, group: ChangeGroup) -> pa.DataType:
    if group.new is not None and name in group.new.schema.names:
        return group.new.schema.field(name).type
    type_oid = next(column.type_oid for column in group.relation.columns if column.name == name)
    return family_of(type_oid).arrow_type


def _batch(columns: Mapping[str, pa.Array], count: int, rows: Mask | None) -> pa.RecordBatch:
    if not columns:
        size = count if rows is None else int(np.count_nonzero(rows))
        return pa.RecordBatch.from_struct_array(pa.array([{}] * size, pa.struct([])))
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    return batch if rows is None else batch.filter(pa.array(rows))
