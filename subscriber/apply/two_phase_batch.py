"""The steps through one batch if the target prepares the transactions that the publisher has
prepared (option ``two_phase``; rules C49, C50).

Each prepared transaction is a separate transaction of the target::

            b                P             K, r
    (none) ───▶ transaction ───▶ (none) ─────────▶ (none), applied := the message's end

After a crash each of these steps may be executed again. It then finds that its work is already done
(:mod:`subscriber.apply.prepared`).
"""

from __future__ import annotations

from subscriber.apply.batch import Batch
from subscriber.apply.conflicts.failure import failing_at
from subscriber.apply.prepared import gid_to_commit, prepared_names, write_to_prepare
from subscriber.apply.skip import SkipLSN
from subscriber.apply.transaction_bounds import RemoteTransaction, out_of_order
from subscriber.catalog.prepared_transactions import forget_prepared, read_prepared
from subscriber.lsn import LSN
from subscriber.protocol import messages


class TwoPhaseBatch(Batch):
    """A batch whose prepared transactions the target prepares, too."""

    def _begin_prepared(self, transaction: RemoteTransaction, message: messages.BeginPrepare) -> None:
        """Begin a transaction that is to be prepared, unless it was already prepared before a
        replay (rules C49, C50a).
        """
        local = self._local
        with failing_at(self.scope.origin, "b", transaction.xid, transaction.final_lsn):
            known = write_to_prepare(local.target, local.connection, self.scope.subid, message)
        if known is None:
            transaction.skip = True
            return
        self.commit(self.applied)
        with failing_at(self.scope.origin, "b", transaction.xid, transaction.final_lsn):
            local.begin_prepared(known)
        self._continue()

    def _prepare(self, message: messages.Prepare) -> None:
        """Prepare the changes since BEGIN PREPARE, even if there are none (rule C50)."""
        super()._prepare(message)
        transaction = self._in_transaction("P")
        if not transaction.skip:
            with failing_at(self.scope.origin, "P", transaction.xid, transaction.final_lsn):
                self._local.prepare()
            self._continue()
            self.changes += transaction.changes
        self._open = None
        self.tally.finish(applied=not transaction.skip)
        if transaction.finish_lsn > self.applied:
            self._skip.use_up(transaction.final_lsn, skipped=self._skip.covers(transaction.final_lsn))
            # If its COMMIT PREPARED is in the same entry, the end of PREPARE is before the applied
            # LSN (rule C51).
            self._advance(LSN(max(self.applied, message.end_lsn)))

    def _commit_prepared(self, message: messages.CommitPrepared) -> None:
        """Commit a prepared transaction, unless that was already done before a replay."""
        if not self._is_due(message):
            return
        local, subid = self._local, self.scope.subid
        with failing_at(self.scope.origin, "K", message.xid, LSN(message.commit_lsn)):
            gid = gid_to_commit(local.target, local.connection, subid, message)
        if gid is not None:
            self._finish_prepared(gid, commit=True)
        self._commit_messages(message.xid, LSN(message.commit_lsn), message.commit_timestamp)
        forget_prepared(local.connection, subid, message.xid)
        self.transactions += 1
        self.commit_timestamp = message.commit_timestamp
        self._skip.use_up(LSN(message.end_lsn), skipped=False)
        self._advance(LSN(message.end_lsn))

    def _rollback_prepared(self, message: messages.RollbackPrepared) -> None:
        """Roll back a prepared transaction.

        A transaction that was never prepared here is ignored (rule C50). Another transaction with
        the same number may have been prepared.
        """
        if not self._is_due(message):
            return
        known = read_prepared(self._local.connection, self.scope.subid, message.xid)
        if known is not None and known.is_of(message):
            if known.gid in prepared_names(self._local.target, self._local.connection):
                self._finish_prepared(known.gid, commit=False)
            forget_prepared(self._local.connection, self.scope.subid, message.xid)
            self._skip.use_up(LSN(message.end_lsn), skipped=False)
        self._advance(LSN(message.end_lsn))

    def _finish_prepared(self, gid: str, *, commit: bool) -> None:
        self._write_notes()
        self._local.finish_prepared(gid, self.applied, commit=commit)
        self._continue()

    def _is_due(self, message: messages.CommitPrepared | messages.RollbackPrepared) -> bool:
        """Whether a COMMIT PREPARED or ROLLBACK PREPARED has not been executed yet, and belongs to
        this batch.
        """
        if self._open is not None:
            raise out_of_order(message.type_byte)
        self.done = self._is_beyond(LSN(message.end_lsn))
        return not self.done and message.end_lsn > self.applied

    def _continue(self) -> None:
        """Read the rules and open the frame again, because another transaction of the target has
        begun.
        """
        self._skip = SkipLSN(self.scope.subscription, self._local.rules.skip_lsn)
        self._local.writer.open_frame(self._frame)

    def _advance(self, finish: LSN) -> None:
        """Move the applied LSN to ``finish``; what was applied is committed later."""
        self._check_end(finish, finish)
        self.applied = finish
        self.done = self.scope.before is not None and finish >= self.scope.before
