"""Streamed transactions before they finish (rules C42 to C44).

::

    S 731 ── R I I(733) I(733) ── E      spool 731:  R I I I          subtransactions: (733 → 2)
    S 731 ── I(734) ── E                 spool 731:  R I I I I                         (733 → 2, 734 → 4)
    A 731/733                            spool 731:  R I               733 and everything after it is gone
    c 731                                B R I … C become one entry of the journal

When a subtransaction is rolled back, the spool is truncated at its first change. All later changes
belong to the subtransaction or to its children, since its parent cannot write while it is open.

Blocks must come in the order that rule C44 demands; the error texts are PostgreSQL's, except that
for a transaction without a spool.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from subscriber.base.errors import JournalUnavailable, ProtocolError
from subscriber.base.lsn import INVALID_LSN, LSN, format_lsn
from subscriber.postgres.protocol import messages
from subscriber.postgres.protocol.encode_message import encode
from subscriber.postgres.protocol.envelope import XLOGDATA_HEADER_SIZE, XLogData, encode_envelope
from subscriber.stream.journal.builder import SegmentBuilder

IN_MEMORY: Final = 10_000
"""Number of subtransactions; they take about 1 MB."""


class SubtransactionIndex:
    """Maps a raw xid to the position of the subtransaction's first change, to truncate the spool
    there (rule C43). Positions only grow, except after a truncation.

    A transaction may have millions of subtransactions (a loop with an EXCEPTION clause). The newest
    are kept in memory, and all that began before them in a temporary SQLite database, whose file is
    deleted when it is closed, also when the process is killed.
    """

    def __init__(self, in_memory: int = IN_MEMORY) -> None:
        self._in_memory = in_memory
        self._newest: dict[bytes, int] = {}
        self._older: sqlite3.Connection | None = None

    def begin(self, xid: bytes, position: int) -> None:
        """A subtransaction has made a change at ``position``; only its first one counts."""
        if self.position(xid) is not None:
            return
        if len(self._newest) >= self._in_memory:
            self._move_to_disk()
        self._newest[xid] = position

    def position(self, xid: bytes) -> int | None:
        """The position at which a subtransaction began; None for one without changes."""
        position = self._newest.get(xid)
        if position is None and self._older is not None:
            row = self._older.execute("SELECT position FROM began WHERE xid = ?", (int.from_bytes(xid),)).fetchone()
            position = None if row is None else row[0]
        return position

    def forget_from(self, position: int) -> None:
        """Remove the subtransactions that began at ``position`` or later."""
        while self._newest:
            xid, began = self._newest.popitem()
            if began < position:
                self._newest[xid] = began
                return
        if self._older is not None:
            with _writing():
                self._older.execute("DELETE FROM began WHERE position >= ?", (position,))

    def close(self) -> None:
        self._newest.clear()
        if self._older is not None:
            self._older.close()
            self._older = None

    def _move_to_disk(self) -> None:
        with _writing():
            if self._older is None:
                self._older = sqlite3.connect("", isolation_level=None)
                self._older.execute("PRAGMA journal_mode = OFF")
                self._older.execute("CREATE TABLE began (xid INTEGER PRIMARY KEY, position INTEGER NOT NULL)")
                self._older.execute("CREATE INDEX began_position ON began (position)")
            self._older.execute("BEGIN")
            rows = ((int.from_bytes(xid), position) for xid, position in self._newest.items())
            self._older.executemany("INSERT INTO began VALUES (?, ?)", rows)
            self._older.execute("COMMIT")
        self._newest.clear()


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise JournalUnavailable(
            f"could not write the positions of subtransactions to a temporary file: {error}",
            hint="Free space in the folder for temporary files (SQLITE_TMPDIR or TMPDIR); the transaction is received again.",
        ) from error


_XID: Final = slice(XLOGDATA_HEADER_SIZE + 1, XLOGDATA_HEADER_SIZE + 5)
"""The place of the (sub)transaction's xid in the frame of a message in a block: after the type byte
(rule A3).
"""


@dataclass(slots=True)
class StreamedTransaction:
    """One transaction that arrives in blocks. ``current`` is the raw xid that made the last change.
    ``described`` has for each relation id when its message arrived, as a count of the connection's
    relation messages.
    """

    xid: int
    builder: SegmentBuilder
    current: bytes = b""
    first_changes: SubtransactionIndex = field(default_factory=SubtransactionIndex)
    described: dict[int, int] = field(default_factory=dict)

    def append(self, frame: bytes) -> None:
        xid = frame[_XID]
        if xid != self.current:
            self.current = xid
            if int.from_bytes(xid) != self.xid:
                self.first_changes.begin(xid, self.builder.position)
        self.builder.append(frame)

    def abort_subtransaction(self, subxid: int) -> None:
        """Remove the changes of ``subxid``, if it has made any, and all later ones (rule C43)."""
        position = self.first_changes.position(subxid.to_bytes(4))
        if position is None:
            return
        self.builder.truncate(position)
        self.current = b""
        self.first_changes.forget_from(position)  # later subtransactions were removed, too

    def discard(self) -> None:
        self.builder.discard()
        self.first_changes.close()


class Spools:
    """The unfinished streamed transactions of one connection, and the one of the open ``block``."""

    def __init__(self, new_builder: Callable[[], SegmentBuilder]) -> None:
        self.block: StreamedTransaction | None = None
        self.transactions: dict[int, StreamedTransaction] = {}
        self._new_builder = new_builder
        self._described: dict[int, int] = {}
        self._descriptions = 0

    def builders(self) -> Iterator[SegmentBuilder]:
        return (transaction.builder for transaction in self.transactions.values())

    # Blocks ---------------------------------------------------------------------------------------

    def start(self, message: messages.StreamStart) -> None:
        if self.block is not None:
            raise ProtocolError("duplicate STREAM START message", message_type="S")
        if message.xid == 0:
            raise ProtocolError("invalid transaction ID in streamed replication transaction", message_type="S")
        known = self.transactions.get(message.xid)
        if message.first_segment:
            if known is not None:
                known.discard()
            known = self.transactions[message.xid] = StreamedTransaction(message.xid, self._new_builder())
        elif known is None:
            # On every connection, the walsender streams each transaction from its beginning. The
            # earlier blocks are therefore lost.
            raise ProtocolError(
                f"STREAM START message continues transaction {message.xid}, which has no first segment",
                message_type="S",
            )
        self.block = known

    def stop(self) -> None:
        if self.block is None:
            raise ProtocolError("STREAM STOP message without STREAM START", message_type="E")
        self.block = None

    # Ends -----------------------------------------------------------------------------------------

    def finish(self, message: messages.StreamCommit | messages.StreamPrepare) -> tuple[StreamedTransaction, bytes]:
        """Remove and return a transaction that ends, with the Begin and the Commit or Prepare of a
        plain one. Even an empty transaction is announced by a block (rule A22), so a missing block
        is an error.
        """
        begin: messages.Message
        end: messages.Message
        if isinstance(message, messages.StreamCommit):
            name, message_type, lsn = "COMMIT", "c", message.commit_lsn
            begin = messages.Begin(lsn, message.commit_timestamp, message.xid)
            end = messages.Commit(lsn, message.end_lsn, message.commit_timestamp)
        else:
            name, message_type, lsn = "PREPARE", "p", message.prepare_lsn
            fields = (lsn, message.end_lsn, message.prepare_timestamp, message.xid, message.gid)
            begin, end = messages.BeginPrepare(*fields), messages.Prepare(*fields)
        self._check_stopped(f"STREAM {name}", message_type)
        transaction = self.transactions.pop(message.xid, None)
        if transaction is None:
            raise ProtocolError(
                f"STREAM {name} message without STREAM START: transaction {message.xid}, {name.lower()} LSN {format_lsn(lsn)}",
                message_type=message_type,
            )
        transaction.first_changes.close()
        finish = encode(end)
        transaction.builder.prepend(_frame(encode(begin), INVALID_LSN))
        transaction.builder.append(_frame(finish, LSN(message.end_lsn)))
        return transaction, finish

    def abort(self, message: messages.StreamAbort) -> None:
        """Remove a transaction, or the changes of a subtransaction. It may be unknown: the
        publisher may abort a transaction of which it has sent nothing.
        """
        self._check_stopped("STREAM ABORT", "A")
        transaction = self.transactions.get(message.xid)
        if transaction is None:
            return
        if message.subxid == message.xid:
            transaction.discard()
            del self.transactions[message.xid]
        else:
            transaction.abort_subtransaction(message.subxid)

    def _check_stopped(self, what: str, message_type: str) -> None:
        if self.block is not None:
            raise ProtocolError(f"{what} message without STREAM STOP", message_type=message_type)

    # Descriptions ---------------------------------------------------------------------------------

    def describe(self, relation_id: int) -> None:
        """A relation message has arrived, for the open block or else for all transactions."""
        self._descriptions += 1
        described = self._described if self.block is None else self.block.described
        described[relation_id] = self._descriptions

    def adopt_descriptions(
        self, transaction: StreamedTransaction, relations: Mapping[int, messages.Relation]
    ) -> Mapping[int, messages.Relation]:
        """``relations`` with the relation messages of a committed streamed transaction (rule A24).
        The publisher remembers what it sent last, so the message that *arrived* later wins.
        """
        adopted: dict[int, messages.Relation] = {}
        for relation_id, arrived in transaction.described.items():
            if arrived > self._described.get(relation_id, 0) and relation_id in transaction.builder.relations:
                self._described[relation_id] = arrived
                adopted[relation_id] = transaction.builder.relations[relation_id]
        return {**relations, **adopted} if adopted else relations


def _frame(message: bytes, lsn: LSN) -> bytes:
    return encode_envelope(XLogData(lsn, lsn, 0, message))
