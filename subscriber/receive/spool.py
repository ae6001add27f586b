"""Streamed transactions before they finish (rules C42 to C44).

::

    S 731 ── R I I(733) I(733) ── E      spool 731:  R I I I          subtransactions: (733 → 2)
    S 731 ── I(734) ── E                 spool 731:  R I I I I                         (733 → 2, 734 → 4)
    A 731/733                            spool 731:  R I               733 and everything after it is gone
    c 731                                B R I … C become one entry of the journal

When a subtransaction is rolled back, the spool is truncated at its first change, and all later
changes are removed as well. They belong to the subtransaction or to its children, since its parent
cannot write while it is open. Nothing is applied, and no relation map changes, before the
transaction commits.

Blocks must come in the order that rule C44 demands; the error texts are PostgreSQL's. A transaction
that continues or finishes must have a spool. PostgreSQL fails in that case, too, since its spool
file is missing; the error text for that case is specific to this program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic

from subscriber.errors import ProtocolError
from subscriber.lsn import INVALID_LSN, LSN, format_lsn
from subscriber.protocol.encode import encode
from subscriber.protocol.envelope import XLOGDATA_HEADER_SIZE, XLogData, encode_envelope
from subscriber.protocol.messages import (
    Begin,
    BeginPrepare,
    Commit,
    Message,
    Prepare,
    Relation,
    StreamAbort,
    StreamCommit,
    StreamPrepare,
    StreamStart,
)
from subscriber.receive.contracts import B
from subscriber.receive.subtransactions import SubtransactionIndex

_XID: Final = slice(XLOGDATA_HEADER_SIZE + 1, XLOGDATA_HEADER_SIZE + 5)
"""The place of the (sub)transaction's xid in the frame of a message in a block: after the type byte
(rule A3).
"""


@dataclass(slots=True)
class StreamedTransaction(Generic[B]):
    """One transaction that arrives in blocks.

    Attributes:
        xid: the top-level transaction.
        builder: its changes so far.
        current: raw xid of the (sub)transaction that made the last change.
        first_changes: the position of each subtransaction's first change.
        described: for each relation id, when its relation message arrived, as a number that counts
            the relation messages of the connection.
    """

    xid: int
    builder: B
    current: bytes = b""
    first_changes: SubtransactionIndex = field(default_factory=SubtransactionIndex)
    described: dict[int, int] = field(default_factory=dict)

    def append(self, frame: bytes) -> None:
        """Add a message of the block. The position of a new subtransaction's first change is
        recorded.

        Raises:
            JournalUnavailable: there is no space for a temporary file.
        """
        xid = frame[_XID]
        if xid != self.current:
            self.current = xid
            if int.from_bytes(xid) != self.xid:
                self.first_changes.begin(xid, self.builder.position)
        self.builder.append(frame)

    def abort_subtransaction(self, subxid: int) -> None:
        """Remove the changes of ``subxid`` and all later ones; an unknown subtransaction has made
        none (rule C43).

        Raises:
            JournalUnavailable: there is no space for a temporary file.
        """
        position = self.first_changes.position(subxid.to_bytes(4))
        if position is None:
            return
        self.builder.truncate(position)
        self.current = b""
        self.first_changes.forget_from(position)  # later subtransactions were removed, too

    def discard(self) -> None:
        """Remove the whole transaction."""
        self.builder.discard()
        self.first_changes.close()


class Spools(Generic[B]):
    """The unfinished streamed transactions of one connection.

    Args:
        new_builder: creates the builder of a new transaction.

    Attributes:
        block: the transaction of the open block, between Stream Start and Stream Stop; else None.
        transactions: all unfinished streamed transactions, by xid.
    """

    def __init__(self, new_builder: Callable[[], B]) -> None:
        self.block: StreamedTransaction[B] | None = None
        self.transactions: dict[int, StreamedTransaction[B]] = {}
        self._new_builder = new_builder
        self._described: dict[int, int] = {}
        self._descriptions = 0

    def builders(self) -> Iterator[B]:
        """The builders of all unfinished streamed transactions."""
        return (transaction.builder for transaction in self.transactions.values())

    # Blocks ---------------------------------------------------------------------------------------

    def start(self, message: StreamStart) -> None:
        """Open a block.

        Raises:
            ProtocolError: a block is open, or the block continues a transaction whose first block
                never came.
        """
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
        """Close the block.

        Raises:
            ProtocolError: no block is open.
        """
        if self.block is None:
            raise ProtocolError("STREAM STOP message without STREAM START", message_type="E")
        self.block = None

    # Ends -----------------------------------------------------------------------------------------

    def finish(self, message: StreamCommit | StreamPrepare) -> tuple[StreamedTransaction[B], bytes]:
        """Remove and return a transaction that commits or is prepared, with the Begin and the end
        of a plain one.

        Returns:
            The transaction, and the Commit or Prepare message that ends it.

        Raises:
            ProtocolError: a block is open, or no block of the transaction was sent. Even an empty
                transaction is announced by a block (rule A22), so that its changes would be lost
                unnoticed.
        """
        begin: Message
        end: Message
        if isinstance(message, StreamCommit):
            name, message_type, lsn = "COMMIT", "c", message.commit_lsn
            begin = Begin(lsn, message.commit_timestamp, message.xid)
            end = Commit(lsn, message.end_lsn, message.commit_timestamp)
        else:
            name, message_type, lsn = "PREPARE", "p", message.prepare_lsn
            fields = (lsn, message.end_lsn, message.prepare_timestamp, message.xid, message.gid)
            begin, end = BeginPrepare(*fields), Prepare(*fields)
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

    def abort(self, message: StreamAbort) -> None:
        """Remove a transaction, or the changes of one of its subtransactions.

        An unknown transaction is no error: the publisher may abort a transaction of which it has
        sent nothing, and then nothing can be lost.

        Raises:
            ProtocolError: a block is open.
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
        """A relation message has arrived. It holds for the transaction of the open block, or for
        all transactions when no block is open.
        """
        self._descriptions += 1
        described = self._described if self.block is None else self.block.described
        described[relation_id] = self._descriptions

    def adopt_descriptions(
        self, transaction: StreamedTransaction[B], relations: Mapping[int, Relation]
    ) -> Mapping[int, Relation]:
        """The relation map ``relations`` with the relation messages of a streamed transaction that
        has committed (rule A24).

        The publisher remembers what it sent last. Of two relation messages, the one that *arrived*
        later therefore wins, even if its transaction committed earlier.
        """
        adopted: dict[int, Relation] = {}
        for relation_id, arrived in transaction.described.items():
            if arrived > self._described.get(relation_id, 0) and relation_id in transaction.builder.relations:
                self._described[relation_id] = arrived
                adopted[relation_id] = transaction.builder.relations[relation_id]
        return {**relations, **adopted} if adopted else relations


def _frame(message: bytes, lsn: LSN) -> bytes:
    return encode_envelope(XLogData(lsn, lsn, 0, message))
