"""Frames of columnar changes: the contract between decoding (executors) and applying (driver).

::

    journal ──decode──▶ Frame ──encode()──▶ Spark row (binary) ──Frame.decode()──▶ apply
                        ├── controls   messages other than row changes: B C O T M b P K r, raw pgoutput
                        └── groups     changes with the same relation, action, old tuple and sent columns

A frame is a piece of the journal, in order. Every control and every change has a *position*, its
ordinal in the frame; ascending positions are the publisher's order (invariant commit_order). A
source transaction may be in several frames, and a frame may have many transactions.

Missing values are explicit (invariant absence_is_typed). A column that was not sent, or was sent as
unchanged out-of-line value ('u', rule A11), is *missing* from the group's batch; a null cell is
NULL. Changes with different sets of sent columns are therefore in different groups. So are changes
of which one has a column as text and the other has it in binary format, since that makes a
difference to a target with PostgreSQL's types (rule C5).

The binary format is little-endian and aligned to 8 bytes, so that Arrow reads its buffers in
place::

    magic 8s │ counts: relations, controls, groups │ described │ relations │ controls │ (header, Arrow IPC stream)*

Each relation is written once, as the pgoutput message that announced it. A process has one object
for each relation message, so that dictionaries need not compare its columns. The controls are
written field by field::

    positions i32* │ message lengths u32* │ relation counts u32* │ finish LSNs u64* │ relation numbers u32* │ messages

A frame of small transactions has tens of thousands of controls. An object for each of them took
more time than everything else that is done with the transaction, most of it in Python's garbage
collector. So they stay columns until somebody asks for one (:class:`Control`), and transactions are
checked as arrays (:mod:`subscriber.apply.transaction_bounds`).

*Rejected:* pickle, because frames cross process boundaries and may be stored. *Rejected:* one Arrow
stream for the whole frame, because groups have different schemas.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, Self, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from subscriber.base.errors import JournalCorrupt
from subscriber.base.lsn import INVALID_LSN, LSN
from subscriber.postgres.protocol.decode_message import decode as decode_message
from subscriber.postgres.protocol.encode_message import encode as encode_message
from subscriber.postgres.protocol.messages import Relation


class Control(NamedTuple):
    """A message that is not a change of one row, in the form outside of stream blocks.
    ``relations`` are those that a T names, in its order. ``finish_lsn`` is for b the end of the
    COMMIT PREPARED if that follows directly, otherwise of the PREPARE; 0/0 for other messages,
    which contain their LSN.
    """

    position: int
    message: bytes
    relations: tuple[Relation, ...] = ()
    finish_lsn: LSN = INVALID_LSN


@dataclass(frozen=True, slots=True, eq=False)
class Controls(Sequence[Control]):
    """Controls as columns; relations and finish LSNs, which are rare, by the control's number."""

    positions: NDArray[np.int32]
    messages: pa.BinaryArray
    relations: Mapping[int, tuple[Relation, ...]] = field(default_factory=dict)
    finishes: Mapping[int, LSN] = field(default_factory=dict)

    @classmethod
    def of(cls, controls: Iterable[Control]) -> Self:
        listed = list(controls)
        return cls(
            np.array([one.position for one in listed], np.int32),
            pa.array([one.message for one in listed], pa.binary()),
            {number: one.relations for number, one in enumerate(listed) if one.relations},
            {number: one.finish_lsn for number, one in enumerate(listed) if one.finish_lsn != INVALID_LSN},
        )

    def __len__(self) -> int:
        return len(self.positions)

    @overload
    def __getitem__(self, number: int) -> Control: ...

    @overload
    def __getitem__(self, number: slice) -> Controls: ...

    def __getitem__(self, number: int | slice) -> Control | Controls:
        """The control with this number; for a slice with the step 1, these controls."""
        if isinstance(number, slice):
            start, stop, _ = number.indices(len(self))
            return self.take(np.arange(start, stop))
        at = range(len(self))[number]
        return Control(
            int(self.positions[at]),
            self.messages[at].as_py(),
            self.relations.get(at, ()),
            self.finishes.get(at, INVALID_LSN),
        )

    def __iter__(self) -> Iterator[Control]:
        for number, (position, message) in enumerate(
            zip(self.positions.tolist(), self.messages.to_pylist(), strict=True)
        ):
            yield Control(position, message, self.relations.get(number, ()), self.finishes.get(number, INVALID_LSN))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Controls) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # it has arrays

    def take(self, numbers: NDArray[np.int64]) -> Controls:
        size = len(numbers)
        if not self.relations and not self.finishes:
            relations, finishes = self.relations, self.finishes
        else:
            at = {number: place for place, number in enumerate(numbers.tolist())}
            relations = {at[number]: named for number, named in self.relations.items() if number in at}
            finishes = {at[number]: lsn for number, lsn in self.finishes.items() if number in at}
        first = int(numbers[0]) if size else 0
        if size and int(numbers[-1]) - first == size - 1 and np.all(np.diff(numbers) == 1):
            return Controls(self.positions[first : first + size], self.messages.slice(first, size), relations, finishes)
        return Controls(self.positions[numbers], self.messages.take(pa.array(numbers)), relations, finishes)

    def types(self) -> NDArray[np.uint8]:
        data, offsets = self.buffers()
        types: NDArray[np.uint8] = data[offsets[:-1]]
        return types

    def buffers(self) -> tuple[NDArray[np.uint8], NDArray[Any]]:
        """The bytes of the messages, and the offsets where they begin and the last one ends."""
        if not len(self):
            return np.empty(0, np.uint8), np.zeros(1, np.int32)
        _, offsets, data = self.messages.buffers()
        begins = np.frombuffer(offsets, np.int32, len(self) + 1, self.messages.offset * 4)
        return np.frombuffer(data, np.uint8), begins


Action = Literal["I", "U", "D"]
OldKind = Literal["K", "O"]

_MAGIC: Final = b"SUBFRM\x00\x05"
_COUNTS: Final = struct.Struct("<8sIIIIQ")
_RELATION: Final = struct.Struct("<I?")
_GROUP: Final = struct.Struct("<IccxxQ")
_ALIGNMENT: Final = 8

_MOST_RELATIONS: Final = 10_000
"""The greatest number of relation messages to remember: far more than a publisher has tables."""
_POSITION_FIELD: Final = "#"
_OLD_PREFIX: Final = "<"
_NEW_PREFIX: Final = ">"
_BINARY_MARK: Final = "b"
_TEXT_MARK: Final = "t"


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    """Changes with the same relation, action, kind of old tuple and set of sent columns.

    ``positions`` (int32) ascend. ``old`` has the columns of the old tuples, for K only the replica
    identity; None exactly when ``old_kind`` is None. ``new`` is None exactly for a DELETE. A batch
    with rows but no columns is possible. ``binary`` are the columns whose values, where not NULL,
    came in binary format (rules A11, A12).
    """

    relation: Relation
    action: Action
    old_kind: OldKind | None
    positions: NDArray[np.int32]
    old: pa.RecordBatch | None
    new: pa.RecordBatch | None
    binary: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.positions)

    def slice(self, start: int, stop: int) -> ChangeGroup:
        """The changes from ``start`` up to ``stop`` (exclusive), without a copy of their data."""
        size = stop - start
        return ChangeGroup(
            relation=self.relation,
            action=self.action,
            old_kind=self.old_kind,
            positions=self.positions[start:stop],
            old=None if self.old is None else self.old.slice(start, size),
            new=None if self.new is None else self.new.slice(start, size),
            binary=self.binary,
        )

    def take(self, rows: NDArray[np.int64]) -> ChangeGroup:
        """The changes with these numbers, in this order; their data is copied."""
        indices = pa.array(rows)
        return ChangeGroup(
            relation=self.relation,
            action=self.action,
            old_kind=self.old_kind,
            positions=self.positions[rows],
            old=None if self.old is None else self.old.take(indices),
            new=None if self.new is None else self.new.take(indices),
            binary=self.binary,
        )


@dataclass(frozen=True, slots=True)
class Frame:
    """A piece of the journal. ``described`` is the last LSN of a change with which the server has
    sent a relation message; 0 if it has sent none, or the publications are the server's.
    """

    groups: tuple[ChangeGroup, ...]
    controls: Controls = field(default_factory=lambda: Controls.of(()))
    described: int = 0

    def split(self, position: int) -> tuple[Self, Self]:
        """What is before a position, and the rest; no data is copied."""
        number = int(np.searchsorted(self.controls.positions, position))
        first, second = [], []
        for group in self.groups:
            row = int(np.searchsorted(group.positions, position))
            first += [group.slice(0, row)] if row else []
            second += [group.slice(row, len(group))] if row < len(group) else []
        kind = type(self)
        return (
            kind(tuple(first), self.controls[:number], self.described),
            kind(tuple(second), self.controls[number:], self.described),
        )

    def encode(self) -> bytes:
        sink = pa.BufferOutputStream()
        self.write(sink)
        return bytes(sink.getvalue().to_pybytes())

    def write(self, sink: pa.NativeFile) -> None:
        """Write what :meth:`encode` returns, without a copy of the data."""
        relations = _distinct_relations(self)
        counts = len(relations), len(self.controls), len(self.groups)
        parts = [_COUNTS.pack(_MAGIC, *counts, 0, self.described)]
        parts.extend(_encode_relation(relation) for relation in relations)
        parts.extend(_encode_controls(self.controls, relations))
        head = b"".join(parts)
        sink.write(head + _padding(len(head)))
        for group in self.groups:
            _write_group(group, relations[group.relation], sink)

    @classmethod
    def decode(cls, data: bytes | memoryview) -> Self:
        """Read what :meth:`encode` wrote, in place, or raise JournalCorrupt."""
        try:
            return cls(*_decode(data))
        except (struct.error, pa.ArrowException, IndexError, ValueError) as error:
            raise JournalCorrupt("a frame of decoded changes is damaged") from error


def _distinct_relations(frame: Frame) -> dict[Relation, int]:
    relations: dict[Relation, int] = {}
    for group in frame.groups:
        relations.setdefault(group.relation, len(relations))
    for named in frame.controls.relations.values():
        for relation in named:
            relations.setdefault(relation, len(relations))
    return relations


def _encode_relation(relation: Relation) -> bytes:
    message = encode_message(relation)
    return _RELATION.pack(len(message), relation.xid is not None) + message


def _encode_controls(controls: Controls, relations: dict[Relation, int]) -> Iterator[bytes]:
    data, begins = controls.buffers()
    named, finishes = np.zeros(len(controls), "<u4"), np.zeros(len(controls), "<u8")
    for number, names in controls.relations.items():
        named[number] = len(names)
    for number, finish in controls.finishes.items():
        finishes[number] = finish
    yield controls.positions.astype("<i4").tobytes()
    yield np.diff(begins).astype("<u4").tobytes()
    yield named.tobytes()
    yield finishes.tobytes()
    numbers = [relations[one] for _, names in sorted(controls.relations.items()) for one in names]
    yield np.array(numbers, "<u4").tobytes()
    yield data[begins[0] : begins[-1]].tobytes()


def _write_group(group: ChangeGroup, relation: int, sink: pa.NativeFile) -> None:
    batch = _joined(group)
    counted = pa.MockOutputStream()
    _write_stream(batch, counted)
    size = counted.size()
    sink.write(_GROUP.pack(relation, group.action.encode(), (group.old_kind or " ").encode(), size))
    _write_stream(batch, sink)
    sink.write(_padding(size))


def _write_stream(batch: pa.RecordBatch, sink: pa.NativeFile) -> None:
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)


def _joined(group: ChangeGroup) -> pa.RecordBatch:
    # One batch for each group: opening an Arrow stream costs more than reading it.
    names, arrays = [_POSITION_FIELD], [pa.array(group.positions, pa.int32())]
    for prefix, batch in ((_OLD_PREFIX, group.old), (_NEW_PREFIX, group.new)):
        if batch is not None:
            names.extend(
                prefix + (_BINARY_MARK if name in group.binary else _TEXT_MARK) + name for name in batch.schema.names
            )
            arrays.extend(batch.columns)
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _padding(size: int) -> bytes:
    return bytes(-size % _ALIGNMENT)


def _decode(data: bytes | memoryview) -> tuple[tuple[ChangeGroup, ...], Controls, int]:
    magic, n_relations, n_controls, n_groups, _, described = _COUNTS.unpack_from(data)
    if magic != _MAGIC:
        raise JournalCorrupt("a frame of decoded changes does not begin with its magic bytes")
    offset = _COUNTS.size
    relations: list[Relation] = []
    for _ in range(n_relations):
        length, in_stream = _RELATION.unpack_from(data, offset)
        offset += _RELATION.size
        relations.append(_decode_relation(_slice(data, offset, length), in_stream=in_stream))
        offset += length
    controls, offset = _decode_controls(data, offset, n_controls, relations)
    offset += -offset % _ALIGNMENT
    groups = []
    buffer = pa.py_buffer(data)
    for _ in range(n_groups):
        relation, action, old_kind, size = _GROUP.unpack_from(data, offset)
        offset += _GROUP.size
        batch = pa.ipc.open_stream(buffer.slice(offset, size)).read_next_batch()
        groups.append(_decode_group(relations[relation], action.decode(), old_kind.decode().strip() or None, batch))
        offset += size + -size % _ALIGNMENT
    return tuple(groups), controls, described


def _slice(data: bytes | memoryview, offset: int, length: int) -> bytes:
    if offset + length > len(data):
        raise JournalCorrupt("a frame of decoded changes ends too early")
    return bytes(data[offset : offset + length])


@lru_cache(maxsize=_MOST_RELATIONS)
def _decode_relation(message: bytes, *, in_stream: bool) -> Relation:
    relation = decode_message(message, in_stream=in_stream)
    if not isinstance(relation, Relation):
        raise JournalCorrupt("a frame of decoded changes has another message instead of a relation message")
    return relation


def _decode_controls(
    data: bytes | memoryview, offset: int, count: int, relations: Sequence[Relation]
) -> tuple[Controls, int]:
    def column(kind: str, size: int) -> NDArray[Any]:
        nonlocal offset
        values = np.frombuffer(data, kind, size, offset)
        offset += values.nbytes
        return values

    positions, lengths = column("<i4", count), column("<u4", count)
    named, finishes = column("<u4", count), column("<u8", count)
    numbers = column("<u4", int(named.sum()))
    begins = np.zeros(count + 1, np.int32)
    np.cumsum(lengths, out=begins[1:])
    raw = _slice(data, offset, int(begins[-1]))
    offset += len(raw)
    messages = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(begins), pa.py_buffer(raw)])
    ends = np.cumsum(named)
    names = {
        number: tuple(relations[one] for one in numbers[ends[number] - named[number] : ends[number]].tolist())
        for number in np.flatnonzero(named).tolist()
    }
    finish_lsns = {number: LSN(int(finishes[number])) for number in np.flatnonzero(finishes).tolist()}
    return Controls(positions, messages, names, finish_lsns), offset


def _decode_group(relation: Relation, action: Action, old_kind: OldKind | None, batch: pa.RecordBatch) -> ChangeGroup:
    positions = batch.column(0).to_numpy()
    return ChangeGroup(
        relation=relation,
        action=action,
        old_kind=old_kind,
        positions=positions,
        old=_part(batch, _OLD_PREFIX) if old_kind else None,
        new=_part(batch, _NEW_PREFIX) if action != "D" else None,
        binary=frozenset(name[2:] for name in batch.schema.names if name[1:2] == _BINARY_MARK),
    )


def _part(batch: pa.RecordBatch, prefix: str) -> pa.RecordBatch:
    indexes = [index for index, name in enumerate(batch.schema.names) if name.startswith(prefix)]
    part = batch.select(indexes)
    return part.rename_columns([name[2:] for name in part.schema.names])
