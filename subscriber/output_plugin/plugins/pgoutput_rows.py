"""The rows that pgoutput sends: row filters, and tuples (``pgoutput_row_filter`` and
``logicalrep_write_tuple``).

The decision for an UPDATE with an old row (rules B15-B17); any other change is sent, or not, as it
is::

    old row matches   new row matches   sent
    no                no                nothing
    no                yes               INSERT of the new row, with the values borrowed from the old row
    yes               no                DELETE of the old row
    yes               yes               UPDATE as it was

A filter sees the whole row, with the columns of the relation that the change is published as (rules
B12, B12a).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import pyarrow as pa

from subscriber.errors import RowFilterError
from subscriber.output_plugin.heap_tuples import ColumnDatum, Datum, HeapTuple
from subscriber.output_plugin.historic_catalog import Relation
from subscriber.output_plugin.plugins.pgoutput_relations import RelationSyncEntry
from subscriber.output_plugin.reorder_txn import Action
from subscriber.protocol import messages
from subscriber.protocol.changes import Action as Letter
from subscriber.protocol.messages import NULL, UNCHANGED, BinaryValue, ColumnValue, TextValue, TupleData
from subscriber.publication.definition import Operation
from subscriber.publication.transform import SENT, RowFilter
from subscriber.types import decode_column

Values: TypeAlias = tuple[ColumnDatum, ...]
"""The values of a row, in the order of the columns of the relation that it is published as."""

OPERATION_OF: Final[Mapping[Action, Operation]] = {
    Action.INSERT: "insert",
    Action.UPDATE: "update",
    Action.DELETE: "delete",
}
"""The operation of a publication that each action needs."""

_LETTERS: Final[Mapping[Action, Letter]] = {Action.INSERT: "I", Action.UPDATE: "U", Action.DELETE: "D"}
_ACTIONS: Final = {letter: action for action, letter in _LETTERS.items()}


@dataclass(frozen=True, slots=True)
class RowChange:
    """A change as it is sent.

    Attributes:
        action: INSERT, UPDATE or DELETE.
        old: the old key or the old row; None if there is none.
        new: the new row; None if there is none.
    """

    action: Action
    old: Values | None
    new: Values | None


def row_change(
    action: Action, old: HeapTuple | None, new: HeapTuple | None, entry: RelationSyncEntry
) -> RowChange | None:
    """The change that is sent for a change; None if a filter drops it.

    Args:
        action: what happened, which the publications publish.
        old: the old key or row.
        new: the new row.
        entry: how the relation is published.

    Raises:
        RowFilterError: a filter cannot be evaluated for a row.
    """
    change = RowChange(action, _converted(old, entry), _converted(new, entry))
    row_filter = entry.filters.get(OPERATION_OF[action])
    return change if row_filter is None else _filtered(change, row_filter, entry.target)


def _converted(row: HeapTuple | None, entry: RelationSyncEntry) -> Values | None:
    """The values in the order of the target's columns (rule B12)."""
    if row is None or entry.places is None:
        return None if row is None else row.values
    return tuple(row.values[place] for place in entry.places)


def _filtered(change: RowChange, row_filter: RowFilter, target: Relation) -> RowChange | None:
    old, new = change.old, change.new
    completed = _completed(new, old) if old is not None and new is not None else new
    sent = SENT[
        _LETTERS[change.action],
        None if old is None else _matches(row_filter, old, target),
        None if completed is None else _matches(row_filter, completed, target),
    ]
    if sent is None:
        return None
    if _LETTERS[change.action] == "U" and sent == "I":
        return RowChange(Action.INSERT, None, completed)
    return replace(change, action=_ACTIONS[sent])


def _completed(new: Values, old: Values) -> Values:
    """The new row, with the unchanged out-of-line values that the old row has (rule B17)."""
    return tuple(
        before if after is UNCHANGED and isinstance(before, Datum) else after
        for after, before in zip(new, old, strict=True)
    )


def _matches(row_filter: RowFilter, row: Values, target: Relation) -> bool:
    """Whether a row matches: the result is true, and neither false nor NULL (rule B11)."""
    arrays = {}
    for number, (column, value) in enumerate(zip(target.columns, row, strict=True), 1):
        if column.name not in row_filter.columns:
            continue
        if value is UNCHANGED:
            raise RowFilterError(
                f'row filter of table "{target.qualified_name}" needs column "{column.name}",'
                " whose unchanged value is not in the WAL",
                sqlstate="42P10",
                detail="Column used in the publication WHERE expression is not part of the replica identity.",
                hint="Run ALTER TABLE ... REPLICA IDENTITY FULL before the change.",
                relation=target.qualified_name,
                column=column.name,
            )
        text = value.text if isinstance(value, Datum) else None
        arrays[column.name] = decode_column(column.type_oid, pa.array([text], pa.binary()), binary=False, column=number)
    result = row_filter.evaluate(arrays, 1)[0].as_py()
    return bool(result)


# Messages ---------------------------------------------------------------------------------------


def row_message(
    change: RowChange, entry: RelationSyncEntry, xid: int | None, *, binary: bool
) -> messages.Insert | messages.Update | messages.Delete:
    """The message of a change (rules A9-A12).

    Args:
        change: the change.
        entry: how the relation is published.
        xid: the transaction, inside of a stream (rule A3).
        binary: whether the client asked for the binary format.
    """
    target = entry.target
    old = None if change.old is None else _tuple(change.old, entry, binary=binary)
    new = None if change.new is None else _tuple(change.new, entry, binary=binary)
    # The relation that the message names decides, not the one that has logged the row (rule A10).
    kind: messages.OldKind = "O" if target.replica_identity == "f" else "K"
    if change.action is Action.DELETE:
        assert old is not None
        return messages.Delete(target.oid, kind, old, xid)
    assert new is not None
    if change.action is Action.INSERT:
        return messages.Insert(target.oid, new, xid)
    return messages.Update(target.oid, None if old is None else kind, old, new, xid)


def _tuple(row: Sequence[ColumnDatum], entry: RelationSyncEntry, *, binary: bool) -> TupleData:
    return tuple(
        _value(value, binary=binary)
        for column, value in zip(entry.target.columns, row, strict=True)
        if entry.is_sent(column)
    )


def _value(value: ColumnDatum, *, binary: bool) -> ColumnValue:
    if not isinstance(value, Datum):
        return NULL if value is NULL else UNCHANGED
    if binary and value.binary is not None:
        return BinaryValue(value.binary)
    return TextValue(value.text)
