"""The rows that were deleted in the target, for ``retain_dead_tuples`` of PostgreSQL 19: an UPDATE
that does not find its row is a conflict ``update_deleted`` if another origin has deleted the row.

::

    DELETE, or UPDATE of a key, by anybody ──trigger──▶ subscriber_deleted_row    round -1, no origin
    a batch of a subscription              ──stamp────▶   its own rows: round 0, its origin, its commit time
    retention, every few seconds           ──mark─────▶   all committed rows of round -1 and 0: round N
                                             the publisher's position after that, and after every transaction
                                             that was in progress there, is applied
                                           ──pass─────▶   round N is over for this subscription; rounds that
                                                          are over for all of them are deleted

So a row is kept as long as a change that was made at the publisher before the row was deleted here
may still arrive. PostgreSQL keeps the dead rows themselves by the slot pg_conflict_detection, and
waits in the same way (worker.c, "oldest_nonremovable_xid").

How a target records the rows, and knows those of a batch: :class:`DeletedRows` of its package.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import sqlalchemy as sa

from subscriber.catalog.own_tables import SUBSCRIPTION
from subscriber.catalog.rows import change_rows, matching
from subscriber.catalog.subscriptions import Subscription, list_subscriptions
from subscriber.catalog.table_states import relations_of
from subscriber.targets import Target
from subscriber.targets.base.writing import RECORDED
from subscriber.targets.target_table import TargetTable

_ROW = RECORDED.c


@dataclass(frozen=True, slots=True)
class Deletion:
    """How a row was deleted: ``at`` as the target writes it; ``origin`` is None for the target."""

    at: str
    transaction: int
    origin: str | None


def is_retained(connection: sa.Connection) -> bool:
    """Whether deleted rows are recorded for a subscription, also while its retention is stopped."""
    table = SUBSCRIPTION.c
    query = sa.select(table.subid).where(table.subretaindeadtuples == sa.true())
    return connection.execute(query.limit(1)).first() is not None


def deleted_by(connection: sa.Connection, target: Target, origin: str | None) -> AbstractContextManager[None]:
    """Rows that are deleted inside the block get this origin; if it is None, they are replaced, and
    are not recorded.
    """
    return nullcontext() if target.deleted_rows is None else target.deleted_rows.deleted_by(connection, origin)


def find_deletion(
    connection: sa.Connection, target: Target, rows: sa.Subquery, condition: sa.ColumnElement[bool]
) -> Deletion | None:
    """The last deletion of a row that ``condition`` finds in :meth:`DeletedRows.rows`."""
    assert target.deleted_rows is not None
    found = target.deleted_rows.last(connection, rows, condition)
    return None if found is None else Deletion(*found[:3])


# Rounds -------------------------------------------------------------------------------------------


def mark(connection: sa.Connection, target: Target) -> int:
    """Begin a round with all rows whose deletion is committed; returns its number."""
    assert target.deleted_rows is not None
    numbers = (_ROW.round, SUBSCRIPTION.c.subretentionround)
    number = 1 + max(connection.execute(sa.select(sa.func.max(column))).scalar_one() or 0 for column in numbers)
    target.deleted_rows.move(connection, _ROW.round <= 0, number)
    return number


def pass_round(connection: sa.Connection, target: Target, subid: int, number: int) -> None:
    """A subscription needs this round and those before it no longer."""
    change_rows(connection, matching(SUBSCRIPTION, subid=subid), SUBSCRIPTION, subretentionround=number)
    delete_passed(connection, target)


def delete_passed(connection: sa.Connection, target: Target) -> None:
    """Delete the rows that no subscription needs."""
    if target.deleted_rows is None:
        return
    table = SUBSCRIPTION.c
    retains = (table.subretaindeadtuples == sa.true()) & (table.subretentionactive == sa.true())
    needed = connection.execute(sa.select(sa.func.min(table.subretentionround)).where(retains)).scalar_one()
    passed = sa.true() if needed is None else (_ROW.round > 0) & (_ROW.round <= needed)
    target.deleted_rows.move(connection, passed, None)


# Triggers -----------------------------------------------------------------------------------------


def record_deleted_rows(connection: sa.Connection, target: Target, table: TargetTable) -> None:
    deleted = target.deleted_rows
    if deleted is not None and not deleted.are_recorded(connection, table):
        deleted.record(connection, table, relation_name(table))


def record_relations(connection: sa.Connection, target: Target, subscription: Subscription) -> None:
    """Have the deleted rows of a subscription's tables recorded, or forget the triggers of those
    that no subscription retains.
    """
    retained = {
        other.options.map.in_target(one.schema, one.name)
        for other in list_subscriptions(connection)
        if other.options.retain_dead_tuples
        for one in relations_of(connection, other.subid)
    }
    for one in relations_of(connection, subscription.subid):
        place = subscription.options.map.in_target(one.schema, one.name)
        table = target.shapes.reflect(connection, *place)
        if table is None or target.deleted_rows is None:
            continue
        if place in retained:
            record_deleted_rows(connection, target, table)
        elif target.deleted_rows.are_recorded(connection, table):
            target.deleted_rows.forget(connection, table)


def relation_name(table: TargetTable) -> str:
    """The name of a table in ``subscriber_deleted_row``."""
    return table.name if table.schema is None else f"{table.schema}.{table.name}"
