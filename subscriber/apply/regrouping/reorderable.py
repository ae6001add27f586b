"""Whether the changes of a table may be written in another order than the publisher's
(:mod:`subscriber.apply.regrouping.regroup`), or be left out if later changes overwrite them.

The order does not matter if changes of different rows cannot meet in the target:

- the target knows of nothing that connects its rows (:meth:`Shapes.order_matters`);
- two rows of the publisher are the same row of the target exactly if their keys have the same text,
  because rows are told apart by the text of their keys;
- the target has no columns of its own, whose defaults could depend on the order;
- no other relation message describes the same table.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from subscriber.apply.regrouping.foldable import holds_all
from subscriber.apply.relations.local_relations import LocalRelation, RelationMap
from subscriber.apply.statements.change_statements import ChangeStatements
from subscriber.protocol.changes import ChangeGroup
from subscriber.targets import Target

_SAME_BITS: Final = frozenset((16, 17, 18, 19, 20, 21, 23, 25, 26, 774, 829, 1043, 1082, 1083, 1114, 1184, 2950, 3220))
"""The types of which equal values have the same text: boolean, bytea, "char", name, the integer
types, text, oid, macaddr8, macaddr, varchar, date, time, timestamp, timestamptz, uuid and pg_lsn.
"""
_NUMERIC: Final = 1700
"""With a declared scale, equal numerics of a column have the same text."""


class Reorderable:
    """Decides for each table of one batch.

    Args:
        target: the target that changes are written to.
        connection: the connection of the batch's transaction.
        statements: knows how rows are found.
        relations: the target's tables.
    """

    def __init__(
        self, target: Target, connection: sa.Connection, statements: ChangeStatements, relations: RelationMap
    ) -> None:
        self._target = target
        self._connection = connection
        self._statements = statements
        self._relations = relations
        self._ordered: dict[LocalRelation, bool] = {}
        self._refuses: dict[LocalRelation, bool] = {}

    def free_key(self, group: ChangeGroup) -> tuple[str, ...] | None:
        """The columns by which the rows of a group are told apart, if the order of changes of
        different rows does not matter (:data:`~subscriber.apply.regrouping.regroup.FreeKey`).
        """
        local = self._relations.open_unchanged(group.relation)
        if local is None or self._order_matters(local):
            return None
        if group.action == "I":
            return local.table.key or ()
        if local.table.key is None or local.table.has_identity_always:
            return None
        return self._statements.identity(local).columns

    def may_fold(self, group: ChangeGroup) -> bool:
        """Whether changes of a group, which has a :meth:`free_key`, need not be written if later
        changes overwrite them (:data:`~subscriber.apply.regrouping.regroup.MayFold`).
        """
        local = self._relations.open(group.relation)
        refuses = self._refuses.get(local)
        if refuses is None:
            refuses = self._refuses[local] = self._target.shapes.refuses_rows(self._connection, local.table)
        return not refuses and holds_all(self._target, local, group)

    def _order_matters(self, local: LocalRelation) -> bool:
        matters = self._ordered.get(local)
        if matters is None:
            matters = self._ordered[local] = (
                self._target.shapes.order_matters(self._connection, local.table)
                or not identifies(self._target, local)
                or has_own_columns(local)
                or self._relations.has_other_shape(local)
            )
        return matters


def has_own_columns(local: LocalRelation) -> bool:
    """Whether the target has columns that the publisher does not send.

    Their defaults may depend on the order of the INSERTs: a sequence gives each row the next value.
    """
    announced = {column.name for column in local.remote.columns}
    return any(column.name not in announced and not column.generated for column in local.table.columns)


def identifies(target: Target, local: LocalRelation) -> bool:
    """Whether two rows of the publisher are the same row of the target exactly if the values in the
    key's columns have the same text.
    """
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
