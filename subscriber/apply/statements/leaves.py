"""Search for rows of a partitioned table where only the partitions have keys (rules C12, C26).

A key that is unique in each partition may occur several times in the whole table. So a row is
searched only in the partition that its values belong to, as PostgreSQL's worker routes it::

    … WHERE id = 7 AND tableoid = (SELECT CASE WHEN r >= 0 AND r < 10 THEN 16391 … END
                                     FROM (SELECT CAST(3 AS integer) AS r) AS …)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import sqlalchemy as sa

from subscriber.apply.relations.local_relations import LocalRelation
from subscriber.errors import TargetRelationError
from subscriber.targets import Target, TargetColumn
from subscriber.targets.declared_columns import Declared


def in_leaf(
    target: Target,
    local: LocalRelation,
    table: sa.FromClause,
    sent: Collection[str],
    bound: Callable[[TargetColumn], sa.ColumnElement[Any]],
) -> Iterator[sa.ColumnElement[bool]]:
    """The condition that restricts a search to the partition whose key is used. There is no
    condition where the table itself has a key.

    Args:
        target: the target of the search.
        local: the target's relation.
        table: the relation's table, as it appears in the statement.
        sent: names of the columns that the search tuple contains.
        bound: gives a column's value in the search tuple.

    Raises:
        TargetRelationError: the search tuple does not determine the partition. PostgreSQL's worker
            would use NULL for the missing columns, and would not find the row in any partition.
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
