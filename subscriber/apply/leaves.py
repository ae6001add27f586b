"""Rows of a partitioned table of which only the partitions have keys (rules C12, C26).

What is unique in each partition need not be in the whole table, so a row is looked for where its
partition's bounds send it, as PostgreSQL's worker routes it::

    … WHERE id = 7 AND tableoid = (SELECT CASE WHEN r >= 0 AND r < 10 THEN 16391 … END
                                     FROM (SELECT CAST(3 AS integer) AS r) AS …)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import sqlalchemy as sa

from subscriber.apply.local_relations import LocalRelation
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
    """The condition that keeps a search in the one partition whose key is looked by; nothing where
    the table has a key of its own.

    Args:
        target: where it is.
        local: the relation.
        table: its table, as the statement has it.
        sent: names of the columns that the search tuple has.
        bound: gives a column's value in it.

    Raises:
        TargetRelationError: the search tuple does not tell the partition. PostgreSQL's worker looks
            for the one of NULL then, and finds the row in none.
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
            detail="Only its partitions have keys, and what was sent of the row does not tell which one it is in.",
            hint="Give the whole table a primary key in the target, or use REPLICA IDENTITY FULL at the publisher.",
        )
    row = sa.select(
        *(
            # What the publisher does not have is NULL in a search tuple (rule C15).
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
