"""``subscriber_prepared_transaction``; :mod:`subscriber.apply.prepared` says what the rows mean."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import PREPARED_TRANSACTION as TABLE
from subscriber.catalog.rows import RowMapper, change_rows, delete_rows, matching
from subscriber.postgres.protocol.messages import BeginPrepare, RollbackPrepared


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """A row of ``subscriber_prepared_transaction``. ``xid`` and ``prepare_timestamp`` (microseconds
    since 2000-01-01 UTC) are the publisher's; ``committed`` says whether its changes are in the
    target.
    """

    subid: int
    xid: int
    gid: str
    prepare_end_lsn: LSN
    prepare_timestamp: int
    committed: bool = False

    def is_of(self, message: BeginPrepare | RollbackPrepared) -> bool:
        """Whether the message is about this transaction, not one with its number (rule C50)."""
        end = message.end_lsn if isinstance(message, BeginPrepare) else message.prepare_end_lsn
        return (self.prepare_end_lsn, self.prepare_timestamp) == (end, message.prepare_timestamp)


_ROWS = RowMapper(TABLE, PreparedTransaction)


def read_prepared(connection: sa.Connection, subid: int, xid: int) -> PreparedTransaction | None:
    return _ROWS.find(connection, subid=subid, xid=xid)


def list_prepared(connection: sa.Connection, subid: int) -> list[PreparedTransaction]:
    return _ROWS.select(connection, TABLE.c.xid, subid=subid)


def write_prepared(connection: sa.Connection, transaction: PreparedTransaction) -> None:
    """Store a transaction before it is prepared, in the place of one with its number."""
    _ROWS.write(connection, transaction, committed=False)


def mark_committed(connection: sa.Connection, subid: int, xid: int) -> None:
    """Set ``committed`` inside the prepared transaction: COMMIT PREPARED makes it visible."""
    change_rows(connection, matching(TABLE, subid=subid, xid=xid), TABLE, committed=True)


def forget_prepared(connection: sa.Connection, subid: int, xid: int) -> None:
    """Delete the row of a finished transaction; of a prepared one, this would wait for it."""
    delete_rows(connection, TABLE, subid=subid, xid=xid)
