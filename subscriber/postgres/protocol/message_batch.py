"""Parses the changes of a batch of messages together: groups by relation, then columns of tuples.

Decoding a million INSERT messages one after another takes seconds in Python. :func:`group_changes`
reads a whole Arrow column of messages with numpy, and returns groups of rows with the same
*relation shape, action and kind of old tuple*::

    message column            types   relation id     groups
    │ R 16384 t(a, b)   │      R                      (added to the relation map at this place)
    │ B …               │      B                      controls: row 1
    │ I 16384 N (1, x)  │      I     16384      ┐
    │ U 16384 N (1, y)  │      U     16384      │──▶  (t, I) rows 2, 4   (t, U) row 3
    │ I 16384 N (2, z)  │      I     16384      ┘
    │ C …               │      C                      controls: row 5

Within a group all tuples have the same number of columns, so that one numpy step reads column *j*
of every tuple (:func:`split_tuples`, rule A11)::

    buffer  ..|I....N|0 2|t|0 0 0 1|7|n|..|I....N|0 2|t|0 0 0 2|1 2|t|0 0 0 1|x|..
    cursor            row 0           row 0        row 1           row 1
                      column 0        column 1     column 0        column 1

:func:`column_bytes` makes Arrow arrays of values. Who needs all of them has those of a column
copied right after the column was found, while the processor's cache still has them.

Invariants
    - Every byte of every change is checked: a tuple must end where its message ends. Each gather
      is preceded by a comparison with the row's limit, so that a truncated tuple is a
      :class:`ProtocolError` (rule A19) and never includes bytes of the next message.
    - ``starts[j][i] <= ends[j][i] <= limits[i] <= len(buffer)``: code that has a TupleColumns may
      slice without further checks. Arrow does not check offsets.
    - Null becomes an Arrow null, unchanged never becomes an array element, and a column that was
      not sent is beyond ``ncolumns``.
    - A change is decoded with the last relation message before it (rule C1). Row numbers keep the
      order of the stream.

The receiver checks changes with the same function before they become durable: two parsers of one
format would sooner or later disagree. *Rejected:* a loop over rows with ``struct`` (50 times slower
on rows of five columns); gathering value bytes by an index array of every byte (9 times slower than
Arrow's ``take`` on rows of 80 bytes), except for positions that are not in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, NoReturn, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from subscriber.base.errors import ProtocolError
from subscriber.postgres.protocol.decode_message import decode
from subscriber.postgres.protocol.messages import OldKind, Relation

Bytes: TypeAlias = NDArray[np.uint8]

Positions: TypeAlias = NDArray[np.int64]
"""Byte offsets into such a buffer, or row numbers."""

KIND_NULL: Final = ord("n")
KIND_UNCHANGED: Final = ord("u")
KIND_TEXT: Final = ord("t")
KIND_BINARY: Final = ord("b")

_INSUFFICIENT: Final = "insufficient data left in message"
_UNKNOWN, _BARE, _VALUED = 0, 1, 2
_FORM_OF_KIND: Final = np.full(256, _UNKNOWN, dtype=np.uint8)
_FORM_OF_KIND[[KIND_NULL, KIND_UNCHANGED]] = _BARE
_FORM_OF_KIND[[KIND_TEXT, KIND_BINARY]] = _VALUED

_KIND_SIZE: Final = 1
_COUNT_SIZE: Final = 2
_LENGTH_SIZE: Final = 4
_NO_PLACES: Final[Positions] = np.empty(0, np.int64)
_LARGEST_OFFSET: Final = 2**31 - 1
"""Beyond this position of an Arrow ``binary`` array, offsets need 64 bits."""


@dataclass(frozen=True, slots=True)
class TupleColumns:
    """The places of the values of some tuples of one relation, column by column (rule A11).

    For each column ``kinds`` has the kind byte of each row, ``starts`` and ``ends`` the offsets of
    its value, which are equal where there is none. Columns without NULL share one array of kinds.
    ``values`` has their bytes if they were asked for; then no offsets are kept, since their memory
    takes longer than to find them. It is None for other columns. ``end``
    is the offset behind each tuple; only the caller knows whether the message must end there.
    """

    kinds: tuple[Bytes, ...]
    starts: tuple[Positions, ...]
    ends: tuple[Positions, ...]
    values: tuple[pa.BinaryArray | pa.LargeBinaryArray | None, ...]
    end: Positions


def split_tuples(
    buffer: Bytes, starts: Positions, limits: Positions, ncolumns: int, *, copies: bool = False
) -> TupleColumns:
    """Find every value of the tuples whose column counts are at ``starts`` (rules A11, A12);
    ``limits`` are the offsets behind each tuple's message. ``copies``: all values are needed.
    """
    if np.any(starts < 0):
        raise ValueError("a tuple cannot start before the buffer")
    view = np.ascontiguousarray(buffer)
    walk = _Walk(view, np.minimum(limits, view.size))
    cursor = walk.skip_count(starts.astype(np.int64, copy=False), ncolumns)
    kinds, firsts, ends, values = [], [], [], []
    for _ in range(ncolumns):
        uniform = walk.read_uniform(cursor)
        kind, first, cursor = uniform or walk.read_mixed(cursor)
        is_copied = copies and uniform is not None
        kinds.append(kind)
        firsts.append(_NO_PLACES if is_copied else first)
        ends.append(_NO_PLACES if is_copied else cursor)
        values.append(_slices(view, first, cursor, None) if is_copied else None)
    return TupleColumns(tuple(kinds), tuple(firsts), tuple(ends), tuple(values), cursor)


class _Walk:
    __slots__ = ("_buffer", "_lengths", "_limits", "_uniform")

    def __init__(self, buffer: Bytes, limits: Positions) -> None:
        self._buffer = buffer
        self._limits = limits
        # A view with a big-endian u32 at every byte position, overlapping and unaligned: it needs
        # one gather instead of four.
        readable = max(buffer.size - _LENGTH_SIZE + 1, 0)
        self._lengths = np.ndarray((readable,), dtype=">u4", buffer=buffer if readable else b"", strides=(1,))
        self._uniform: dict[int, Bytes] = {}

    def skip_count(self, cursor: Positions, ncolumns: int) -> Positions:
        self._demand(cursor, _COUNT_SIZE)
        count = self._buffer[cursor].astype(np.int64) << 8 | self._buffer[cursor + 1]
        wrong = count != ncolumns
        if wrong.any():
            row = int(wrong.argmax())
            raise _error(f"tuple has {count[row]} columns, its relation {ncolumns}", row, cursor)
        return cursor + _COUNT_SIZE

    def read_uniform(self, cursor: Positions) -> tuple[Bytes, Positions, Positions] | None:
        """The usual column: every row has a value, all in one form. None for another one, and if a
        tuple is truncated.
        """
        if not cursor.size or int(cursor.max()) > self._buffer.size - _KIND_SIZE - _LENGTH_SIZE:
            return None
        kind = self._buffer[cursor]
        first = int(kind[0])
        if _FORM_OF_KIND[first] != _VALUED or not (kind == first).all():
            return None
        start = cursor + (_KIND_SIZE + _LENGTH_SIZE)
        end = start + self._lengths[cursor + _KIND_SIZE]
        if (end > self._limits).any():
            return None
        return self._uniform.setdefault(first, kind), start, end

    def read_mixed(self, cursor: Positions) -> tuple[Bytes, Positions, Positions]:
        self._demand(cursor, _KIND_SIZE)
        kind = self._buffer[cursor]
        form = _FORM_OF_KIND[kind]
        unknown = form == _UNKNOWN
        if unknown.any():
            row = int(unknown.argmax())
            raise _error(f"unrecognized data representation type '{_printable(int(kind[row]))}'", row, cursor)
        behind_kind = cursor + _KIND_SIZE
        valued = form == _VALUED
        if valued.all():
            return kind, *self._find_values(behind_kind, None)
        start, end = behind_kind, behind_kind.copy()
        rows = np.flatnonzero(valued)
        if rows.size:
            start = behind_kind.copy()
            start[rows], end[rows] = self._find_values(behind_kind[rows], rows)
        return kind, start, end

    def _find_values(self, cursor: Positions, rows: Positions | None) -> tuple[Positions, Positions]:
        self._demand(cursor, _LENGTH_SIZE, rows)
        start = cursor + _LENGTH_SIZE
        length = self._lengths[cursor].astype(np.int64)
        self._demand(start, length, rows)
        return start, start + length

    def _demand(self, cursor: Positions, size: Positions | int, rows: Positions | None = None) -> None:
        limits = self._limits if rows is None else self._limits[rows]
        short = cursor + size > limits
        if short.any():
            index = int(short.argmax())
            row = index if rows is None else int(rows[index])
            raise _error(_INSUFFICIENT, row, cursor, index)


def column_bytes(
    buffer: Bytes, columns: TupleColumns, index: int, rows: Positions | None = None
) -> pa.BinaryArray | pa.LargeBinaryArray:
    """The value bytes of column ``index``, of ``rows`` or all rows; null where the value is NULL.

    The result is ``binary``, or ``large_binary`` when a value lies beyond the buffer's first 2 GiB.
    It does not distinguish text from binary values: check ``columns.kinds`` before decoding. A
    selected value that is unchanged (TOAST), which no array element can express, is a ValueError:
    callers group rows by their sent columns first.
    """
    kinds, starts, ends = columns.kinds[index], columns.starts[index], columns.ends[index]
    values = columns.values[index]
    if values is not None:
        return values if rows is None else values.take(pa.array(rows))
    if rows is not None:
        kinds, starts, ends = kinds[rows], starts[rows], ends[rows]
    if np.any(kinds == KIND_UNCHANGED):
        raise ValueError(f"column {index} has unchanged values in the selected rows")
    null = kinds == KIND_NULL
    return _slices(np.ascontiguousarray(buffer), starts, ends, null if null.any() else None)


def _slices(
    buffer: Bytes, starts: Positions, ends: Positions, null: NDArray[np.bool_] | None
) -> pa.BinaryArray | pa.LargeBinaryArray:
    """Gather ``buffer[start:end]`` for every row: starts and ends, interleaved, are the offsets of
    an Arrow array, whose even elements ``take`` copies. Positions must ascend, as those of one
    batch do.
    """
    if not starts.size:
        return pa.array([], type=pa.binary())
    if (starts[1:] < ends[:-1]).any():
        buffer, starts, ends = _in_order(buffer, starts, ends)
    large = int(ends[-1]) > _LARGEST_OFFSET
    array_class, width = (pa.LargeBinaryArray, np.int64) if large else (pa.BinaryArray, np.int32)
    offsets = np.empty((starts.size, 2), dtype=width)
    offsets[:, 0] = starts
    offsets[:, 1] = ends
    kind = pa.large_binary() if large else pa.binary()
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(buffer)]
    interleaved = array_class.from_buffers(kind, offsets.size - 1, buffers)
    places = _even_places(starts.size)
    return interleaved.take(pa.array(places, mask=null) if null is not None else pa.array(places))


@lru_cache(8)
def _even_places(count: int) -> NDArray[np.int32]:
    """The even numbers up to twice ``count``."""
    return np.arange(0, 2 * count, 2, dtype=np.int32)


def _in_order(buffer: Bytes, starts: Positions, ends: Positions) -> tuple[Bytes, Positions, Positions]:
    """Copy values at unordered positions; returns their bytes and their places there."""
    lengths = ends - starts
    behind = np.cumsum(lengths)
    before = behind - lengths
    return buffer[np.repeat(starts - before, lengths) + np.arange(behind[-1])], before, behind


def _printable(byte: int) -> str:
    return chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}"


def _error(message: str, row: int, cursor: Positions, index: int | None = None) -> ProtocolError:
    """An error at ``cursor[index]``, which is not ``row`` where only some rows are read."""
    offset = int(cursor[row if index is None else index])
    # Row and buffer are not in the message, since the caller may have better terms for both.
    return ProtocolError(message, offset=offset, detail=f"Tuple {row}, at offset {offset} of its buffer.")


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
"""The bytes of the smallest change: type byte, relation id, tuple marker and column count."""


@dataclass(frozen=True, slots=True)
class ChangeRows:
    """Changes of one relation shape, action and kind of old tuple; ``rows`` are ascending."""

    relation: Relation
    action: Literal["I", "U", "D"]
    old_kind: OldKind | None
    rows: Positions
    old: TupleColumns | None
    new: TupleColumns | None


@dataclass(frozen=True, slots=True)
class MessageBatch:
    """A batch of messages, with its changes in groups, whose offsets refer to ``buffer``.

    ``controls`` are the rows of all messages that are neither a change nor R nor Y. ``relations``
    is the relation map after the batch; the same object as before it without a new description.
    ``used_before`` has the relations whose shape from before the batch was needed; ``shapes`` by
    relation id the rows with a new description.
    """

    buffer: Bytes
    groups: tuple[ChangeRows, ...]
    controls: Positions
    relations: Mapping[int, Relation]
    used_before: frozenset[int]
    relations_before: Mapping[int, Relation]
    shapes: Mapping[int, list[tuple[int, Relation]]]

    def relation_at(self, relation_id: int, row: int) -> Relation | None:
        """The last description of a relation before a row of the batch (rule C1)."""
        shape = self.relations_before.get(relation_id)
        for described_at, relation in self.shapes.get(relation_id, ()):
            if described_at > row:
                break
            shape = relation
        return shape


@dataclass(frozen=True, slots=True)
class _Messages:
    buffer: Bytes
    starts: Positions
    ends: Positions
    types: Bytes
    lsns: Positions | None
    copies: bool

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
    lsns: Positions | None = None,
    *,
    copies: bool = False,
) -> MessageBatch:
    """Group the changes of a batch of messages; every byte of the changes is checked. ``copies``:
    all values are needed.

    Each row of ``messages`` is one pgoutput message, in the form outside of stream blocks (no xid
    prefix), in stream order. ProtocolError, with relation, offset, message type and the LSN from
    ``lsns``, if a message is malformed, or a change names a relation that was never described.
    """
    view = _view(messages, lsns, copies=copies)
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


def _view(messages: pa.BinaryArray, lsns: Positions | None, *, copies: bool) -> _Messages:
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
    return _Messages(buffer, starts, ends, buffer[starts], lsns, copies)


def _relation_changes(
    view: _Messages, messages: pa.BinaryArray, before: Mapping[int, Relation]
) -> tuple[Mapping[int, Relation], dict[int, list[tuple[int, Relation]]]]:
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
    rows: Positions,
    relations: Mapping[int, Relation],
    shapes: Mapping[int, list[tuple[int, Relation]]],
    used_before: set[int],
) -> list[tuple[Relation, Positions]]:
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


def _by_action(view: _Messages, relation: Relation, rows: Positions) -> list[ChangeRows]:
    types = view.types[rows]
    groups = []
    for action, parse in ((_INSERT, _inserts), (_UPDATE, _updates), (_DELETE, _deletes)):
        chosen = rows[types == action]
        if chosen.size:
            groups += parse(view, relation, chosen)
    return groups


def _inserts(view: _Messages, relation: Relation, rows: Positions) -> list[ChangeRows]:
    markers = view.buffer[view.starts[rows] + _MARKER_AT]
    _expect(view, relation, rows, markers == _NEW, "expected new tuple but got {code}")
    new = _tuples(view, relation, rows, view.starts[rows] + _TUPLE_AT)
    _expect_end(view, relation, rows, new.end)
    return [ChangeRows(relation, "I", None, rows, None, new)]


def _updates(view: _Messages, relation: Relation, rows: Positions) -> list[ChangeRows]:
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


def _deletes(view: _Messages, relation: Relation, rows: Positions) -> list[ChangeRows]:
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


def _tuples(view: _Messages, relation: Relation, rows: Positions, at: Positions) -> TupleColumns:
    try:
        return split_tuples(view.buffer, at, view.ends[rows], len(relation.columns), copies=view.copies)
    except ProtocolError as error:
        # split_tuples reports an offset in the buffer: find the message and its relation.
        place = error.offset or 0
        # A truncated tuple fails at the end of its message, which is the start of the next one.
        row = int(rows[max(0, int(np.searchsorted(view.starts[rows], place, side="left")) - 1)])
        view.fail(row, error.message, offset=place - int(view.starts[row]), relation=relation)


def _expect(view: _Messages, relation: Relation, rows: Positions, good: NDArray[np.bool_], error: str) -> None:
    bad = rows[~good]
    if bad.size:
        row = int(bad[0])
        code = int(view.buffer[view.starts[row] + _MARKER_AT])
        view.fail(row, error.format(code=code, character=chr(code)), offset=_MARKER_AT, relation=relation)


def _expect_new_tuple(view: _Messages, relation: Relation, rows: Positions, at: Positions) -> None:
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


def _expect_end(view: _Messages, relation: Relation, rows: Positions, ends: Positions) -> None:
    wrong = np.flatnonzero(ends != view.ends[rows])
    if wrong.size:
        row = int(rows[wrong[0]])
        view.fail(
            row,
            "invalid message format: bytes after the tuple",
            offset=int(ends[wrong[0]] - view.starts[row]),
            relation=relation,
        )


def _u32(buffer: Bytes, at: Positions) -> Positions:
    value = np.zeros(at.shape, np.int64)
    for byte in range(4):
        value = value << 8 | buffer[at + byte]
    return value
