"""Transactions that are prepared in the target: their names, and what is written down about them
(rules C49, C50).

The publisher's transaction 731 is prepared as ``pg_gid_<subid>_731``. What its name does not say is
kept in one row a transaction, which a crash between any two steps leaves in one of these states::

    row            target              means                              the stream has b … P      K                r
    none           -                   never prepared here                prepare it                error            nothing to do
    false          -                   not yet, or taken back by hand     prepare it                error            forget it
    false          prepared            prepared                           read past                 COMMIT PREPARED  ROLLBACK PREPARED
    true           -                   committed                          read past                 forget it        forget it

The row is committed before the transaction is prepared, and the transaction itself sets
``committed`` in it, so that this shows exactly when its other changes do. PostgreSQL writes its
replication origin into the record of PREPARE, and of COMMIT PREPARED, instead.
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
from subscriber.errors import ApplyError
from subscriber.lsn import LSN
from subscriber.protocol.messages import BeginPrepare, CommitPrepared
from subscriber.targets import Target


def prepared_gid(subid: int, xid: int) -> str:
    """The name under which a subscription prepares the publisher's transaction (rule C49):
    ``pg_gid_16394_731``.
    """
    return f"pg_gid_{subid}_{xid}"


def prepared_names(target: Target, connection: sa.Connection) -> frozenset[str]:
    """What is prepared in the target now; nothing where it has no prepared transactions."""
    return frozenset() if target.prepared is None else target.prepared.names(connection)


def write_to_prepare(
    target: Target, connection: sa.Connection, subid: int, message: BeginPrepare
) -> PreparedTransaction | None:
    """Write down what is about to be prepared; None when a replay finds that it was (rules C49,
    C50a).

    Raises:
        ApplyError: 42710, its name is in use.
    """
    xid = message.xid or 0
    known = read_prepared(connection, subid, xid)
    here = prepared_names(target, connection)
    if known is not None and known.is_of(message) and (known.committed or known.gid in here):
        return None
    assert target.prepared is not None  # a PREPARE is written down only where it can be done
    gid = target.prepared.free_gid(connection, prepared_gid(subid, xid))
    if gid in here:
        raise ApplyError(
            f'transaction identifier "{gid}" is already in use',
            sqlstate="42710",
            hint="Another subscription of this number left it behind: COMMIT PREPARED or ROLLBACK PREPARED it in the target.",
        )
    transaction = PreparedTransaction(subid, xid, gid, LSN(message.end_lsn), message.prepare_timestamp)
    write_prepared(connection, transaction)
    return transaction


def gid_to_commit(target: Target, connection: sa.Connection, subid: int, message: CommitPrepared) -> str | None:
    """What is to be committed; None when a replay finds that it was.

    Raises:
        ApplyError: 42704, it is not there.
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
        hint="Another session has rolled it back in the target: drop the subscription and create it again, with a new copy.",
    )


def still_prepared(target: Target, connection: sa.Connection, subid: int) -> list[PreparedTransaction]:
    """Those of a subscription that are prepared in the target now."""
    here = prepared_names(target, connection)
    return [transaction for transaction in list_prepared(connection, subid) if transaction.gid in here]


def forget_finished(target: Target, connection: sa.Connection, subid: int) -> list[PreparedTransaction]:
    """A subscription is no more: forget what was prepared for it but for what still is, which is
    given back.
    """
    left = still_prepared(target, connection, subid)
    for transaction in list_prepared(connection, subid):
        if transaction not in left:
            forget_prepared(connection, subid, transaction.xid)
    return left
