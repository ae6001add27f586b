"""Apply one batch, and handle a failure: commit the transactions before it, ask the publisher, or
find every violated key.

A target raises the errors of deferred constraints only at COMMIT, and such an error does not show
which transaction of the publisher caused it. So the batch is applied again in parts. After each
failure the next part has half the length, until a single transaction is left, at which PostgreSQL's
worker would also have stopped (rule C35)::

    1 2 3 4 5 6 7 8    fails        1 2 3 4   commits    5 6   fails    5   commits    6 fails

*Rejected:* SET CONSTRAINTS ALL IMMEDIATE after each transaction. It would slow down all
transactions, and it cannot be undone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from subscriber.apply.applier import Applier, ApplyResult
from subscriber.apply.conflicts import conflict
from subscriber.apply.reorder import OrderMatters
from subscriber.base.errors import ColumnsToAdd, Stopped, SubscriberError
from subscriber.base.lsn import LSN
from subscriber.postgres.protocol import messages
from subscriber.postgres.protocol.changes import Frame
from subscriber.postgres.protocol.decode_message import decode

_Result = TypeVar("_Result")


def retry_with_column_defaults(applier: Applier, attempt: Callable[[], _Result]) -> _Result:
    """Repeat an attempt each time after the publisher was asked about columns to be added. It is
    asked here, after the attempt, so that the target holds no lock and no transaction meanwhile.
    """
    while True:
        try:
            return attempt()
        except ColumnsToAdd as needed:
            applier.ask_publisher(needed)


def apply_batch(applier: Applier, read: Callable[[], Iterable[Frame]], start: LSN, end: LSN) -> ApplyResult:
    """Apply a batch; when a change cannot be applied, commit the transactions before it, as
    PostgreSQL's worker would have done (rule C35), and raise.

    A unique violation is examined, so that the error names all keys that are violated (rule C22).
    ``read`` gives the batch's frames, and may be called several times. After ColumnsToAdd the
    publisher must be asked first (:func:`retry_with_column_defaults`). Any other error but Stopped
    carries its :class:`~subscriber.apply.conflicts.conflict.ApplyFailure`.
    """
    while True:
        try:
            return applier.apply(read(), start=start, end=end)
        except OrderMatters:
            continue  # the next attempt is made in the publisher's order
        except Stopped:
            raise
        except ColumnsToAdd as missing:
            if not applier.knows_defaults_of(missing):
                raise
            good = conflict.ApplyFailure.of(missing).applied_before
            if good is not None and good > start:
                # After this, only the transaction that brings the columns is left. It is applied
                # when the columns are there.
                apply_before(applier, read, start, good)
                start = good
            else:
                applier.add_columns(missing)  # adds at least one column, so the loop ends
        except SubscriberError as error:
            failure = conflict.ApplyFailure.of(error)
            good = failure.applied_before
            if failure.at_commit:
                raise apply_committable(applier, read, start, end, error) from None
            if good is not None and good > start:
                apply_before(applier, read, start, good)
            if failure.conflict is not None:
                examined = applier.examine(read(), failure.conflict, start=start, end=end)
                if examined is not None:
                    raise conflict.as_conflict(error, examined, applier.version) from None
            raise


# Errors at COMMIT ---------------------------------------------------------------------------------

ReadFrames = Callable[[], Iterable[Frame]]


@dataclass(frozen=True, slots=True)
class _Finish:
    """A transaction of the publisher, with the LSN that SKIP takes and the LSN where it ends."""

    xid: int
    final_lsn: LSN
    end: LSN


def apply_before(applier: Applier, read: ReadFrames, start: LSN, good: LSN) -> None:
    """Commit the transactions that finished at or before ``good``, as far as that is possible."""
    try:
        applier.apply(read(), start=start, end=good, before=good)
    except SubscriberError as error:
        if conflict.ApplyFailure.of(error).at_commit:
            raise apply_committable(applier, read, start, good, error) from None
        raise


def apply_committable(
    applier: Applier, read: ReadFrames, start: LSN, end: LSN, error: SubscriberError
) -> SubscriberError:
    """Commit the transactions before the one that cannot be; returns its error (rule C37)."""
    finishes = [finish for finish in _finishes(read()) if start < finish.end <= end]
    committed, failing = 0, len(finishes)
    while failing - committed > 1:
        middle = (committed + failing) // 2
        try:
            good = finishes[middle - 1].end
            applier.apply(read(), start=start, end=good, before=good)
            committed = middle
        except SubscriberError as other:
            if not conflict.ApplyFailure.of(other).at_commit:
                raise
            failing = middle
    if not finishes:
        return error
    at = finishes[failing - 1]
    place = conflict.transaction_context(at.xid, at.final_lsn, applier.version)
    placed = error.replace(lsn=at.final_lsn, context=conflict.error_context(applier.origin, "C", None, None, place))
    return conflict.with_failure(placed, applied_before=finishes[committed - 1].end if committed else start)


def _finishes(frames: Iterable[Frame]) -> Iterable[_Finish]:
    xid = 0
    for frame in frames:
        for control in sorted(frame.controls, key=lambda control: control.position):
            match decode(control.message) if control.message[:1] in b"BCK" else None:
                case messages.Begin() as begin:
                    xid = begin.xid
                case messages.Commit() as commit:
                    yield _Finish(xid, LSN(commit.commit_lsn), LSN(commit.end_lsn))
                case messages.CommitPrepared() as commit:
                    yield _Finish(commit.xid, LSN(commit.commit_lsn), LSN(commit.end_lsn))
