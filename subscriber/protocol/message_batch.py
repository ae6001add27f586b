"""Groups the changes of a batch of messages, so that the tuples of each group are parsed together.

Decoding a million INSERT messages one after another takes seconds in Python, although nearly all of
them have the same relation and layout. :func:`group_changes` reads a whole Arrow column of messages
with numpy, and returns groups of rows with the same *relation shape, action and kind of old tuple*.
Within a group, column ``k`` of all tuples is parsed together (:mod:`subscriber.protocol.tuples`).

::

    message column            types   relation id     groups
    ┌───────────────────┐
    │ R 16384 t(a, b)   │      R                      (added to the relation map at this place)
    │ B …               │      B                      controls: row 1
    │ I 16384 N (1, x)  │      I     16384      ┐
    │ U 16384 N (1, y)  │      U     16384      │──▶  (t, I) rows 2, 4   (t, U) row 3
    │ I 16384 N (2, z)  │      I     16384      ┘
    │ C …               │      C                      controls: row 5
    └───────────────────┘

Invariants: every byte of every change is checked (a tuple must end where its message ends). A
change is decoded with the last relation message before it (rule C1). Row numbers keep the order of
the stream.

The same function is the receiver's check before a change becomes durable, and the decoder of the
executors. *Rejected:* a separate check for the receiver, because two parsers of one format would
sooner or later disagree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from subscriber.errors import ProtocolError
from subscriber.protocol.decode import decode
from subscriber.protocol.messages import OldKind, Relation
from subscriber.protocol.tuples import TupleColumns, split_tuples

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]

_INSERT: Final = ord("I")
_UPDATE: Final = ord("U")
_DELETE: Final = ord("D")
_RELATION: Final = ord("R")
_TYPE: Final = ord("Y")
_NEW: Final = ord("N")
_KEY: Final = ord("K")
_OLD: Final = ord("O")

_RELATION_ID_AT = 1
_MARKER_AT = 5
_TUPLE_AT = 6
_SMALLEST_CHANGE = 8
"""The bytes of the smallest change: type byte, relation id, tuple marker and the tuple's column
count.
"""


@dataclass(frozen=True, slots=True)
class ChangeRows:
    """Changes of one relation shape, action and kind of old tuple.

    Attributes:
        relation: the relation message that holds for the changes.
        action: ``"I"``, ``"U"`` or ``"D"``.
        old_kind: ``"K"`` (identity columns), ``"O"`` (whole row) or None (no old tuple was sent).
        rows: ascending row numbers in the batch.
        old: the places of the old tuples' values, or None.
        new: the places of the new tuples' values, or None.
    """

    relation: Relation
    action: Literal["I", "U", "D"]
    old_kind: OldKind | None
    rows: Offsets
    old: TupleColumns | None
    new: TupleColumns | None


@dataclass(frozen=True, slots=True)
class MessageBatch:
    """A batch of messages, with its changes in groups.

    Attributes:
        buffer: the bytes that all offsets in the groups refer to.
        groups: the changes.
        controls: ascending row numbers of all messages that are neither a change nor R nor Y.
        relations: the relation map after the batch; the same object as before the batch if the
            batch has no new description.
        used_before: the ids of relations for which the batch needed the shape from before it.
        relations_before: the relation map before the batch.
        shapes: for each relation id, the rows of the batch with a new description of it, ascending.
    """

    buffer: Bytes
    groups: tuple[ChangeRows, ...]
    controls: Offsets
    relations: Mapping[int, Relation]
    used_before: frozenset[int]
    relations_before: Mapping[int, Relation]
    shapes: Mapping[int, list[tuple[int, Relation]]]

    def relation_at(self, relation_id: int, row: int) -> Relation | None:
        """The shape of a relation at a row of the batch: the last description before that row (rule
        C1).
        """
        shape = self.relations_before.get(relation_id)
        for described_at, relation in self.shapes.get(relation_id, ()):
            if described_at > row:
                break
            shape = relation
        return shape


@dataclass(frozen=True, slots=True)
class _Messages:
    """The raw view of the message column."""

    buffer: Bytes
    starts: Offsets
    ends: Offsets
    types: Bytes
    lsns: Offsets | None

    def fail(self, row: int, error: str, *, offset: int, relation: Relation | None = None) -> NoReturn:
        raise ProtocolError(
            error,
            offset=offset,
            message_type=chr(int(self.types[row])),
            relation=relation.qualified_name if relation else None,
            lsn=None if self.lsns is None else int(self.lsns[row]),
        )


def group_changes(
    messages: pa.BinaryArray,
    relations: Mapping[int, Relation],
    lsns: Offsets | None = None,
) -> MessageBatch:
    """Group the changes of a batch of messages; every byte of the changes is checked.

    Args:
        messages: one pgoutput message in each row, in the form outside of stream blocks (no xid
            prefix), in stream order.
        relations: the relation map before the batch.
        lsns: the WAL position of each row, for error messages.

    Raises:
        ProtocolError: a message is malformed, or a change names a relation that was never described
            (with relation, byte offset in the message, message type and LSN).
    """
    view = _view(messages, lsns)
    is_change = (view.types == _INSERT) | (view.types == _UPDATE) | (view.types == _DELETE)
    is_description = (view.types == _RELATION) | (view.types == _TYPE)
    changes = np.flatnonzero(is_change)
    too_short = changes[view.ends[changes] - view.starts[changes] < _SMALLEST_CHANGE]
    if too_short.size:
        row = int(too_short[0])
        view.fail(row, "insufficient data left in message", offset=int(view.ends[row] - view.starts[row]))

    known, shapes = _relation_changes(view, messages, relations)
    groups: list[ChangeRows] = []
    used_before: set[int] = set()
    relation_ids = _u32(view.buffer, view.starts[changes] + _RELATION_ID_AT)
    for relation_id in np.unique(relation_ids):
        rows = changes[relation_ids == relation_id]
        for relation, shape_rows in _by_shape(view, int(relation_id), rows, relations, shapes, used_before):
            groups += _by_action(view, relation, shape_rows)
    return MessageBatch(
        view.buffer,
        tuple(groups),
        np.flatnonzero(~(is_change | is_description)),
        known,
        frozenset(used_before),
        relations,
        shapes,
    )


def _view(messages: pa.BinaryArray, lsns: Offsets | None) -> _Messages:
    width = np.int64 if pa.types.is_large_binary(messages.type) else np.int32
    _, offsets_buffer, data = messages.buffers()
    offsets = np.frombuffer(offsets_buffer, width, len(messages) + 1, messages.offset * np.dtype(width).itemsize)
    starts, ends = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
    buffer = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    empty = np.flatnonzero(starts == ends)
    if empty.size:
        raise ProtocolError(
            "empty logical replication message", offset=0, lsn=None if lsns is None else int(lsns[empty[0]])
        )
    return _Messages(buffer, starts, ends, buffer[starts], lsns)


def _relation_changes(
    view: _Messages, messages: pa.BinaryArray, before: Mapping[int, Relation]
) -> tuple[Mapping[int, Relation], dict[int, list[tuple[int, Relation]]]]:
    """The relation map after the batch, and the rows at which the batch describes relations
    again.
    """
    shapes: dict[int, list[tuple[int, Relation]]] = {}
    described: dict[int, Relation] = {}
    for row in np.flatnonzero(view.types == _RELATION):
        try:
            relation = decode(messages[int(row)].as_py())
        except ProtocolError as error:
            view.fail(int(row), error.message, offset=error.offset or 0)
        assert isinstance(relation, Relation)
        if described.get(relation.relation_id, before.get(relation.relation_id)) != relation:
            described[relation.relation_id] = relation
            shapes.setdefault(relation.relation_id, []).append((int(row), relation))
    return ({**before, **described} if described else before), shapes


def _by_shape(
    view: _Messages,
    relation_id: int,
    rows: Offsets,
    relations: Mapping[int, Relation],
    shapes: Mapping[int, list[tuple[int, Relation]]],
    used_before: set[int],
) -> list[tuple[Relation, Offsets]]:
    """Split a relation's rows where its shape changes."""
    changes = shapes.get(relation_id, [])
    cuts = np.searchsorted(rows, [row for row, _ in changes])
    pieces = np.split(rows, cuts)
    before = relations.get(relation_id)
    if pieces[0].size:
        if before is None:
            view.fail(
                int(rows[0]), f"no relation map entry for remote relation ID {relation_id}", offset=_RELATION_ID_AT
            )
        used_before.add(relation_id)
    versions = [before, *(relation for _, relation in changes)]
    return [
        (version, piece) for version, piece in zip(versions, pieces, strict=True) if version is not None and piece.size
    ]


def _by_action(view: _Messages, relation: Relation, rows: Offsets) -> list[ChangeRows]:
    types = view.types[rows]
    groups = []
    for action, parse in ((_INSERT, _inserts), (_UPDATE, _updates), (_DELETE, _deletes)):
        chosen = rows[types == action]
        if chosen.size:
            groups += parse(view, relation, chosen)
    return groups


def _inserts(view: _Messages, relation: Relation, rows: Offsets) -> list[ChangeRows]:
    markers = view.buffer[view.starts[rows] + _MARKER_AT]
    _expect(view, relation, rows, markers == _NEW, "expected new tuple but got {code}")
    new = _tuples(view, relation, rows, view.starts[rows] + _TUPLE_AT)
    _expect_end(view, relation, rows, new.end)
    return [ChangeRows(relation, "I", None, rows, None, new)]


def _updates(view: _Messages, relation: Relation, rows: Offsets) -> list[ChangeRows]:
    markers = view.buffer[view.starts[rows] + _MARKER_AT]
    known = (markers == _NEW) | (markers == _KEY) | (markers == _OLD)
    _expect(view, relation, rows, known, "expected action 'N', 'O' or 'K', got {character}")
    groups = []
    kinds: tuple[tuple[int, OldKind | None], ...] = ((_NEW, None), (_KEY, "K"), (_OLD, "O"))
    for marker, kind in kinds:
        chosen = rows[markers == marker]
        if not chosen.size:
            continue
        old, at = None, view.starts[chosen] + _TUPLE_AT
        if marker != _NEW:
            old = _tuples(view, relation, chosen, at)
            _expect_new_tuple(view, relation, chosen, old.end)
            at = old.end + 1
        new = _tuples(view, relation, chosen, at)
        _expect_end(view, relation, chosen, new.end)
        groups.append(ChangeRows(relation, "U", kind, chosen, old, new))
    return groups


def _deletes(view: _Messages, relation: Relation, rows: Offsets) -> list[ChangeRows]:
    markers = view.buffer[view.starts[rows] + _MARKER_AT]
    known = (markers == _KEY) | (markers == _OLD)
    _expect(view, relation, rows, known, "expected action 'O' or 'K', got {character}")
    groups = []
    kinds: tuple[tuple[int, OldKind], ...] = ((_KEY, "K"), (_OLD, "O"))
    for marker, kind in kinds:
        chosen = rows[markers == marker]
        if chosen.size:
            old = _tuples(view, relation, chosen, view.starts[chosen] + _TUPLE_AT)
            _expect_end(view, relation, chosen, old.end)
            groups.append(ChangeRows(relation, "D", kind, chosen, old, None))
    return groups


def _tuples(view: _Messages, relation: Relation, rows: Offsets, at: Offsets) -> TupleColumns:
    try:
        return split_tuples(view.buffer, at, view.ends[rows], len(relation.columns))
    except ProtocolError as error:
        # split_tuples reports an offset in the buffer: find the message and its relation.
        place = error.offset or 0
        # A truncated tuple fails at the end of its message, which is the start of the next one.
        row = int(rows[max(0, int(np.searchsorted(view.starts[rows], place, side="left")) - 1)])
        view.fail(row, error.message, offset=place - int(view.starts[row]), relation=relation)


def _expect(view: _Messages, relation: Relation, rows: Offsets, good: npt.NDArray[np.bool_], error: str) -> None:
    bad = rows[~good]
    if bad.size:
        row = int(bad[0])
        code = int(view.buffer[view.starts[row] + _MARKER_AT])
        view.fail(row, error.format(code=code, character=chr(code)), offset=_MARKER_AT, relation=relation)


def _expect_new_tuple(view: _Messages, relation: Relation, rows: Offsets, at: Offsets) -> None:
    for bad in rows[at >= view.ends[rows]][:1]:
        view.fail(
            int(bad),
            "insufficient data left in message",
            offset=int(view.ends[bad] - view.starts[bad]),
            relation=relation,
        )
    wrong = np.flatnonzero(view.buffer[at] != _NEW)
    if wrong.size:
        place, row = int(at[wrong[0]]), int(rows[wrong[0]])
        view.fail(
            row,
            f"expected action 'N', got {chr(int(view.buffer[place]))}",
            offset=place - int(view.starts[row]),
            relation=relation,
        )


def _expect_end(view: _Messages, relation: Relation, rows: Offsets, ends: Offsets) -> None:
    wrong = np.flatnonzero(ends != view.ends[rows])
    if wrong.size:
        row = int(rows[wrong[0]])
        view.fail(
            row,
            "invalid message format: bytes after the tuple",
            offset=int(ends[wrong[0]] - view.starts[row]),
            relation=relation,
        )


def _u32(buffer: Bytes, at: Offsets) -> Offsets:
    value = np.zeros(at.shape, np.int64)
    for byte in range(4):
        value = value << 8 | buffer[at + byte]
    return value
