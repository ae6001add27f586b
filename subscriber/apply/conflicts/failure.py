"""What is known of the error that ended a batch: its place in the stream, and the conflict that
caused it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from subscriber.apply.conflicts.conflict import (
    EXISTS,
    ChangePlace,
    Conflict,
    describe,
    error_context,
    headline,
    transaction_context,
)
from subscriber.errors import SubscriberError
from subscriber.lsn import LSN

_UNIQUE_VIOLATION: Final = "23505"


@dataclass(frozen=True, slots=True)
class ApplyFailure:
    """The additional data that an applier attaches to an error (:attr:`SubscriberError.failure`).

    Attributes:
        applied_before: the LSN where the last transaction before the failing one finished. The
            batch can be committed up to this LSN. None when no change caused the error: then the
            whole batch is to be tried again.
        conflict: the conflict that caused the error; None for any other error.
        at_commit: the target refused the whole transaction at its commit, and would refuse it
            again.
    """

    applied_before: LSN | None = None
    conflict: Conflict | None = None
    at_commit: bool = False

    @classmethod
    def of(cls, error: SubscriberError) -> Self:
        """The data that ``error`` carries; an empty object if no applier raised it."""
        return error.failure if isinstance(error.failure, cls) else cls()


def with_failure(error: SubscriberError, **fields: Any) -> SubscriberError:
    """A copy of ``error`` with these attributes of :class:`ApplyFailure`; a transient error is
    returned unchanged.
    """
    if error.transient:
        return error
    return error.replace(failure=replace(ApplyFailure.of(error), **fields))


def violation(error: SubscriberError, action: str, relation: str, place: ChangePlace) -> Conflict | None:
    """The conflict of a unique violation of an INSERT or UPDATE (rule C22); None for any other
    error.

    The database has named at most one of the violated keys: :meth:`Applier.examine` finds all of
    them.
    """
    if error.sqlstate != _UNIQUE_VIOLATION or action not in EXISTS:
        return None
    return Conflict(EXISTS[action], relation, place)


def as_conflict(error: SubscriberError, conflict: Conflict) -> SubscriberError:
    """A copy of ``error`` that carries ``conflict``, with PostgreSQL 18's message (rule C19) and
    with what is known in DETAIL.
    """
    detail = describe(conflict) or error.detail
    message = headline(conflict.kind, conflict.relation)
    worded = error.replace(message=message, detail=detail, hint=conflict.hint or error.hint)
    return with_failure(worded, conflict=conflict)


def placed(
    error: SubscriberError,
    origin: str,
    message_type: str,
    xid: int,
    final_lsn: LSN,
    *,
    relation: str | None = None,
) -> SubscriberError:
    """A copy of ``error`` with its place in the stream (rule C37); a transient error is returned
    unchanged.

    Args:
        error: the error of the target or of the conversion.
        origin: the replication origin's name.
        message_type: the type byte of the message that failed.
        xid: the publisher's transaction.
        final_lsn: the commit LSN of the transaction, or the LSN of its PREPARE.
        relation: the target's name of the message's relation.
    """
    if error.transient:
        return error
    place = transaction_context(xid, final_lsn)
    return error.replace(lsn=final_lsn, context=error_context(origin, message_type, relation, error.column, place))


@contextmanager
def failing_at(origin: str, message_type: str, xid: int, final_lsn: LSN) -> Iterator[None]:
    """Add the place of a message to errors of the block, with the arguments of :func:`placed`."""
    try:
        yield
    except SubscriberError as error:
        raise placed(error, origin, message_type, xid, final_lsn) from None
