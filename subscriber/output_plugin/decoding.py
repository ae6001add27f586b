"""Logical decoding: from records to the callbacks of a plugin (``decode.c``, and the creation of
the context in ``logical.c``).

::

    with LogicalDecoding(plugin, slot, writer, {"include-xids": "0"}) as decoding:
        for record in records:
            decoding.process(record)

Each kind of record has a method here. It decides whether the record is of interest: by the start
position, by its origin, and for a prepared transaction by ``filter_prepare``.

Invariant: after an error nothing more is decoded. The plugin may have written a part of a
transaction, so that the next callback would continue in the middle of nothing. Whoever wants to go
on starts again from the position that was confirmed, as PostgreSQL does.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self, assert_never

from subscriber.errors import OutputPluginError, WalRecordError
from subscriber.lsn import format_lsn
from subscriber.output_plugin import wal_records as wal
from subscriber.output_plugin.callbacks import callbacks_of
from subscriber.output_plugin.context import LogicalDecodingContext, OutputWriter, PluginOption, Slot
from subscriber.output_plugin.historic_catalog import HistoricCatalog
from subscriber.output_plugin.reorder_buffer import ReorderBuffer
from subscriber.output_plugin.reorder_settings import ReorderSettings
from subscriber.output_plugin.reorder_txn import Action, ReorderBufferChange, ReorderBufferTXN
from subscriber.output_plugin.wrappers import CallbackWrappers

logger = logging.getLogger(__name__)

_Finish = wal.Commit | wal.Prepare | wal.Abort | wal.CommitPrepared | wal.RollbackPrepared


def create_slot(plugin: object, slot: Slot, writer: OutputWriter) -> LogicalDecodingContext:
    """Call a plugin as the creation of a slot does: ``startup`` with ``is_init`` and without
    options, then ``shutdown`` (rule E18; ``CreateInitDecodingContext``).

    Raises:
        OutputPluginError: a required callback is missing, or a callback has failed.
    """
    ctx, call = _context(plugin, slot, writer, (), HistoricCatalog())
    call.startup(is_init=True)
    ctx.twophase = ctx.twophase and slot.two_phase
    call.shutdown()
    return ctx


def _context(
    plugin: object, slot: Slot, writer: OutputWriter, options: tuple[PluginOption, ...], catalog: HistoricCatalog
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
    """A session of logical decoding.

    Args:
        plugin: the output plugin.
        slot: the slot. It is changed if two-phase decoding is switched on (rule E5).
        writer: the consumer of the output.
        options: the client's options for the plugin.
        start_lsn: the position to start from; 0 for the slot's. Transactions that committed before
            it are not sent. A position before the slot's is forwarded to it (rule E18).
        catalog: the catalogs at the first record.
        settings: the server's settings.
        commit_order: whether the records are in the order of the commits, as in a journal: those of
            a transaction follow each other, and each Begin may be before the records so far.

    Attributes:
        ctx: the context.
        start_lsn: the position from which transactions are sent.
        read_lsn: the end of the records so far.

    Raises:
        OutputPluginError: a required callback is missing (rule E1), or ``startup`` has failed.
    """

    def __init__(
        self,
        plugin: object,
        slot: Slot,
        writer: OutputWriter,
        options: Mapping[str, str | None] | Sequence[PluginOption] = (),
        start_lsn: int = 0,
        *,
        catalog: HistoricCatalog | None = None,
        settings: ReorderSettings | None = None,
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
        self._buffer = ReorderBuffer(ctx, self._call, settings or ReorderSettings(), self._past_start)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._failed = self._failed or kind is not None
        self.close()

    def close(self) -> None:
        """End the session: call ``shutdown`` and remove the files. After an error ``shutdown`` is
        not called, as in PostgreSQL.
        """
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
        """The transactions that have not ended, and the statistics."""
        return self._buffer

    def process(self, record: wal.WalRecord) -> None:
        """Decode one record (``LogicalDecodingProcessRecord``).

        Raises:
            WalRecordError: the record does not follow the record before, or does not fit the
                transactions in progress.
            SubscriberError: the error of a callback. Nothing more can be decoded.
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
        goes_back = self._commit_order and isinstance(record, wal.Begin)
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
            case wal.Begin():
                self._buffer.begin(record.xid, record.lsn)
            case wal.SubtransactionStart():
                self._buffer.assign_child(record.top_xid, record.xid, record.lsn)
            case wal.SubtransactionCommit():
                self._check_subtransaction(record.xid)
            case wal.SubtransactionAbort():
                self._check_subtransaction(record.xid)
                self._abort((*record.subxids, record.xid), record.end_lsn, record.timestamp)
            case wal.Insert() | wal.SpeculativeConfirm() | wal.Update() | wal.Delete() | wal.Truncate():
                self._row(record)
            case wal.LogicalMessage():
                self._message(record)
            case wal.SchemaChange(xid=0):
                self._buffer.change_catalog(record.lsn, record.change)
            case wal.SchemaChange():
                self._buffer.queue_catalog_change(self._open(record.xid), record.lsn, record.change)
            case wal.OriginChange():
                self._origin(record)
            case wal.Commit() | wal.CommitPrepared():
                self._commit(record)
            case wal.Prepare():
                self._prepare(record)
            case wal.Abort() | wal.RollbackPrepared():
                self._rollback(record)
            case _:
                assert_never(record)

    def _origin(self, record: wal.OriginChange) -> None:
        if record.name is None:
            self.ctx.origins.pop(record.number, None)
        else:
            self.ctx.origins[record.number] = record.name

    # Changes --------------------------------------------------------------------------------------

    def _open(self, xid: int) -> ReorderBufferTXN:
        """The transaction or subtransaction that makes a change.

        Raises:
            WalRecordError: it has not begun, has ended, or is prepared.
        """
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

    def _message(self, record: wal.LogicalMessage) -> None:
        txn = self._open(record.xid) if record.xid or record.transactional else None
        if self._call.filter_by_origin(record.origin_id):
            return
        if record.transactional:
            assert txn is not None
            self._buffer.set_base(txn)
            change = ReorderBufferChange(Action.MESSAGE, record.end_lsn, txn)
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

    def _top(self, record: _Finish) -> ReorderBufferTXN:
        txn = self._buffer.txn(record.xid)
        if txn.is_subtransaction:
            raise WalRecordError(
                f"transaction {record.xid} is a subtransaction of {txn.top.xid}",
                hint="Its end is a SubtransactionCommit or a SubtransactionAbort.",
            )
        prepared = self._prepared.get(record.xid)
        if isinstance(record, wal.CommitPrepared | wal.RollbackPrepared):
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

    def _commit(self, record: wal.Commit | wal.CommitPrepared) -> None:
        """``DecodeCommit``"""
        txn = self._top(record)
        two_phase = isinstance(record, wal.CommitPrepared) and not self._call.filter_prepare(record.xid, record.gid)
        self._buffer.commit_catalog(txn, record.lsn)
        if self._is_skipped(record):
            self._buffer.forget(txn)
        elif isinstance(record, wal.CommitPrepared) and two_phase:
            self._commit_prepared(record, txn)
        else:
            _note_end(txn, record)
            self._buffer.commit(txn)

    def _commit_prepared(self, record: wal.CommitPrepared, txn: ReorderBufferTXN) -> None:
        """``ReorderBufferFinishPrepared``"""
        if txn.final_lsn < self.ctx.slot.two_phase_at:
            self._buffer.replay_skipped_prepare(txn, record.gid)
        txn.gid = record.gid
        _note_end(txn, record)
        self._call.commit_prepared(txn, record.lsn)
        self._buffer.finish_prepared(txn)

    def _prepare(self, record: wal.Prepare) -> None:
        """``DecodePrepare``"""
        txn = self._top(record)
        self._prepared[record.xid] = record.gid
        if self._call.filter_prepare(record.xid, record.gid):
            return
        _note_end(txn, record)
        txn.is_prepared = True
        if self._is_skipped(record):
            txn.skipped_prepare = True
            return
        self._buffer.prepare(txn, record.gid)

    def _rollback(self, record: wal.Abort | wal.RollbackPrepared) -> None:
        """``DecodeAbort``"""
        txn = self._top(record)
        two_phase = isinstance(record, wal.RollbackPrepared) and not self._call.filter_prepare(record.xid, record.gid)
        skipped = self._is_skipped(record)
        if isinstance(record, wal.RollbackPrepared) and two_phase and not skipped:
            prepare_end_lsn, prepare_time = txn.end_lsn, txn.xact_time
            txn.gid = record.gid
            _note_end(txn, record)
            self._call.rollback_prepared(txn, prepare_end_lsn, prepare_time)
            self._buffer.finish_prepared(txn)
            return
        self._abort((*record.subxids, record.xid), record.end_lsn, record.xact_time)

    def _abort(self, xids: Sequence[int], lsn: int, abort_time: int) -> None:
        for xid in xids:
            self._buffer.abort(self._buffer.txn(xid), lsn, abort_time)


def _forwarded(start_lsn: int, slot: Slot) -> int:
    if not start_lsn:
        return slot.confirmed_flush
    if start_lsn < slot.confirmed_flush:
        logger.info(
            "%s has been already streamed, forwarding to %s", format_lsn(start_lsn), format_lsn(slot.confirmed_flush)
        )
    return max(start_lsn, slot.confirmed_flush)


def _note_end(txn: ReorderBufferTXN, record: _Finish) -> None:
    txn.final_lsn, txn.end_lsn = record.lsn, record.end_lsn
    txn.xact_time = record.xact_time
    txn.origin_id, txn.origin_lsn = record.origin_id, record.origin_lsn


def _change_of(record: wal.RowRecord, txn: ReorderBufferTXN) -> ReorderBufferChange:
    change = ReorderBufferChange(Action.INSERT, record.lsn, txn, record.origin_id)
    match record:
        case wal.Insert():
            change.action = Action.INTERNAL_SPEC_INSERT if record.speculative else Action.INSERT
            change.relation_oid, change.new_tuple = record.relation_oid, record.new
        case wal.SpeculativeConfirm():
            change.action = Action.INTERNAL_SPEC_CONFIRM if record.confirmed else Action.INTERNAL_SPEC_ABORT
            change.relation_oid = record.relation_oid
        case wal.Update():
            change.action = Action.UPDATE
            change.relation_oid, change.old_tuple, change.new_tuple = record.relation_oid, record.old, record.new
        case wal.Delete():
            change.action = Action.DELETE
            change.relation_oid, change.old_tuple = record.relation_oid, record.old
        case wal.Truncate():
            change.action = Action.TRUNCATE
            change.relation_oids = record.relation_oids
            change.cascade, change.restart_seqs = record.cascade, record.restart_seqs
    return change
