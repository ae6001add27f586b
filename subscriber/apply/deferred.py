"""Errors that a target raises only at COMMIT: those of deferred constraints and of deferred
constraint triggers.

A transaction of the target contains many transactions of the publisher, and the error does not show
which of them caused it. So the batch is applied again in parts. After each failure the next part
has half the length. The parts that succeed are committed, and at the end a single transaction is
left, at which PostgreSQL's worker would also have stopped (rule C35)::

    1 2 3 4 5 6 7 8    fails        1 2 3 4   commits    5 6   fails    5   commits    6 fails

*Rejected:* SET CONSTRAINTS ALL IMMEDIATE after each transaction. It would slow down all
transactions, and it cannot be undone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from subscriber.apply.applier import Applier
from subscriber.apply.conflicts.conflict import error_context, transaction_context
from subscriber.apply.conflicts.failure import ApplyFailure, with_failure
from subscriber.errors import SubscriberError
from subscriber.lsn import LSN
from subscriber.protocol import messages
from subscriber.protocol.changes import Frame
from subscriber.protocol.decode import decode

ReadFrames = Callable[[], Iterable[Frame]]


@dataclass(frozen=True, slots=True)
class _Finish:
    """A transaction of the publisher: its number, the LSN that SKIP takes, and the LSN where it
    ends.
    """

    xid: int
    final_lsn: LSN
    end: LSN


def apply_before(applier: Applier, read: ReadFrames, start: LSN, good: LSN) -> None:
    """Commit the transactions that finished at or before ``good``.

    Raises:
        SubscriberError: one of these transactions cannot be committed; the transactions before it
            are committed.
    """
    try:
        applier.apply(read(), start=start, end=good, before=good)
    except SubscriberError as error:
        if ApplyFailure.of(error).at_commit:
            raise apply_committable(applier, read, start, good, error) from None
        raise


def apply_committable(
    applier: Applier, read: ReadFrames, start: LSN, end: LSN, error: SubscriberError
) -> SubscriberError:
    """Commit the transactions before the one that cannot be committed.

    Args:
        applier: the applier that raised ``error`` at its commit.
        read: gives the batch's frames; it may be called several times.
        start: the end of the previous batch.
        end: the end of this batch.
        error: the error that the applier raised.

    Returns:
        A copy of ``error`` with the place of the transaction that cannot be committed (rule C37).

    Raises:
        SubscriberError: one of the transactions before it cannot be applied.
    """
    finishes = [finish for finish in _finishes(read()) if start < finish.end <= end]
    committed, failing = 0, len(finishes)
    while failing - committed > 1:
        middle = (committed + failing) // 2
        try:
            good = finishes[middle - 1].end
            applier.apply(read(), start=start, end=good, before=good)
            committed = middle
        except SubscriberError as other:
            if not ApplyFailure.of(other).at_commit:
                raise
            failing = middle
    if not finishes:
        return error
    at = finishes[failing - 1]
    place = transaction_context(at.xid, at.final_lsn)
    placed = error.replace(lsn=at.final_lsn, context=error_context(applier.origin, "C", None, None, place))
    return with_failure(placed, applied_before=finishes[committed - 1].end if committed else start)


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
