"""Logical messages that no listener got yet (:mod:`subscriber.apply.message_listener`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa

from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import LOGICAL_MESSAGE as TABLE
from subscriber.postgres.protocol.messages import LogicalMessage
from subscriber.targets.statements import upsert


def insert_message(
    connection: sa.Connection,
    subid: int,
    message: LogicalMessage,
    *,
    final_lsn: LSN,
    xid: int | None = None,
    commit_timestamp: int | None = None,
) -> None:
    """Store a message in the transaction that it belongs to, with its commit LSN, or the message's
    own position; ``commit_timestamp`` counts microseconds since 2000-01-01 UTC.
    """
    # A batch that uses several transactions of the target may have stored this message before.
    upsert(
        connection,
        TABLE,
        {"subid": subid, "lsn": message.lsn},
        {
            "final_lsn": final_lsn,
            "transactional": message.transactional,
            "xid": xid,
            "commit_timestamp": commit_timestamp,
            "prefix": message.prefix,
            "content": message.content,
        },
    )


def commit_messages(connection: sa.Connection, subid: int, xid: int, *, final_lsn: LSN, commit_timestamp: int) -> None:
    """Give the messages of a prepared transaction its commit LSN, their place in the order."""
    connection.execute(
        sa.update(TABLE)
        .where(TABLE.c.subid == subid, TABLE.c.xid == xid, TABLE.c.final_lsn < final_lsn)
        .values(final_lsn=final_lsn, commit_timestamp=commit_timestamp)
    )


def first_messages(connection: sa.Connection, subid: int, limit: int) -> Sequence[sa.Row[tuple[Any, ...]]]:
    """A subscription's first messages, in commit order.

    The position of a message is its end, and a commit record may start there (rule A17). So a
    message outside a transaction comes before a transaction with an equal LSN.
    """
    order = (TABLE.c.final_lsn, TABLE.c.transactional, TABLE.c.lsn)
    query = sa.select(TABLE).where(TABLE.c.subid == subid).order_by(*order).limit(limit)
    return connection.execute(query).all()


def delete_messages(connection: sa.Connection, subid: int, lsns: Collection[LSN]) -> None:
    connection.execute(sa.delete(TABLE).where(TABLE.c.subid == subid, TABLE.c.lsn.in_(lsns)))
