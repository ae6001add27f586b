"""Version numbers of subscriptions and publications: whoever keeps what he has read finds out
whether it is still so.

::

    command, table sync ──▶ subscriber_subscription_rel      one transaction
                       └──▶ subscription.subversion := a new number
    batch, supervisor   ──▶ subscription's row (they read it anyway) ──▶ the number is that of the tables they keep? use those
                                                                    └─▶ another? read the tables, keep them with the number

Every write to a subscription's row or to its tables' states gives the row a new version, in the
same transaction; so does every write to a publication. What is not counted is what nobody keeps:
the errors of tables, and how far a catch-up is
(:class:`~subscriber.catalog.table_states.TableStates` holds neither).

Why a kept reading never hides a change:

- The version is read before the tables, in the same transaction. With a snapshot for the whole
  transaction (SQLite, DuckDB, MariaDB's REPEATABLE READ) both are of one moment. With a snapshot
  for each statement (PostgreSQL's READ COMMITTED) the tables may be newer than the number that they
  are kept by; then a write was committed in between, the next look finds another number, and the
  tables are read again. They are never older than their number.
- A number never comes back: it is random and not counted up. So neither a transaction that was
  rolled back, nor a subscription that was dropped and made again under the same name and number,
  can bring back a number by which something else is kept.
- A transaction that has not committed shows its number to nobody else, and its tables neither.

Locks: the subscription's row is written first and the rows of its tables after it, everywhere, so
that two writers wait for each other in one order. Those who write for long do so last (the copy of
a table), or do not write the subscription's row at all (a catch-up). Who only reads, such as a
batch, waits for nobody.

Rejected: counting up, for the reason above; a version in each table's row, of which the largest
would have to be looked for, and which says nothing of rows that are gone; and being told of
changes, since commands may be given in another process.
"""

from __future__ import annotations

import secrets
from typing import Final

import sqlalchemy as sa

from subscriber.catalog.own_tables import SUBSCRIPTION

_BITS: Final = 62


def new_version() -> int:
    """A version that there has never been."""
    return secrets.randbits(_BITS)


def note_change(connection: sa.Connection, subid: int) -> None:
    """Give a subscription a new version, in the transaction of what is about to be changed."""
    subscription = sa.update(SUBSCRIPTION).where(SUBSCRIPTION.c.subid == subid)
    connection.execute(subscription.values(subversion=new_version()))
