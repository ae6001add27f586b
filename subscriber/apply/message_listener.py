"""Deliver the messages that ``pg_logical_emit_message`` wrote to a Python function (rule C38:
PostgreSQL's worker ignores them).

::

    batch's transaction        changes, progress, and the messages as rows of subscriber_logical_message
    COMMIT
    listener(message) …        in commit order; then the rows are deleted

When the function is called, the target contains everything from before the message. Every message
is delivered at least once. Without a listener the publisher is not asked to send messages.

*Rejected:* calling the function while the batch is applied: the batch may be rolled back later.
*Rejected:* calling it from memory after the commit: the process may die in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

import sqlalchemy as sa

from subscriber.base.errors import MessageListenerError
from subscriber.base.imported_functions import raised_in
from subscriber.base.lsn import LSN
from subscriber.catalog.logical_messages import delete_messages, first_messages, insert_message
from subscriber.postgres.protocol.messages import LogicalMessage
from subscriber.targets import Target

_AT_ONCE: Final = 100
_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_BARRIER: Final = "subscriber"
"""The prefix of a barrier: the empty message that the program writes at a publisher to find out how
far it is (``PublisherClient.write_barrier``).
"""


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """A logical message of the publisher, as a listener receives it.

    Attributes:
        lsn: the LSN that ``pg_logical_emit_message`` returned at the publisher.
        transactional: whether the message belongs to a transaction; if so, everything that was
            committed before is in the target.
        xid: the transaction's number at the publisher; None outside a transaction.
        commit_time: the transaction's commit time at the publisher; None outside a transaction.
    """

    subscription: str
    lsn: LSN
    prefix: str
    content: bytes = field(repr=False)
    transactional: bool
    xid: int | None
    commit_time: datetime | None


MessageListener = Callable[[ReceivedMessage], object]
"""Called with one message at a time, in the process that applies. Its result is ignored; an error
that it raises stops the subscription.
"""


def keep_message(
    connection: sa.Connection,
    subid: int,
    message: LogicalMessage,
    *,
    final_lsn: LSN,
    xid: int | None = None,
    commit_timestamp: int | None = None,
) -> None:
    """Store a message in its transaction, with the transaction's commit LSN, or else its own
    position. The time is in microseconds since 2000-01-01 UTC.
    """
    if message.prefix != _BARRIER or message.content:
        insert_message(connection, subid, message, final_lsn=final_lsn, xid=xid, commit_timestamp=commit_timestamp)


def deliver_messages(target: Target, subid: int, subscription: str, listener: MessageListener) -> int:
    """Deliver every message that is committed in the target; returns how many were delivered.

    Raises:
        MessageListenerError: the listener raised an error; its message, and the messages after it,
            will be delivered again.
        TargetUnavailable: try again; messages that were delivered but not deleted will be delivered
            again.
    """
    delivered = 0
    while messages := _next_messages(target, subid, subscription):
        heard: list[LSN] = []
        try:
            for message in messages:
                _call(listener, message)
                heard.append(message.lsn)
        finally:
            if heard:
                with target.begin() as connection:
                    delete_messages(connection, subid, heard)
        delivered += len(heard)
    return delivered


def listener_name(listener: MessageListener) -> str:
    """The listener's name for messages, as ``module:function``."""
    module = getattr(listener, "__module__", type(listener).__module__)
    return f"{module}:{getattr(listener, '__qualname__', type(listener).__qualname__)}"


def _call(listener: MessageListener, message: ReceivedMessage) -> None:
    try:
        listener(message)
    except Exception as error:
        raise MessageListenerError(
            f'the message listener "{listener_name(listener)}" failed: {type(error).__name__}',
            detail=f"It was raised in {raised_in(error)}.",
            hint="Fix the function and start again: the function is called for the message again.",
            lsn=message.lsn,
        ) from None


def _next_messages(target: Target, subid: int, subscription: str) -> list[ReceivedMessage]:
    with target.reporting(), target.engine.connect() as connection:
        return [
            ReceivedMessage(
                subscription,
                LSN(row.lsn),
                row.prefix,
                bytes(row.content),
                bool(row.transactional),
                row.xid,
                None if row.commit_timestamp is None else _EPOCH + timedelta(microseconds=row.commit_timestamp),
            )
            for row in first_messages(connection, subid, _AT_ONCE)
        ]
