"""The walreceiver: CopyData in, finished transactions to the journal, feedback out.

::

              ┌────────────── plain: B O I U D T M C ────────────▶ main builder ─┐  group commit when the
    frames ──▶│                                                                  ├─▶ socket runs dry or a
              ├── S … E blocks ▶ spool per xid ── c (commit) ────────────────────┤   segment is full
              │                              └── A (abort) ─▶ gone / truncated   │
              ├── b … P ─────────────────────────▶ entry "prepared" ─────────────┤
              └── K, r ──────────────────────────▶ entry of its own ─────────────┘──▶ journal ──▶ feedback

Invariants

* Entries reach the journal in the order in which transactions finish (rule C47); a transaction is in one entry.
* The slot is never confirmed beyond the journal's durable end (rule C36, slot_after_disk).
* Memory: all unwritten frames together stay below ``segment_bytes``; beyond that the largest collection is spilled
  to disk (bounded_memory). A transaction larger than memory is a matter of more files.
* A message that does not decode stops the receiver before it, or anything after it, becomes durable.

The hot path is four lines of :meth:`WalReceiver._take`: a change is looked at for its type byte only, since the
journal checks whole batches with numpy when it writes them. *Rejected:* decoding each message on arrival, which costs
ten times as much as receiving it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Generic, assert_never

from subscriber import failpoints
from subscriber.errors import ProtocolError, PublisherUnavailable
from subscriber.lsn import INVALID_LSN, LSN, format_lsn
from subscriber.protocol.decode import decode
from subscriber.protocol.encode import encode
from subscriber.protocol.envelope import Keepalive, PrimaryStatusUpdate, XLogData, decode_envelope, encode_envelope
from subscriber.protocol.messages import (
    Begin,
    BeginPrepare,
    Commit,
    CommitPrepared,
    Delete,
    Insert,
    LogicalMessage,
    Message,
    Origin,
    Prepare,
    Relation,
    RollbackPrepared,
    StreamAbort,
    StreamCommit,
    StreamPrepare,
    StreamStart,
    StreamStop,
    Truncate,
    Type,
    Update,
)
from subscriber.receive.contracts import B, Journal, ReplicationStream
from subscriber.receive.feedback import Feedback
from subscriber.receive.spool import StreamedTransaction
from subscriber.settings import Settings

_XLOGDATA: Final = b"w"
_CHANGES: Final = frozenset((b"I", b"U", b"D"))
_POSTGRESQL_EPOCH: Final = 946_684_800

_LONGEST_WAIT_SECONDS: Final = 0.25
"""How long a quiet receiver may take to notice that it is to stop, or that the target has moved on."""

_IDLE_ADVANCE_SECONDS: Final = 0.5
"""How often an idle slot's position is made durable (a small synced file), when it moves at all."""

_TRANSACTIONS: Final = "t"
_PREPARED: Final = "p"
_COMMIT_PREPARED: Final = "k"
_ROLLBACK_PREPARED: Final = "r"


class WalReceiver(Generic[B]):
    """Receives from one slot until told to stop.

    Args:
        stream: a replication stream, started at the journal's end.
        journal: where transactions go.
        settings: timeouts and sizes.
        write_abort_info: whether stream aborts carry LSN and time (``streaming 'parallel'``, rule A5).
        clock: monotonic seconds.
    """

    def __init__(
        self,
        stream: ReplicationStream,
        journal: Journal[B],
        settings: Settings,
        *,
        write_abort_info: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._journal = journal
        self._settings = settings
        self._write_abort_info = write_abort_info
        self._clock = clock
        self._feedback = Feedback()
        self._main: B = journal.builder({}, in_stream=False)
        self._finished_frames = 0
        self._finished_end = INVALID_LSN
        self._finished_message = b""
        self._transaction: Begin | BeginPrepare | None = None
        self._transaction_position = 0
        self._late_prepare: int | None = None
        self._spools: dict[int, StreamedTransaction[B]] = {}
        self._block: StreamedTransaction[B] | None = None
        self._described: dict[int, int] = {}
        self._descriptions = 0
        self._unwritten_bytes = 0
        self._last_frame = b""
        self._wal_end = journal.durable_lsn
        self._last_received = clock()
        self._last_advance = 0.0
        self._pinged = False

    @property
    def received(self) -> LSN:
        """The position up to which everything published is durable or was nothing for us."""
        return self._feedback.flushed

    def run(self, stop: Callable[[], bool]) -> None:
        """Receive until ``stop()`` says so; it is asked whenever the stream is dry, and a few times a second.

        Raises:
            ProtocolError: a message is malformed or out of order; nothing of it became durable.
            PublisherUnavailable: the stream ended, or the publisher was silent for ``wal_receiver_timeout``.
            JournalUnavailable: the journal could not be written.
        """
        self._send_feedback(force=True)
        try:
            while not stop():
                if self._take():
                    self._last_received, self._pinged = self._clock(), False
                self._publish_finished()
                self._send_feedback()
                self._check_silence()
                self._stream.wait(self._patience())
        except ProtocolError as error:
            self._locate(error)
            raise

    # Frames ---------------------------------------------------------------------------------------

    def _take(self) -> bool:
        """Take what has arrived; tells whether anything had."""
        read = self._stream.read
        frame = None
        while (frame := read()) is not None:
            self._last_frame = frame
            if frame[25:26] not in _CHANGES or frame[:1] != _XLOGDATA:
                self._dispatch(frame)
            elif self._block is None:
                self._main.frames.append(frame)
            else:
                if frame[26:30] != self._block.current:
                    self._block.note_subtransaction(frame[26:30])
                self._block.builder.frames.append(frame)
            self._unwritten_bytes += len(frame)
            if self._unwritten_bytes >= self._settings.segment_bytes:
                self._relieve_memory()
        return self._clock_last_frame()

    def _locate(self, error: ProtocolError) -> None:
        """Let the report say which message it was: relation and position, beside offset and type."""
        error.lsn = error.lsn or self._wal_end
        of = f' of relation "{error.relation}"' if error.relation else ""
        error.context = f"{error.context or 'decoding'}{of}, sent at {format_lsn(error.lsn)}"
        error.hint = error.hint or (
            "The publisher sent what this version cannot read. The slot still holds it; report the message above."
        )

    def _clock_last_frame(self) -> bool:
        arrived = bool(self._last_frame)
        if self._last_frame[:1] == _XLOGDATA:
            # Rule A34: descriptions travel with 0/0, which is no progress.
            self._wal_end = LSN(max(self._wal_end, int.from_bytes(self._last_frame[1:9])))
        self._last_frame = b""
        return arrived

    def _relieve_memory(self) -> None:
        """Publish what has finished; if that was not most of it, write the largest collection of frames to disk."""
        self._publish_finished()
        if self._unwritten_bytes < self._settings.segment_bytes // 2:
            return
        builders = [self._main, *(spool.builder for spool in self._spools.values())]
        largest = max(builders, key=lambda builder: sum(map(len, builder.frames)))
        largest.spill()
        self._count_unwritten()

    def _count_unwritten(self) -> None:
        builders = [self._main, *(spool.builder for spool in self._spools.values())]
        self._unwritten_bytes = sum(sum(map(len, builder.frames)) for builder in builders)

    # Messages -------------------------------------------------------------------------------------

    def _dispatch(self, frame: bytes) -> None:
        """Everything but the changes themselves."""
        match decode_envelope(frame):
            case XLogData(payload=payload, start_lsn=lsn):
                try:
                    self._message(
                        decode(payload, in_stream=self._block is not None, write_abort_info=self._write_abort_info),
                        frame,
                    )
                except ProtocolError as error:
                    error.lsn = error.lsn or lsn
                    raise
            case Keepalive(wal_end=wal_end, reply_requested=reply_requested):
                self._wal_end = LSN(max(self._wal_end, wal_end))
                if reply_requested:
                    self._publish_finished()
                    self._send_feedback(force=True)
            case PrimaryStatusUpdate():
                pass

    def _message(self, message: Message, frame: bytes) -> None:
        match message:
            case Begin():
                self._begin(message, frame)
            case Commit():
                self._commit(message, frame)
            case BeginPrepare():
                self._publish_finished()
                self._begin(message, frame)
            case Prepare():
                self._prepare(message, frame)
            case CommitPrepared():
                self._verdict(message, frame, _COMMIT_PREPARED)
            case RollbackPrepared():
                self._verdict(message, frame, _ROLLBACK_PREPARED)
            case StreamStart():
                self._stream_start(message)
            case StreamStop():
                self._stream_stop()
            case StreamCommit():
                self._stream_commit(message)
            case StreamPrepare():
                self._stream_prepare(message)
            case StreamAbort():
                self._stream_abort(message)
            case LogicalMessage(transactional=False):
                self._logical_message(message, frame)
            case Relation() | Type() | Truncate() | LogicalMessage() | Origin():
                self._add(message, frame)
            case Insert() | Update() | Delete():
                # Only a frame too short to show its type byte gets here, and decode has refused that.
                raise ProtocolError("change outside the fast path", message_type=frame[25:26].decode("latin-1"))
            case _ as unreachable:
                assert_never(unreachable)

    def _add(self, message: Relation | Type | Truncate | LogicalMessage | Origin, frame: bytes) -> None:
        """Keep a message in its place, in the open block or the open transaction."""
        if isinstance(message, Relation):
            self._descriptions += 1
        if self._block is None:
            if isinstance(message, Relation):
                self._described[message.relation_id] = self._descriptions
            elif isinstance(message, Origin) and self._main.position != self._transaction_position + 1:
                raise ProtocolError("ORIGIN message sent out of order", message_type="O")
            self._main.frames.append(frame)
            return
        if isinstance(message, Origin):
            return  # rule A15: a streamed transaction's origin has no position; the finished entry needs none
        if message.xid is not None:
            self._block.note_subtransaction(message.xid.to_bytes(4))
        if isinstance(message, Relation):
            self._block.described[message.relation_id] = self._descriptions
        self._block.builder.frames.append(frame)

    # Plain and prepared transactions ----------------------------------------------------------------

    def _begin(self, message: Begin | BeginPrepare, frame: bytes) -> None:
        if self._transaction is not None:
            raise ProtocolError("BEGIN message inside a transaction", message_type=frame[25:26].decode())
        self._drop_late_prepare()
        self._transaction = message
        self._transaction_position = self._main.position
        self._main.frames.append(frame)

    def _commit(self, message: Commit, frame: bytes) -> None:
        begin = self._transaction
        if not isinstance(begin, Begin):
            raise ProtocolError("COMMIT message without BEGIN", message_type="C")
        if begin.final_lsn != message.commit_lsn:
            raise ProtocolError(  # rule C31
                f"incorrect commit LSN {format_lsn(message.commit_lsn)} in commit message "
                f"(expected {format_lsn(begin.final_lsn)})",
                message_type="C",
            )
        self._transaction = None
        if message.end_lsn <= self._journal.end:
            self._main.truncate(self._transaction_position)  # sent again after a crash: it is durable already
            return
        self._main.frames.append(frame)
        self._finish(LSN(message.end_lsn), frame)
        if self._main.position > len(self._main.frames):  # parts of it are on disk: it is an entry of its own
            self._publish_finished(xid=begin.xid)

    def _prepare(self, message: Prepare, frame: bytes) -> None:
        begin = self._transaction
        if not isinstance(begin, BeginPrepare):
            raise ProtocolError("PREPARE message without BEGIN PREPARE", message_type="P")
        if begin.prepare_lsn != message.prepare_lsn:
            raise ProtocolError(
                f"incorrect prepare LSN {format_lsn(message.prepare_lsn)} in prepare message "
                f"(expected {format_lsn(begin.prepare_lsn)})",
                message_type="P",
            )
        self._transaction = None
        self._main.frames.append(frame)
        if message.end_lsn <= self._journal.end and not self._journal.holds_prepared(message.xid):
            # Rule C51: prepared before two_phase began, it is sent whole right before its COMMIT PREPARED.
            self._late_prepare = message.xid
            return
        self._journal.publish(self._main, LSN(message.end_lsn), kind=_PREPARED, xid=message.xid, finish=frame[25:])
        self._count_unwritten()

    def _verdict(self, message: CommitPrepared | RollbackPrepared, frame: bytes, kind: str) -> None:
        self._publish_finished()
        if self._late_prepare == message.xid and isinstance(message, CommitPrepared):
            self._late_prepare, kind = None, _TRANSACTIONS  # changes and verdict are one entry, in the verdict's place
        self._drop_late_prepare()
        self._main.frames.append(frame)
        self._journal.publish(self._main, LSN(message.end_lsn), kind=kind, xid=message.xid, finish=frame[25:])
        self._count_unwritten()

    def _drop_late_prepare(self) -> None:
        """No verdict follows: it was sent again after a crash, and was finished and trimmed long ago."""
        if self._late_prepare is not None:
            self._late_prepare = None
            self._main.discard()

    def _logical_message(self, message: LogicalMessage, frame: bytes) -> None:
        """A message outside every transaction is an entry at its own position (rule A25)."""
        if message.lsn > self._journal.end:
            self._drop_late_prepare()
            self._main.frames.append(frame)
            self._finish(LSN(message.lsn), frame)

    def _finish(self, end: LSN, frame: bytes) -> None:
        """All that the main builder holds up to here has finished; group commit will publish it."""
        self._finished_frames = len(self._main.frames)
        self._finished_end = end
        self._finished_message = frame[25:]

    def _publish_finished(self, xid: int = 0) -> None:
        if not self._finished_frames:
            return
        rest = self._main.frames[self._finished_frames :]
        del self._main.frames[self._finished_frames :]
        self._journal.publish(
            self._main, self._finished_end, kind=_TRANSACTIONS, xid=xid, finish=self._finished_message
        )
        self._main.frames = rest
        self._finished_frames = 0
        self._transaction_position = 0
        self._count_unwritten()

    # Streamed transactions --------------------------------------------------------------------------

    def _stream_start(self, message: StreamStart) -> None:
        if self._block is not None:
            raise ProtocolError("duplicate STREAM START message", message_type="S")
        if message.xid == 0:
            raise ProtocolError("invalid transaction ID in streamed replication transaction", message_type="S")
        spool = self._spools.get(message.xid)
        if message.first_segment or spool is None:
            if spool is not None:
                spool.builder.discard()
            spool = StreamedTransaction(message.xid, self._journal.builder({}, in_stream=True))
            self._spools[message.xid] = spool
        self._block = spool

    def _stream_stop(self) -> None:
        if self._block is None:
            raise ProtocolError("STREAM STOP message without STREAM START", message_type="E")
        self._block = None

    def _stream_commit(self, message: StreamCommit) -> None:
        spool = self._finished_spool(message.xid, "COMMIT", "c")
        if spool is None:
            return
        begin = Begin(message.commit_lsn, message.commit_timestamp, message.xid)
        commit = Commit(message.commit_lsn, message.end_lsn, message.commit_timestamp)
        self._publish_spool(spool, begin, commit, LSN(message.end_lsn), _TRANSACTIONS)

    def _stream_prepare(self, message: StreamPrepare) -> None:
        spool = self._finished_spool(message.xid, "PREPARE", "p")
        if spool is None:
            return
        fields = (message.prepare_lsn, message.end_lsn, message.prepare_timestamp, message.xid, message.gid)
        self._publish_spool(spool, BeginPrepare(*fields), Prepare(*fields), LSN(message.end_lsn), _PREPARED)

    def _stream_abort(self, message: StreamAbort) -> None:
        if self._block is not None:
            raise ProtocolError("STREAM ABORT message without STREAM STOP", message_type="A")
        spool = self._spools.get(message.xid)
        if spool is None:
            return
        if message.subxid == message.xid:
            spool.builder.discard()
            del self._spools[message.xid]
        else:
            spool.abort_subtransaction(message.subxid)
        self._count_unwritten()

    def _finished_spool(self, xid: int, what: str, message_type: str) -> StreamedTransaction[B] | None:
        if self._block is not None:
            raise ProtocolError(f"STREAM {what} message without STREAM STOP", message_type=message_type)
        self._publish_finished()
        return self._spools.pop(xid, None)

    def _publish_spool(
        self, spool: StreamedTransaction[B], begin: Message, finish: Message, end: LSN, kind: str
    ) -> None:
        closing = encode(finish)
        spool.builder.prepend(_frame(begin, INVALID_LSN))
        spool.builder.frames.append(_frame(finish, end))
        self._journal.publish(spool.builder, end, kind=kind, xid=spool.xid, finish=closing)
        self._adopt_descriptions(spool)
        self._count_unwritten()

    def _adopt_descriptions(self, spool: StreamedTransaction[B]) -> None:
        """What a stream described holds for everybody once it has committed (rule A24).

        The publisher tracks what it sent last, so of two descriptions the one that *arrived* later wins, even if
        its stream committed earlier.
        """
        for relation_id, arrived in spool.described.items():
            if arrived > self._described.get(relation_id, 0) and relation_id in spool.builder.relations:
                self._described[relation_id] = arrived
                self._main.relations[relation_id] = spool.builder.relations[relation_id]

    # Feedback -----------------------------------------------------------------------------------------

    def _idle(self) -> bool:
        """Nothing that has arrived is on its way to the journal (open streams come again after a crash)."""
        # What main may still hold then is descriptions, kept from a transaction that was sent again.
        return self._transaction is None and self._late_prepare is None and not self._finished_frames

    def _send_feedback(self, *, force: bool = False) -> None:
        now = self._clock()
        interval = self._settings.wal_receiver_status_interval
        due = force or (interval > 0 and now - self._feedback.last_sent >= interval)
        if self._idle() and (due or now - self._last_advance >= _IDLE_ADVANCE_SECONDS):
            self._journal.advance(self._wal_end)
            self._last_advance = now
        durable = self._journal.durable_lsn
        applied = self._journal.applied()
        if applied >= self._journal.end:
            applied = durable  # with nothing left to apply, applied = flushed = received (rule C36)
        moved = self._feedback.move(received=self._wal_end, durable=durable, applied=applied)
        if not (due or (moved and interval > 0)):
            return
        failpoints.hit("feedback.before")
        self._stream.send(self._feedback.message(_timestamp()))
        failpoints.hit("feedback.after")
        self._feedback.last_sent = now
        if due:
            self._journal.trim()

    def _check_silence(self) -> None:
        """Rule C36: ping at half of ``wal_receiver_timeout``, give up at its end."""
        timeout = self._settings.wal_receiver_timeout
        if timeout <= 0:
            return
        silence = self._clock() - self._last_received
        if silence >= timeout:
            raise PublisherUnavailable(
                "terminating logical replication worker due to timeout",
                hint=f"The publisher was silent for {timeout:g} s (SUBSCRIBER_WAL_RECEIVER_TIMEOUT); connecting again.",
            )
        if silence >= timeout / 2 and not self._pinged:
            self._pinged = True
            self._stream.send(self._feedback.message(_timestamp(), reply_requested=True))

    def _patience(self) -> float:
        """How long nothing needs to be done if nothing arrives, in seconds."""
        interval = self._settings.wal_receiver_status_interval
        due = self._feedback.last_sent + interval - self._clock() if interval > 0 else _LONGEST_WAIT_SECONDS
        return max(0.0, min(_LONGEST_WAIT_SECONDS, due))


def _frame(message: Message, lsn: LSN) -> bytes:
    return encode_envelope(XLogData(lsn, lsn, 0, encode(message)))


def _timestamp() -> int:
    return int((time.time() - _POSTGRESQL_EPOCH) * 1_000_000)
