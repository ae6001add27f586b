"""Logical decoding: from records to the callbacks of a plugin (``decode.c``, and the creation of
the context in ``logical.c``).

::

    with LogicalDecoding(plugin, slot, writer, {"include-xids": "0"}) as decoding:
        for record in records:
            decoding.process(record)

Each kind of record has a method here. It decides whether the record is of interest: by the start
position, by its origin, and for a prepared transaction by ``filter_prepare``.

Invariant: after an error nothing more is decoded. The plugin may have written a part of a
transaction. Whoever wants to go on starts again from the position that was confirmed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self, assert_never

from subscriber.base.errors import OutputPluginError, WalRecordError
from subscriber.base.lsn import format_lsn
from subscriber.postgres.logical_decoding import reorder_txn
from subscriber.postgres.logical_decoding import wal_records as wal
from subscriber.postgres.logical_decoding.callbacks import CallbackWrappers, callbacks_of
from subscriber.postgres.logical_decoding.context import (
    LogicalDecodingContext,
    OutputWriter,
    PluginOption,
    ReplicationSlot,
)
from subscriber.postgres.logical_decoding.historic_catalog import HistoricCatalog
from subscriber.postgres.logical_decoding.reorder_buffer import ReorderBuffer

logger = logging.getLogger(__name__)

_Finish = wal.CommitRecord | wal.PrepareRecord | wal.AbortRecord | wal.CommitPreparedRecord | wal.RollbackPreparedRecord


def create_slot(plugin: object, slot: ReplicationSlot, writer: OutputWriter) -> LogicalDecodingContext:
    """Call a plugin as the creation of a slot does (rule E18; ``CreateInitDecodingContext``)."""
    ctx, call = _context(plugin, slot, writer, (), HistoricCatalog())
    call.startup(is_init=True)
    ctx.twophase = ctx.twophase and slot.two_phase
    call.shutdown()
    return ctx


def _context(
    plugin: object,
    slot: ReplicationSlot,
    writer: OutputWriter,
    options: tuple[PluginOption, ...],
    catalog: HistoricCatalog,
) -> tuple[LogicalDecodingContext, CallbackWrappers]:
    callbacks = callbacks_of(plugin)
    ctx = LogicalDecodingContext(
        slot,
        callbacks,
        writer,
        options,
        streaming=callbacks.streaming,
        twophase=callbacks.twophase,
        catalog=catalog,
    )
    return ctx, CallbackWrappers(ctx)


class LogicalDecoding:
    """A session of logical decoding. OutputPluginError if a required callback is missing (rule E1),
    or ``startup`` has failed.

    ``slot`` is changed if two-phase decoding is switched on (rule E5). Transactions that committed
    before ``start_lsn`` are not sent; 0, or a position before the slot's, means the slot's (rule
    E18). ``catalog`` has the catalogs at the first record. ``commit_order``: the records are in the
    order of the commits, as in a journal, so those of a transaction follow each other, and each
    Begin may be before the records so far.
    """

    def __init__(
        self,
        plugin: object,
        slot: ReplicationSlot,
        writer: OutputWriter,
        options: Mapping[str, str | None] | Sequence[PluginOption] = (),
        start_lsn: int = 0,
        *,
        catalog: HistoricCatalog | None = None,
        settings: reorder_txn.ReorderSettings | None = None,
        commit_order: bool = False,
    ) -> None:
        self.start_lsn = _forwarded(start_lsn, slot)
        self.read_lsn = self._previous_end = 0
        self._commit_order = commit_order
        self._closed = self._failed = False
        self._prepared: dict[int, str] = {}
        pairs = tuple(options.items() if isinstance(options, Mapping) else options)
        self.ctx, self._call = _context(plugin, slot, writer, pairs, catalog or HistoricCatalog())
        self._call.startup(is_init=False)
        ctx = self.ctx
        ctx.twophase = ctx.twophase and (slot.two_phase or ctx.twophase_opt_given)
        if ctx.twophase and not slot.two_phase:
            slot.two_phase, slot.two_phase_at = True, self.start_lsn
        self._buffer = ReorderBuffer(ctx, self._call, settings or reorder_txn.ReorderSettings(), self._past_start)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._failed = self._failed or kind is not None
        self.close()

    def close(self) -> None:
        """Call ``shutdown``, but not after an error (as in PostgreSQL), and remove the files."""
        if self._closed:
            return
        self._closed = True
        try:
            if not self._failed:
                self._call.shutdown()
        finally:
            self._buffer.close()

    @property
    def reorder_buffer(self) -> ReorderBuffer:
        return self._buffer

    def process(self, record: wal.WalRecord) -> None:
        """Decode one record (``LogicalDecodingProcessRecord``).

        WalRecordError if it does not follow the record before, or does not fit the transactions in
        progress. After the error of a callback nothing more can be decoded.
        """
        if self._failed or self._closed:
            raise OutputPluginError(
                "logical decoding has ended",
                sqlstate="55000",
                hint="Start a new session from the position that was confirmed.",
            )
        try:
            self._check_order(record)
            self._decode(record)
        except BaseException:
            self._failed = True
            raise

    def _check_order(self, record: wal.WalRecord) -> None:
        goes_back = self._commit_order and isinstance(record, wal.BeginRecord)
        if not 0 < record.lsn <= record.end_lsn or (record.lsn < self._previous_end and not goes_back):
            raise WalRecordError(
                f"record at {format_lsn(record.lsn)} ending at {format_lsn(record.end_lsn)} follows a record ending at {format_lsn(self._previous_end)}",
                hint="Give the records in the order of the WAL.",
                lsn=record.lsn,
            )
        self._previous_end = record.end_lsn
        self.read_lsn = max(self.read_lsn, record.end_lsn)

    def _decode(self, record: wal.WalRecord) -> None:
        match record:
            case wal.BeginRecord():
                self._buffer.begin(record.xid, record.lsn)
            case wal.SubtransactionStartRecord():
                self._buffer.assign_child(record.top_xid, record.xid, record.lsn)
            case wal.SubtransactionCommitRecord():
                self._check_subtransaction(record.xid)
            case wal.SubtransactionAbortRecord():
                self._check_subtransaction(record.xid)
                self._abort((*record.subxids, record.xid), record.end_lsn, record.timestamp)
            case (
                wal.InsertRecord()
                | wal.SpeculativeConfirmRecord()
                | wal.UpdateRecord()
                | wal.DeleteRecord()
                | wal.TruncateRecord()
            ):
                self._row(record)
            case wal.LogicalMessageRecord():
                self._message(record)
            case wal.SchemaChangeRecord(xid=0):
                self._buffer.change_catalog(record.lsn, record.change)
            case wal.SchemaChangeRecord():
                self._buffer.queue_catalog_change(self._open(record.xid), record.lsn, record.change)
            case wal.OriginChangeRecord():
                self._origin(record)
            case wal.CommitRecord() | wal.CommitPreparedRecord():
                self._commit(record)
            case wal.PrepareRecord():
                self._prepare(record)
            case wal.AbortRecord() | wal.RollbackPreparedRecord():
                self._rollback(record)
            case _:
                assert_never(record)

    def _origin(self, record: wal.OriginChangeRecord) -> None:
        if record.name is None:
            self.ctx.origins.pop(record.number, None)
        else:
            self.ctx.origins[record.number] = record.name

    # Changes --------------------------------------------------------------------------------------

    def _open(self, xid: int) -> reorder_txn.ReorderBufferTXN:
        txn = self._buffer.txn(xid)
        if txn.top.xid in self._prepared:
            raise WalRecordError(
                f"transaction {xid} is prepared", hint="Nothing can be changed after PREPARE TRANSACTION."
            )
        return txn

    def _row(self, record: wal.RowRecord) -> None:
        txn = self._open(record.xid)
        self._buffer.set_base(txn)
        if not self._call.filter_by_origin(record.origin_id):
            self._buffer.queue(_change_of(record, txn))

    def _message(self, record: wal.LogicalMessageRecord) -> None:
        txn = self._open(record.xid) if record.xid or record.transactional else None
        if self._call.filter_by_origin(record.origin_id):
            return
        if record.transactional:
            assert txn is not None
            self._buffer.set_base(txn)
            change = reorder_txn.ReorderBufferChange(reorder_txn.Action.MESSAGE, record.end_lsn, txn)
            change.prefix, change.content = record.prefix, record.content
            self._buffer.queue(change)
        elif record.lsn >= self.start_lsn:
            self._call.message(txn, record.end_lsn, False, record.prefix, record.content, streaming=False)

    # Ends of transactions -------------------------------------------------------------------------

    def _past_start(self) -> bool:
        return self.read_lsn >= self.start_lsn

    def _is_skipped(self, record: _Finish) -> bool:
        """``DecodeTXNNeedSkip``"""
        return record.lsn < self.start_lsn or self._call.filter_by_origin(record.origin_id)

    def _check_subtransaction(self, xid: int) -> None:
        if not self._open(xid).is_subtransaction:
            raise WalRecordError(f"transaction {xid} is not a subtransaction", hint="Its end is a Commit or an Abort.")

    def _top(self, record: _Finish) -> reorder_txn.ReorderBufferTXN:
        txn = self._buffer.txn(record.xid)
        if txn.is_subtransaction:
            raise WalRecordError(
                f"transaction {record.xid} is a subtransaction of {txn.top.xid}",
                hint="Its end is a SubtransactionCommit or a SubtransactionAbort.",
            )
        prepared = self._prepared.get(record.xid)
        if isinstance(record, wal.CommitPreparedRecord | wal.RollbackPreparedRecord):
            if prepared != record.gid:
                raise WalRecordError(
                    f'prepared transaction with identifier "{record.gid}" does not exist',
                    sqlstate="42704",
                    hint="A Prepare with the same transaction and identifier must come first.",
                )
            del self._prepared[record.xid]
        elif prepared is not None:
            raise WalRecordError(
                f"transaction {record.xid} is prepared", hint="Its end is a CommitPrepared or a RollbackPrepared."
            )
        return txn

    def _commit(self, record: wal.CommitRecord | wal.CommitPreparedRecord) -> None:
        """``DecodeCommit``"""
        txn = self._top(record)
        two_phase = isinstance(record, wal.CommitPreparedRecord) and not self._call.filter_prepare(
            record.xid, record.gid
        )
        self._buffer.commit_catalog(txn, record.lsn)
        if self._is_skipped(record):
            self._buffer.forget(txn)
        elif isinstance(record, wal.CommitPreparedRecord) and two_phase:
            self._commit_prepared(record, txn)
        else:
            _set_end(txn, record)
            self._buffer.commit(txn)

    def _commit_prepared(self, record: wal.CommitPreparedRecord, txn: reorder_txn.ReorderBufferTXN) -> None:
        """``ReorderBufferFinishPrepared``"""
        if txn.final_lsn < self.ctx.slot.two_phase_at:
            self._buffer.replay_skipped_prepare(txn, record.gid)
        txn.gid = record.gid
        _set_end(txn, record)
        self._call.at_end("commit_prepared", txn, record.lsn)
        self._buffer.finish_prepared(txn)

    def _prepare(self, record: wal.PrepareRecord) -> None:
        """``DecodePrepare``"""
        txn = self._top(record)
        self._prepared[record.xid] = record.gid
        if self._call.filter_prepare(record.xid, record.gid):
            return
        _set_end(txn, record)
        txn.is_prepared = True
        if self._is_skipped(record):
            txn.skipped_prepare = True
            return
        self._buffer.prepare(txn, record.gid)

    def _rollback(self, record: wal.AbortRecord | wal.RollbackPreparedRecord) -> None:
        """``DecodeAbort``"""
        txn = self._top(record)
        two_phase = isinstance(record, wal.RollbackPreparedRecord) and not self._call.filter_prepare(
            record.xid, record.gid
        )
        skipped = self._is_skipped(record)
        if isinstance(record, wal.RollbackPreparedRecord) and two_phase and not skipped:
            prepare_end_lsn, prepare_time = txn.end_lsn, txn.xact_time
            txn.gid = record.gid
            _set_end(txn, record)
            self._call.at_end("rollback_prepared", txn, prepare_end_lsn, prepare_time)
            self._buffer.finish_prepared(txn)
            return
        self._abort((*record.subxids, record.xid), record.end_lsn, record.xact_time)

    def _abort(self, xids: Sequence[int], lsn: int, abort_time: int) -> None:
        for xid in xids:
            self._buffer.abort(self._buffer.txn(xid), lsn, abort_time)


def _forwarded(start_lsn: int, slot: ReplicationSlot) -> int:
    if not start_lsn:
        return slot.confirmed_flush
    if start_lsn < slot.confirmed_flush:
        logger.info(
            "%s has been already streamed, forwarding to %s", format_lsn(start_lsn), format_lsn(slot.confirmed_flush)
        )
    return max(start_lsn, slot.confirmed_flush)


def _set_end(txn: reorder_txn.ReorderBufferTXN, record: _Finish) -> None:
    txn.final_lsn, txn.end_lsn = record.lsn, record.end_lsn
    txn.xact_time = record.xact_time
    txn.origin_id, txn.origin_lsn = record.origin_id, record.origin_lsn


def _change_of(record: wal.RowRecord, txn: reorder_txn.ReorderBufferTXN) -> reorder_txn.ReorderBufferChange:
    change = reorder_txn.ReorderBufferChange(reorder_txn.Action.INSERT, record.lsn, txn, record.origin_id)
    match record:
        case wal.InsertRecord():
            change.action = reorder_txn.Action.INTERNAL_SPEC_INSERT if record.speculative else reorder_txn.Action.INSERT
            change.relation_oid, change.new_tuple = record.relation_oid, record.new
        case wal.SpeculativeConfirmRecord():
            change.action = (
                reorder_txn.Action.INTERNAL_SPEC_CONFIRM if record.confirmed else reorder_txn.Action.INTERNAL_SPEC_ABORT
            )
            change.relation_oid = record.relation_oid
        case wal.UpdateRecord():
            change.action = reorder_txn.Action.UPDATE
            change.relation_oid, change.old_tuple, change.new_tuple = record.relation_oid, record.old, record.new
        case wal.DeleteRecord():
            change.action = reorder_txn.Action.DELETE
            change.relation_oid, change.old_tuple = record.relation_oid, record.old
        case wal.TruncateRecord():
            change.action = reorder_txn.Action.TRUNCATE
            change.relation_oids = record.relation_oids
            change.cascade, change.restart_seqs = record.cascade, record.restart_seqs
    return change
