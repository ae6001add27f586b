"""How the row of an UPDATE or DELETE is found (rules C8, C11-C17).

====================  ==========================  =========================================
local key             remote                      rows are found by
====================  ==========================  =========================================
mapped and flagged    any identity that sends it  the key's columns, ``=`` (C14)
not mapped / flagged  any                         error C12 "did not send ..."
none                  FULL                        the whole row, NULL-safe, first match (C16)
none                  not FULL                    error C12 "has neither ..."
====================  ==========================  =========================================

The local key may be a subset of the remote key. When the *whole* row is compared, a column that
only the target has is NULL in the search (rule C15), and a generated column is left out (rule C14).
:mod:`subscriber.apply.statements.search` handles values that are equal but stored differently.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from subscriber.apply.relations.local_relations import LocalRelation
from subscriber.errors import TargetRelationError

_FULL: Final = "f"


@dataclass(frozen=True, slots=True)
class RowIdentity:
    """The columns by which a row is found.

    Attributes:
        columns: the target's column names to compare, in the target's order.
        whole_row: compare NULL-safe and take the first match, instead of ``=`` on a key.
    """

    columns: tuple[str, ...]
    whole_row: bool


def row_identity(local: LocalRelation) -> RowIdentity:
    """How rows of ``local`` are found. It is called at the first UPDATE or DELETE, not before (rule
    C12).

    Raises:
        TargetRelationError: rows cannot be found; the text is PostgreSQL's.
    """
    key = local.table.key
    if key is not None:
        _check_key(local, key)
        return RowIdentity(key, whole_row=False)
    if local.remote.replica_identity != _FULL:
        raise TargetRelationError(
            f'logical replication target relation "{local.qualified_name}" has neither REPLICA IDENTITY'
            " index nor PRIMARY KEY and published relation does not have REPLICA IDENTITY FULL"
        )
    return RowIdentity(tuple(c.name for c in local.table.columns if not c.generated), whole_row=True)


def _check_key(local: LocalRelation, key: tuple[str, ...]) -> None:
    sent = {column.name for column in local.remote.columns if column.is_identity}
    if not sent.issuperset(key):
        raise TargetRelationError(
            "publisher did not send replica identity column expected by the logical replication target relation"
            f' "{local.qualified_name}"'
        )
