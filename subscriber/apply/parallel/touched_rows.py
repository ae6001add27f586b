"""Which rows a piece of the stream touches, and whether two pieces touch the same.

A row is known by the table of the target and the values of its key, before and after the change.
The answer may be that they meet although they do not, but not the other way round: two rows of the
publisher are the same row of the target exactly if the texts of their keys are the same
(:mod:`subscriber.apply.coalesce`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from subscriber.apply.reorder import FreeKey, row_codes
from subscriber.postgres.protocol.changes import ChangeGroup, Frame
from subscriber.postgres.protocol.messages import Relation


@dataclass(frozen=True, slots=True)
class KeyValues:
    """The values of the key's columns, one array for each column."""

    names: tuple[str, ...]
    columns: tuple[pa.Array, ...]

    @property
    def form(self) -> tuple[object, ...]:
        return self.names, tuple(column.type for column in self.columns)


TouchedRows = Mapping[tuple[str, str], KeyValues]
"""The keys of rows, by the schema and name of the target's table."""

PlaceOf = Callable[[Relation], tuple[str, str] | None]
"""The table of the target; None if changes of the relation are not applied."""


def touched_rows(frames: Iterable[Frame], key_of: FreeKey, place_of: PlaceOf) -> TouchedRows | None:
    """The rows that changes touch; None if they cannot be told apart, or are connected."""
    found: dict[tuple[str, str], list[KeyValues]] = {}
    for frame in frames:
        for group in frame.groups:
            place = place_of(group.relation)
            if place is None:
                continue
            key = key_of(group)
            if key is None:
                return None
            if not key:
                continue  # new rows of a table without a key
            parts = _keys(group, key)
            if parts is None:
                return None
            found.setdefault(place, []).extend(parts)
    touched = {place: _joined(parts) for place, parts in found.items()}
    if None in touched.values():
        return None
    return {place: keys for place, keys in touched.items() if keys is not None}


def meet(one: TouchedRows, other: TouchedRows) -> bool:
    """Whether two pieces may touch the same row."""
    return any(place in other and _have_common(keys, other[place]) for place, keys in one.items())


def _keys(group: ChangeGroup, key: tuple[str, ...]) -> list[KeyValues] | None:
    """The keys before and after the changes; None if one is not known."""
    parts: list[KeyValues] = []
    known: dict[str, pa.Array] = {}
    for batch in (group.old, group.new):
        if batch is None:
            continue
        # A column that was not sent is unchanged.
        known |= {name: batch.column(name) for name in key if name in batch.schema.names}
        if len(known) < len(key) or any(column.null_count for column in known.values()):
            return None
        parts.append(KeyValues(key, tuple(known[name] for name in key)))
    return parts


def _joined(parts: list[KeyValues]) -> KeyValues | None:
    """All keys of a table; None if the same key may have two forms, as text and as a value."""
    if len({part.form for part in parts}) != 1:
        return None
    columns = zip(*(part.columns for part in parts), strict=True)
    return KeyValues(parts[0].names, tuple(pa.concat_arrays(column) for column in columns))


def _have_common(one: KeyValues, other: KeyValues) -> bool:
    if one.form != other.form:
        return True
    codes = row_codes([pa.concat_arrays(pair) for pair in zip(one.columns, other.columns, strict=True)])
    size = len(one.columns[0])
    return bool(np.isin(codes[:size], codes[size:]).any())
