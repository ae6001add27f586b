"""What an applier knows of the error that ended a batch, and the conflict that it may be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Self

from subscriber.apply.conflict import EXISTS, ChangePlace, Conflict, describe, headline
from subscriber.errors import SubscriberError
from subscriber.lsn import LSN

_UNIQUE_VIOLATION: Final = "23505"


@dataclass(frozen=True, slots=True)
class ApplyFailure:
    """What an error of an applier carries besides (:attr:`SubscriberError.failure`).

    Attributes:
        applied_before: where the last transaction before the failing one finished: what can still
            be committed. None when the error is no change's fault: then the whole batch is to be
            tried again.
        conflict: the conflict that the error is; None for any other error.
        at_commit: the target refused the whole transaction when it was to commit, and would do so
            again.
    """

    applied_before: LSN | None = None
    conflict: Conflict | None = None
    at_commit: bool = False

    @classmethod
    def of(cls, error: SubscriberError) -> Self:
        """What ``error`` carries; nothing is known of one that no applier has raised."""
        return error.failure if isinstance(error.failure, cls) else cls()


def with_failure(error: SubscriberError, **fields: Any) -> SubscriberError:
    """A copy of ``error`` that carries these attributes of :class:`ApplyFailure`; a transient one
    carries none.
    """
    if error.transient:
        return error
    return error.replace(failure=replace(ApplyFailure.of(error), **fields))


def violation(error: SubscriberError, action: str, relation: str, place: ChangePlace) -> Conflict | None:
    """The conflict that an error of the target is (rule C22): a unique violation of an INSERT or
    UPDATE; else None.

    Which keys are violated, the database has told of one at most: :meth:`Applier.examine` finds
    them all.
    """
    if error.sqlstate != _UNIQUE_VIOLATION or action not in EXISTS:
        return None
    return Conflict(EXISTS[action], relation, place)


def as_conflict(error: SubscriberError, conflict: Conflict) -> SubscriberError:
    """A copy of ``error`` that carries ``conflict``, with PostgreSQL 18's message (rule C19) and
    what is known in DETAIL.
    """
    detail = describe(conflict) or error.detail
    worded = error.replace(message=headline(conflict.kind, conflict.relation), detail=detail)
    return with_failure(worded, conflict=conflict)
