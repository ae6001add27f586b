"""Changes that may be written in another order than the publisher's.

A batch is one transaction of the target, so nobody sees the states between two of its changes. Two
changes may be exchanged if they touch different rows and nothing else connects the rows: no
trigger, no enforced foreign key, no second unique key, no default of a column that only the target
has. Thousands of small transactions then become a few long runs::

    publisher   B U(1) U(2) I(7) D(3) C  B U(1) I(8) C  B D(7) U(2) C
                  │                        │              │
    round 1       D(3)  U(1) U(2)  I(7) I(8)              each key's first change, by action and shape
    round 2       D(7)  U(1) U(2)                         each key's second change; and so on

Within a round all keys are different, and DELETEs come first, then UPDATEs, then INSERTs.

A *window* is the longest piece of a frame in which this is allowed. Everything else separates
windows and is written at its place: TRUNCATE, the messages of prepared transactions, an UPDATE that
changes its key, and changes of tables for which the order matters
(:mod:`subscriber.apply.coalesce`).

- Every change is written, so that a value that the target refuses is refused here, too. The changes
  of a row are coalesced only where the target is known to accept all their values.
- If a statement fails or does not find all its rows, the batch is rolled back and applied in the
  publisher's order (:class:`OrderMatters`). So the exact walk decides which transaction has a
  conflict. *Rejected:* a savepoint for each window, since DuckDB has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from subscriber.apply.coalesce import coalesced
from subscriber.apply.frame_order import ChangeRun, FrameOrder
from subscriber.base.errors import Stopped, SubscriberError
from subscriber.postgres.protocol.changes import ChangeGroup, Control, Controls, Frame
from subscriber.postgres.protocol.messages import Relation

FreeKey = Callable[[ChangeGroup], tuple[str, ...] | None]
"""The columns that identify the rows of a group whose order does not matter. Empty for INSERTs into
a table without a key; None if the order matters.
"""

MayFold = Callable[[ChangeGroup], bool]
"""Whether changes of a group need not be written if later changes overwrite them."""

_PASSED: Final = np.frombuffer(b"BCO", np.uint8)
"""Controls that do not separate windows: they only mark where a transaction begins and ends, and
where it comes from.
"""
_SEPARATES: Final = np.frombuffer(b"bPKr", np.uint8)
"""Controls of prepared transactions: a frame that has one is not reordered."""
_ORDER: Final = {"D": 0, "U": 1, "I": 2}
_LEAST_RUNS: Final = 32
"""A frame with fewer runs is walked at once, unless it has many changes in more than one run, or a
run of UPDATEs or DELETEs may be long: to ask the target whether the order matters would cost more
than the statements. Such are the batches of a subscription that has caught up, and frames of one
large transaction of INSERTs, which are written together in any order.
"""
_MANY_CHANGES: Final = 1_000
"""From so many changes on, fewer statements are worth the question, even if there are few runs."""
_LONG_RUN: Final = 64
"""From about this many changes on, a target may have a quicker statement for changes of different
rows.
"""
_LEAST_MESSAGES: Final = 6
"""A window has at least this many messages: fewer cannot save enough statements."""
_LEAST_SAVED: Final = 2
"""A window must have at least this many times fewer runs than before."""
_LEAST_FOLDED: Final = 8
"""Changes of one table are coalesced if at least this many have a change of the same row before
them.
"""
_FOLDED_SHARE: Final = 16
"""And if these are at least one of so many changes: to write a change costs about this many times
as much as to fold it.
"""


class OrderMatters(Exception):
    """A reordered batch was rolled back, and must be applied again in the publisher's order."""


@contextmanager
def order_may_matter() -> Iterator[None]:
    """Turn errors of changes into OrderMatters. Transient errors and Stopped pass."""
    try:
        yield
    except SubscriberError as error:
        if error.transient or isinstance(error, Stopped):
            raise
        raise OrderMatters from None


@dataclass(frozen=True, slots=True)
class Rows:
    """Changes of the frame's group number ``group`` that are written together, ascending."""

    group: int
    rows: NDArray[np.int64]

    def of(self, frame: Frame) -> ChangeGroup:
        """The changes; their data is copied unless they are neighbours."""
        changes, first, stop = frame.groups[self.group], int(self.rows[0]), int(self.rows[-1]) + 1
        return changes.slice(first, stop) if stop - first == len(self.rows) else changes.take(self.rows)


@dataclass(frozen=True, slots=True)
class Window:
    """A piece of a frame whose changes are written in another order. ``counts`` has for each
    control the number of changes before it, ``rest`` that after the last one. ``writes`` are rows
    of the frame, and changes that were made of several, in the order in which they are to be
    written.
    """

    controls: Controls
    counts: NDArray[np.int64]
    rest: int
    writes: tuple[Rows | ChangeGroup, ...]


Step = Control | ChangeRun | Window


def reordered(frame: Frame, independent_key: FreeKey, may_coalesce: MayFold) -> Iterator[Step]:
    """A frame's messages as windows and :func:`steps`; it must be one that :func:`may_reorder`."""
    messages = FrameOrder.of(frame)
    may_be_long = any(group.action != "I" and len(group) >= _LONG_RUN for group in messages.groups)
    runs = messages.runs(0, len(messages))
    has_many = runs > 1 and sum(map(len, messages.groups)) >= _MANY_CHANGES
    if runs < _LEAST_RUNS and not (has_many or may_be_long):
        yield from messages.walk(0, len(messages))
        return
    free, codes = _free(messages, independent_key)
    coalescing = _Coalescing(messages, may_coalesce)
    for start, stop, is_free in _pieces(free[messages.at]):
        window = _window(messages, codes, coalescing, start, stop) if is_free else None
        if window is None:
            yield from messages.walk(start, stop)
        else:
            yield window


def may_reorder(frame: Frame) -> bool:
    """Whether the frame has no messages of prepared transactions."""
    return not np.any(np.isin(frame.controls.types(), _SEPARATES))


def _free(messages: FrameOrder, independent_key: FreeKey) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """For each item whether it does not separate windows, and a code of its relation and key."""
    free = np.zeros(len(messages), bool)
    codes = np.arange(len(messages))
    free[: len(messages.controls)] = np.isin(messages.controls.types(), _PASSED)
    relations: dict[Relation, list[int]] = {}
    for number, group in enumerate(messages.groups):
        relations.setdefault(group.relation, []).append(number)
    for numbers in relations.values():
        groups = [messages.groups[number] for number in numbers]
        items = np.concatenate([codes[messages.rows_of(number)] for number in numbers])
        found = _free_changes(groups, independent_key)
        if found is not None:
            free[items], same = found
            # An item number: so rows of different relations have different codes.
            codes[items] = items[same]
    return free, codes


def _free_changes(
    groups: Sequence[ChangeGroup], independent_key: FreeKey
) -> tuple[NDArray[np.bool_], NDArray[np.int64]] | None:
    """Whether each change keeps its key, and the first change with it; None if order matters."""
    keys = [independent_key(group) for group in groups]
    size = sum(map(len, groups))
    if any(key is None for key in keys):
        return None
    if not any(keys):
        return np.ones(size, bool), np.arange(size)
    columns = [_key_columns(group, key or ()) for group, key in zip(groups, keys, strict=True)]
    # The same key may have two forms: as text and as a value.
    if len({None if found is None else tuple(one.type for one in found) for found in columns}) != 1 or not columns[0]:
        return None
    codes = row_codes([pa.concat_arrays(parts) for parts in zip(*(found or () for found in columns), strict=True)])
    keeps = np.concatenate([_keeps_key(group, key or ()) for group, key in zip(groups, keys, strict=True)])
    return keeps, _first_of_each(codes)[codes]


def _window(
    messages: FrameOrder, codes: NDArray[np.int64], coalescing: _Coalescing, start: int, stop: int
) -> Window | None:
    """The messages from ``start`` to ``stop``, reordered; None if that does not save statements."""
    items = messages.at[start:stop]
    owners = messages.owner[items]
    changes = items[owners > 0]
    if not len(changes):
        return None
    writes, left = coalescing.fold(changes, codes[changes])
    if len(left):
        writes += _passes(messages, left, codes[left])
    if len(writes) * _LEAST_SAVED > messages.runs(start, stop) and len(writes) * _LONG_RUN > len(changes):
        return None
    places = np.flatnonzero(owners == 0)
    between = np.diff(np.concatenate(([-1], places, [len(owners)]))) - 1
    controls = messages.controls.take(items[places])
    return Window(controls, between[:-1], int(between[-1]), writes)


class _Coalescing:
    def __init__(self, messages: FrameOrder, may_coalesce: MayFold) -> None:
        self._messages = messages
        self._may_fold = may_coalesce
        numbers: dict[Relation, int] = {}
        tables = [numbers.setdefault(group.relation, len(numbers)) for group in messages.groups]
        self._table_of = np.array([-1, *tables])
        self._answers: dict[int, bool] = {}

    def fold(
        self, changes: NDArray[np.int64], codes: NDArray[np.int64]
    ) -> tuple[tuple[Rows | ChangeGroup, ...], NDArray[np.int64]]:
        """The coalesced changes, and the item numbers of the others. Items are in order."""
        writes: list[ChangeGroup] = []
        tables = self._table_of[self._messages.owner[changes]]
        left = np.ones(len(changes), bool)
        for table in np.unique(tables).tolist():
            of_table = tables == table
            made = self._fold_table(changes[of_table], codes[of_table])
            if made is not None:
                writes += made
                left &= ~of_table
        return tuple(writes), changes[left]

    def _fold_table(self, changes: NDArray[np.int64], codes: NDArray[np.int64]) -> tuple[ChangeGroup, ...] | None:
        if np.all(np.diff(codes) > 0):
            return None
        repeated = len(codes) - len(np.unique(codes))
        if repeated < _LEAST_FOLDED or repeated * _FOLDED_SHARE < len(codes):
            return None
        owners = self._messages.owner[changes]
        numbers, indices = np.unique(owners, return_inverse=True)
        if not all(self._folds(number - 1) for number in numbers.tolist()):
            return None
        groups = [self._messages.groups[number - 1] for number in numbers.tolist()]
        return coalesced(groups, indices.reshape(-1), changes - self._messages.first[owners], codes)

    def _folds(self, group: int) -> bool:
        answer = self._answers.get(group)
        if answer is None:
            answer = self._answers[group] = self._may_fold(self._messages.groups[group])
        return answer


def _passes(messages: FrameOrder, changes: NDArray[np.int64], codes: NDArray[np.int64]) -> tuple[Rows, ...]:
    """The rows of each round; items are in the publisher's order."""
    owners = messages.owner[changes]
    by_key = np.argsort(codes, kind="stable")
    is_first = np.concatenate(([True], np.diff(codes[by_key]) != 0))
    rounds = np.empty(len(changes), np.int64)
    rounds[by_key] = np.arange(len(changes)) - np.flatnonzero(is_first)[np.cumsum(is_first) - 1]
    kinds = np.array([0, *(_ORDER[group.action] for group in messages.groups)])[owners]
    order = np.lexsort((changes, owners, kinds, rounds))
    differs = (np.diff(owners[order]) != 0) | (np.diff(rounds[order]) != 0)
    return tuple(
        Rows(int(owners[part[0]]) - 1, changes[part] - messages.first[owners[part[0]]])
        for part in np.split(order, np.flatnonzero(differs) + 1)
    )


def _pieces(free: NDArray[np.bool_]) -> Iterator[tuple[int, int, bool]]:
    """The ranges of free messages that are long enough, and the ranges between them."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], free, [False])).astype(np.int8)))
    starts, stops = edges[0::2], edges[1::2]
    long = stops - starts >= _LEAST_MESSAGES
    done = 0
    for start, stop in zip(starts[long].tolist(), stops[long].tolist(), strict=True):
        if start > done:
            yield done, start, False
        yield start, stop, True
        done = stop
    if done < len(free):
        yield done, len(free), False


def _key_columns(group: ChangeGroup, key: Sequence[str]) -> list[pa.Array] | None:
    """The values by which the rows of a group are found; None if one of them is missing or NULL."""
    batch = group.new if group.old is None else group.old
    assert batch is not None
    if not set(key) <= set(batch.schema.names):
        return None
    columns = [batch.column(name) for name in key]
    return None if any(column.null_count for column in columns) else columns


def _keeps_key(group: ChangeGroup, key: Sequence[str]) -> NDArray[np.bool_]:
    """Which rows of a group have the same key after the change as before."""
    keeps = np.ones(len(group), bool)
    if group.old is None or group.new is None:
        return keeps
    for name in key:
        if name in group.new.schema.names:
            new, old = group.new.column(name), group.old.column(name)
            if new.type != old.type:
                return np.zeros(len(group), bool)
            keeps &= pc.fill_null(pc.equal(new, old), False).to_numpy(zero_copy_only=False)
    return keeps


def row_codes(columns: Sequence[pa.Array]) -> NDArray[np.int64]:
    """Numbers from 0 on: rows with the same values in all columns have the same number."""
    if len(columns) == 1 and pa.types.is_integer(columns[0].type) and np.all(np.diff(columns[0].to_numpy()) > 0):
        return np.arange(len(columns[0]))  # as new rows mostly come
    codes: NDArray[np.int64] | None = None
    for column in columns:
        encoded = column.dictionary_encode()
        indices = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        if codes is None:
            codes = indices
        else:
            _, codes = np.unique(codes * len(encoded.dictionary) + indices, return_inverse=True)
    assert codes is not None
    return codes.reshape(-1)


def _first_of_each(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each code the first index that has it."""
    first = np.zeros(int(codes.max()) + 1, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return first
