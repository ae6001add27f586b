"""Whether the values of changes may be left unwritten (:mod:`subscriber.apply.regrouping.fold`).

PostgreSQL's worker writes every change, so a value that the target refuses stops the subscription,
even if the next change of the row overwrites it. If such a value is not written, nobody would see
that it was refused. Therefore a table is folded only if the target accepts every row
(:meth:`Shapes.refuses_rows`), and every value that was sent is one that its column accepts
(:meth:`Values.accepts`). What is not known counts as a reason to write the change.
"""

from __future__ import annotations

from typing import Final

from subscriber.apply.relations.local_relations import LocalRelation
from subscriber.protocol.changes import ChangeGroup
from subscriber.targets import Target

_MOST_BYTES: Final = 1 << 26
"""The greatest size of a group whose changes are folded: no value in it reaches a limit of a target
for the length of a row or of a message.
"""


def holds_all(target: Target, local: LocalRelation, group: ChangeGroup) -> bool:
    """Whether the columns of the target's table accept every value that the changes have sent.

    Args:
        target: the target of the table.
        local: the group's relation; its table has a key.
        group: changes whose values may not be written.
    """
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
