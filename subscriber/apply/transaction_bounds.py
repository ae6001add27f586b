"""Where the publisher's transactions begin and end, and which of them are already in the target.

This module has no input or output: it decides from messages only. A transaction *finishes* at the
end of its commit record (``C.end_lsn``; for a prepared transaction ``K.end_lsn``). A transaction
that finished at or before the stored progress is already applied::

    B ─ changes ─ C                 B contains the commit LSN, so it is known at once whether it is applied
    b ─ changes ─ P ─ K             only K has the end LSN; the frame has it beside b
    b ─ changes ─ P … K             with two_phase: P finishes the prepared transaction, K is a separate step

Messages in a wrong order are protocol errors, as in PostgreSQL's apply worker (rules C31, C38).
"""

from __future__ import annotations

from dataclasses import dataclass

from subscriber.apply.conflicts.conflict import ChangePlace
from subscriber.errors import ProtocolError
from subscriber.lsn import INVALID_LSN, LSN, format_lsn
from subscriber.protocol.messages import Begin, BeginPrepare, Commit, CommitPrepared, Prepare


@dataclass(slots=True)
class RemoteTransaction:
    """The publisher's transaction that is being read.

    Attributes:
        xid: its number at the publisher.
        final_lsn: the LSN that Begin (or Begin Prepare) announced; errors show it, and SKIP takes
            it (C37, C40).
        two_phase: whether it began with Begin Prepare.
        skip: whether it is already in the target, so that its changes are not applied.
        finish_lsn: its end LSN, if it began with Begin Prepare; for other transactions only
            Commit has it.
        prepared: whether its Prepare was read.
        changes: how many row changes and truncates were read so far.
        timestamp: when it was committed, or prepared (microseconds since 2000-01-01 UTC).
        messages: whether any message after the Begin was read (for the place of Origin, rule C38).
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
        """Create it from a Begin; it is skipped if its commit record is before the applied LSN."""
        old, timestamp = message.final_lsn < applied, message.commit_timestamp
        return cls(message.xid or 0, LSN(message.final_lsn), two_phase=False, skip=old, timestamp=timestamp)

    @classmethod
    def begin_prepare(cls, message: BeginPrepare, finish: LSN, applied: LSN) -> RemoteTransaction:
        """Create it from a Begin Prepare and the end LSN in its frame; it is skipped if that LSN
        is applied.

        Raises:
            ProtocolError: the frame has no end LSN.
        """
        if finish == INVALID_LSN:
            raise ProtocolError("a frame has no end LSN of its prepared transaction", message_type="b")
        old = finish <= applied
        transaction = cls(message.xid or 0, LSN(message.prepare_lsn), two_phase=True, skip=old, finish_lsn=finish)
        transaction.timestamp = message.prepare_timestamp
        return transaction

    def origin(self) -> None:
        """Record an Origin, which must be the first message (rule C38).

        Raises:
            ProtocolError: another message was before it.
        """
        if self.messages or self.prepared:
            raise ProtocolError("ORIGIN message sent out of order", message_type="O")
        self.messages = True

    def commit(self, message: Commit, applied: LSN) -> LSN:
        """Check a Commit against its Begin (rule C31) and return the end LSN.

        Raises:
            ProtocolError: a Commit is not allowed here, or its commit LSN differs from that of its
                Begin.
        """
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
        """Check a Prepare against its Begin Prepare; only its Commit Prepared may follow.

        Raises:
            ProtocolError: a Prepare is not allowed here, or its LSN differs from that of its Begin
                Prepare.
        """
        if not self.two_phase or self.prepared:
            raise out_of_order("P")
        _same_lsn("prepare", message.prepare_lsn, self.final_lsn, "P")
        self.prepared = True

    def commit_prepared(self, message: CommitPrepared) -> LSN:
        """Check that a Commit Prepared belongs to this transaction and return the end LSN.

        Raises:
            ProtocolError: a Commit Prepared is not allowed here, or belongs to another transaction.
        """
        if not self.prepared or message.xid != self.xid or message.end_lsn != self.finish_lsn:
            raise out_of_order("K")
        return self.finish_lsn

    def place(self, count: int) -> ChangePlace:
        """The place of the first of the last ``count`` changes, for conflicts."""
        return ChangePlace(self.xid, self.final_lsn, self.timestamp, self.changes - count)

    def change(self, message_type: str, count: int) -> None:
        """Record changes.

        Raises:
            ProtocolError: changes are not allowed here.
        """
        if self.prepared:
            raise out_of_order(message_type)
        self.messages = True
        self.changes += count


def out_of_order(message_type: str) -> ProtocolError:
    """The error for a message that is not allowed at its place in the stream."""
    return ProtocolError(f'message type "{message_type}" sent out of order', message_type=message_type)


def _same_lsn(word: str, found: int, expected: int, message_type: str) -> None:
    if found != expected:
        raise ProtocolError(
            f"incorrect {word} LSN {format_lsn(found)} in {word} message (expected {format_lsn(expected)})",
            message_type=message_type,
            lsn=expected,
        )
