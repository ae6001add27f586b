"""Versions of subscriptions and publications, by which code finds out whether what it has cached is
still valid.

::

    command, table sync ──▶ subscriber_subscription_rel      one transaction
                       └──▶ subscription.subversion := a new number
    batch, supervisor   ──▶ subscription's row (they read it anyway) ──▶ same number as that of the cached tables? use those
                                                                    └─▶ another? read the tables, cache them with the number

Every write to a subscription's row, to its table states or to a publication gives it a new version
in the same transaction. The errors of tables, and how far a catch-up is, are not cached.

A cached reading never hides a change:

- The version is read before the tables, in the same transaction. If each statement has its own
  snapshot (READ COMMITTED), the tables may be newer than their number; then the next reading finds
  another number. They are never older.
- A number is random and not incremented, so it never occurs again with other contents: neither
  after a rollback, nor after a subscription was dropped and created again.

Locks: the subscription's row is written first and the rows of its tables after it, so that writers
wait in the same order. A transaction that takes long writes these rows last (a copy), or does not
write the subscription's row (a catch-up). Readers wait for no lock.

*Rejected:* a version in each table's row, because it would not show deleted rows. *Rejected:*
notifications, because commands may run in another process.
"""

from __future__ import annotations

import secrets
from typing import Final

import sqlalchemy as sa

from subscriber.catalog.own_tables import SUBSCRIPTION
from subscriber.catalog.rows import change_rows, matching

_BITS: Final = 62


def new_version() -> int:
    return secrets.randbits(_BITS)


def change_version(connection: sa.Connection, subid: int) -> None:
    """Give a subscription a new version, in the transaction that is about to change it."""
    change_rows(connection, matching(SUBSCRIPTION, subid=subid), SUBSCRIPTION, subversion=new_version())
