"""The walreceiver: it receives CopyData, writes finished transactions to the journal, and sends
feedback.

::

              ┌────────────── plain: B O I U D T M C ────────────▶ main builder ─┐  group commit when the
    frames ──▶│                                                                  ├─▶ socket runs dry (or later,
              ├── S … E blocks ▶ spool per xid ── c (commit) ────────────────────┤   see lingering)
              │                              └── A (abort) ─▶ gone / truncated   │
              ├── b … P ─────────────────────────▶ entry "prepared" ─────────────┤
              └── K, r ──────────────────────────▶ separate entry ───────────────┘──▶ journal ──▶ feedback

* Entries reach the journal in the order in which transactions finish (rule C47); a transaction is
  in one entry.
* The slot is never confirmed beyond the journal's durable end (rule C36, slot_after_disk).
* The size of all unwritten frames together stays below ``segment_bytes``; above it, the builder
  with the most unwritten bytes is written to disk (bounded_memory).
* A relation message with a column whose binary format is not supported stops the receiver before
  any of the values. If a message cannot be decoded, or is not allowed at its place, the receiver
  stops before that message or anything after it becomes durable.

The hot path, :meth:`WalReceiver._take`, reads only the type byte of a change, since the journal
checks whole batches with numpy when it writes them. *Rejected:* decoding each message on arrival,
which costs ten times as much as receiving it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, assert_never

from subscriber.base import failpoints
from subscriber.base.errors import BinaryFormNotRead, ProtocolError, PublisherError
from subscriber.base.lsn import LSN, format_lsn
from subscriber.base.settings import Settings
from subscriber.postgres.protocol import envelope
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.decode_message import decode
from subscriber.postgres.types.oids import type_name
from subscriber.postgres.types.registry import comes_unread
from subscriber.stream.journal.segment import EntryKind
from subscriber.stream.journal.writer import JournalWriter
from subscriber.stream.receive.feedback import Feedback, Schedule
from subscriber.stream.receive.finished_transactions import Lingering, PlainTransactions
from subscriber.stream.receive.spool import Spools

_XLOGDATA: Final = b"w"
_CHANGES: Final = frozenset((b"I", b"U", b"D"))
_TYPE: Final = slice(envelope.XLOGDATA_HEADER_SIZE, envelope.XLOGDATA_HEADER_SIZE + 1)
_POSTGRESQL_EPOCH: Final = 946_684_800
_MANY_FRAMES: Final = 64
"""So many frames in the last reads mean that a backlog is coming; a single commit of a few rows has
less.
"""
_EARLY_BYTES: Final = 256 * 1024
"""While data arrives without a pause, so much is published for a consumer that has nothing to do. A
consumer that is behind gets full segments.
"""
_LINGERING_WAIT_SECONDS: Final = 0.05
"""While transactions linger, the consumer's position is looked at this often."""


class ReplicationStream(Protocol):
    """A CopyBoth stream that has been started."""

    def read(self) -> Sequence[bytes]:
        """The next CopyData payloads, as many as have arrived, up to a limit; none when none has
        arrived yet. The server's notices are among them
        (:mod:`subscriber.postgres.protocol.envelope`).

        Raises:
            PublisherUnavailable: the stream has ended or the connection was lost. Everything that
                came before was returned.
        """

    def wait(self, seconds: float, *, more: bool) -> None:
        """Wait for data, at most ``seconds``. With ``more``, leave the stream alone for a moment,
        in which more comes, to read it with fewer calls.
        """

    def send(self, data: bytes) -> None:
        """Send a CopyData payload."""


@dataclass(slots=True)
class ReceiverCounts:
    """What a receiver has done, for other threads that show it. LSNs are of the publisher. Who
    copies it field by field has a ``commit_lsn`` that is not older than ``confirmed_lsn``.

    Attributes:
        bytes: the size of all CopyData messages; ``transactions``, how many have committed.
        heard_at: when the last message arrived; ``confirmed_at``, when the slot was last confirmed
            further (seconds since 1970, by this machine's clock).
        commit_lsn: the end of the last commit.
        first_commit: the commit time of the first commit since :meth:`take_first_commit`
            (microseconds since 2000-01-01 UTC, by the publisher's clock).
        looped_at: when the receiver last went round its loop (monotonic seconds).
    """

    bytes: int = 0
    transactions: int = 0
    heard_at: float | None = None
    confirmed_at: float | None = None
    confirmed_lsn: int = 0
    commit_lsn: int = 0
    first_commit: int | None = None
    looped_at: float = 0.0

    def committed(self, message: m.Commit | m.StreamCommit | m.CommitPrepared) -> None:
        self.transactions += 1
        self.commit_lsn = message.end_lsn
        if self.first_commit is None:
            self.first_commit = message.commit_timestamp

    def take_first_commit(self) -> int | None:
        taken, self.first_commit = self.first_commit, None
        return taken


class WalReceiver:
    """Receives from one slot until it is stopped. The ``stream`` was started at the journal's end.

    Args:
        stream: a replication stream that was started at the journal's end.
        write_abort_info: whether Stream Abort messages have an LSN and a time (``streaming
            'parallel'``, rule A5).
        binary: whether values may come in binary format.
        may_linger: whether finished transactions may wait while the consumers are behind
            (:mod:`~subscriber.stream.receive.finished_transactions`).
        is_woken: whether a stop request ends the stream's waits.

    Attributes:
        counts: what it has received; kept up to date.
        on_notice: called with each notice of the publisher, and the LSN up to which was received
            before. Nothing that comes after the notice is taken before it returns.
    """

    def __init__(
        self,
        stream: ReplicationStream,
        journal: JournalWriter,
        settings: Settings,
        *,
        write_abort_info: bool = False,
        binary: bool = False,
        may_linger: bool = True,
        is_woken: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._journal = journal
        self._memory = settings.segment_bytes
        self._write_abort_info = write_abort_info
        self._binary = binary
        self.on_notice: Callable[[envelope.Notice, LSN], None] = lambda _notice, _received: None
        self._clock = clock
        self.counts = ReceiverCounts()
        self._feedback = Feedback()
        self._schedule = Schedule(settings, clock())
        self._lingering = Lingering(may_linger)
        self._plain = PlainTransactions(journal)
        self._spools = Spools(lambda: journal.builder({}, in_stream=True))
        self._filling = self._plain.builder
        self._room = self._memory
        self._wal_end = journal.durable_lsn
        self._is_woken = is_woken
        self._is_settled = False

    @property
    def received(self) -> LSN:
        return self._wal_end

    def stay_alive(self) -> None:
        """Repeat the last status update, so that the publisher does not end the stream."""
        self._stream.send(self._feedback.message(_timestamp()))

    def run(self, stop: Callable[[], bool]) -> None:
        """Receive until ``stop()`` is true; it is called whenever no more data is waiting, and a
        few times a second.

        Nothing of a message that raises ProtocolError, nor of a transaction that raises
        BinaryFormNotRead, became durable. PublisherUnavailable also means that nothing arrived for
        ``wal_receiver_timeout``.
        """
        self._send_feedback(force=True)
        recent = 0
        try:
            while not stop():
                taken = self._take()
                if taken:
                    self._schedule.heard(self._clock())
                    self.counts.heard_at = time.time()
                lingers = self._publish_finished()
                self._send_feedback()
                now = self.counts.looped_at = self._clock()
                if self._schedule.trim.passed(now):
                    self._journal.trim()
                if self._schedule.ping_due(now):
                    self._stream.send(self._feedback.message(_timestamp(), reply_requested=True))
                patience = self._schedule.patience(now, settled=self._is_woken and self._is_settled)
                if lingers:
                    patience = min(patience, lingers, _LINGERING_WAIT_SECONDS)
                recent = taken + recent // 2
                self._stream.wait(patience, more=recent >= _MANY_FRAMES or lingers > 0)
        except ProtocolError as error:
            raise self._located(error) from None
        except PublisherError:
            self._plain.publish_finished()  # it is complete, and the publisher may never come back
            raise
        self._plain.publish_finished()

    def _publish_finished(self) -> float:
        """Publish the finished transactions, or return for how many seconds they are to linger."""
        now, waiting = self._clock(), self._plain.has_finished
        reached = self._journal.fastest()
        self._lingering.note(end=self._journal.end, reached=reached, waiting=waiting, now=now)
        remaining = self._lingering.remaining(now)
        if not remaining:
            self._plain.publish_finished()
        return remaining

    # Frames ---------------------------------------------------------------------------------------

    def _take(self) -> int:
        """Take all data that has arrived; returns the number of frames."""
        taken = 0
        while frames := self._stream.read():
            taken += len(frames)
            self.counts.bytes += sum(map(len, frames))
            for frame in frames:
                if frame[_TYPE] not in _CHANGES or frame[:1] != _XLOGDATA:
                    self._dispatch(frame)
                elif (block := self._spools.block) is not None:
                    block.append(frame)
                elif self._plain.open is not None:
                    self._plain.builder.append(frame)
                else:
                    self._dispatch(frame)  # raises an error with all details of the message
                if self._filling.unwritten_bytes >= self._room:
                    self._relieve_memory()
            if self._plain.has_finished and self._plain.builder.unwritten_bytes >= _EARLY_BYTES:
                self._publish_early()
            if frames[-1][:1] == _XLOGDATA:
                # Rule A34: relation messages are sent with LSN 0/0, which is no progress.
                self._wal_end = LSN(max(self._wal_end, _start_lsn(frames[-1])))
        return taken

    def _publish_early(self) -> None:
        if self._journal.fastest() >= self._journal.end:
            self._plain.publish_finished()

    def _located(self, error: ProtocolError) -> ProtocolError:
        lsn = error.lsn or self._wal_end
        of = f' of relation "{error.relation}"' if error.relation else ""
        return error.replace(
            lsn=lsn,
            context=f"{error.context or 'decoding'}{of}, sent at {format_lsn(lsn)}",
            hint=error.hint
            or "This version of subscriber cannot read what the publisher sent. The slot keeps it; report the message above.",
        )

    # Memory ---------------------------------------------------------------------------------------

    def _relieve_memory(self) -> None:
        """Publish what is finished, and write the largest builder if it was not enough."""
        self._plain.publish_finished()
        builders = [self._plain.builder, *self._spools.builders()]
        if sum(builder.unwritten_bytes for builder in builders) >= self._memory // 2:
            max(builders, key=lambda builder: builder.unwritten_bytes).spill()
        self._allot_memory()

    def _allot_memory(self) -> None:
        """Set how much the builder in use may hold; the others change only at block boundaries."""
        block = self._spools.block
        self._filling = self._plain.builder if block is None else block.builder
        together = sum(builder.unwritten_bytes for builder in (self._plain.builder, *self._spools.builders()))
        self._room = self._memory - together + self._filling.unwritten_bytes

    # Messages -------------------------------------------------------------------------------------

    def _dispatch(self, frame: bytes) -> None:
        """Handle every message except the changes inside a transaction."""
        if frame[:1] == _XLOGDATA and len(frame) >= envelope.XLOGDATA_HEADER_SIZE:
            payload, in_stream = frame[envelope.XLOGDATA_HEADER_SIZE :], self._spools.block is not None
            try:
                self._message(decode(payload, in_stream=in_stream, write_abort_info=self._write_abort_info), frame)
            except ProtocolError as error:
                raise error.replace(lsn=error.lsn or _start_lsn(frame)) from None
            return
        if frame[:1] == envelope.NOTICE:
            self.on_notice(envelope.decode_notice(frame), self._wal_end)
            return
        message = envelope.decode_envelope(frame)
        if isinstance(message, envelope.Keepalive):
            self._wal_end = LSN(max(self._wal_end, message.wal_end))
            if message.reply_requested:
                self._plain.publish_finished()
                self._send_feedback(force=True)

    def _message(self, message: m.Message, frame: bytes) -> None:
        self._plain.check_place(message)
        match message:
            case m.Begin() | m.BeginPrepare():
                self._plain.begin(message, frame)
            case m.Commit():
                self._plain.commit(message, frame)
                self.counts.committed(message)
            case m.Prepare():
                self._plain.prepare(message, frame)
            case m.CommitPrepared() | m.RollbackPrepared():
                self._plain.finish_prepared(message, frame)
                if isinstance(message, m.CommitPrepared):
                    self.counts.committed(message)
            case m.StreamStart():
                self._spools.start(message)
                self._allot_memory()
            case m.StreamStop():
                self._spools.stop()
                self._allot_memory()
            case m.StreamCommit():
                self._stream_finish(message, EntryKind.TRANSACTIONS)
                self.counts.committed(message)
            case m.StreamPrepare():
                self._stream_finish(message, EntryKind.PREPARED)
            case m.StreamAbort():
                self._spools.abort(message)
            case m.LogicalMessage(transactional=False):
                self._plain.logical_message(message, frame)
            case (
                m.Relation()
                | m.Type()
                | m.Truncate()
                | m.LogicalMessage()
                | m.Origin()
                | m.Insert()
                | m.Update()
                | m.Delete()
            ):
                self._add(message, frame)
            case _ as unreachable:
                assert_never(unreachable)

    def _add(self, message: m.Message, frame: bytes) -> None:
        if isinstance(message, m.Relation):
            if self._binary:
                _check_binary(message)
            self._spools.describe(message.relation_id)
        if self._spools.block is None:
            self._plain.add(message, frame)
        elif not isinstance(message, m.Origin):
            # Rule A15: a streamed transaction's origin has no position; the finished entry needs
            # none.
            self._spools.block.append(frame)

    def _stream_finish(self, message: m.StreamCommit | m.StreamPrepare, kind: EntryKind) -> None:
        transaction, finish = self._spools.finish(message)
        self._plain.publish_finished()
        self._journal.publish(transaction.builder, LSN(message.end_lsn), kind=kind, xid=message.xid, finish=finish)
        plain = self._plain.builder
        plain.relations = self._spools.adopt_descriptions(transaction, plain.relations)

    # Feedback -------------------------------------------------------------------------------------

    def _send_feedback(self, *, force: bool = False) -> None:
        """Send a due status update, after an idle slot's position was made durable."""
        now = self._clock()
        due = force or self._schedule.update_due(now)
        has_moved = self._wal_end > self._journal.durable_lsn
        if self._plain.idle and has_moved and self._schedule.advance.passed(now, force=due):
            self._journal.advance(self._wal_end)
        durable = self._journal.durable_lsn
        applied = self._journal.applied()
        self._is_settled = applied >= self._journal.end and self._wal_end <= durable
        if applied >= self._journal.end:
            applied = durable  # with nothing left to apply, applied = flushed = received (rule C36)
        moved = self._feedback.move(received=self._wal_end, durable=durable, applied=applied)
        if due or self._schedule.update_due(now, moved=moved):
            failpoints.hit("feedback.before")
            self._stream.send(self._feedback.message(_timestamp()))
            failpoints.hit("feedback.after")
            self._schedule.updated(now)
            if self._feedback.flushed > self.counts.confirmed_lsn:
                self.counts.confirmed_lsn, self.counts.confirmed_at = self._feedback.flushed, time.time()


def _check_binary(relation: m.Relation) -> None:
    for column in relation.columns:
        if comes_unread(column.type_oid):
            raise BinaryFormNotRead(
                f'the binary format of column "{column.name}" of relation "{relation.qualified_name}" is not supported',
                detail=f"The column has {type_name(column.type_oid)}.",
                hint="Values are received as text.",
                relation=relation.qualified_name,
                column=column.name,
            )


def _start_lsn(frame: bytes) -> LSN:
    return LSN(int.from_bytes(frame[1:9]))


def _timestamp() -> int:
    return int((time.time() - _POSTGRESQL_EPOCH) * 1_000_000)
