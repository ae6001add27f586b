"""What errors of an applier carry."""

from __future__ import annotations

from subscriber.apply.conflict import Conflict
from subscriber.apply.failure import ApplyFailure
from subscriber.errors import SubscriberError


def applied_before(error: SubscriberError) -> int | None:
    """Where the last transaction before the failing one finished."""
    return ApplyFailure.of(error).applied_before


def conflict_of(error: SubscriberError) -> Conflict | None:
    """The conflict that the error is."""
    return ApplyFailure.of(error).conflict


def conflict_kind(error: SubscriberError) -> str | None:
    """Its kind."""
    conflict = conflict_of(error)
    return None if conflict is None else conflict.kind
