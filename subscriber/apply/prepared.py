"""Transactions that are prepared in the target: their GIDs, and their rows in the catalog (rules
C49, C50).

The publisher's transaction 731 is prepared with the GID ``pg_gid_<subid>_731``. The data that the
GID does not contain is stored in the catalog, in one row for each transaction. A crash between any
two steps leaves one of these states::

    row            target              means                                     the stream has b … P      K                r
    none           -                   never prepared here                       prepare it                error            nothing to do
    false          -                   not prepared yet, or rolled back by hand  prepare it                error            delete the row
    false          prepared            prepared                                  do not apply it           COMMIT PREPARED  ROLLBACK PREPARED
    true           -                   committed                                 do not apply it           delete the row   delete the row

The row is committed before the transaction is prepared. The prepared transaction itself sets
``committed`` in the row. So this value becomes visible at the same moment as its other changes.
PostgreSQL writes its replication origin into the records of PREPARE and COMMIT PREPARED instead.
"""

from __future__ import annotations

import sqlalchemy as sa

from subscriber.catalog.prepared_transactions import (
    PreparedTransaction,
    forget_prepared,
    list_prepared,
    read_prepared,
    write_prepared,
)
from subscriber.errors import COPY_FROM_SCRATCH, ApplyError
from subscriber.lsn import LSN
from subscriber.protocol.messages import BeginPrepare, CommitPrepared
from subscriber.targets import Target


def prepared_gid(subid: int, xid: int) -> str:
    """The GID with which a subscription prepares the publisher's transaction (rule C49):
    ``pg_gid_16394_731``.
    """
    return f"pg_gid_{subid}_{xid}"


def prepared_names(target: Target, connection: sa.Connection) -> frozenset[str]:
    """The GIDs that are prepared in the target now; empty if the target has no prepared
    transactions.
    """
    return frozenset() if target.prepared is None else target.prepared.names(connection)


def write_to_prepare(
    target: Target, connection: sa.Connection, subid: int, message: BeginPrepare
) -> PreparedTransaction | None:
    """Write the row of a transaction that is about to be prepared; None if it was already prepared
    before a replay (rules C49, C50a).

    Raises:
        ApplyError: 42710, the GID is in use.
    """
    xid = message.xid or 0
    known = read_prepared(connection, subid, xid)
    here = prepared_names(target, connection)
    if known is not None and known.is_of(message) and (known.committed or known.gid in here):
        return None
    assert target.prepared is not None  # a row is written only if the target can prepare
    gid = target.prepared.free_gid(connection, prepared_gid(subid, xid))
    if gid in here:
        raise ApplyError(
            f'transaction identifier "{gid}" is already in use',
            sqlstate="42710",
            hint="A dropped subscription with the same number has left it: run COMMIT PREPARED or ROLLBACK PREPARED in the target.",
        )
    transaction = PreparedTransaction(subid, xid, gid, LSN(message.end_lsn), message.prepare_timestamp)
    write_prepared(connection, transaction)
    return transaction


def gid_to_commit(target: Target, connection: sa.Connection, subid: int, message: CommitPrepared) -> str | None:
    """The GID of the transaction to commit; None if it was already committed before a replay.

    Raises:
        ApplyError: 42704, the prepared transaction does not exist.
    """
    known = read_prepared(connection, subid, message.xid)
    if known is not None and known.committed:
        return None
    if known is not None and known.gid in prepared_names(target, connection):
        return known.gid
    gid = prepared_gid(subid, message.xid) if known is None else known.gid
    raise ApplyError(
        f'prepared transaction with identifier "{gid}" does not exist',
        sqlstate="42704",
        hint=f"Another session has rolled it back in the target. {COPY_FROM_SCRATCH}",
    )


def still_prepared(target: Target, connection: sa.Connection, subid: int) -> list[PreparedTransaction]:
    """The transactions of a subscription that are prepared in the target now."""
    here = prepared_names(target, connection)
    return [transaction for transaction in list_prepared(connection, subid) if transaction.gid in here]


def forget_finished(target: Target, connection: sa.Connection, subid: int) -> list[PreparedTransaction]:
    """Delete the rows of a dropped subscription's transactions, except for those that are still
    prepared; these are returned.
    """
    left = still_prepared(target, connection, subid)
    for transaction in list_prepared(connection, subid):
        if transaction not in left:
            forget_prepared(connection, subid, transaction.xid)
    return left
