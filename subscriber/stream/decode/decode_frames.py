"""Rows of the journal → frames: the decode stage, a pure function that runs on the executors.

::

    lsn, message        group_changes          column by column            apply's contract
    (Arrow batch)  ──▶  same shape together ──▶ types.decode_column ──▶    Frame(groups, controls)

Each batch of rows becomes one frame. A decoder keeps the relation map from batch to batch, so a
partition must be read from its beginning.

A column that was not sent is missing from its group (absence_is_typed): all rows of a group have
the same *set of sent columns*. For example, two updates of one table become two groups if only one
of them has left a long text unchanged. They also become two groups if one was sent as text and the
other in binary format; the group records which (rule C5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from subscriber.base.errors import ProtocolError, SubscriberError
from subscriber.base.lsn import LSN
from subscriber.base.stage_seconds import StageSeconds
from subscriber.postgres.protocol import message_batch
from subscriber.postgres.protocol.changes import ChangeGroup, Controls, Frame
from subscriber.postgres.protocol.decode_message import decode
from subscriber.postgres.protocol.messages import Relation, Truncate
from subscriber.postgres.publication.publishing import Publishing, compiled
from subscriber.postgres.types.registry import decode_column
from subscriber.stream.decode.publish import publish
from subscriber.stream.journal.builder import rows_of
from subscriber.stream.journal.message_rows import FROM_BEFORE

JOINED_BYTES: Final = 4 * 1024 * 1024
"""The size of the batches that are joined to one frame, at most."""
JOINED_ROWS: Final = 65_536
"""The rows of the batches that are joined to one frame, at most. A frame is written with a few
statements, and DuckDB's UPDATE of 16,000 rows of a large table takes less than twice as long as
that of 2,000.
"""

_TEXT, _BINARY, _UNSENT = 0, 1, 2
_TRUNCATE: Final = ord("T")
_BEGIN_PREPARE: Final = ord("b")


class FrameDecoder:
    """Decodes consecutive batches of messages; ``as_text`` keeps PostgreSQL's text form."""

    def __init__(self, *, as_text: bool = False) -> None:
        self._as_text = as_text
        self._relations: Mapping[int, Relation] = {}

    def decode(self, messages: pa.BinaryArray, lsns: pa.Int64Array, finish_lsns: pa.Int64Array | None = None) -> Frame:
        """Decode one batch of messages, in stream order and outside of stream blocks.
        ``finish_lsns``, the end of each message's entry, is for appliers of prepared transactions.
        A ProtocolError names relation, column, LSN and byte offset.
        """
        positions = lsns.to_numpy(zero_copy_only=False)
        batch = message_batch.group_changes(messages, self._relations, positions, copies=True)
        groups = [group for rows in batch.groups for group in self._groups(batch, rows, positions)]
        self._relations = batch.relations
        return Frame(tuple(groups), self._controls(messages, batch, positions, finish_lsns))

    def _controls(
        self,
        messages: pa.BinaryArray,
        batch: message_batch.MessageBatch,
        lsns: npt.NDArray[np.int64],
        finish_lsns: pa.Int64Array | None,
    ) -> Controls:
        plain = Controls(batch.controls.astype(np.int32), messages.take(pa.array(batch.controls)))
        relations: dict[int, tuple[Relation, ...]] = {}
        finishes: dict[int, LSN] = {}
        types = plain.types()
        for number in np.flatnonzero(types == _TRUNCATE).tolist():
            row = int(plain.positions[number])
            try:
                relations[number] = _truncated(plain[number].message, row, batch)
            except SubscriberError as error:
                raise error.replace(lsn=int(lsns[row])) from None
        if finish_lsns is not None:
            for number in np.flatnonzero(types == _BEGIN_PREPARE).tolist():
                finishes[number] = LSN(finish_lsns[int(plain.positions[number])].as_py())
        return Controls(plain.positions, plain.messages, relations, finishes)

    def _groups(
        self, batch: message_batch.MessageBatch, rows: message_batch.ChangeRows, lsns: npt.NDArray[np.int64]
    ) -> Iterator[ChangeGroup]:
        forms = [_forms(columns) for columns in (rows.old, rows.new) if columns is not None]
        for chosen in _same_forms(np.concatenate(forms) if forms else np.empty((0, len(rows.rows)), np.uint8)):
            binary: set[str] = set()
            try:
                yield ChangeGroup(
                    rows.relation,
                    rows.action,
                    rows.old_kind,
                    (rows.rows if chosen is None else rows.rows[chosen]).astype(np.int32),
                    self._values(batch, rows, rows.old, chosen, lsns, binary, identity_only=rows.old_kind == "K"),
                    self._values(batch, rows, rows.new, chosen, lsns, binary, identity_only=False),
                    frozenset(binary),
                )
            except SubscriberError as error:
                raise error.replace(relation=rows.relation.qualified_name) from None

    def _values(
        self,
        batch: message_batch.MessageBatch,
        rows: message_batch.ChangeRows,
        columns: message_batch.TupleColumns | None,
        chosen: npt.NDArray[np.int64] | None,
        lsns: npt.NDArray[np.int64],
        came_as_binary: set[str],
        *,
        identity_only: bool,
    ) -> pa.RecordBatch | None:
        """The sent columns of the chosen rows; ``came_as_binary`` gets the names of binary ones."""
        if columns is None:
            return None
        names, arrays = [], []
        for index, column in enumerate(rows.relation.columns):
            kinds = columns.kinds[index] if chosen is None else columns.kinds[index][chosen]
            if kinds[0] == message_batch.KIND_UNCHANGED or (identity_only and not column.is_identity):
                continue
            binary = bool(np.any(kinds == message_batch.KIND_BINARY))
            values = message_batch.column_bytes(batch.buffer, columns, index, chosen)
            decode_values = partial(self._column, column.type_oid, binary=binary, number=index + 1)
            try:
                array = decode_values(values)
            except SubscriberError as error:
                bad = _first_bad(decode_values, values)
                lsn = int(lsns[rows.rows[bad if chosen is None else chosen[bad]]])
                raise error.replace(column=column.name, lsn=lsn) from None
            names.append(column.name)
            arrays.append(array)
            if binary:
                came_as_binary.add(column.name)
        if not names:
            count = len(rows.rows) if chosen is None else len(chosen)
            return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))
        return pa.RecordBatch.from_arrays(arrays, names=names)

    def _column(self, type_oid: int, values: pa.Array, *, binary: bool, number: int) -> pa.Array:
        if self._as_text and not binary:
            return decode_column(0, values, binary=False, column=number)
        return decode_column(type_oid, values, binary=binary, column=number)


def decode_frames(
    batches: Iterable[pa.RecordBatch],
    *,
    as_text: bool,
    publishing: Publishing | None = None,
    seconds: StageSeconds | None = None,
) -> Iterator[Frame]:
    """The frames of a partition: of rows with ``lsn``, ``message`` and ``finish_lsn``, in joined
    batches. ``publishing`` has the emulated publications; None if the server has filtered the
    changes. The stages read, decode and filter are added to ``seconds``.
    """
    seconds = StageSeconds() if seconds is None else seconds
    decoder = FrameDecoder(as_text=as_text)
    programs = None if publishing is None else compiled(publishing)
    descriptions = Descriptions()
    parts = _together(seconds.timed("read", batches))
    decoded = seconds.timed("decode", chain.from_iterable(_decoded(decoder, part) for part in parts))
    if programs is None:
        yield from (frame for frame, _ in decoded)
        return

    def published(frame: Frame, rows: pa.RecordBatch) -> Iterator[Frame]:
        described = replace(frame, described=descriptions.last(rows))
        yield from publish(described, programs, rows.column("lsn").to_numpy(zero_copy_only=False))

    yield from seconds.timed("filter", chain.from_iterable(published(*one) for one in decoded))


class Descriptions:
    """Finds the server's relation messages: each is before the first change after its cause."""

    def __init__(self) -> None:
        self._waiting = False

    def last(self, rows: pa.RecordBatch) -> int:
        """The LSN of the last change with which one was sent; 0 if there is none."""
        lsns = rows.column("lsn").to_numpy(zero_copy_only=False)
        sent = [row for row in rows_of(rows.column("message"), b"R") if lsns[row] != FROM_BEFORE]
        changes = np.flatnonzero(lsns > 0)
        first = int(changes[0]) if self._waiting and changes.size else None
        followed = np.searchsorted(changes, sent, side="right")
        places = changes[followed[followed < changes.size]]
        self._waiting = bool(followed.size and followed[-1] == changes.size) or (self._waiting and not changes.size)
        finish = int(rows.column("finish_lsn")[-1].as_py() or 0) if self._waiting else 0
        found = [*lsns[places].tolist(), *([] if first is None else [int(lsns[first])])]
        return max(found, default=finish if self._waiting else 0)


def _together(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Batches that are decoded together: a batch takes some milliseconds whatever its size."""
    parts: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if parts and (rows + batch.num_rows > JOINED_ROWS or size + batch.nbytes > JOINED_BYTES):
            yield parts
            parts, rows, size = [], 0, 0
        if batch.num_rows:
            parts.append(batch)
            rows += batch.num_rows
            size += batch.nbytes
    if parts:
        yield parts


def _decoded(decoder: FrameDecoder, parts: list[pa.RecordBatch]) -> Iterator[tuple[Frame, pa.RecordBatch]]:
    """The parts as one frame; if a message cannot be decoded, a frame for each part before it."""
    try:
        found = _decode_one(decoder, parts[0] if len(parts) == 1 else _joined(parts))
    except SubscriberError:
        if len(parts) == 1:
            raise
    else:
        yield found
        return
    for part in parts:
        yield _decode_one(decoder, part)


def _decode_one(decoder: FrameDecoder, batch: pa.RecordBatch) -> tuple[Frame, pa.RecordBatch]:
    return decoder.decode(batch.column("message"), batch.column("lsn"), batch.column("finish_lsn")), batch


def _joined(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    columns = [part.select(["lsn", "message", "finish_lsn"]) for part in parts]
    return pa.concat_batches(columns)


def _first_bad(decode_values: Callable[[pa.Array], pa.Array], values: pa.Array) -> int:
    for row in range(len(values)):
        try:
            decode_values(values.slice(row, 1))
        except SubscriberError:
            return row
    return 0


def _truncated(message: bytes, row: int, batch: message_batch.MessageBatch) -> tuple[Relation, ...]:
    """The relations that a TRUNCATE names, as they were described at its place."""
    truncate = decode(message)
    assert isinstance(truncate, Truncate)
    relations = []
    for relation_id in truncate.relation_ids:
        relation = batch.relation_at(relation_id, row)
        if relation is None:
            raise ProtocolError(f"no relation map entry for remote relation ID {relation_id}", message_type="T")
        relations.append(relation)
    return tuple(relations)


def _forms(columns: message_batch.TupleColumns) -> npt.NDArray[np.uint8]:
    """How columns were sent: as text, binary, or not at all. NULL has the form of its column.
    Columns that share their kinds have one row.
    """
    table = np.zeros(256, np.uint8)
    table[message_batch.KIND_BINARY], table[message_batch.KIND_UNCHANGED] = _BINARY, _UNSENT
    rows = []
    for kinds in {id(kinds): kinds for kinds in columns.kinds}.values():
        form = table[kinds]
        if np.any(form == _BINARY) and not np.any(kinds == message_batch.KIND_TEXT):
            form[kinds == message_batch.KIND_NULL] = _BINARY
        rows.append(form)
    return np.array(rows, np.uint8).reshape(len(rows), len(columns.end))


def _same_forms(forms: npt.NDArray[np.uint8]) -> Iterator[Any]:
    """The row numbers of each distinct column of ``forms``; None if all rows are alike."""
    if not forms.size or bool((forms == forms[:, :1]).all()):
        yield None
        return
    _, which = np.unique(forms, axis=1, return_inverse=True)
    which = which.reshape(-1)
    for form in range(int(which.max()) + 1):
        yield np.flatnonzero(which == form)
