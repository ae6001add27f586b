"""The walk through one batch: a state machine over the publisher's messages.

::

            B / b                 C / K
    (none) ───────▶ transaction ───────▶ (none), applied := finish LSN
                      │  ▲
                      └──┘ changes, O, T, P

A prepared transaction tells only at its end (K) when it finished. In a batch where that matters - a replay, or
a second pass that must stop early - it is *tentative*: applied inside a savepoint, and an error in it is kept
until K says whether the transaction belongs to the batch at all.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import sqlalchemy as sa

from subscriber.apply.conflict import (
    MISSING,
    ConflictTally,
    as_conflict,
    error_context,
    note_applied_before,
    transaction_context,
)
from subscriber.apply.transactions import RemoteTransaction, out_of_order
from subscriber.apply.walk import Run, steps
from subscriber.apply.writer import ChangeWriter
from subscriber.errors import JournalCorrupt, ProtocolError, SubscriberError
from subscriber.lsn import INVALID_LSN, LSN, format_lsn
from subscriber.protocol import messages
from subscriber.protocol.changes import Control, Frame
from subscriber.protocol.decode import decode
from subscriber.protocol.messages import Relation

ShouldApply = Callable[[Relation, LSN], bool]
"""Whether changes of a relation are applied in a transaction of this commit LSN (rules C4, D5)."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Scope:
    """What a batch is about.

    Attributes:
        origin: the replication origin, for messages.
        subscription: its name, for messages.
        should_apply: which relations' changes are applied.
        stored: the progress in the target; what finished at or below it is read past.
        end: nothing may finish beyond it.
        before: stop after the transaction that finished here.
        tentative: prepared transactions may turn out to be old, or to lie beyond ``before``.
        skip_lsn: the changes of the transaction with this final LSN are dropped (rule C40); 0/0 is none.
    """

    origin: str
    subscription: str
    should_apply: ShouldApply
    stored: LSN
    end: LSN
    before: LSN | None
    tentative: bool
    skip_lsn: LSN = INVALID_LSN


class Batch:
    """The state of one batch: which transaction is open, and what has been done."""

    def __init__(self, scope: Scope, connection: sa.Connection, writer: ChangeWriter) -> None:
        self.scope = scope
        self.applied = scope.stored
        self.done = False
        self.tally = ConflictTally()
        self.transactions = 0
        self.changes = 0
        self.commit_timestamp: int | None = None
        self.skip_lsn = scope.skip_lsn
        self._connection = connection
        self._writer = writer
        self._open: RemoteTransaction | None = None
        self._open_tally = ConflictTally()
        self._savepoint: sa.NestedTransaction | None = None
        self._failure: SubscriberError | None = None

    def run(self, frames: Iterable[Frame]) -> None:
        """Apply all frames; an error says where the last whole transaction before it finished."""
        try:
            for frame in frames:
                self._apply_frame(frame)
                if self.done:
                    return
            if self._open is not None:
                raise JournalCorrupt(f"a batch ends inside transaction {self._open.xid}", lsn=self._open.final_lsn)
        except SubscriberError as error:
            note_applied_before(error, self.applied)
            raise

    def _apply_frame(self, frame: Frame) -> None:
        self._writer.open_frame(frame)
        for step in steps(frame):
            if isinstance(step, Run):
                self._apply_run(frame, step)
            else:
                self._apply_control(step)
            if self.done:
                return

    def _apply_run(self, frame: Frame, run: Run) -> None:
        group = frame.groups[run.group]
        count = run.stop - run.start
        if not self._note_changes(group.action, group.relation, count):
            return
        try:
            missing = count - self._writer.write(run)
        except SubscriberError as error:
            self._fail(error, group.action, group.relation.qualified_name)
        else:
            if missing:
                self._open_tally.add(group.relation.qualified_name, MISSING[group.action], missing)

    def _note_changes(self, message_type: str, relation: Relation, count: int) -> bool:
        """Whether the changes are to be applied."""
        transaction = self._in_transaction(message_type)
        wanted = (
            not transaction.skip
            and not self._skips(transaction)
            and self.scope.should_apply(relation, transaction.final_lsn)
        )
        transaction.change(message_type, count if wanted else 0)
        return wanted and self._failure is None

    def _skips(self, transaction: RemoteTransaction) -> bool:
        """Whether the user has asked to leave this transaction out (rule C40)."""
        return self.skip_lsn != INVALID_LSN and transaction.final_lsn == self.skip_lsn

    def _in_transaction(self, message_type: str) -> RemoteTransaction:
        if self._open is None:
            raise out_of_order(message_type)
        return self._open

    def _apply_control(self, control: Control) -> None:
        tag = chr(control.message[0])
        if tag in "Mr":
            # Messages are not for us (C38); a rolled back prepared transaction was never in a frame (C50).
            return
        message = decode(control.message)
        match message:
            case messages.Begin() | messages.BeginPrepare():
                self._begin(message, tag)
            case messages.Origin():
                self._in_transaction(tag).origin()
            case messages.Truncate():
                self._truncate(control.relations, restart_identity=message.restart_identity)
            case messages.Commit():
                self._finish(self._in_transaction(tag).commit(message, self.applied), message.commit_timestamp)
            case messages.Prepare():
                self._in_transaction(tag).prepare(message)
            case messages.CommitPrepared():
                self._commit_prepared(message)
            case _:
                raise ProtocolError(f'message type "{tag}" cannot stand in a frame', message_type=tag)

    def _begin(self, message: messages.Begin | messages.BeginPrepare, tag: str) -> None:
        if self._open is not None:
            raise out_of_order(tag)
        if isinstance(message, messages.Begin):
            transaction = RemoteTransaction.begin(message, self.applied)
        else:
            transaction = RemoteTransaction.begin_prepare(message)
        if self.scope.before is not None and transaction.final_lsn >= self.scope.before:
            self.done = True
            return
        self._open = transaction
        if not transaction.skip and self._skips(transaction):
            logger.info("logical replication starts skipping transaction at LSN %s", format_lsn(transaction.final_lsn))
        if transaction.two_phase and self.scope.tentative:
            self._savepoint = self._connection.begin_nested()

    def _truncate(self, relations: tuple[Relation, ...], *, restart_identity: bool) -> None:
        wanted = [relation for relation in relations if self._note_changes("T", relation, 0)]
        if not wanted:
            return
        self._in_transaction("T").change("T", 1)
        try:
            self._writer.truncate(wanted, restart_identity=restart_identity)
        except SubscriberError as error:
            self._fail(error, "T", wanted[0].qualified_name)

    def _commit_prepared(self, message: messages.CommitPrepared) -> None:
        transaction = self._in_transaction("K")
        finish = transaction.commit_prepared(message)
        stop = self.scope.before is not None and finish > self.scope.before
        if stop or finish <= self.applied:
            self._undo()
            self._open = None
            self.done = stop
            return
        if self._failure is not None:
            raise self._failure
        if self._savepoint is not None:
            self._savepoint.commit()
            self._savepoint = None
        self._finish(finish, message.commit_timestamp)

    def _finish(self, finish: LSN, timestamp: int) -> None:
        """The open transaction is complete; ``finish`` is what feedback and progress speak of (C32)."""
        transaction = self._in_transaction("C")
        if finish > self.scope.end:
            raise JournalCorrupt(
                f"transaction {transaction.xid} finished at {format_lsn(finish)}, beyond its batch's end"
                f" {format_lsn(self.scope.end)}",
                lsn=transaction.final_lsn,
            )
        self._open = None
        if not transaction.skip:
            self.applied = finish
            self.transactions += 1
            self.changes += transaction.changes
            self.commit_timestamp = timestamp
            self.tally.merge(self._open_tally)
            self._clear_skip(transaction)
        self._open_tally = ConflictTally()
        self.done = self.scope.before is not None and finish >= self.scope.before

    def _clear_skip(self, transaction: RemoteTransaction) -> None:
        """The skip LSN is used up by its transaction, and by any other that is not empty (rule C41)."""
        if self.skip_lsn == INVALID_LSN:
            return
        if self._skips(transaction):
            logger.info("logical replication completed skipping transaction at LSN %s", format_lsn(self.skip_lsn))
        elif transaction.changes:
            logger.warning(
                'skip-LSN of subscription "%s" cleared: a transaction finished at %s, which did not match skip-LSN %s',
                self.scope.subscription,
                format_lsn(transaction.final_lsn),
                format_lsn(self.skip_lsn),
            )
        else:
            return
        self.skip_lsn = INVALID_LSN

    def _undo(self) -> None:
        """Take back the tentative transaction that turned out not to belong to this batch."""
        if self._savepoint is None and self._failure is None:
            raise out_of_order("K")
        if self._savepoint is not None:
            self._savepoint.rollback()
        self._savepoint = self._failure = None
        self._open_tally = ConflictTally()

    def _fail(self, error: SubscriberError, message_type: str, relation: str) -> None:
        """Describe an error where it happened (C37), and raise it - or keep it until K, when tentative."""
        transaction = self._in_transaction(message_type)
        if not error.transient:
            error.relation = error.relation or relation
            error.lsn = transaction.final_lsn
            place = transaction_context(transaction.xid, transaction.final_lsn)
            error.context = error_context(self.scope.origin, message_type, relation, error.column, place)
            as_conflict(error, message_type, relation)
        if self._savepoint is None or error.transient:
            raise error
        self._savepoint.rollback()
        self._savepoint, self._failure = None, error
