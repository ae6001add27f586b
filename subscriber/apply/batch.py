"""The steps through one batch: a state machine over the publisher's messages.

::

            B / b                 C / K
    (none) ───────▶ transaction ───────▶ (none), applied := end LSN
                      │  ▲
                      └──┘ changes, O, T, P

A prepared transaction is applied when it commits: it is open from ``b`` to ``K``. Where the target
itself prepares it, the steps are those of :mod:`subscriber.apply.prepared`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, NoReturn

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from subscriber.apply.conflicts.conflict import (
    POSTGRESQL_POLICY,
    Conflict,
    ConflictPolicy,
    placed,
    stopped_by,
    violation,
    with_failure,
)
from subscriber.apply.conflicts.conflict_tally import ConflictTally
from subscriber.apply.frame_order import ChangeRun, steps
from subscriber.apply.message_listener import keep_message
from subscriber.apply.reorder import OrderMatters, Step, Window, may_reorder, order_may_matter, reordered
from subscriber.apply.target_transactions import TargetTransactions
from subscriber.apply.transaction_bounds import RemoteTransaction, out_of_order, read_whole
from subscriber.apply.writing.unrepresentable import ReplacedTally
from subscriber.base.errors import JournalCorrupt, ProtocolError, SubscriberError
from subscriber.base.lsn import INVALID_LSN, LSN, format_lsn
from subscriber.catalog.logical_messages import commit_messages
from subscriber.catalog.replaced_values import count_replaced_values
from subscriber.catalog.statistics import ConflictLog, count_conflicts
from subscriber.postgres.protocol import messages
from subscriber.postgres.protocol.changes import ChangeGroup, Control, Controls, Frame
from subscriber.postgres.protocol.decode_message import decode
from subscriber.postgres.protocol.messages import Relation

_BEGIN: Final = ord("B")
_OPERATIONS: Final = {"I": "insert", "U": "update", "D": "delete", "T": "truncate"}


@dataclass(frozen=True, slots=True)
class Scope:
    """The subscription and the limits of a batch.

    Attributes:
        end: no transaction may finish after this LSN.
        before: stop after the transaction that finished at this LSN.
        listens: logical messages are stored for a listener.
        reorders: changes may be written in another order (:mod:`subscriber.apply.reorder`).
    """

    origin: str
    subscription: str
    subid: int
    end: LSN
    before: LSN | None
    listens: bool = False
    policy: ConflictPolicy = POSTGRESQL_POLICY
    reorders: bool = False

    @property
    def version(self) -> int:
        """The major version of PostgreSQL whose words errors and the log have."""
        return self.policy.version


class Batch:
    """The state of one batch: which transaction is open, and what has been applied. ``applied`` is
    the end of the last transaction, ``commit_timestamp`` its time (microseconds since 2000-01-01
    UTC). ``rows``, ``replaced``, ``skipped`` and ``exact`` are those of ApplyResult.
    """

    def __init__(self, scope: Scope, local: TargetTransactions) -> None:
        self.scope = scope
        self.applied = local.stored
        self.done = False
        self.tally = BatchTally(scope.subid, scope.subscription, show_values=local.rules.options.log_conflict_values)
        self.transactions = 0
        self.changes = 0
        self.commit_timestamp: int | None = None
        self.rows: Counter[tuple[str, str, str]] = Counter()
        self.skipped = 0
        self.exact: str | None = None
        self._local = local
        self._skip = SkipLSN(scope.subscription, local.rules.skip_lsn, scope.version)
        self._frame = Frame(())
        self._open: RemoteTransaction | None = None

    @property
    def replaced(self) -> int:
        return self.tally.replaced_values

    def run(self, frames: Iterable[Frame]) -> None:
        """Apply all frames. Unless trying again may help, an error has an
        :class:`~subscriber.apply.conflicts.conflict.ApplyFailure`.
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
        self._write_tally()
        self._local.commit(applied, self.commit_timestamp)

    def _apply_frame(self, frame: Frame) -> None:
        self._frame = frame
        self._local.writer.open_frame(frame)
        for step in self._steps(frame):
            if isinstance(step, ChangeRun):
                self._apply_run(frame, step)
            elif isinstance(step, Window):
                self._apply_window(step)
            else:
                self._apply_control(step)
            if self.done:
                break
        self._local.writer.flush()

    def _steps(self, frame: Frame) -> Iterator[Step]:
        self._local.writer.read_tables({group.relation for group in frame.groups})
        # The first transaction that is applied decides: the others finish after it.
        first = self._first_lsn(frame) if self.scope.reorders else None
        # The place of each replaced value must be known.
        if first is None or not may_reorder(frame):
            self.exact = self._why_in_order(frame) or self.exact
            return steps(frame)

        def is_applied(relation: Relation) -> bool:
            return self._local.rules.should_apply(relation, first)

        if self._local.writer.may_replace(frame, is_applied):
            self.exact = "replaced_values"
            return steps(frame)
        self._local.writer.write_optimistically()

        def independent_key(group: ChangeGroup) -> tuple[str, ...] | None:
            return self._local.writer.independent_key(group) if is_applied(group.relation) else None

        return reordered(frame, independent_key, self._local.writer.may_coalesce)

    def _why_in_order(self, frame: Frame) -> str | None:
        if self._skip.lsn != INVALID_LSN:
            return "skip"
        prepared = not may_reorder(frame) or (self._open is not None and self._open.two_phase)
        return "prepared_transaction" if prepared else None

    def _first_lsn(self, frame: Frame) -> LSN | None:
        """The commit LSN of the first transaction with changes; None if one may be left out."""
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

    def _apply_window(self, window: Window) -> None:
        self._read_controls(window.controls, window.counts)
        self._read_changes(window.rest)
        with order_may_matter():
            for write in window.writes:
                changes = write if isinstance(write, ChangeGroup) else write.of(self._frame)
                if not self._local.writer.write_together(changes):
                    raise OrderMatters
                self._count_rows(changes.relation, changes.action, len(changes))

    def _read_controls(self, controls: Controls, counts: NDArray[np.int64]) -> None:
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

    def _apply_run(self, frame: Frame, run: ChangeRun) -> None:
        group = frame.groups[run.group]
        count = run.stop - run.start
        if not self._is_wanted(group.action, group.relation, count):
            return
        try:
            conflicts = self._local.writer.write(run, self._in_transaction(group.action).place(count))
        except SubscriberError as error:
            self._fail(error, group.action, group.relation, count)
        self._count_rows(group.relation, group.action, count)
        self._local.writer.count_replaced(run, self.tally.replaced, self._in_transaction(group.action).final_lsn)
        for conflict, number in conflicts:
            self.tally.add(conflict, number)

    def _is_wanted(self, message_type: str, relation: Relation, count: int) -> bool:
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
        """Like any other transaction."""

    def _prepare(self, message: messages.Prepare) -> None:
        """Read the end of a prepared transaction's changes. It stays open until it commits."""
        self._in_transaction("P").prepare(message)

    def _commit_prepared(self, message: messages.CommitPrepared) -> None:
        self._finish(self._in_transaction("K").commit_prepared(message), message.commit_timestamp)

    def _rollback_prepared(self, message: messages.RollbackPrepared) -> None:
        """Ignore it: a prepared transaction that is rolled back is never in a frame (rule C50)."""

    def _is_beyond(self, finish: LSN) -> bool:
        return self.scope.before is not None and finish > self.scope.before

    def _truncate(self, relations: tuple[Relation, ...], *, restart_identity: bool) -> None:
        wanted = [relation for relation in relations if self._is_wanted("T", relation, 0)]
        if not wanted:
            return
        self._in_transaction("T").change("T", 1)
        try:
            self._local.writer.truncate(wanted, restart_identity=restart_identity)
        except SubscriberError as error:
            self._fail(error, "T", wanted[0])
        for relation in wanted:
            self._count_rows(relation, "T", 1)

    def _count_rows(self, relation: Relation, action: str, number: int) -> None:
        self.rows[relation.namespace, relation.name, _OPERATIONS[action]] += number

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
            self.skipped += skipped
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

    def _write_tally(self) -> None:
        """Write what belongs to the target's open transaction besides the changes."""
        rules, connection = self._local.rules, self._local.connection
        if self._skip.lsn != rules.skip_lsn:
            rules.clear_skip(connection)
        self.tally.write(
            connection,
            show_values=rules.options.log_conflict_values,
            stores_conflicts=rules.options.conflict_log_destination != "log",
        )

    def _fail(self, error: SubscriberError, message_type: str, relation: Relation, count: int = 0) -> NoReturn:
        """Raise an error with the place where it happened (C37), in a run of ``count`` changes."""
        transaction = self._in_transaction(message_type)
        local = self._local.rules.options.map.qualified(relation.namespace, relation.name)
        if not error.transient:
            error = self._local.writer.describe(error.replace(relation=error.relation or local), relation)
            conflict = violation(error, message_type, local, transaction.place(count))
            if conflict is not None:
                error = stopped_by(conflict, self.scope.policy, refused=error) or error
        scope, final_lsn = self.scope, transaction.final_lsn
        raise placed(
            error, scope.origin, message_type, transaction.xid, final_lsn, relation=local, version=scope.version
        ) from None


# SKIP ---------------------------------------------------------------------------------------------

logger = logging.getLogger(__name__)


class SkipLSN:
    """The LSN of ``ALTER SUBSCRIPTION … SKIP (lsn = …)`` during one batch; 0/0 is none."""

    def __init__(self, subscription: str, lsn: LSN, version: int = 18) -> None:
        self.lsn = lsn
        self._subscription = subscription
        self._text = partial(format_lsn, version=version)

    def covers(self, final_lsn: LSN) -> bool:
        return self.lsn != INVALID_LSN and final_lsn == self.lsn

    def begin(self, final_lsn: LSN) -> None:
        if self.covers(final_lsn):
            logger.info("logical replication starts skipping transaction at LSN %(lsn)s", self._fields(final_lsn))

    def use_up(self, final_lsn: LSN, *, skipped: bool) -> None:
        """Clear the skip LSN: its transaction does, and any other that is not empty (rule C41)."""
        if self.lsn == INVALID_LSN:
            return
        if skipped:
            logger.info("logical replication completed skipping transaction at LSN %(lsn)s", self._fields(self.lsn))
        else:
            logger.warning(
                'skip-LSN of subscription "%(subscription)s" cleared: a transaction finished at %(lsn)s, which did not match'
                " skip-LSN %(skip_lsn)s",
                {**self._fields(final_lsn), "skip_lsn": self._text(self.lsn)},
            )
        self.lsn = INVALID_LSN

    def _fields(self, lsn: LSN) -> dict[str, str]:
        return {"subscription": self._subscription, "lsn": self._text(lsn)}


# What a batch counts ------------------------------------------------------------------------------


class BatchTally:
    """The conflicts of all applied transactions, and the replaced values to be written."""

    def __init__(self, subid: int, subscription: str, *, show_values: bool) -> None:
        self.conflicts = ConflictTally()
        self.replaced = ReplacedTally(show_values=show_values)
        self.replaced_values = 0
        self._subid = subid
        self._subscription = subscription
        self._open = ConflictTally()
        self._unwritten = ConflictTally()

    def add(self, conflict: Conflict, number: int) -> None:
        self._open.add(conflict, number)

    def finish(self, *, applied: bool) -> None:
        """End the open transaction; its conflicts count if it was applied."""
        if not self._open.counts:
            return
        if applied:
            self.conflicts.merge(self._open)
            self._unwritten.merge(self._open)
        self._open = ConflictTally()

    def write(self, connection: sa.Connection, *, show_values: bool, stores_conflicts: bool) -> None:
        count_conflicts(connection, self._subid, self._subscription, self._unwritten.by_kind())
        if stores_conflicts:
            ConflictLog(connection, self._subid, self._subscription).write(self._unwritten.records())
        self._unwritten = ConflictTally()
        count_replaced_values(connection, self._subid, self.replaced.columns)
        self.replaced_values += sum(one.count for one in self.replaced.columns.values())
        self.replaced = ReplacedTally(show_values=show_values)
