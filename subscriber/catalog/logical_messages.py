"""Logical messages that were not delivered to a listener yet: ``subscriber_logical_message``.

:mod:`subscriber.apply.logical_messages` describes when they are stored and delivered.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa

from subscriber.catalog.own_tables import LOGICAL_MESSAGE as TABLE
from subscriber.lsn import LSN
from subscriber.protocol.messages import LogicalMessage


def insert_message(
    connection: sa.Connection,
    subid: int,
    message: LogicalMessage,
    *,
    final_lsn: LSN,
    xid: int | None = None,
    commit_timestamp: int | None = None,
) -> None:
    """Store a message in the transaction that it belongs to.

    Args:
        connection: a connection in that transaction.
        subid: the subscription's number.
        message: the message.
        final_lsn: the commit LSN of the message's transaction; the position of the message if it is
            outside a transaction.
        xid: the number of its transaction.
        commit_timestamp: the commit time of its transaction, microseconds since 2000-01-01 UTC.
    """
    # A batch that uses several transactions of the target may have stored this message before.
    delete_messages(connection, subid, [LSN(message.lsn)])
    connection.execute(
        sa.insert(TABLE).values(
            subid=subid,
            lsn=message.lsn,
            final_lsn=final_lsn,
            transactional=message.transactional,
            xid=xid,
            commit_timestamp=commit_timestamp,
            prefix=message.prefix,
            content=message.content,
        )
    )


def commit_messages(connection: sa.Connection, subid: int, xid: int, *, final_lsn: LSN, commit_timestamp: int) -> None:
    """Give the messages of a prepared transaction its commit LSN, which is their place in the
    order.
    """
    connection.execute(
        sa.update(TABLE)
        .where(TABLE.c.subid == subid, TABLE.c.xid == xid, TABLE.c.final_lsn < final_lsn)
        .values(final_lsn=final_lsn, commit_timestamp=commit_timestamp)
    )


def first_messages(connection: sa.Connection, subid: int, limit: int) -> Sequence[sa.Row[tuple[Any, ...]]]:
    """The rows of a subscription's first messages, in commit order; at most ``limit`` rows.

    The position of a message is its end, and a commit record may start there (rule A17). So a
    message outside a transaction comes before a transaction with an equal LSN.
    """
    order = (TABLE.c.final_lsn, TABLE.c.transactional, TABLE.c.lsn)
    query = sa.select(TABLE).where(TABLE.c.subid == subid).order_by(*order).limit(limit)
    return connection.execute(query).all()


def delete_messages(connection: sa.Connection, subid: int, lsns: Collection[LSN]) -> None:
    """Delete the messages with these LSNs."""
    connection.execute(sa.delete(TABLE).where(TABLE.c.subid == subid, TABLE.c.lsn.in_(lsns)))


def drop_messages(connection: sa.Connection, subid: int) -> None:
    """Delete all messages of a subscription that is dropped."""
    connection.execute(sa.delete(TABLE).where(TABLE.c.subid == subid))
