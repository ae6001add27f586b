"""Plain and prepared transactions on their way into the journal. They are sent whole, after they
have finished.

::

    B O I U D T M C  B I C  b I P  K  M          one builder holds them, in stream order
    └─────────────┴──────┘  └───┘  │  └ a message between transactions is finished as it arrives (rule A25)
      group commit: one entry  │   └ COMMIT PREPARED, ROLLBACK PREPARED: a separate entry
                               └ an entry "prepared" (rules C49 to C51)

Finished transactions wait for :meth:`PlainTransactions.publish_finished`, so that small
transactions that arrive together share a segment.

A PREPARE without BEGIN PREPARE belongs to a transaction that has changed nothing. PostgreSQL 18
sends it so if the transaction has only locked rows (SELECT FOR UPDATE). PostgreSQL's apply worker
cannot continue from there; here it is an empty transaction.

A publisher sends a transaction again if a crash came before the feedback. If the journal has the
transaction already, which its end LSN shows, it is dropped. Its relation messages still count,
since the publisher does not repeat them (rule A24).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Generic

from subscriber.errors import ProtocolError
from subscriber.lsn import INVALID_LSN, LSN, format_lsn
from subscriber.protocol import messages as m
from subscriber.protocol.encode import encode
from subscriber.protocol.envelope import XLOGDATA_HEADER_SIZE
from subscriber.receive.contracts import COMMIT_PREPARED, PREPARED, ROLLBACK_PREPARED, TRANSACTIONS, B, Journal

_BETWEEN_TRANSACTIONS: Final[Mapping[type[m.Message], str]] = {
    m.Begin: "BEGIN",
    m.BeginPrepare: "BEGIN PREPARE",
    m.CommitPrepared: "COMMIT PREPARED",
    m.RollbackPrepared: "ROLLBACK PREPARED",
    m.StreamStart: "STREAM START",
    m.StreamCommit: "STREAM COMMIT",
    m.StreamPrepare: "STREAM PREPARE",
}
"""Messages that cannot be part of a plain transaction: they begin another transaction, or would
publish this one before it has finished.
"""


class PlainTransactions(Generic[B]):
    """The messages that arrive outside of stream blocks.

    Args:
        journal: the journal that entries are published in.

    Attributes:
        builder: the messages that have arrived and are not in the journal yet.
        open: the Begin or BeginPrepare of the open transaction; None between transactions.
    """

    def __init__(self, journal: Journal[B]) -> None:
        self.builder: B = journal.builder({}, in_stream=False)
        self.open: m.Begin | m.BeginPrepare | None = None
        self._journal = journal
        self._begin_position = 0
        self._late_prepare: int | None = None
        self._finished_frames = 0
        self._finished_end = INVALID_LSN
        self._finished_message = b""

    @property
    def idle(self) -> bool:
        """Whether everything that has arrived is in the journal. Open streamed transactions do not
        count, since they are sent again after a crash.
        """
        return self.open is None and self._late_prepare is None and not self._finished_frames

    @property
    def has_finished(self) -> bool:
        """Whether finished transactions wait for :meth:`publish_finished`."""
        return self._finished_frames > 0

    def check_place(self, message: m.Message) -> None:
        """Check that a message that is allowed only between transactions is not inside one.

        Raises:
            ProtocolError: the message is inside a transaction.
        """
        if self.open is not None and (name := _BETWEEN_TRANSACTIONS.get(type(message))):
            raise ProtocolError(f"{name} message inside a transaction", message_type=message.type_byte)

    def add(self, message: m.Message, frame: bytes) -> None:
        """Add a message to the open transaction. Relation and Type messages are also allowed
        outside of transactions.

        Raises:
            ProtocolError: no transaction is open, so that the change would never be finished
                although the slot is confirmed past it; or an Origin message is out of order.
        """
        if isinstance(message, m.Origin):
            if self.open is None or self.builder.position != self._begin_position + 1:
                raise ProtocolError("ORIGIN message sent out of order", message_type="O")
        elif self.open is None and not isinstance(message, m.Relation | m.Type):
            name = type(message).__name__.removeprefix("Logical").upper()
            raise ProtocolError(f"{name} message outside a transaction", message_type=message.type_byte)
        self.builder.append(frame)

    # Transactions ---------------------------------------------------------------------------------

    def begin(self, message: m.Begin | m.BeginPrepare, frame: bytes) -> None:
        """A transaction begins.

        Raises:
            ProtocolError, JournalUnavailable: as :meth:`publish_finished`.
        """
        if isinstance(message, m.BeginPrepare):
            self.publish_finished()  # it will be a separate entry
        self._drop_late_prepare()
        self.open = message
        self._begin_position = self.builder.position
        self.builder.append(frame)

    def commit(self, message: m.Commit, frame: bytes) -> None:
        """The open transaction has committed (rule C31).

        Raises:
            ProtocolError: no transaction is open, or the commit LSN is that of another transaction.
        """
        begin = self.open
        if not isinstance(begin, m.Begin):
            raise ProtocolError("COMMIT message without BEGIN", message_type="C")
        if begin.final_lsn != message.commit_lsn:
            raise ProtocolError(
                f"incorrect commit LSN {format_lsn(message.commit_lsn)} in commit message "
                f"(expected {format_lsn(begin.final_lsn)})",
                message_type="C",
            )
        self.open = None
        if message.end_lsn <= self._journal.end:  # sent again
            self.publish_finished()
            self.builder.discard()
            return
        self.builder.append(frame)
        self._finish(LSN(message.end_lsn), frame)
        if self.builder.position > self.builder.unwritten:  # parts of it are on disk: it is a separate entry
            self.publish_finished(xid=begin.xid)

    def prepare(self, message: m.Prepare, frame: bytes) -> None:
        """The open transaction was prepared. If none is open, the prepared transaction is empty.

        Raises:
            ProtocolError: the open transaction is another one.
        """
        if self.open is None:
            begun = m.BeginPrepare(
                message.prepare_lsn, message.end_lsn, message.prepare_timestamp, message.xid, message.gid
            )
            self.begin(begun, frame[:XLOGDATA_HEADER_SIZE] + encode(begun))
        begin = self.open
        if not isinstance(begin, m.BeginPrepare):
            raise ProtocolError("PREPARE message without BEGIN PREPARE", message_type="P")
        if begin.prepare_lsn != message.prepare_lsn:
            raise ProtocolError(
                f"incorrect prepare LSN {format_lsn(message.prepare_lsn)} in prepare message "
                f"(expected {format_lsn(begin.prepare_lsn)})",
                message_type="P",
            )
        self.open = None
        self.builder.append(frame)
        if message.end_lsn <= self._journal.end and not self._journal.holds_prepared(message.xid):
            # Rule C51: the transaction was prepared before two_phase was enabled. It is sent whole,
            # right before its COMMIT PREPARED.
            self._late_prepare = message.xid
        else:
            self._publish(LSN(message.end_lsn), PREPARED, message.xid, frame)

    def finish_prepared(self, message: m.CommitPrepared | m.RollbackPrepared, frame: bytes) -> None:
        """A prepared transaction was committed or rolled back.

        Raises:
            ProtocolError, JournalUnavailable: as :meth:`publish_finished`.
        """
        self.publish_finished()
        kind = COMMIT_PREPARED if isinstance(message, m.CommitPrepared) else ROLLBACK_PREPARED
        if kind == COMMIT_PREPARED and self._late_prepare == message.xid:
            # The changes and COMMIT PREPARED become one entry, at the place of COMMIT PREPARED.
            self._late_prepare, kind = None, TRANSACTIONS
        self._drop_late_prepare()
        self.builder.append(frame)
        self._publish(LSN(message.end_lsn), kind, message.xid, frame)

    def logical_message(self, message: m.LogicalMessage, frame: bytes) -> None:
        """A message outside of every transaction is an entry at its own position (rule A25).

        Raises:
            ProtocolError: a transaction is open, and would be published in part.
        """
        if self.open is not None:
            raise ProtocolError("non-transactional MESSAGE inside a transaction", message_type="M")
        if message.lsn > self._journal.end:
            self._drop_late_prepare()
            self.builder.append(frame)
            self._finish(LSN(message.lsn), frame)

    # Entries --------------------------------------------------------------------------------------

    def publish_finished(self, xid: int = 0) -> None:
        """Publish the finished transactions as one entry. The open transaction is not part of it.

        Args:
            xid: the transaction, if the entry is a single one.

        Raises:
            ProtocolError, JournalUnavailable: nothing of the entry is visible then.
        """
        if not self._finished_frames:
            return
        rest = self.builder.split(self._finished_frames)
        self._publish(self._finished_end, TRANSACTIONS, xid, self._finished_message)
        self.builder.extend(rest)
        self._finished_frames = 0
        self._begin_position = 0

    def _finish(self, end: LSN, frame: bytes) -> None:
        """Everything that has arrived has finished; ``frame`` is the last message."""
        self._finished_frames = self.builder.unwritten
        self._finished_end = end
        self._finished_message = frame

    def _publish(self, end: LSN, kind: str, xid: int, frame: bytes) -> None:
        self._journal.publish(self.builder, end, kind=kind, xid=xid, finish=frame[XLOGDATA_HEADER_SIZE:])

    def _drop_late_prepare(self) -> None:
        """Drop a late PREPARE that no COMMIT PREPARED or ROLLBACK PREPARED follows: it was sent
        again after a crash, although its transaction was finished and trimmed long ago.
        """
        if self._late_prepare is not None:
            self._late_prepare = None
            self.builder.discard()
