"""Where the publisher's transactions begin and end, and which of them are already in the target.

Pure: messages in, decisions out. A transaction *finishes* at the end of its commit record
(``C.end_lsn``, for a prepared one ``K.end_lsn``); what finished at or below the stored progress has
been applied::

    B ─ changes ─ C                 its commit LSN is in B, so it is known at once whether it is old
    b ─ changes ─ P ─ K             only K tells when it finished; the frame says it beside b
    b ─ changes ─ P … K             with two_phase: P finishes what is prepared, and K stands for itself

Order errors are protocol errors, as in the apply worker (rules C31, C38).
"""

from __future__ import annotations

from dataclasses import dataclass

from subscriber.apply.conflict import ChangePlace
from subscriber.errors import ProtocolError
from subscriber.lsn import INVALID_LSN, LSN, format_lsn
from subscriber.protocol.messages import Begin, BeginPrepare, Commit, CommitPrepared, Prepare


@dataclass(slots=True)
class RemoteTransaction:
    """The transaction that is being read.

    Attributes:
        xid: at the publisher.
        final_lsn: the LSN that Begin (or Begin Prepare) announced; errors name it, SKIP takes it
            (C37, C40).
        two_phase: it began with Begin Prepare.
        skip: it is in the target already; its changes are read past.
        finish_lsn: where it finishes, of one that began with Begin Prepare; of the others only
            Commit tells.
        prepared: its Prepare has been read.
        changes: row changes and truncates so far.
        timestamp: when it was committed, or prepared (microseconds since 2000-01-01 UTC).
        messages: whether anything but the Begin has been read (for Origin's place, rule C38).
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
        """From a Begin: old when its commit record lies below what has been applied."""
        old, timestamp = message.final_lsn < applied, message.commit_timestamp
        return cls(message.xid or 0, LSN(message.final_lsn), two_phase=False, skip=old, timestamp=timestamp)

    @classmethod
    def begin_prepare(cls, message: BeginPrepare, finish: LSN, applied: LSN) -> RemoteTransaction:
        """From a Begin Prepare, and where its frame says that it finishes: old when that has been
        applied.

        Raises:
            ProtocolError: the frame does not say it.
        """
        if finish == INVALID_LSN:
            raise ProtocolError("a frame does not say where its prepared transaction finishes", message_type="b")
        old = finish <= applied
        transaction = cls(message.xid or 0, LSN(message.prepare_lsn), two_phase=True, skip=old, finish_lsn=finish)
        transaction.timestamp = message.prepare_timestamp
        return transaction

    def origin(self) -> None:
        """Take note of an Origin, which may only come first (rule C38).

        Raises:
            ProtocolError: it does not come first.
        """
        if self.messages or self.prepared:
            raise ProtocolError("ORIGIN message sent out of order", message_type="O")
        self.messages = True

    def commit(self, message: Commit, applied: LSN) -> LSN:
        """Check a Commit against its Begin (rule C31) and return the finish LSN.

        Raises:
            ProtocolError: it cannot come here, or has another commit LSN than its Begin.
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
        """Check a Prepare against its Begin Prepare; nothing but its Commit Prepared may follow.

        Raises:
            ProtocolError: it cannot come here, or has another LSN than its Begin Prepare.
        """
        if not self.two_phase or self.prepared:
            raise out_of_order("P")
        _same_lsn("prepare", message.prepare_lsn, self.final_lsn, "P")
        self.prepared = True

    def commit_prepared(self, message: CommitPrepared) -> LSN:
        """Check that a Commit Prepared is this transaction's and return the finish LSN.

        Raises:
            ProtocolError: it cannot come here, or is another transaction's.
        """
        if not self.prepared or message.xid != self.xid or message.end_lsn != self.finish_lsn:
            raise out_of_order("K")
        return self.finish_lsn

    def place(self, count: int) -> ChangePlace:
        """The first of the last ``count`` changes, for conflicts."""
        return ChangePlace(self.xid, self.final_lsn, self.timestamp, self.changes - count)

    def change(self, message_type: str, count: int) -> None:
        """Take note of changes.

        Raises:
            ProtocolError: they cannot come here.
        """
        if self.prepared:
            raise out_of_order(message_type)
        self.messages = True
        self.changes += count


def out_of_order(message_type: str) -> ProtocolError:
    """The error for a message that cannot come here."""
    return ProtocolError(f'message type "{message_type}" sent out of order', message_type=message_type)


def _same_lsn(word: str, found: int, expected: int, message_type: str) -> None:
    if found != expected:
        raise ProtocolError(
            f"incorrect {word} LSN {format_lsn(found)} in {word} message (expected {format_lsn(expected)})",
            message_type=message_type,
            lsn=expected,
        )
