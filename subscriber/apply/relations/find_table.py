"""Find the target's table of a publisher's relation, or say why it cannot be written (rules C1,
C3).
"""

from __future__ import annotations

import sqlalchemy as sa

from subscriber.catalog.own_tables import is_own_table
from subscriber.errors import TargetRelationError
from subscriber.protocol.messages import Relation
from subscriber.schema.relation_names import RelationNames
from subscriber.targets import Target, TargetTable


def find_table(target: Target, connection: sa.Connection, names: RelationNames, remote: Relation) -> TargetTable:
    """The target's table of a relation.

    Args:
        target: the target that has the tables.
        connection: a connection to it.
        names: the target's names of relations.
        remote: the publisher's relation.

    Raises:
        TargetRelationError: the table does not exist, is not a table, or is one of the catalog's.
    """
    name = names.qualified(remote.namespace, remote.name)
    if is_own_table(names, remote.namespace, remote.name):
        raise TargetRelationError(
            f'cannot use relation "{name}" as logical replication target',
            sqlstate="42809",
            detail="The table has the name of one of subscriber's catalog tables.",
            hint="Run ALTER SUBSCRIPTION ... REFRESH PUBLICATION, which leaves the table out.",
        )
    table = target.shapes.reflect(connection, *names.local(remote.namespace, remote.name))
    if table is None:
        raise TargetRelationError(
            f'logical replication target relation "{name}" does not exist',
            hint="Create the table in the target; the change waits until then.",
        )
    if table.kind not in ("table", "partitioned table"):
        raise TargetRelationError(
            f'cannot use relation "{name}" as logical replication target',
            sqlstate="42809",
            detail=f"This operation is not supported for {table.kind}s." if table.kind != "other" else None,
        )
    return table
