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
:mod:`subscriber.apply.statements.change_statements` handles values that are equal but stored
differently.

A key that is unique in each partition may occur several times in a partitioned table. So a row is
searched only in the partition that its values belong to, as PostgreSQL's worker routes it (rules
C12, C26)::

    … WHERE id = 7 AND tableoid = (SELECT CASE WHEN r >= 0 AND r < 10 THEN 16391 … END
                                     FROM (SELECT CAST(3 AS integer) AS r) AS …)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from subscriber.apply.relations.target_relations import TargetRelation
from subscriber.base.errors import TargetRelationError
from subscriber.targets import Target, TargetColumn
from subscriber.targets.declared_columns import Declared

_FULL: Final = "f"


@dataclass(frozen=True, slots=True)
class RowIdentity:
    """The columns by which a row is found, by ``=`` on a key, or as a whole row NULL-safe."""

    columns: tuple[str, ...]
    whole_row: bool


def row_identity(local: TargetRelation) -> RowIdentity:
    """How rows of ``local`` are found: called at the first UPDATE or DELETE (rule C12). If they
    cannot be found, it raises TargetRelationError with PostgreSQL's text.
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


def _check_key(local: TargetRelation, key: tuple[str, ...]) -> None:
    sent = {column.name for column in local.remote.columns if column.is_identity}
    if not sent.issuperset(key):
        raise TargetRelationError(
            "publisher did not send replica identity column expected by the logical replication target relation"
            f' "{local.qualified_name}"'
        )


# Partitions ---------------------------------------------------------------------------------------


def in_leaf(
    target: Target,
    local: TargetRelation,
    table: sa.FromClause,
    sent: Collection[str],
    bound: Callable[[TargetColumn], sa.ColumnElement[Any]],
) -> Iterator[sa.ColumnElement[bool]]:
    """The condition that restricts a search to the partition whose key is used. If the search tuple
    does not determine it, TargetRelationError is raised: PostgreSQL's worker would use NULL for the
    missing columns, and would not find the row in any partition.
    """
    routing = target.matching.routing(local.table)
    if routing is None:
        return
    columns = [column for column in local.table.columns if column.name in routing.columns]
    published = {column.name for column in local.remote.columns}
    if any(column.name in published and column.name not in sent for column in columns):
        raise TargetRelationError(
            f'logical replication target relation "{local.qualified_name}" has neither REPLICA IDENTITY'
            " index nor PRIMARY KEY and published relation does not have REPLICA IDENTITY FULL",
            detail="Only its partitions have keys, and the columns that were sent do not determine the row's partition.",
            hint="Give the whole table a primary key in the target, or use REPLICA IDENTITY FULL at the publisher.",
        )
    row = sa.select(
        *(
            # A column that the publisher does not have is NULL in a search tuple (rule C15).
            sa.cast(bound(column) if column.name in published else sa.null(), Declared(column.declared_type)).label(
                column.name
            )
            for column in columns
        )
    ).subquery("subscriber_routed")
    yield (
        table.c[routing.partition]
        == sa.select(sa.literal_column(routing.expression)).select_from(row).scalar_subquery()
    )
