"""What is known of the error that ended a batch, including the conflict that caused it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Self

from subscriber.apply.conflict import EXISTS, ChangePlace, Conflict, describe, headline
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
