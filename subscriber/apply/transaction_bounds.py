"""Where the publisher's transactions begin and end, and which of them are already in the target.

A transaction *finishes* at the end of its commit record (``C.end_lsn``; for a prepared transaction
``K.end_lsn``). A transaction that finished at or before the stored progress is already applied::

    B ─ changes ─ C                 B contains the commit LSN, so it is known at once whether it is applied
    b ─ changes ─ P ─ K             only K has the end LSN; the frame has it beside b
    b ─ changes ─ P … K             with two_phase: P finishes the prepared transaction, K is a separate step

Messages in a wrong order are protocol errors, as in PostgreSQL's apply worker (rules C31, C38).
:func:`read_whole` reads the bounds of many small transactions as columns, with the same checks. If
one of them fails, the same messages are then read one by one, with their errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from subscriber.apply.conflicts.conflict import ChangePlace
from subscriber.base.errors import ProtocolError
from subscriber.base.lsn import INVALID_LSN, LSN, format_lsn
from subscriber.postgres.protocol.changes import Controls
from subscriber.postgres.protocol.messages import Begin, BeginPrepare, Commit, CommitPrepared, Prepare


@dataclass(slots=True)
class RemoteTransaction:
    """The publisher's transaction that is being read.

    Errors show ``final_lsn``, which Begin or Begin Prepare announced, and SKIP takes it (C37, C40).
    ``finish_lsn`` is known if it began with Begin Prepare; for other transactions only Commit has
    it. With ``skip``, it is already in the target. ``timestamp`` is that of its commit or prepare
    (microseconds since 2000-01-01 UTC). ``messages``: whether any message after the Begin was read
    (for the place of Origin, rule C38).
    """

    xid: int
    final_lsn: LSN
    two_phase: bool
    skip: bool
    finish_lsn: LSN = INVALID_LSN
    prepared: bool = False
    changes: int = 0
    messages: bool = False
    timestamp: int = 0

    @classmethod
    def begin(cls, message: Begin, applied: LSN) -> RemoteTransaction:
        """A transaction that is skipped if its commit record is before the applied LSN."""
        old, timestamp = message.final_lsn < applied, message.commit_timestamp
        return cls(message.xid or 0, LSN(message.final_lsn), two_phase=False, skip=old, timestamp=timestamp)

    @classmethod
    def begin_prepare(cls, message: BeginPrepare, finish: LSN, applied: LSN) -> RemoteTransaction:
        """A transaction that is skipped if the end LSN in its Begin Prepare's frame is applied."""
        if finish == INVALID_LSN:
            raise ProtocolError("a frame has no end LSN of its prepared transaction", message_type="b")
        old = finish <= applied
        transaction = cls(message.xid or 0, LSN(message.prepare_lsn), two_phase=True, skip=old, finish_lsn=finish)
        transaction.timestamp = message.prepare_timestamp
        return transaction

    def origin(self) -> None:
        """Record an Origin, which must be the first message (rule C38)."""
        if self.messages or self.prepared:
            raise ProtocolError("ORIGIN message sent out of order", message_type="O")
        self.messages = True

    def commit(self, message: Commit, applied: LSN) -> LSN:
        """Check a Commit against its Begin (rule C31) and return the end LSN."""
        if self.two_phase:
            raise out_of_order("C")
        _same_lsn("commit", message.commit_lsn, self.final_lsn, "C")
        if self.skip != (message.end_lsn <= applied):
            raise ProtocolError(
                f"the applied LSN {format_lsn(applied)} lies inside the commit record at {format_lsn(self.final_lsn)}",
                message_type="C",
                lsn=self.final_lsn,
            )
        return LSN(message.end_lsn)

    def prepare(self, message: Prepare) -> None:
        """Check a Prepare against its Begin Prepare; only its Commit Prepared may follow."""
        if not self.two_phase or self.prepared:
            raise out_of_order("P")
        _same_lsn("prepare", message.prepare_lsn, self.final_lsn, "P")
        self.prepared = True

    def commit_prepared(self, message: CommitPrepared) -> LSN:
        """Check that a Commit Prepared belongs to this transaction and return the end LSN."""
        if not self.prepared or message.xid != self.xid or message.end_lsn != self.finish_lsn:
            raise out_of_order("K")
        return self.finish_lsn

    def place(self, count: int) -> ChangePlace:
        """The place of the first of the last ``count`` changes, for conflicts."""
        return ChangePlace(self.xid, self.final_lsn, self.timestamp, self.changes - count)

    def change(self, message_type: str, count: int) -> None:
        if self.prepared:
            raise out_of_order(message_type)
        self.messages = True
        self.changes += count


def out_of_order(message_type: str) -> ProtocolError:
    return ProtocolError(f'message type "{message_type}" sent out of order', message_type=message_type)


def _same_lsn(word: str, found: int, expected: int, message_type: str) -> None:
    if found != expected:
        raise ProtocolError(
            f"incorrect {word} LSN {format_lsn(found)} in {word} message (expected {format_lsn(expected)})",
            message_type=message_type,
            lsn=expected,
        )


# Many transactions at once ------------------------------------------------------------------------

_BEGIN: Final = np.dtype([("type", "S1"), ("final_lsn", ">u8"), ("timestamp", ">i8"), ("xid", ">u4")])
_COMMIT: Final = np.dtype(
    [("type", "S1"), ("flags", "u1"), ("commit_lsn", ">u8"), ("end_lsn", ">u8"), ("timestamp", ">i8")]
)
_PAIR: Final = np.dtype([("begin", _BEGIN), ("commit", _COMMIT)])


@dataclass(frozen=True, slots=True)
class WholeTransactions:
    """Consecutive transactions to apply, with the end LSN and commit time (µs) of the last one."""

    size: int
    changes: int
    end_lsn: LSN
    timestamp: int


def read_whole(controls: Controls, counts: NDArray[np.int64], applied: LSN, end: LSN) -> WholeTransactions | None:
    """The transactions after ``applied`` up to ``end`` of which these are the controls, with the
    number of changes before each. None if they are not Begin and Commit in turn, from a Begin on,
    if one of the transactions is not to be applied, or if a message is wrong.
    """
    pairs = _fields(controls)
    if pairs is None or np.any(counts[0::2]):
        return None
    begins, commits = pairs["begin"], pairs["commit"]
    final_lsns, end_lsns = begins["final_lsn"], commits["end_lsn"]
    before = np.concatenate((np.array([applied], np.uint64), end_lsns[:-1].astype(np.uint64)))
    fits = (
        (final_lsns != 0)
        & (commits["flags"] == 0)
        & (commits["commit_lsn"] == final_lsns)
        & (final_lsns >= before)
        & (end_lsns > before)
        & (end_lsns <= end)
    )
    if not np.all(fits):
        return None
    return WholeTransactions(len(begins), int(counts.sum()), LSN(int(end_lsns[-1])), int(commits["timestamp"][-1]))


def _fields(controls: Controls) -> NDArray[Any] | None:
    """The fields of Begin and Commit in turn; None if the messages are others."""
    if not len(controls) or len(controls) % 2:
        return None
    data, offsets = controls.buffers()
    sizes = np.diff(offsets)
    if np.any(sizes[0::2] != _BEGIN.itemsize) or np.any(sizes[1::2] != _COMMIT.itemsize):
        return None
    fields = data[offsets[0] : offsets[-1]].view(_PAIR)
    is_pair = (fields["begin"]["type"] == b"B") & (fields["commit"]["type"] == b"C")
    return fields if np.all(is_pair) else None
