"""Transactions that are prepared in the target: their GIDs, and their rows in the catalog (rules
C49, C50).

The publisher's transaction 731 is prepared with the GID ``pg_gid_<subid>_731``, and has a row in
the catalog. A crash between any two steps leaves one of these states::

    row            target              means                                     the stream has b … P      K                r
    none           -                   never prepared here                       prepare it                error            nothing to do
    false          -                   not prepared yet, or rolled back by hand  prepare it                error            delete the row
    false          prepared            prepared                                  do not apply it           COMMIT PREPARED  ROLLBACK PREPARED
    true           -                   committed                                 do not apply it           delete the row   delete the row

The row is committed before the transaction is prepared. The prepared transaction itself sets
``committed`` in the row. PostgreSQL writes its replication origin into the records of PREPARE and
COMMIT PREPARED instead.
"""

from __future__ import annotations

import sqlalchemy as sa

from subscriber.apply.batch import Batch, SkipLSN
from subscriber.apply.conflicts.conflict import failing_at
from subscriber.apply.transaction_bounds import RemoteTransaction, out_of_order
from subscriber.base.errors import COPY_FROM_SCRATCH, ApplyError
from subscriber.base.lsn import LSN
from subscriber.catalog import prepared_transactions
from subscriber.postgres.protocol import messages
from subscriber.postgres.protocol.messages import BeginPrepare, CommitPrepared
from subscriber.targets import Target


def prepared_gid(subid: int, xid: int) -> str:
    """The GID with which a subscription prepares a transaction (rule C49): ``pg_gid_16394_731``."""
    return f"pg_gid_{subid}_{xid}"


def prepared_names(target: Target, connection: sa.Connection) -> frozenset[str]:
    return frozenset() if target.prepared is None else target.prepared.names(connection)


def write_to_prepare(
    target: Target, connection: sa.Connection, subid: int, message: BeginPrepare
) -> prepared_transactions.PreparedTransaction | None:
    """Write the row of a transaction to be prepared; None if it was prepared before a replay (rules
    C49, C50a). If the GID is in use, that is an ApplyError with 42710.
    """
    xid = message.xid or 0
    known = prepared_transactions.read_prepared(connection, subid, xid)
    here = prepared_names(target, connection)
    if known is not None and known.is_of(message) and (known.committed or known.gid in here):
        return None
    assert target.prepared is not None  # a row is written only if the target can prepare
    gid = target.prepared.free_gid(connection, prepared_gid(subid, xid))
    if gid in here:
        raise ApplyError(
            f'transaction identifier "{gid}" is already in use',
            sqlstate="42710",
            hint="A dropped subscription with the same number has left it: run COMMIT PREPARED or ROLLBACK PREPARED in the target.",
        )
    transaction = prepared_transactions.PreparedTransaction(
        subid, xid, gid, LSN(message.end_lsn), message.prepare_timestamp
    )
    prepared_transactions.write_prepared(connection, transaction)
    return transaction


def gid_to_commit(target: Target, connection: sa.Connection, subid: int, message: CommitPrepared) -> str | None:
    """The GID to commit; None if it was committed before a replay. 42704: it does not exist."""
    known = prepared_transactions.read_prepared(connection, subid, message.xid)
    if known is not None and known.committed:
        return None
    if known is not None and known.gid in prepared_names(target, connection):
        return known.gid
    gid = prepared_gid(subid, message.xid) if known is None else known.gid
    raise ApplyError(
        f'prepared transaction with identifier "{gid}" does not exist',
        sqlstate="42704",
        hint=f"Another session has rolled it back in the target. {COPY_FROM_SCRATCH}",
    )


def still_prepared(
    target: Target, connection: sa.Connection, subid: int
) -> list[prepared_transactions.PreparedTransaction]:
    here = prepared_names(target, connection)
    return [
        transaction for transaction in prepared_transactions.list_prepared(connection, subid) if transaction.gid in here
    ]


def forget_finished(
    target: Target, connection: sa.Connection, subid: int
) -> list[prepared_transactions.PreparedTransaction]:
    """Delete a dropped subscription's rows; those still prepared stay, and are returned."""
    left = still_prepared(target, connection, subid)
    for transaction in prepared_transactions.list_prepared(connection, subid):
        if transaction not in left:
            prepared_transactions.forget_prepared(connection, subid, transaction.xid)
    return left


# The steps through a batch ------------------------------------------------------------------------


class TwoPhaseBatch(Batch):
    """A batch whose prepared transactions the target prepares, too."""

    def _begin_prepared(self, transaction: RemoteTransaction, message: messages.BeginPrepare) -> None:
        """Begin a transaction that is not prepared yet (rules C49, C50a)."""
        local = self._local
        with failing_at(self.scope.origin, "b", transaction.xid, transaction.final_lsn, self.scope.version):
            known = write_to_prepare(local.target, local.connection, self.scope.subid, message)
        if known is None:
            transaction.skip = True
            return
        self.commit(self.applied)
        with failing_at(self.scope.origin, "b", transaction.xid, transaction.final_lsn, self.scope.version):
            local.begin_prepared(known)
        self._continue()

    def _prepare(self, message: messages.Prepare) -> None:
        """Prepare the changes since BEGIN PREPARE, even if there are none (rule C50)."""
        super()._prepare(message)
        transaction = self._in_transaction("P")
        if not transaction.skip:
            with failing_at(self.scope.origin, "P", transaction.xid, transaction.final_lsn, self.scope.version):
                self._local.prepare()
            self._continue()
            self.changes += transaction.changes
        self._open = None
        self.tally.finish(applied=not transaction.skip)
        if transaction.finish_lsn > self.applied:
            skipped = self._skip.covers(transaction.final_lsn)
            self.skipped += skipped
            self._skip.use_up(transaction.final_lsn, skipped=skipped)
            # If its COMMIT PREPARED is in the same entry, the end of PREPARE is before the applied
            # LSN (rule C51).
            self._advance(LSN(max(self.applied, message.end_lsn)))

    def _commit_prepared(self, message: messages.CommitPrepared) -> None:
        if not self._is_due(message):
            return
        local, subid = self._local, self.scope.subid
        with failing_at(self.scope.origin, "K", message.xid, LSN(message.commit_lsn), self.scope.version):
            gid = gid_to_commit(local.target, local.connection, subid, message)
        if gid is not None:
            self._finish_prepared(gid, commit=True)
        self._commit_messages(message.xid, LSN(message.commit_lsn), message.commit_timestamp)
        prepared_transactions.forget_prepared(local.connection, subid, message.xid)
        self.transactions += 1
        self.commit_timestamp = message.commit_timestamp
        self._skip.use_up(LSN(message.end_lsn), skipped=False)
        self._advance(LSN(message.end_lsn))

    def _rollback_prepared(self, message: messages.RollbackPrepared) -> None:
        """Roll back, unless it was never prepared here (rule C50): the number may be another's."""
        if not self._is_due(message):
            return
        known = prepared_transactions.read_prepared(self._local.connection, self.scope.subid, message.xid)
        if known is not None and known.is_of(message):
            if known.gid in prepared_names(self._local.target, self._local.connection):
                self._finish_prepared(known.gid, commit=False)
            prepared_transactions.forget_prepared(self._local.connection, self.scope.subid, message.xid)
            self._skip.use_up(LSN(message.end_lsn), skipped=False)
        self._advance(LSN(message.end_lsn))

    def _finish_prepared(self, gid: str, *, commit: bool) -> None:
        self._write_tally()
        self._local.finish_prepared(gid, self.applied, commit=commit)
        self._continue()

    def _is_due(self, message: messages.CommitPrepared | messages.RollbackPrepared) -> bool:
        """Whether a prepared transaction's end belongs to this batch and is not executed yet."""
        if self._open is not None:
            raise out_of_order(message.type_byte)
        self.done = self._is_beyond(LSN(message.end_lsn))
        return not self.done and message.end_lsn > self.applied

    def _continue(self) -> None:
        """After another transaction of the target has begun."""
        self._skip = SkipLSN(self.scope.subscription, self._local.rules.skip_lsn, self.scope.version)
        self._local.writer.open_frame(self._frame)

    def _advance(self, finish: LSN) -> None:
        """Move the applied LSN to ``finish``; what was applied is committed later."""
        self._check_end(finish, finish)
        self.applied = finish
        self.done = self.scope.before is not None and finish >= self.scope.before
