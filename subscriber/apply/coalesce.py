"""Whether the changes of a table may be written in another order than the publisher's
(:mod:`subscriber.apply.reorder`), or be left out if later changes overwrite them.

The order does not matter if changes of different rows cannot meet in the target:

- the target knows of nothing that connects its rows (:meth:`Shapes.order_matters`);
- two rows of the publisher are the same row of the target exactly if their keys have the same text;
- the target has no columns of its own, whose defaults could depend on the order;
- no other relation message describes the same table.

*Several changes of one row are written as one, or two.* They are a chain: only the first one
depends on the target, and only the last one is seen::

    chain                    must be there   written
    U U                      yes             U with the last value of each column
    I U                      no              I with the last value of each column
    U D                      yes             D
    D I, U D I U             yes             D, then I
    I D, I U D               no              the first I, then D

A chain that ends where it began, without a row, is written nevertheless: its INSERT fails if a row
is in its way. A column that an UPDATE did not send has the value of an earlier change of the chain,
or stays unchanged (invariant absence_is_typed). Changes that do not make a chain, for example two
INSERTs of one row, are a conflict, and are not coalesced.

*A value may be left out only if the target would have accepted it.* PostgreSQL's worker writes
every change, so a value that the target refuses stops the subscription, even if the next change of
the row overwrites it. Therefore the target must accept every row (:meth:`Shapes.refuses_rows`), and
its columns every value that was sent (:meth:`Values.accepts`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import sqlalchemy as sa
from numpy.typing import NDArray

from subscriber.apply.relations.target_relations import RelationMap, TargetRelation
from subscriber.apply.statements.change_statements import ChangeStatements
from subscriber.postgres.protocol.changes import Action, ChangeGroup
from subscriber.targets import Target

_SAME_BITS: Final = frozenset((16, 17, 18, 19, 20, 21, 23, 25, 26, 774, 829, 1043, 1082, 1083, 1114, 1184, 2950, 3220))
"""The types of which equal values have the same text: boolean, bytea, "char", name, the integer
types, text, oid, macaddr8, macaddr, varchar, date, time, timestamp, timestamptz, uuid and pg_lsn.
"""
_NUMERIC: Final = 1700
"""With a declared scale, equal numerics of a column have the same text."""


class Reorderable:
    """Decides for each table of one batch."""

    def __init__(
        self, target: Target, connection: sa.Connection, statements: ChangeStatements, relations: RelationMap
    ) -> None:
        self._target = target
        self._connection = connection
        self._statements = statements
        self._relations = relations
        self._ordered: dict[TargetRelation, bool] = {}
        self._refuses: dict[TargetRelation, bool] = {}

    def independent_key(self, group: ChangeGroup) -> tuple[str, ...] | None:
        """The columns that tell rows apart (:data:`~subscriber.apply.reorder.FreeKey`)."""
        local = self._relations.open_unchanged(group.relation)
        if local is None or self._order_matters(local):
            return None
        if group.action == "I":
            return local.table.key or ()
        if local.table.key is None or local.table.has_identity_always:
            return None
        return self._statements.identity(local).columns

    def may_coalesce(self, group: ChangeGroup) -> bool:
        """Whether changes need not be written if later ones overwrite them (:data:`MayFold`)."""
        local = self._relations.open(group.relation)
        refuses = self._refuses.get(local)
        if refuses is None:
            refuses = self._refuses[local] = self._relations.ask(
                local, "refuses_rows", lambda: self._target.shapes.refuses_rows(self._connection, local.table)
            )
        return not refuses and holds_all(self._target, local, group)

    def _order_matters(self, local: TargetRelation) -> bool:
        matters = self._ordered.get(local)
        if matters is None:
            matters = self._ordered[local] = (
                self._relations.ask(
                    local, "order_matters", lambda: self._target.shapes.order_matters(self._connection, local.table)
                )
                or not identifies(self._target, local)
                or has_own_columns(local)
                or self._relations.has_other_shape(local)
            )
        return matters


def has_own_columns(local: TargetRelation) -> bool:
    """Whether the target has columns of its own, whose defaults may depend on the order."""
    announced = {column.name for column in local.remote.columns}
    return any(column.name not in announced and not column.generated for column in local.table.columns)


def identifies(target: Target, local: TargetRelation) -> bool:
    """Whether rows are the same row of the target exactly if the texts of their keys are."""
    if local.table.key is None:
        return True
    announced = {column.name: column for column in local.remote.columns}
    for column in local.table.columns:
        if column.name in local.table.key:
            remote = announced.get(column.name)
            if remote is None or not remote.is_identity:
                return False
            alike = remote.type_oid in _SAME_BITS or (remote.type_oid == _NUMERIC and remote.type_modifier >= 0)
            if not (alike and target.matching.tells_apart(remote.type_oid, column)):
                return False
    return True


# Whether values may be left out -------------------------------------------------------------------

_MOST_BYTES: Final = 1 << 26
"""The greatest size of a group whose changes are coalesced: no value in it reaches a limit of a
target for the length of a row or of a message.
"""


def holds_all(target: Target, local: TargetRelation, group: ChangeGroup) -> bool:
    """Whether the columns of a target's table with a key accept every value that was sent."""
    announced = [(remote, column) for remote, column in zip(local.remote.columns, local.columns, strict=True)]
    if any(
        remote.name in group.binary and target.values.refused_binary(remote.type_oid, column) is not None
        for remote, column in announced
    ):
        return False
    new = group.new
    if new is None:
        return True
    names = set(new.schema.names)
    if new.nbytes > _MOST_BYTES or not names.issuperset(local.table.key or ()):
        return False
    if group.action == "I" and len(names) < len(announced):
        return False
    for remote, column in announced:
        if remote.name not in names:
            continue
        values = new.column(remote.name)
        if values.null_count and (not column.nullable or column.null_is_generated):
            return False
        if not target.values.accepts(remote.type_oid, remote.type_modifier, column, values):
            return False
    return True


# Coalescing ---------------------------------------------------------------------------------------

_DELETE, _UPDATE, _INSERT = 0, 1, 2
_KINDS: Final = {"D": _DELETE, "U": _UPDATE, "I": _INSERT}


def coalesced(
    groups: Sequence[ChangeGroup], owners: NDArray[np.int64], rows: NDArray[np.int64], keys: NDArray[np.int64]
) -> tuple[ChangeGroup, ...] | None:
    """The changes of one relation to write; None if those of some row do not make a chain. No
    change alters its key. Each has the number of its group, of its row there, and the code of its
    key.
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
    """The changes by key, in the publisher's order (:func:`coalesced`)."""

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
        sizes = [len(group) if name in _names(group) else 0 for group in self.groups]
        before = np.cumsum([0, *sizes[:-1]])
        parts = [group.new.column(name) for group in self.groups if group.new is not None and name in _names(group)]
        owners = self.owners[at]
        return pa.concat_arrays(parts).take(pa.array(before[owners] + self.rows[at]))

    def positions(self, at: NDArray[np.int64]) -> NDArray[np.int32]:
        positions = np.concatenate([group.positions for group in self.groups])
        before = np.cumsum([0, *(len(group) for group in self.groups[:-1])])
        return positions[before[self.owners[at]] + self.rows[at]]

    def taken(self, at: NDArray[np.int64]) -> Iterator[ChangeGroup]:
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
    """One change for each wanted chain, with the last value of each column from ``begin`` on."""
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
