"""Changes of tables with a history, as changes of the target's table.

::

    decoded Frame ──▶ HistoryFrames ──▶ Frame of changes of the table with more columns ──▶ exact or bulk path

Reordering, bulk writes, progress and retries see changes of an ordinary table of the target
(:mod:`subscriber.postgres.schema.history_rules`). Both paths get the same rows, since every change
brings the LSN of its commit and its number in the transaction.

*scd2:* an INSERT, UPDATE or DELETE becomes the same change of the open version, which is found by
the END columns of its key. It carries where the version begins, or for a DELETE where it ends.
:mod:`subscriber.apply.writing.versions` keeps the version that an UPDATE or DELETE ends. TRUNCATE
is a DELETE without the publisher's key.

*append:* there are INSERTs only:

======================  ==========================================================================
INSERT                  ``insert``, the new row
UPDATE                  ``update_preimage`` with the old row or key, if it was sent;
                        ``update_postimage`` with the new row
DELETE                  ``delete`` with the old row or key
TRUNCATE                ``truncate`` without a row
======================  ==========================================================================

The words are those of Spark's change feed, and so is ``_sequence``: twice the number of the change
in its transaction, and one more for a new row. It does not depend on how the stream is cut into
frames and batches. A column that was not sent is NULL and named in ``_unchanged`` (invariant
absence_is_typed); a value that an UPDATE has left unchanged comes from the old row where that has
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import sqlalchemy as sa
from numpy.typing import NDArray

from subscriber.apply.frame_order import FrameOrder
from subscriber.base.errors import NotSupportedError
from subscriber.base.lsn import LSN
from subscriber.postgres.protocol import messages
from subscriber.postgres.protocol.changes import ChangeGroup, Controls, Frame
from subscriber.postgres.protocol.decode_message import decode
from subscriber.postgres.protocol.messages import Relation
from subscriber.postgres.schema.history_rules import APPENDED, OPEN_LSN, REPLACED, History, HistoryRules
from subscriber.postgres.sql.quoting import quote_identifier
from subscriber.postgres.types.registry import family_of
from subscriber.targets import TargetTable

_BEGIN, _TRUNCATE, _BEGIN_PREPARE = b"B"[0], b"T"[0], b"b"[0]
_TIMESTAMPTZ: Final = 1184


class _Begun(NamedTuple):
    """A transaction of the publisher, and how many changes of it were in earlier frames."""

    lsn: int = 0
    timestamp: int = 0
    xid: int = 0
    changes: int = 0


@dataclass(frozen=True, slots=True)
class _Places:
    """For changes their position in the new frame, their transaction, and their number in it."""

    positions: NDArray[np.int64]
    lsns: NDArray[np.int64]
    timestamps: NDArray[np.int64]
    xids: NDArray[np.int64]
    numbers: NDArray[np.int64]

    def take(self, at: Any) -> _Places:
        return _Places(self.positions[at], self.lsns[at], self.timestamps[at], self.xids[at], self.numbers[at])


class HistoryFrames:
    """Turns the frames of one batch, in order. ``as_text``: values are PostgreSQL's text."""

    def __init__(self, rules: HistoryRules, *, as_text: bool) -> None:
        self._rules = rules
        self._as_text = as_text
        self._begun = _Begun()
        self._relations: dict[Relation, Relation] = {}

    def of(self, frames: Iterable[Frame]) -> Iterator[Frame]:
        """NotSupportedError for a prepared transaction, and as :meth:`HistoryRules.relation`."""
        return map(self._turned, frames)

    def _turned(self, frame: Frame) -> Frame:
        order = FrameOrder.of(frame)
        places = self._places(order)
        groups: list[ChangeGroup] = []
        for number, group in enumerate(frame.groups):
            of_group = places.take(order.rows_of(number))
            mode = self._mode(group.relation)
            if mode == "append":
                groups += self._images(group, of_group)
            elif mode == "scd2":
                groups.append(self._of_version(group, of_group))
            else:
                groups.append(replace(group, positions=of_group.positions.astype(np.int32)))
        controls = replace(order.controls, positions=places.positions[: len(order.controls)].astype(np.int32))
        controls, truncated = self._truncated(controls, places)
        return replace(frame, groups=(*groups, *truncated), controls=controls)

    def _places(self, order: FrameOrder) -> _Places:
        """Of every item. Positions are even, so that there is room for a row behind each one."""
        size = len(order)
        ranks = np.empty(size, np.int64)
        ranks[order.at] = np.arange(size)
        types = order.controls.types()
        if np.any(types == _BEGIN_PREPARE):
            raise NotSupportedError(
                "a prepared transaction cannot be written to a table with a history",
                detail="When its changes are applied, the LSN and the time of its commit are not known.",
                hint="Use ALTER SUBSCRIPTION ... SET (two_phase = false).",
            )
        is_change = np.ones(size, np.int64)
        is_change[: len(types)] = types == _TRUNCATE
        before = np.concatenate(([0], np.cumsum(is_change[order.at])))
        begins = np.flatnonzero(types == _BEGIN)
        begun = [self._begun, *(_begin(order.controls[number].message) for number in begins.tolist())]
        starts = ranks[begins]
        counted = np.concatenate(([-self._begun.changes], before[starts]))
        of_item = np.searchsorted(starts, ranks, side="right")
        numbers = before[ranks] + 1 - counted[of_item]
        self._begun = begun[-1]._replace(changes=int(before[-1] - counted[-1]))
        lsns, timestamps, xids, _ = np.array(begun, np.int64).T
        return _Places(2 * ranks, lsns[of_item], timestamps[of_item], xids[of_item], numbers)

    def _mode(self, relation: Relation) -> History:
        return self._rules.of(relation.namespace, relation.name)

    # scd2 -----------------------------------------------------------------------------------------

    def _of_version(self, group: ChangeGroup, places: _Places) -> ChangeGroup:
        """The change of the open versions."""
        new = None if group.new is None else self._with(group.new, self._begins(places), self._open(places))
        old = None
        if group.old is not None:
            bounds = {**self._open(places), **(self._begins(places) if group.new is None else {})}
            old = self._with(group.old, bounds)
        return replace(
            group,
            relation=self._relation(group.relation),
            positions=places.positions.astype(np.int32),
            old=old,
            new=new,
        )

    def _begins(self, places: _Places) -> dict[str, pa.Array]:
        return {
            "_valid_from": self._timestamps(places.timestamps),
            "_from_lsn": self._integers(places.lsns),
            "_from_sequence": self._integers(2 * places.numbers),
        }

    def _open(self, places: _Places) -> dict[str, pa.Array]:
        nothing = np.zeros(len(places.positions), np.int64)
        return {"_to_lsn": self._integers(nothing + OPEN_LSN), "_to_sequence": self._integers(nothing)}

    def _with(self, rows: pa.RecordBatch, *added: Mapping[str, pa.Array]) -> pa.RecordBatch:
        columns = {name: array for one in added for name, array in one.items()}
        return pa.RecordBatch.from_arrays([*rows.columns, *columns.values()], names=[*rows.schema.names, *columns])

    # append ---------------------------------------------------------------------------------------

    def _images(self, group: ChangeGroup, places: _Places) -> Iterator[ChangeGroup]:
        if group.old is not None:
            yield self._image(group, "delete" if group.new is None else "update_preimage", group.old, places)
        if group.new is not None:
            new = group.new if group.old_kind != "O" else _completed(group.new, group.old)
            yield self._image(group, "insert" if group.action == "I" else "update_postimage", new, places, is_new=True)

    def _image(
        self, group: ChangeGroup, op: str, rows: pa.RecordBatch, places: _Places, *, is_new: bool = False
    ) -> ChangeGroup:
        sent = set(rows.schema.names)
        left = [column.name for column in group.relation.columns if column.name not in sent]
        return ChangeGroup(
            self._relation(group.relation),
            "I",
            None,
            (places.positions + is_new).astype(np.int32),
            old=None,
            new=self._described(rows, op, left, places, is_new=is_new),
            binary=group.binary & sent,
        )

    def _described(
        self, rows: pa.RecordBatch, op: str, left: Sequence[str], places: _Places, *, is_new: bool = False
    ) -> pa.RecordBatch:
        size = len(places.positions)
        arrays = {
            "_op": pa.repeat(pa.scalar(op), size),
            "_lsn": self._integers(places.lsns),
            "_commit_timestamp": self._timestamps(places.timestamps),
            "_xid": self._integers(places.xids),
            "_sequence": self._integers(2 * places.numbers + is_new),
            "_unchanged": pa.repeat(pa.scalar(", ".join(map(quote_identifier, left)) or None, pa.string()), size),
        }
        return pa.RecordBatch.from_arrays([*rows.columns, *arrays.values()], names=[*rows.schema.names, *APPENDED])

    def _truncated(self, controls: Controls, places: _Places) -> tuple[Controls, list[ChangeGroup]]:
        """The controls without the relations that have a history, and the rows for those."""
        rows: list[ChangeGroup] = []
        left: dict[int, tuple[Relation, ...]] = {}
        for number, named in controls.relations.items():
            place = places.take(slice(number, number + 1))
            nothing = pa.RecordBatch.from_struct_array(pa.array([{}], pa.struct([])))
            positions = place.positions.astype(np.int32)
            for relation in named:
                mode, changed = self._mode(relation), self._relation(relation)
                if mode == "append":
                    new = self._described(nothing, "truncate", [], place)
                    rows.append(ChangeGroup(changed, "I", None, positions, old=None, new=new))
                elif mode == "scd2":
                    old = self._with(nothing, self._begins(place), self._open(place))
                    rows.append(ChangeGroup(changed, "D", "K", positions, old=old, new=None))
            left[number] = tuple(relation for relation in named if self._mode(relation) == "off")
        if not rows:
            return controls, rows
        kept = np.array([number for number in range(len(controls)) if left.get(number, (None,))], np.int64)
        return replace(controls, relations=left).take(kept), rows

    def _relation(self, relation: Relation) -> Relation:
        found = self._relations.get(relation)
        if found is None:
            found = self._relations[relation] = self._rules.relation(relation)
        return found

    def _integers(self, values: NDArray[np.int64]) -> pa.Array:
        array = pa.array(values, pa.int64())
        return array.cast(pa.string()) if self._as_text else array

    def _timestamps(self, values: NDArray[np.int64]) -> pa.Array:
        """Times of the publisher, which are timestamptz in binary format, as they are decoded."""
        ends = np.arange(0, 8 * len(values) + 1, 8, dtype=np.int32)
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(values.astype(">i8"))]
        return family_of(_TIMESTAMPTZ).decode_binary(pa.Array.from_buffers(pa.binary(), len(values), buffers))


def end_history(connection: sa.Connection, table: TargetTable, mode: History, lsn: LSN) -> None:
    """End the rows of a history that a copy replaces; ``lsn`` is that of the copy's snapshot."""
    clause = table.clause()
    if mode == "append":
        row = {"_op": "truncate", "_lsn": int(lsn), "_sequence": REPLACED}
        connection.execute(sa.insert(clause).values(row).inline())
    else:
        # As for TRUNCATE: an UPDATE of a key would hinder DuckDB to insert the open versions again.
        is_open = clause.c["_to_lsn"] == OPEN_LSN
        # Literals, because Firebird does not know of which type a parameter of a SELECT's list is.
        ends = {"_to_lsn": int(lsn), "_to_sequence": REPLACED}
        ended: dict[str, Any] = {name: sa.literal_column(str(value)) for name, value in ends.items()}
        names = [column.name for column in table.columns if not column.generated]
        versions = sa.select(*(ended.get(name, clause.c[name]) for name in names)).where(is_open)
        connection.execute(sa.insert(clause).from_select(names, versions).inline())
        connection.execute(sa.delete(clause).where(is_open))


def _begin(message: bytes) -> _Begun:
    begin = decode(message)
    assert isinstance(begin, messages.Begin)
    return _Begun(begin.final_lsn, begin.commit_timestamp, begin.xid or 0)


def _completed(new: pa.RecordBatch, old: pa.RecordBatch | None) -> pa.RecordBatch:
    """The new rows with the values that only the old ones have."""
    if old is None:
        return new
    names = [name for name in old.schema.names if name not in new.schema.names]
    arrays = [*new.columns, *(old.column(name) for name in names)]
    return pa.RecordBatch.from_arrays(arrays, names=[*new.schema.names, *names])
