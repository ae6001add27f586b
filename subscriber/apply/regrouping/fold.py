"""Several changes of one row as one change, or two.

The changes of a row in a stretch are a chain: each one finds what the change before it left. Only
the first one depends on the target, and only the last one is seen::

    chain                    must be there   written
    U U                      yes             U with the last value of each column
    I U                      no              I with the last value of each column
    U D                      yes             D
    D I, U D I U             yes             D, then I
    I D, I U D               no              the first I, then D

A chain that ends where it began, without a row, is written nevertheless: its INSERT fails if a row
is in its way, and this conflict must not be lost. *Rejected:* a query for such rows, because it is
no quicker than the two statements.

A column that an UPDATE did not send is unchanged, so it has the value of an earlier change of the
chain. If no change of the chain has sent it, it stays unchanged (invariant absence_is_typed).

The caller knows that the target would have accepted the values that are not written
(:mod:`subscriber.apply.regrouping.foldable`), and that no change alters its key. Changes that do
not make a chain, for example two INSERTs of one row, are a conflict. They are not folded: the exact
path finds out which of them fails.

This module is pure: it works on columns, never on single changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from subscriber.protocol.changes import Action, ChangeGroup

_DELETE, _UPDATE, _INSERT = 0, 1, 2
_KINDS: Final = {"D": _DELETE, "U": _UPDATE, "I": _INSERT}


def folded(
    groups: Sequence[ChangeGroup], owners: NDArray[np.int64], rows: NDArray[np.int64], keys: NDArray[np.int64]
) -> tuple[ChangeGroup, ...] | None:
    """The changes to write, in this order; None if the changes of some row do not make a chain.

    Args:
        groups: groups of one relation; no change alters its key.
        owners: for each change, in the publisher's order, the number of its group.
        rows: for each change the number of its row in the group.
        keys: for each change the code of its key, not negative.
    """
    if not _have_same_types(groups):
        return None
    order = np.argsort(keys, kind="stable")
    owners, rows, keys = owners[order], rows[order], keys[order]
    kinds = np.array([_KINDS[group.action] for group in groups])[owners]
    is_first = np.diff(keys, prepend=-1) != 0
    if np.any(((kinds[:-1] == _DELETE) != (kinds[1:] == _INSERT)) & ~is_first[1:]):
        return None
    first = np.flatnonzero(is_first)
    last = np.append(first[1:], len(keys)) - 1
    was_there, is_there = kinds[first] != _INSERT, kinds[last] != _DELETE
    # The row's values begin with its last INSERT. An INSERT that is not the first change of the
    # chain follows a DELETE.
    inserted = _latest(kinds == _INSERT)[last]
    begin = np.maximum(inserted, first)
    replaced = was_there & is_there & (inserted > first)
    changes = _Changes(groups, owners, rows)
    return (
        *changes.taken(np.concatenate((last[was_there & ~is_there], inserted[replaced] - 1))),
        *_merged(changes, "U", begin, last, was_there & is_there & ~replaced),
        *_merged(changes, "I", begin, last, ~was_there & is_there),
        *changes.taken(first[~was_there & ~is_there]),
        *changes.taken(last[~was_there & ~is_there]),
        *_merged(changes, "I", begin, last, replaced),
    )


@dataclass(frozen=True)
class _Changes:
    """The changes by key; those of one key are in the publisher's order.

    Attributes:
        groups: the groups of the changes.
        owners: for each change the number of its group.
        rows: for each change the number of its row in the group.
    """

    groups: Sequence[ChangeGroup]
    owners: NDArray[np.int64]
    rows: NDArray[np.int64]

    @cached_property
    def names(self) -> list[str]:
        """The columns that any change has sent, in the relation's order."""
        sent = {name for group in self.groups for name in _names(group)}
        return [column.name for column in self.groups[0].relation.columns if column.name in sent]

    def sent(self, name: str) -> NDArray[np.int64]:
        """For each change the number of the latest change that has sent a column; -1 for none."""
        return _latest(np.array([name in _names(group) for group in self.groups])[self.owners])

    def values(self, name: str, at: NDArray[np.int64]) -> pa.Array:
        """The values of a column in these changes, which all have sent it."""
        sizes = [len(group) if name in _names(group) else 0 for group in self.groups]
        before = np.cumsum([0, *sizes[:-1]])
        parts = [group.new.column(name) for group in self.groups if group.new is not None and name in _names(group)]
        owners = self.owners[at]
        return pa.concat_arrays(parts).take(pa.array(before[owners] + self.rows[at]))

    def positions(self, at: NDArray[np.int64]) -> NDArray[np.int32]:
        """The positions of these changes in the frame."""
        positions = np.concatenate([group.positions for group in self.groups])
        before = np.cumsum([0, *(len(group) for group in self.groups[:-1])])
        return positions[before[self.owners[at]] + self.rows[at]]

    def taken(self, at: NDArray[np.int64]) -> Iterator[ChangeGroup]:
        """These changes as they are."""
        owners = self.owners[at]
        for owner in np.unique(owners).tolist():
            yield self.groups[owner].take(self.rows[at[owners == owner]])


def _merged(
    changes: _Changes,
    action: Action,
    begin: NDArray[np.int64],
    last: NDArray[np.int64],
    wanted: NDArray[np.bool_],
) -> Iterator[ChangeGroup]:
    """One change for each wanted chain, with the last value of each column from ``begin`` on; a
    group for each set of columns.
    """
    begin, last = begin[wanted], last[wanted]
    if not len(last):
        return
    latest = np.stack([changes.sent(name)[last] for name in changes.names])
    sets, members = np.unique(latest >= begin, axis=1, return_inverse=True)
    members = members.reshape(-1)
    for number, has in enumerate(sets.T.tolist()):
        chains = np.flatnonzero(members == number)
        names = [name for name, sent in zip(changes.names, has, strict=True) if sent]
        arrays = [
            changes.values(name, at[chains]) for name, at, sent in zip(changes.names, latest, has, strict=True) if sent
        ]
        new = pa.RecordBatch.from_arrays(arrays, names=names)
        relation = changes.groups[0].relation
        yield ChangeGroup(relation, action, None, changes.positions(last[chains]), old=None, new=new)


def _latest(chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
    """For each place the last chosen place up to it; -1 for none."""
    return np.maximum.accumulate(np.where(chosen, np.arange(len(chosen)), -1))


def _have_same_types(groups: Sequence[ChangeGroup]) -> bool:
    """Whether a column has the same form in all groups: it may have come as text or as a value."""
    types = {(field.name, field.type) for group in groups if group.new is not None for field in group.new.schema}
    return len(types) == len({name for name, _ in types})


def _names(group: ChangeGroup) -> Sequence[str]:
    names: Sequence[str] = () if group.new is None else group.new.schema.names
    return names
