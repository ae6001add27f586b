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

A transaction recognizes its own rows by round -1 and its number, since no other session sees them.
A number may be that of an ended session (the number of SQLite is always 0), so a batch first moves
all committed rows of round -1 that have its number.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import sqlalchemy as sa

from subscriber.catalog.own_tables import DELETED_ROW, SUBSCRIPTION
from subscriber.catalog.rows import change_rows, matching
from subscriber.catalog.subscriptions import Subscription, list_subscriptions
from subscriber.catalog.table_states import relations_of
from subscriber.targets import Target
from subscriber.targets.base.writing import NEW_ROUND, TOLD
from subscriber.targets.target_table import TargetTable

_ROW = DELETED_ROW.c


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


def begin(connection: sa.Connection, target: Target) -> None:
    """Begin a transaction that :func:`stamp` ends."""
    change_rows(connection, _of_transaction(target), DELETED_ROW, round=0)


def stamp(connection: sa.Connection, target: Target, origin: str) -> None:
    """Give the rows that this transaction has deleted its origin."""
    change_rows(connection, _of_transaction(target), DELETED_ROW, round=0, origin=origin)


@contextmanager
def not_recorded(connection: sa.Connection, target: Target) -> Iterator[None]:
    """Rows that are deleted inside the block are replaced, and are not recorded."""
    if target.deleted_rows is None:
        yield
        return
    begin(connection, target)
    yield
    connection.execute(sa.delete(DELETED_ROW).where(_of_transaction(target)))


def _of_transaction(target: Target) -> sa.ColumnElement[bool]:
    assert target.deleted_rows is not None
    return (_ROW.round == NEW_ROUND) & (_ROW.transactionid == target.deleted_rows.transaction)


def find_deletion(connection: sa.Connection, rows: sa.Subquery, condition: sa.ColumnElement[bool]) -> Deletion | None:
    """The last deletion of a row that ``condition`` finds in :meth:`DeletedRows.rows`."""
    at, transaction, origin, place = (rows.c[name] for name in TOLD)
    query = sa.select(at, transaction, origin).where(condition).order_by(at.desc(), place.desc())
    found = connection.execute(query.limit(1)).first()
    return None if found is None else Deletion(*found)


# Rounds -------------------------------------------------------------------------------------------


def mark(connection: sa.Connection) -> int:
    """Begin a round with all rows whose deletion is committed; returns its number."""
    numbers = (_ROW.round, SUBSCRIPTION.c.subretentionround)
    number = 1 + max(connection.execute(sa.select(sa.func.max(column))).scalar_one() or 0 for column in numbers)
    change_rows(connection, _ROW.round <= 0, DELETED_ROW, round=number)
    return number


def pass_round(connection: sa.Connection, subid: int, number: int) -> None:
    """A subscription needs this round and those before it no longer."""
    change_rows(connection, matching(SUBSCRIPTION, subid=subid), SUBSCRIPTION, subretentionround=number)
    delete_passed(connection)


def delete_passed(connection: sa.Connection) -> None:
    """Delete the rows that no subscription needs."""
    table = SUBSCRIPTION.c
    retains = (table.subretaindeadtuples == sa.true()) & (table.subretentionactive == sa.true())
    needed = connection.execute(sa.select(sa.func.min(table.subretentionround)).where(retains)).scalar_one()
    passed = sa.true() if needed is None else (_ROW.round > 0) & (_ROW.round <= needed)
    connection.execute(sa.delete(DELETED_ROW).where(passed))


# Triggers -----------------------------------------------------------------------------------------


def record_deleted_rows(connection: sa.Connection, target: Target, table: TargetTable) -> None:
    """Have the deleted rows of a table recorded."""
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
