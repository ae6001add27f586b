"""Version numbers of subscriptions and publications. With them, code that caches what it has read
finds out whether that is still valid.

::

    command, table sync ──▶ subscriber_subscription_rel      one transaction
                       └──▶ subscription.subversion := a new number
    batch, supervisor   ──▶ subscription's row (they read it anyway) ──▶ same number as that of the cached tables? use those
                                                                    └─▶ another? read the tables, cache them with the number

Every write to a subscription's row or to its table states gives the row a new version, in the same
transaction. Every write to a publication does the same. Values that nobody caches do not change the
version: the errors of tables, and how far a catch-up is
(:class:`~subscriber.catalog.table_states.TableStates` contains neither).

A cached reading never hides a change, for these reasons:

- The version is read before the tables, in the same transaction. If the whole transaction has one
  snapshot (SQLite, DuckDB, MariaDB's REPEATABLE READ), both belong to the same moment. If each
  statement has its own snapshot (PostgreSQL's READ COMMITTED), the tables may be newer than the
  number with which they are cached. In that case a write was committed in between, the next reading
  finds another number, and the tables are read again. The tables are never older than their number.
- A number never occurs again: it is random and not incremented. So a number cannot occur again with
  other contents, neither after a transaction was rolled back, nor after a subscription was dropped
  and created again with the same name and number.
- A transaction that has not committed shows neither its number nor its tables to other sessions.

Locks: the subscription's row is always written first and the rows of its tables after it, so that
two writers wait for each other in the same order. A transaction that takes long writes these rows
last (the copy of a table), or does not write the subscription's row at all (a catch-up). A reader
such as a batch waits for no lock.

*Rejected:* incrementing the number, for the reason above. *Rejected:* a version in each table's
row. The program would have to search for the largest one, and it would not show deleted rows.
*Rejected:* notifications of changes, because commands may be executed in another process.
"""

from __future__ import annotations

import secrets
from typing import Final

import sqlalchemy as sa

from subscriber.catalog.own_tables import SUBSCRIPTION

_BITS: Final = 62


def new_version() -> int:
    """A version that was never used before."""
    return secrets.randbits(_BITS)


def note_change(connection: sa.Connection, subid: int) -> None:
    """Give a subscription a new version, in the transaction that is about to change it."""
    subscription = sa.update(SUBSCRIPTION).where(SUBSCRIPTION.c.subid == subid)
    connection.execute(subscription.values(subversion=new_version()))
