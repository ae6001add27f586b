"""Transactions that are prepared in the target: their names, and what is written down about them (rules C49, C50).

The publisher's transaction 731 is prepared as ``pg_gid_<subid>_731``. What its name does not say is kept in one row a transaction,
which a crash between any two steps leaves in one of these states::

    row            target              means                              the stream has b … P      K                r
    none           -                   never prepared here                prepare it                error            nothing to do
    false          -                   not yet, or taken back by hand     prepare it                error            forget it
    false          prepared            prepared                           read past                 COMMIT PREPARED  ROLLBACK PREPARED
    true           -                   committed                          read past                 forget it        forget it

The row is committed before the transaction is prepared, and the transaction itself sets ``committed`` in it, so that this shows exactly
when its other changes do. PostgreSQL writes its replication origin into the record of PREPARE, and of COMMIT PREPARED, instead.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from subscriber.apply.progress import PREPARED_TRANSACTION as TABLE
from subscriber.errors import ApplyError
from subscriber.lsn import LSN, format_lsn, parse_lsn
from subscriber.protocol.messages import BeginPrepare, CommitPrepared, RollbackPrepared
from subscriber.targets import Target


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """One row of ``subscriber_prepared_transaction``.

    Attributes:
        subid: the subscription's number.
        xid: of the transaction at the publisher.
        gid: its name in the target.
        prepare_end_lsn: where its PREPARE ends.
        prepare_timestamp: when it was prepared at the publisher (microseconds since 2000-01-01 UTC).
        committed: whether its changes are in the target.
    """

    subid: int
    xid: int
    gid: str
    prepare_end_lsn: LSN
    prepare_timestamp: int
    committed: bool = False

    def is_of(self, message: BeginPrepare | RollbackPrepared) -> bool:
        """Whether the message is about this transaction, and not about another one of the same number (rule C50)."""
        end = message.end_lsn if isinstance(message, BeginPrepare) else message.prepare_end_lsn
        return (self.prepare_end_lsn, self.prepare_timestamp) == (end, message.prepare_timestamp)


def prepared_gid(subid: int, xid: int) -> str:
    """The name under which a subscription prepares the publisher's transaction (rule C49): ``pg_gid_16394_731``."""
    return f"pg_gid_{subid}_{xid}"


def prepared_names(target: Target, connection: sa.Connection) -> frozenset[str]:
    """What is prepared in the target now; nothing where it has no prepared transactions."""
    return frozenset() if target.prepared is None else target.prepared.names(connection)


def write_to_prepare(
    target: Target, connection: sa.Connection, subid: int, message: BeginPrepare
) -> PreparedTransaction | None:
    """Write down what is about to be prepared; None when a replay finds that it was (rules C49, C50a).

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
        hint="It was rolled back in the target by somebody else: drop the subscription and create it again, with a new copy.",
    )


def read_prepared(connection: sa.Connection, subid: int, xid: int) -> PreparedTransaction | None:
    """What is known of a transaction."""
    row = connection.execute(sa.select(TABLE).where(*_key(subid, xid))).one_or_none()
    return None if row is None else _read(row)


def list_prepared(connection: sa.Connection, subid: int) -> list[PreparedTransaction]:
    """All of a subscription, by their numbers."""
    rows = connection.execute(sa.select(TABLE).where(TABLE.c.subid == subid).order_by(TABLE.c.xid))
    return [_read(row) for row in rows]


def still_prepared(target: Target, connection: sa.Connection, subid: int) -> list[PreparedTransaction]:
    """Those of a subscription that are prepared in the target now."""
    here = prepared_names(target, connection)
    return [transaction for transaction in list_prepared(connection, subid) if transaction.gid in here]


def forget_finished(target: Target, connection: sa.Connection, subid: int) -> list[PreparedTransaction]:
    """A subscription is no more: forget what was prepared for it but for what still is, which is given back."""
    left = still_prepared(target, connection, subid)
    for transaction in list_prepared(connection, subid):
        if transaction not in left:
            forget_prepared(connection, subid, transaction.xid)
    return left


def write_prepared(connection: sa.Connection, transaction: PreparedTransaction) -> None:
    """Write down what is about to be prepared, in the place of an earlier one of the same number."""
    forget_prepared(connection, transaction.subid, transaction.xid)
    connection.execute(
        sa.insert(TABLE).values(
            subid=transaction.subid,
            xid=transaction.xid,
            gid=transaction.gid,
            prepare_end_lsn=format_lsn(transaction.prepare_end_lsn),
            prepare_timestamp=transaction.prepare_timestamp,
            committed=False,
        )
    )


def mark_committed(connection: sa.Connection, subid: int, xid: int) -> None:
    """A part of the prepared transaction itself: it shows when that is committed."""
    connection.execute(sa.update(TABLE).where(*_key(subid, xid)).values(committed=True))


def forget_prepared(connection: sa.Connection, subid: int, xid: int) -> None:
    """It is finished; while it is still prepared, this would wait for it."""
    connection.execute(sa.delete(TABLE).where(*_key(subid, xid)))


def _key(subid: int, xid: int) -> tuple[sa.ColumnElement[bool], ...]:
    return TABLE.c.subid == subid, TABLE.c.xid == xid


def _read(row: sa.Row[tuple[object, ...]]) -> PreparedTransaction:
    return PreparedTransaction(
        row.subid, row.xid, row.gid, parse_lsn(row.prepare_end_lsn), row.prepare_timestamp, bool(row.committed)
    )
