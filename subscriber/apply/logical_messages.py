"""What ``pg_logical_emit_message`` wrote, handed to a Python function (rule C38: PostgreSQL's own
worker ignores it).

::

    batch's transaction        changes, progress, and the messages as rows of subscriber_logical_message
    COMMIT
    listener(message) …        in commit order; then the rows are deleted

So the function sees a target that has everything from before the message, and hears of every
message at least once: one whose call did not come back, or whose row was not deleted when the
process died, is offered again. Without a listener nothing is kept, and the publisher is not asked
for messages.

*Rejected:* calling while the batch is applied. What is rolled back would have been heard, and the
function would not see the changes that came before it. And calling after the commit from memory: a
process that dies in between never calls.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

import sqlalchemy as sa

from subscriber.catalog.logical_messages import delete_messages, first_messages, insert_message
from subscriber.errors import MessageListenerError
from subscriber.lsn import LSN
from subscriber.protocol.messages import LogicalMessage
from subscriber.targets import Target

_AT_ONCE: Final = 100
_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_BARRIER: Final = "subscriber"
"""Prefix of the empty message by which we ask a publisher how far it is
(``Publisher.write_barrier``).
"""


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """A message of the publisher's, as a listener gets it.

    Attributes:
        subscription: the name of the subscription that it came through.
        lsn: what ``pg_logical_emit_message`` returned at the publisher.
        prefix: its first word there, for telling one's own messages from others'.
        content: the bytes.
        transactional: it belongs to a transaction, and everything that was committed before is in
            the target.
        xid: of the transaction, at the publisher; None outside one.
        commit_time: of the transaction, at the publisher; None outside one.
    """

    subscription: str
    lsn: LSN
    prefix: str
    content: bytes = field(repr=False)
    transactional: bool
    xid: int | None
    commit_time: datetime | None


MessageListener = Callable[[ReceivedMessage], object]
"""Called with one message at a time, in the process that applies; what it returns is ignored, what
it raises stops the subscription."""


def keep_message(
    connection: sa.Connection,
    subid: int,
    message: LogicalMessage,
    *,
    final_lsn: LSN,
    xid: int | None = None,
    commit_timestamp: int | None = None,
) -> None:
    """Write a message down in the transaction that it belongs to, for :func:`deliver_messages`.

    Args:
        connection: in that transaction.
        subid: the subscription's number.
        message: the message.
        final_lsn: where its transaction commits; its own position outside one.
        xid: of its transaction.
        commit_timestamp: of its transaction, microseconds since 2000-01-01 UTC.
    """
    if message.prefix != _BARRIER or message.content:
        insert_message(connection, subid, message, final_lsn=final_lsn, xid=xid, commit_timestamp=commit_timestamp)


def deliver_messages(target: Target, subid: int, subscription: str, listener: MessageListener) -> int:
    """Hand over every message that is committed in the target; returns how many.

    Raises:
        MessageListenerError: the listener raised; its message, and those after it, are offered
            again.
        TargetUnavailable: try again; what was handed over and not deleted is offered again.
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
    """``module:function``."""
    module = getattr(listener, "__module__", type(listener).__module__)
    return f"{module}:{getattr(listener, '__qualname__', type(listener).__qualname__)}"


def _call(listener: MessageListener, message: ReceivedMessage) -> None:
    try:
        listener(message)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        # What it raised may quote the message: of it only the class is told.
        raise MessageListenerError(
            f'the message listener "{listener_name(listener)}" failed: {type(error).__name__}',
            detail=f"It was raised in {last.filename}, line {last.lineno}.",
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
