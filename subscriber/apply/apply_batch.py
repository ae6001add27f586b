"""One batch into the target, with what a failure asks for: commit what comes before it, ask the
publisher, look for every violated key.

An :class:`~subscriber.apply.applier.Applier` applies a batch or raises. Here is what happens
between two of its attempts. Spark's sink and :func:`subscriber.emulate` both call it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from subscriber.apply.applier import Applier, ApplyResult
from subscriber.apply.deferred import apply_before, apply_committable
from subscriber.apply.failure import ApplyFailure, as_conflict
from subscriber.errors import ColumnsToAdd, Stopped, SubscriberError
from subscriber.lsn import LSN
from subscriber.protocol.changes import Frame

_Result = TypeVar("_Result")


def asking(applier: Applier, attempt: Callable[[], _Result]) -> _Result:
    """Make an attempt, and another whenever the publisher has been asked about columns that are to
    be added.

    It is asked here, after the attempt, so that nothing of the target is held while it is waited
    for.

    Raises:
        PublisherError: it cannot be asked.
        SubscriberError: what the attempt raised.
    """
    while True:
        try:
            return attempt()
        except ColumnsToAdd as needed:
            applier.ask_publisher(needed)


def apply_batch(applier: Applier, read: Callable[[], Iterable[Frame]], start: LSN, end: LSN) -> ApplyResult:
    """Apply a batch; when a change cannot be applied, commit the transactions before it and raise.

    PostgreSQL's worker would have committed each of them before it met the bad one (rule C35). A
    unique violation is examined, so that the error tells all keys that are violated (rule C22).

    Args:
        applier: what applies it.
        read: gives the batch's frames, as often as asked.
        start: end of the batch before.
        end: end of this one.

    Raises:
        ColumnsToAdd: the publisher is to be asked (:func:`asking`).
        Stopped: the applier was told to end.
        SubscriberError: a change cannot be applied, with its
            :class:`~subscriber.apply.failure.ApplyFailure`; what comes before its transaction is
            committed.
    """
    while True:
        try:
            return applier.apply(read(), start=start, end=end)
        except Stopped:
            raise
        except ColumnsToAdd as missing:
            if applier.has_not_asked(missing):
                raise
            good = ApplyFailure.of(missing).applied_before
            if good is not None and good > start:
                # Then only the transaction that brings the columns is left to be applied with them
                # there.
                apply_before(applier, read, start, good)
                start = good
            else:
                applier.add_columns(missing)  # at least one more than there was, so this ends
        except SubscriberError as error:
            failure = ApplyFailure.of(error)
            good = failure.applied_before
            if failure.at_commit:
                raise apply_committable(applier, read, start, end, error) from None
            if good is not None and good > start:
                apply_before(applier, read, start, good)
            if failure.conflict is not None:
                examined = applier.examine(read(), failure.conflict, start=start, end=end)
                if examined is not None:
                    raise as_conflict(error, examined) from None
            raise
