"""The steps through one batch: a state machine over the publisher's messages.

::

            B / b                 C / K
    (none) ───────▶ transaction ───────▶ (none), applied := end LSN
                      │  ▲
                      └──┘ changes, O, T, P

A prepared transaction is applied when it commits: it is open from ``b`` to ``K``. Where the target
itself prepares it, the steps are those of :mod:`subscriber.apply.two_phase_batch`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from subscriber.apply.batch_tally import BatchTally
from subscriber.apply.conflicts.conflict_policy import POSTGRESQL_POLICY, ConflictPolicy, stopped_by
from subscriber.apply.conflicts.failure import placed, violation, with_failure
from subscriber.apply.local import LocalTransactions
from subscriber.apply.logical_messages import keep_message
from subscriber.apply.regrouping.regroup import OrderMatters, Step, Stretch, attempting, may_regroup, regrouped
from subscriber.apply.skip import SkipLSN
from subscriber.apply.transaction_bounds import RemoteTransaction, out_of_order
from subscriber.apply.walk import Run, steps
from subscriber.apply.whole_transactions import read_whole
from subscriber.catalog.logical_messages import commit_messages
from subscriber.errors import JournalCorrupt, ProtocolError, SubscriberError
from subscriber.lsn import INVALID_LSN, LSN, format_lsn
from subscriber.protocol import messages
from subscriber.protocol.changes import ChangeGroup, Frame
from subscriber.protocol.controls import Control, Controls
from subscriber.protocol.decode import decode
from subscriber.protocol.messages import Relation

_BEGIN: Final = ord("B")


@dataclass(frozen=True, slots=True)
class Scope:
    """The subscription and the limits of a batch.

    Attributes:
        origin: the replication origin's name, for messages.
        subscription: the subscription's name, for messages.
        subid: the subscription's number.
        end: no transaction may finish after this LSN.
        before: stop after the transaction that finished at this LSN.
        listens: logical messages are stored for a listener.
        policy: decides about conflicts.
        regroups: changes may be written in another order than the publisher's
            (:mod:`subscriber.apply.regrouping.regroup`).
    """

    origin: str
    subscription: str
    subid: int
    end: LSN
    before: LSN | None
    listens: bool = False
    policy: ConflictPolicy = POSTGRESQL_POLICY
    regroups: bool = False


class Batch:
    """The state of one batch: which transaction is open, and what has been applied.

    Args:
        scope: the subscription and the limits of the batch.
        local: the target's transactions.

    Attributes:
        scope: the subscription and the limits of the batch.
        applied: the end of the last transaction that was applied.
        done: no further message of the batch is to be applied.
        tally: the conflicts and replaced values.
        transactions: how many transactions were applied.
        changes: how many changes were applied.
        commit_timestamp: when the last of the transactions was committed (microseconds since
            2000-01-01 UTC).
    """

    def __init__(self, scope: Scope, local: LocalTransactions) -> None:
        self.scope = scope
        self.applied = local.stored
        self.done = False
        self.tally = BatchTally(scope.subid, scope.subscription, show_values=local.rules.log_conflict_values)
        self.transactions = 0
        self.changes = 0
        self.commit_timestamp: int | None = None
        self._local = local
        self._skip = SkipLSN(scope.subscription, local.rules.skip_lsn)
        self._frame = Frame(())
        self._open: RemoteTransaction | None = None

    def run(self, frames: Iterable[Frame]) -> None:
        """Apply all frames.

        Raises:
            SubscriberError: a change cannot be applied. The error carries an
                :class:`~subscriber.apply.conflicts.failure.ApplyFailure` with the LSN where the
                last whole transaction before it finished, unless trying again may help.
        """
        try:
            for frame in frames:
                self._apply_frame(frame)
                if self.done:
                    return
            if self._open is not None:
                raise JournalCorrupt(f"a batch ends inside transaction {self._open.xid}", lsn=self._open.final_lsn)
        except SubscriberError as error:
            raise with_failure(error, applied_before=self.applied) from None

    def commit(self, applied: LSN) -> None:
        """Commit what was applied, with ``applied`` as the progress."""
        self._write_notes()
        self._local.commit(applied, self.commit_timestamp)

    def _apply_frame(self, frame: Frame) -> None:
        self._frame = frame
        self._local.writer.open_frame(frame)
        for step in self._steps(frame):
            if isinstance(step, Run):
                self._apply_run(frame, step)
            elif isinstance(step, Stretch):
                self._apply_stretch(step)
            else:
                self._apply_control(step)
            if self.done:
                break
        self._local.writer.flush()

    def _steps(self, frame: Frame) -> Iterator[Step]:
        """The messages of a frame, regrouped where that is allowed."""
        # The first transaction that is applied decides: the others finish after it.
        first = self._first_lsn(frame) if self.scope.regroups else None
        # The place of each replaced value must be known.
        if first is None or not may_regroup(frame) or self._local.writer.may_replace(frame):
            return steps(frame)
        self._local.writer.attempt()
        should_apply = self._local.rules.should_apply

        def free_key(group: ChangeGroup) -> tuple[str, ...] | None:
            return self._local.writer.free_key(group) if should_apply(group.relation, first) else None

        return regrouped(frame, free_key, self._local.writer.may_fold)

    def _first_lsn(self, frame: Frame) -> LSN | None:
        """The commit LSN of the first transaction with changes in the frame; None if one of the
        frame's transactions may not be applied.
        """
        if self._skip.lsn != INVALID_LSN or self.scope.before is not None:
            return None
        if self._open is not None:
            return None if self._open.skip or self._open.two_phase else self._open.final_lsn
        begins = np.flatnonzero(frame.controls.types() == _BEGIN)
        if not len(begins):
            return None
        message = decode(frame.controls[int(begins[0])].message)
        assert isinstance(message, messages.Begin)
        return None if message.final_lsn < self.applied else LSN(message.final_lsn)

    def _apply_stretch(self, stretch: Stretch) -> None:
        """Read the transactions of a stretch, and write its changes in their new order.

        Raises:
            OrderMatters: a change cannot be applied, or its row does not exist.
        """
        self._read_controls(stretch.controls, stretch.counts)
        self._read_changes(stretch.rest)
        with attempting():
            for write in stretch.writes:
                changes = write if isinstance(write, ChangeGroup) else write.of(self._frame)
                if not self._local.writer.write_together(changes):
                    raise OrderMatters

    def _read_controls(self, controls: Controls, counts: NDArray[np.int64]) -> None:
        """Read the controls of a stretch: whole transactions together, the others one by one."""
        first = 0 if self._open is None else 1
        pairs = slice(first, first + (len(controls) - first) // 2 * 2)
        self._read_one_by_one(controls[:first], counts[:first])
        whole = None
        if self._open is None:
            whole = read_whole(controls[pairs], counts[pairs], self.applied, self.scope.end)
        if whole is None:
            self._read_one_by_one(controls[first:], counts[first:])
            return
        self.applied, self.commit_timestamp = whole.end_lsn, whole.timestamp
        self.transactions += whole.size
        self.changes += whole.changes
        self._read_one_by_one(controls[pairs.stop :], counts[pairs.stop :])

    def _read_one_by_one(self, controls: Controls, counts: NDArray[np.int64]) -> None:
        for count, control in zip(counts.tolist(), controls, strict=True):
            self._read_changes(count)
            self._apply_control(control)

    def _read_changes(self, count: int) -> None:
        if count:
            self._in_transaction("I").change("I", count)

    def _apply_run(self, frame: Frame, run: Run) -> None:
        group = frame.groups[run.group]
        count = run.stop - run.start
        if not self._note_changes(group.action, group.relation, count):
            return
        try:
            conflicts = self._local.writer.write(run, self._in_transaction(group.action).place(count))
        except SubscriberError as error:
            self._fail(error, group.action, group.relation, count)
        self._local.writer.count_replaced(run, self.tally.replaced, self._in_transaction(group.action).final_lsn)
        for conflict, number in conflicts:
            self.tally.add(conflict, number)

    def _note_changes(self, message_type: str, relation: Relation, count: int) -> bool:
        """Whether the changes are to be applied."""
        transaction = self._in_transaction(message_type)
        offered = not transaction.skip and not self._skip.covers(transaction.final_lsn)
        wanted = offered and self._local.rules.should_apply(relation, transaction.final_lsn)
        transaction.change(message_type, count if wanted else 0)
        if offered and not wanted:
            try:
                self._local.writer.look_up(relation)
            except SubscriberError as error:
                self._fail(error, message_type, relation)
        return wanted

    def _in_transaction(self, message_type: str) -> RemoteTransaction:
        if self._open is None:
            raise out_of_order(message_type)
        return self._open

    def _apply_control(self, control: Control) -> None:
        tag = chr(control.message[0])
        if tag == "M" and not self.scope.listens:
            return  # without a listener, logical messages are ignored (C38)
        message = decode(control.message)
        match message:
            case messages.LogicalMessage():
                self._keep_message(message)
            case messages.Begin() | messages.BeginPrepare():
                self._begin(message, tag, control.finish_lsn)
            case messages.Origin():
                self._in_transaction(tag).origin()
            case messages.Truncate():
                self._truncate(control.relations, restart_identity=message.restart_identity)
            case messages.Commit():
                self._finish(self._in_transaction(tag).commit(message, self.applied), message.commit_timestamp)
            case messages.Prepare():
                self._prepare(message)
            case messages.CommitPrepared():
                self._commit_prepared(message)
            case messages.RollbackPrepared():
                self._rollback_prepared(message)
            case _:
                raise ProtocolError(f'message type "{tag}" is not allowed in a frame', message_type=tag)

    def _begin(self, message: messages.Begin | messages.BeginPrepare, tag: str, finish: LSN) -> None:
        if self._open is not None:
            raise out_of_order(tag)
        if isinstance(message, messages.Begin):
            transaction = RemoteTransaction.begin(message, self.applied)
            # The end of the transaction is not known yet, but it is after its commit record.
            beyond = self.scope.before is not None and transaction.final_lsn >= self.scope.before
        else:
            transaction = RemoteTransaction.begin_prepare(message, finish, self.applied)
            beyond = self._is_beyond(finish)
        if beyond:
            self.done = True
            return
        self._open = transaction
        if isinstance(message, messages.BeginPrepare) and not transaction.skip:
            self._begin_prepared(transaction, message)
        if not transaction.skip:
            self._skip.begin(transaction.final_lsn)

    def _begin_prepared(self, transaction: RemoteTransaction, message: messages.BeginPrepare) -> None:
        """Begin a prepared transaction that is not applied yet: like any other one."""

    def _prepare(self, message: messages.Prepare) -> None:
        """Read the end of a prepared transaction's changes. It stays open until it commits."""
        self._in_transaction("P").prepare(message)

    def _commit_prepared(self, message: messages.CommitPrepared) -> None:
        """Finish a prepared transaction, whose changes were applied since its BEGIN PREPARE."""
        self._finish(self._in_transaction("K").commit_prepared(message), message.commit_timestamp)

    def _rollback_prepared(self, message: messages.RollbackPrepared) -> None:
        """Ignore the message: a prepared transaction that was rolled back was never in a frame
        (rule C50).
        """

    def _is_beyond(self, finish: LSN) -> bool:
        return self.scope.before is not None and finish > self.scope.before

    def _truncate(self, relations: tuple[Relation, ...], *, restart_identity: bool) -> None:
        wanted = [relation for relation in relations if self._note_changes("T", relation, 0)]
        if not wanted:
            return
        self._in_transaction("T").change("T", 1)
        try:
            self._local.writer.truncate(wanted, restart_identity=restart_identity)
        except SubscriberError as error:
            self._fail(error, "T", wanted[0])

    def _finish(self, finish: LSN, timestamp: int) -> None:
        """Finish the open transaction; feedback and progress use the LSN ``finish`` (C32)."""
        transaction = self._in_transaction("C")
        self._check_end(finish, transaction.final_lsn)
        self._open = None
        if not transaction.skip:
            self.applied = finish
            self.transactions += 1
            self.changes += transaction.changes
            self.commit_timestamp = timestamp
            if transaction.two_phase:
                self._commit_messages(transaction.xid, finish, timestamp)
            skipped = self._skip.covers(transaction.final_lsn)
            if skipped or transaction.changes:
                self._skip.use_up(transaction.final_lsn, skipped=skipped)
        self.tally.finish(applied=not transaction.skip)
        self.done = self.scope.before is not None and finish >= self.scope.before

    def _keep_message(self, message: messages.LogicalMessage) -> None:
        transaction, local = self._open, self._local
        if transaction is None:
            if message.lsn > self.applied:
                keep_message(local.connection, self.scope.subid, message, final_lsn=LSN(message.lsn))
        elif not transaction.skip and not self._skip.covers(transaction.final_lsn):
            keep_message(
                local.connection,
                self.scope.subid,
                message,
                final_lsn=transaction.final_lsn,
                xid=transaction.xid,
                commit_timestamp=transaction.timestamp,
            )

    def _commit_messages(self, xid: int, final_lsn: LSN, timestamp: int) -> None:
        """Put the logical messages of a prepared transaction into the order of commits."""
        if self.scope.listens:
            commit_messages(
                self._local.connection, self.scope.subid, xid, final_lsn=final_lsn, commit_timestamp=timestamp
            )

    def _check_end(self, finish: LSN, place: LSN) -> None:
        if finish > self.scope.end:
            raise JournalCorrupt(
                f"a transaction finished at {format_lsn(finish)}, beyond its batch's end {format_lsn(self.scope.end)}",
                lsn=place,
            )

    def _write_notes(self) -> None:
        """Write what belongs to the target's open transaction besides the changes: the cleared skip
        LSN, conflicts, counts.
        """
        rules, connection = self._local.rules, self._local.connection
        if self._skip.lsn != rules.skip_lsn:
            rules.clear_skip(connection)
        self.tally.write(connection, show_values=rules.log_conflict_values)

    def _local_name(self, relation: Relation) -> str:
        """The target's name of a relation, for messages."""
        return self._local.rules.names.qualified(relation.namespace, relation.name)

    def _fail(self, error: SubscriberError, message_type: str, relation: Relation, count: int = 0) -> NoReturn:
        """Add to an error the place where it happened (C37), and raise it.

        Args:
            error: the error of the target or of the conversion.
            message_type: the type byte of the message that failed.
            relation: the publisher's relation.
            count: how many changes the failing run has.
        """
        transaction = self._in_transaction(message_type)
        local = self._local_name(relation)
        if not error.transient:
            error = self._local.writer.describe(error.replace(relation=error.relation or local), relation)
            conflict = violation(error, message_type, local, transaction.place(count))
            if conflict is not None:
                error = stopped_by(conflict, self.scope.policy, refused=error) or error
        origin, final_lsn = self.scope.origin, transaction.final_lsn
        raise placed(error, origin, message_type, transaction.xid, final_lsn, relation=local) from None
