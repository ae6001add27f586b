"""The facts that errors of an applier carry."""

from __future__ import annotations

from subscriber.apply.conflicts.conflict import ApplyFailure, Conflict
from subscriber.base.errors import SubscriberError


def applied_before(error: SubscriberError) -> int | None:
    """The end LSN of the last transaction before the one that failed."""
    return ApplyFailure.of(error).applied_before


def conflict_of(error: SubscriberError) -> Conflict | None:
    """The conflict that caused the error."""
    return ApplyFailure.of(error).conflict


def conflict_kind(error: SubscriberError) -> str | None:
    """The kind of the conflict that caused the error."""
    conflict = conflict_of(error)
    return None if conflict is None else conflict.kind
