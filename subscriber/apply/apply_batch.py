"""Apply one batch, and handle a failure: commit the transactions before it, ask the publisher, or
find every violated key.

An :class:`~subscriber.apply.applier.Applier` applies a batch or raises an error. This module has
the steps between two of its attempts. Spark's sink and :func:`subscriber.emulate` both call it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from subscriber.apply.applier import Applier, ApplyResult
from subscriber.apply.conflicts.failure import ApplyFailure, as_conflict
from subscriber.apply.deferred import apply_before, apply_committable
from subscriber.apply.regrouping.regroup import OrderMatters
from subscriber.errors import ColumnsToAdd, Stopped, SubscriberError
from subscriber.lsn import LSN
from subscriber.protocol.changes import Frame

_Result = TypeVar("_Result")


def asking(applier: Applier, attempt: Callable[[], _Result]) -> _Result:
    """Make an attempt, and repeat it each time after the publisher was asked about columns to be
    added.

    The publisher is asked here, after the attempt, so that the target holds no lock and no
    transaction while the program waits for the answer.

    Raises:
        PublisherError: the publisher cannot be asked.
        SubscriberError: the error that the attempt raised.
    """
    while True:
        try:
            return attempt()
        except ColumnsToAdd as needed:
            applier.ask_publisher(needed)


def apply_batch(applier: Applier, read: Callable[[], Iterable[Frame]], start: LSN, end: LSN) -> ApplyResult:
    """Apply a batch; when a change cannot be applied, commit the transactions before it and raise.

    PostgreSQL's worker would have committed each of these transactions before it reached the change
    that fails (rule C35). A unique violation is examined, so that the error names all keys that are
    violated (rule C22).

    Args:
        applier: the applier of the subscription.
        read: gives the batch's frames; it may be called several times.
        start: the end of the previous batch.
        end: the end of this batch.

    Raises:
        ColumnsToAdd: the publisher must be asked first (:func:`asking`).
        Stopped: the applier was interrupted.
        SubscriberError: a change cannot be applied; the error carries its
            :class:`~subscriber.apply.conflicts.failure.ApplyFailure`. The transactions before the
            failing one are committed.
    """
    while True:
        try:
            return applier.apply(read(), start=start, end=end)
        except OrderMatters:
            continue  # the next attempt is made in the publisher's order
        except Stopped:
            raise
        except ColumnsToAdd as missing:
            if applier.has_not_asked(missing):
                raise
            good = ApplyFailure.of(missing).applied_before
            if good is not None and good > start:
                # After this, only the transaction that brings the columns is left. It is applied
                # when the columns are there.
                apply_before(applier, read, start, good)
                start = good
            else:
                applier.add_columns(missing)  # adds at least one column, so the loop ends
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
