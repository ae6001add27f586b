"""The net change of each row: what remains of several changes of it in a micro-batch or a batch
read.

::

    row is new at its first change    row is there at its last    net change
    yes                               yes                         insert
    no                                yes                         update_preimage, update_postimage
    no                                no                          delete
    yes                               no                          none

A change that changes the key is a change of two rows, the old key's and the new key's. Rows have
the version, time and sequence of their last change. Large values that the last change has not sent
come from the earlier ones. What comes before the last TRUNCATE is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from subscriber.postgres.types.registry import equality_of
from subscriber.spark.feed.feed_rows import DELETE, INSERT, POSTIMAGE, PREIMAGE, TRUNCATE
from subscriber.spark.feed.feed_schema import FeedSchema

_NONE: Final = -1
Rows = NDArray[np.int64]


def net_changes(
    batches: Sequence[pa.RecordBatch], schema: FeedSchema, key: Sequence[str], *, compute_updates: bool
) -> pa.RecordBatch:
    """The net changes of consecutive rows of the feed, ordered by their last changes. Updates must
    be in the form of preimage and postimage, next to each other.
    """
    rows = pa.Table.from_batches(batches, schema.arrow).combine_chunks()
    kinds = rows.column("_change_type")
    truncates = np.flatnonzero(pc.equal(kinds, TRUNCATE).to_numpy())
    begin = int(truncates[-1]) + 1 if truncates.size else 0
    netted = _net(rows.slice(begin), schema, key, compute_updates=compute_updates)
    kept = pa.concat_tables([rows.slice(begin - 1, 1), netted]) if begin else netted
    return pa.RecordBatch.from_arrays([_chunk(column) for column in kept.columns], schema=schema.arrow)


def _net(rows: pa.Table, schema: FeedSchema, key: Sequence[str], *, compute_updates: bool) -> pa.Table:
    if not rows.num_rows:
        return rows
    kinds = rows.column("_change_type")
    enters = pc.is_in(kinds, pa.array([INSERT, POSTIMAGE])).to_numpy()
    chains = _Chains(_codes(rows, schema, key), enters, pc.equal(kinds, POSTIMAGE).to_numpy())
    first, last = chains.first, chains.last
    absent = _absent(rows, schema)
    existed, exists = ~enters[first], enters[last]
    updated = existed & exists
    for one in absent.values():
        # Another row has taken the key, and a value of it is not known: the old row's is another
        # one.
        updated &= ~(one[chains.sent(last, one, exists)] & chains.came_from_another_key(last))
    old, new = first[existed], last[exists]
    image = np.concatenate((old, new))
    described = np.concatenate((last[existed], new))
    is_update = np.concatenate((updated[existed], updated[exists]))
    is_new = np.arange(len(image)) >= len(old)
    order = np.argsort(described * 2 + is_new, kind="stable")
    image, described, is_update, is_new = image[order], described[order], is_update[order], is_new[order]

    columns: dict[str, pa.Array] = {}
    missing: dict[str, NDArray[np.bool_]] = {}
    for name in schema.types:
        sources = chains.sent(image, absent[name], is_new) if name in absent else image
        columns[name] = _chunk(rows.column(name)).take(pa.array(sources))
        if name in absent:
            missing[name] = absent[name][sources]
    words = (PREIMAGE, POSTIMAGE) if compute_updates else (DELETE, INSERT)
    change_types = np.where(is_new, np.where(is_update, words[1], INSERT), np.where(is_update, words[0], DELETE))
    described_by = rows.select([name for name in rows.column_names if name not in columns]).take(pa.array(described))
    for name in described_by.column_names:
        columns[name] = _chunk(described_by.column(name))
    before_new = pa.array((is_update & ~is_new).astype(np.int64))
    columns["_sequence"] = pc.subtract(columns["_sequence"], before_new)
    columns["_change_type"] = pa.array(change_types.tolist(), pa.string())
    columns["_unchanged"] = _lists(missing, len(image))
    return pa.Table.from_arrays([columns[field.name].cast(field.type) for field in rows.schema], schema=rows.schema)


class _Chains:
    """The changes of each key, in order. ``first`` and ``last`` are the rows of each chain."""

    def __init__(self, codes: Rows, enters: NDArray[np.bool_], is_post: NDArray[np.bool_]) -> None:
        order = np.argsort(codes, kind="stable")
        begins = np.flatnonzero(np.diff(codes[order], prepend=_NONE - 1))
        self.first = order[begins]
        self.last = order[np.append(begins[1:], len(order)) - 1]
        previous = np.full(len(codes), _NONE, np.int64)
        previous[order[1:]] = order[:-1]
        previous[self.first] = _NONE
        # The row before an update is the one that its preimage, just before it, follows in its
        # chain.
        before = np.full(len(codes), _NONE, np.int64)
        posts = np.flatnonzero(is_post)
        before[posts] = previous[posts - 1]
        self._before = np.where((before != _NONE) & enters[before], before, _NONE)
        self._codes = codes
        self._is_post = is_post

    def came_from_another_key(self, rows: Rows) -> NDArray[np.bool_]:
        """Whether each new row was, before all changes, a row with another key."""
        first = rows.copy()
        while True:
            before = self._before[first]
            if not (before != _NONE).any():
                break
            first = np.where(before != _NONE, before, first)
        found: NDArray[np.bool_] = self._is_post[first] & (self._codes[first - 1] != self._codes[rows])
        return found

    def sent(self, image: Rows, absent: NDArray[np.bool_], is_new: NDArray[np.bool_]) -> Rows:
        """For each new row, the row that has sent its value of a column, or itself."""
        found = image.copy()
        looking = np.flatnonzero(is_new & absent[image])
        at = found[looking]
        while looking.size:
            at = self._before[at]
            is_known = at != _NONE
            looking, at = looking[is_known], at[is_known]
            has_value = ~absent[at]
            found[looking[has_value]] = at[has_value]
            looking, at = looking[~has_value], at[~has_value]
        return found


def _codes(rows: pa.Table, schema: FeedSchema, key: Sequence[str]) -> Rows:
    """A number for each row that is equal where PostgreSQL calls the keys equal."""
    oids = {column.name: column.type_oid for column in schema.relation.columns}
    codes = np.zeros(rows.num_rows, np.int64)
    for name in key:
        values = _chunk(rows.column(name))
        canonical = equality_of(oids[name]).canonical
        if canonical is not None and pa.types.is_string(values.type):
            values = pa.array([None if text is None else canonical(text) for text in values.to_pylist()], pa.string())
        numbers = pc.fill_null(values.dictionary_encode().indices, _NONE).to_numpy(zero_copy_only=False)
        codes = codes * (len(values) + 1) + numbers + 1
        codes = np.unique(codes, return_inverse=True)[1].reshape(-1)
    return codes


def _absent(rows: pa.Table, schema: FeedSchema) -> dict[str, NDArray[np.bool_]]:
    """The rows in which each column was not sent; without the columns that always were."""
    lists = _chunk(rows.column("_unchanged"))
    owners, names = pc.list_parent_indices(lists), pc.list_flatten(lists)
    found = {}
    for name in pc.unique(names).to_pylist():
        absent = np.zeros(rows.num_rows, np.bool_)
        absent[owners.filter(pc.equal(names, name)).to_numpy()] = True
        found[name] = absent
    return {name: found[name] for name in schema.types if name in found}


def _lists(missing: dict[str, NDArray[np.bool_]], count: int) -> pa.ListArray:
    owners = [np.flatnonzero(rows) for rows in missing.values()]
    numbers = [np.full(len(rows), number) for number, rows in enumerate(owners)]
    owner = np.concatenate(owners) if owners else np.empty(0, np.int64)
    number = np.concatenate(numbers) if numbers else np.empty(0, np.int64)
    sizes = np.bincount(owner, minlength=count)
    values = pa.array(list(missing), pa.string()).take(pa.array(number[np.argsort(owner, kind="stable")]))
    return pa.ListArray.from_arrays(pa.array(np.concatenate(([0], np.cumsum(sizes))), pa.int32()), values)


def _chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
