"""Plain and prepared transactions on their way into the journal. They are sent whole, after they
have finished.

::

    B O I U D T M C  B I C  b I P  K  M          one builder holds them, in stream order
    └─────────────┴──────┘  └───┘  │  └ a message between transactions is finished as it arrives (rule A25)
      group commit: one entry  │   └ COMMIT PREPARED, ROLLBACK PREPARED: a separate entry
                               └ an entry "prepared" (rules C49 to C51)

PostgreSQL 18 sends a PREPARE without BEGIN PREPARE if the transaction has only locked rows (SELECT
FOR UPDATE). PostgreSQL's apply worker cannot continue from there; here it is an empty transaction.

A transaction that the journal has already, which its end LSN shows, was sent again after a crash,
and is dropped. Its relation messages still count, since the publisher does not repeat them (rule
A24).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from subscriber.base.errors import ProtocolError
from subscriber.base.lsn import INVALID_LSN, LSN, format_lsn
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.encode_message import encode
from subscriber.postgres.protocol.envelope import XLOGDATA_HEADER_SIZE
from subscriber.stream.journal.segment import EntryKind
from subscriber.stream.journal.writer import JournalWriter

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


class PlainTransactions:
    """The messages outside of stream blocks that are not in the journal yet."""

    def __init__(self, journal: JournalWriter) -> None:
        self.builder = journal.builder({}, in_stream=False)
        self.open: m.Begin | m.BeginPrepare | None = None
        self._journal = journal
        self._begin_position = 0
        self._late_prepare: int | None = None
        self._finished_frames = 0
        self._finished_end = INVALID_LSN
        self._finished_message = b""

    @property
    def idle(self) -> bool:
        """Whether all is in the journal, except streamed transactions, which are sent again."""
        return self.open is None and self._late_prepare is None and not self._finished_frames

    @property
    def has_finished(self) -> bool:
        return self._finished_frames > 0

    def check_place(self, message: m.Message) -> None:
        """Check that a message that is allowed only between transactions is not inside one."""
        if self.open is not None and (name := _BETWEEN_TRANSACTIONS.get(type(message))):
            raise ProtocolError(f"{name} message inside a transaction", message_type=message.type_byte)

    def add(self, message: m.Message, frame: bytes) -> None:
        """Add a message to the open transaction. Only Relation and Type messages are allowed
        outside of one: a change would never be finished although the slot is confirmed past it.
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
        if isinstance(message, m.BeginPrepare):
            self.publish_finished()  # it will be a separate entry
        self._drop_late_prepare()
        self.open = message
        self._begin_position = self.builder.position
        self.builder.append(frame)

    def commit(self, message: m.Commit, frame: bytes) -> None:
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
        """The open transaction was prepared. If none is open, the prepared transaction is empty."""
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
            self._publish(LSN(message.end_lsn), EntryKind.PREPARED, message.xid, frame)

    def finish_prepared(self, message: m.CommitPrepared | m.RollbackPrepared, frame: bytes) -> None:
        self.publish_finished()
        kind = EntryKind.COMMIT_PREPARED if isinstance(message, m.CommitPrepared) else EntryKind.ROLLBACK_PREPARED
        if kind == EntryKind.COMMIT_PREPARED and self._late_prepare == message.xid:
            # The changes and COMMIT PREPARED become one entry, at the place of COMMIT PREPARED.
            self._late_prepare, kind = None, EntryKind.TRANSACTIONS
        self._drop_late_prepare()
        self.builder.append(frame)
        self._publish(LSN(message.end_lsn), kind, message.xid, frame)

    def logical_message(self, message: m.LogicalMessage, frame: bytes) -> None:
        """A message outside of every transaction is an entry at its own position (rule A25)."""
        if self.open is not None:
            raise ProtocolError("non-transactional MESSAGE inside a transaction", message_type="M")
        if message.lsn > self._journal.end:
            self._drop_late_prepare()
            self.builder.append(frame)
            self._finish(LSN(message.lsn), frame)

    # Entries --------------------------------------------------------------------------------------

    def publish_finished(self, xid: int = 0) -> None:
        """Publish the finished transactions as one entry; ``xid`` if it is a single one."""
        if not self._finished_frames:
            return
        rest = self.builder.split(self._finished_frames)
        self._publish(self._finished_end, EntryKind.TRANSACTIONS, xid, self._finished_message)
        self.builder.extend(rest)
        self._finished_frames = 0
        self._begin_position = 0

    def _finish(self, end: LSN, frame: bytes) -> None:
        self._finished_frames = self.builder.unwritten
        self._finished_end = end
        self._finished_message = frame

    def _publish(self, end: LSN, kind: EntryKind, xid: int, frame: bytes) -> None:
        self._journal.publish(self.builder, end, kind=kind, xid=xid, finish=frame[XLOGDATA_HEADER_SIZE:])

    def _drop_late_prepare(self) -> None:
        """Drop a late PREPARE without COMMIT PREPARED or ROLLBACK PREPARED: it was sent again after
        a crash, although its transaction was finished and trimmed long ago.
        """
        if self._late_prepare is not None:
            self._late_prepare = None
            self.builder.discard()


BEHIND_SECONDS: Final = 2.0
"""A consumer that is less behind than this keeps up: it takes as long to apply a batch."""
LONGEST_SECONDS: Final = 10.0
"""The longest time that a finished transaction waits. An hour of outage has 360 entries, and those
of full segments.
"""
_SHARE: Final = 8
_SAMPLE_SECONDS: Final = 0.25
_SAMPLE_SHARE: Final = 16
"""Entries that were published within 0.25 s, or a sixteenth of the time that the consumer is
behind, count as one. So the number of samples does not depend on the number of entries.
"""


@dataclass(slots=True)
class Lingering:
    """When finished transactions are published: at once for a consumer that keeps up, together for
    one that is behind. Times are monotonic seconds.

    An entry is a file, so an hour of 400 transactions a second would be hundreds of thousands of
    files. While every consumer is behind, nobody waits for the newest transaction. So finished
    transactions wait for at most an eighth of the lag, which is measured as in PostgreSQL's
    LagTracker: the time since the oldest entry that is not applied was published.

    Transactions that wait are not confirmed. A synchronous standby (``synchronous_standby_names``)
    never lingers (``allowed`` is False): a commit must not wait for its target. *Rejected:
    confirming what is in memory only* (invariant slot_after_disk).
    """

    allowed: bool = True
    _waiting_since: float | None = None
    _last_end: LSN = INVALID_LSN
    _samples: deque[tuple[LSN, float]] = field(default_factory=deque)
    """Ends of entries that no consumer has reached, and when the first of them was published."""

    def note(self, *, end: LSN, reached: LSN, waiting: bool, now: float) -> None:
        """The end of the journal, the fastest consumer, and whether finished transactions wait."""
        if end > self._last_end:
            self._last_end = end
            self._waiting_since = None  # what waits now has finished since then
            apart = max(_SAMPLE_SECONDS, self._behind(now) / _SAMPLE_SHARE)
            if self._samples and now - self._samples[-1][1] < apart:
                self._samples[-1] = (end, self._samples[-1][1])
            else:
                self._samples.append((end, now))
        while self._samples and self._samples[0][0] <= reached:
            self._samples.popleft()
        if not waiting:
            self._waiting_since = None
        elif self._waiting_since is None:
            self._waiting_since = now

    def remaining(self, now: float) -> float:
        """The seconds until what waits is to be published; 0 if it is due, or nothing waits."""
        behind = self._behind(now)
        if self._waiting_since is None or not self.allowed or behind < BEHIND_SECONDS:
            return 0.0
        return max(0.0, self._waiting_since + min(behind / _SHARE, LONGEST_SECONDS) - now)

    def _behind(self, now: float) -> float:
        return now - self._samples[0][1] if self._samples else 0.0
