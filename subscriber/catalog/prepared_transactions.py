"""Transactions that are prepared in the target: ``subscriber_prepared_transaction``.

:mod:`subscriber.apply.prepared` describes what the rows mean and when they are written.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from subscriber.catalog.own_tables import PREPARED_TRANSACTION as TABLE
from subscriber.lsn import LSN, format_lsn, parse_lsn
from subscriber.protocol.messages import BeginPrepare, RollbackPrepared


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """A row of ``subscriber_prepared_transaction``.

    Attributes:
        subid: the subscription's number.
        xid: the transaction's number at the publisher.
        gid: the transaction's GID in the target.
        prepare_end_lsn: where its PREPARE ends.
        prepare_timestamp: when it was prepared at the publisher (microseconds since 2000-01-01
            UTC).
        committed: whether its changes are in the target.
    """

    subid: int
    xid: int
    gid: str
    prepare_end_lsn: LSN
    prepare_timestamp: int
    committed: bool = False

    def is_of(self, message: BeginPrepare | RollbackPrepared) -> bool:
        """Whether the message belongs to this transaction, and not to another one with the same
        number (rule C50).
        """
        end = message.end_lsn if isinstance(message, BeginPrepare) else message.prepare_end_lsn
        return (self.prepare_end_lsn, self.prepare_timestamp) == (end, message.prepare_timestamp)


def read_prepared(connection: sa.Connection, subid: int, xid: int) -> PreparedTransaction | None:
    """The row of a transaction; None if there is no row."""
    row = connection.execute(sa.select(TABLE).where(*_key(subid, xid))).one_or_none()
    return None if row is None else _read(row)


def list_prepared(connection: sa.Connection, subid: int) -> list[PreparedTransaction]:
    """All rows of a subscription, ordered by transaction number."""
    rows = connection.execute(sa.select(TABLE).where(TABLE.c.subid == subid).order_by(TABLE.c.xid))
    return [_read(row) for row in rows]


def write_prepared(connection: sa.Connection, transaction: PreparedTransaction) -> None:
    """Store a transaction that is about to be prepared. It replaces an earlier transaction with the
    same number.
    """
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
    """Set ``committed``, inside the prepared transaction: the value becomes visible at its COMMIT
    PREPARED.
    """
    connection.execute(sa.update(TABLE).where(*_key(subid, xid)).values(committed=True))


def forget_prepared(connection: sa.Connection, subid: int, xid: int) -> None:
    """Delete the row of a finished transaction. While the transaction is still prepared, this
    statement would wait for it.
    """
    connection.execute(sa.delete(TABLE).where(*_key(subid, xid)))


def _key(subid: int, xid: int) -> tuple[sa.ColumnElement[bool], ...]:
    return TABLE.c.subid == subid, TABLE.c.xid == xid


def _read(row: sa.Row[tuple[object, ...]]) -> PreparedTransaction:
    return PreparedTransaction(
        row.subid, row.xid, row.gid, parse_lsn(row.prepare_end_lsn), row.prepare_timestamp, bool(row.committed)
    )
