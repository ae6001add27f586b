"""The reorder buffer: it collects the changes of concurrent transactions and replays each
transaction when it ends, or earlier (``reorderbuffer.c``).

::

    records ──▶ a list of changes for each (sub)transaction ──▶ Replay ──▶ callbacks
                     │ more than logical_decoding_work_mem
                     ├─▶ the largest top-level transaction is streamed, if the plugin streams
                     └─▶ else the largest (sub)transaction is written to disk

Invariants:

1. The changes in memory are below ``work_mem`` after every record (bounded_memory).
2. ``size`` is the sum of the ``size`` of all transactions, and ``total_size`` of a transaction is
   its ``size`` and that of its subtransactions.
3. A transaction exists from its first record to its end: a record of an unknown one is an error.

Transactions are kept flat: a subtransaction belongs to its top-level transaction, however deep it
is nested. The memory of tables and publications is not counted, as in PostgreSQL.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from itertools import chain

from subscriber.base.errors import WalRecordError
from subscriber.postgres.logical_decoding import reorder_txn
from subscriber.postgres.logical_decoding.callbacks import CallbackWrappers
from subscriber.postgres.logical_decoding.context import LogicalDecodingContext
from subscriber.postgres.logical_decoding.historic_catalog import CatalogChange
from subscriber.postgres.logical_decoding.replay import RelationCache, Replay, merged_changes


class ReorderBuffer:
    """The transactions that have not ended.

    Every method that takes a change or ends a transaction may call the plugin, and raises what
    :class:`~subscriber.postgres.logical_decoding.callbacks.CallbackWrappers` raises; and
    OutputPluginError (53100, 58030) if a file cannot be written. ``can_start_streaming``: the
    current record is past the start position (rule E6). ``committed`` has the catalogs after the
    last commit.
    """

    def __init__(
        self,
        ctx: LogicalDecodingContext,
        call: CallbackWrappers,
        settings: reorder_txn.ReorderSettings,
        can_start_streaming: Callable[[], bool],
    ) -> None:
        self.size = 0
        self.committed = ctx.catalog
        self.statistics = reorder_txn.ReorderStatistics()
        self._ctx = ctx
        self._call = call
        self._settings = settings
        self._immediate = settings.debug_logical_replication_streaming == "immediate"
        self._can_start_streaming = can_start_streaming
        self._txns: dict[int, reorder_txn.ReorderBufferTXN] = {}
        self._with_base: dict[int, reorder_txn.ReorderBufferTXN] = {}
        self._folder: str | None = None
        self._relation_cache = RelationCache(settings.did_abort)
        ctx.register_invalidation_callback(self._relation_cache.invalidate)

    def close(self) -> None:
        self._txns.clear()
        self._with_base.clear()
        self.size = 0
        if self._folder is not None:
            shutil.rmtree(self._folder)
            self._folder = None

    # Transactions ---------------------------------------------------------------------------------

    def find(self, xid: int) -> reorder_txn.ReorderBufferTXN | None:
        return self._txns.get(xid)

    def txn(self, xid: int) -> reorder_txn.ReorderBufferTXN:
        found = self._txns.get(xid)
        if found is None:
            raise WalRecordError(
                f"transaction {xid} is not in progress",
                hint="The records must have the transaction's begin before its changes, and its end after them.",
            )
        return found

    def begin(self, xid: int, lsn: int) -> None:
        """``ReorderBufferProcessXid``"""
        self._add(reorder_txn.ReorderBufferTXN(xid, lsn))

    def assign_child(self, xid: int, subxid: int, lsn: int) -> None:
        """``ReorderBufferAssignChild``"""
        top = self.txn(xid)
        if top.toptxn is not None:
            raise WalRecordError(
                f"transaction {xid} is a subtransaction of {top.toptxn.xid}",
                hint="Assign subtransactions of every depth to the top-level transaction.",
            )
        child = reorder_txn.ReorderBufferTXN(subxid, lsn, top)
        self._add(child)
        top.subtxns.append(child)

    def _add(self, txn: reorder_txn.ReorderBufferTXN) -> None:
        if txn.xid in self._txns or not txn.xid:
            raise WalRecordError(
                f"transaction {txn.xid} cannot begin", hint="Every transaction and subtransaction has its own number."
            )
        self._txns[txn.xid] = txn

    # Changes --------------------------------------------------------------------------------------

    def set_base(self, txn: reorder_txn.ReorderBufferTXN) -> None:
        """Note the catalogs at the first change (``ReorderBufferSetBaseSnapshot``)."""
        top = txn.top
        if top.base_catalog is None:
            top.base_catalog = self.committed
            self._with_base[top.xid] = top

    def queue_catalog_change(self, txn: reorder_txn.ReorderBufferTXN, lsn: int, change: CatalogChange) -> None:
        """``ReorderBufferAddInvalidations``"""
        self.set_base(txn)
        txn.has_catalog_changes = txn.top.has_catalog_changes = True
        txn.catalog_changes.append((lsn, change))
        txn.top.invalidations.append(change)
        self.queue(
            reorder_txn.ReorderBufferChange(reorder_txn.Action.INVALIDATION, lsn, txn, catalog_changes=(change,))
        )

    def queue(self, change: reorder_txn.ReorderBufferChange) -> None:
        txn = change.txn
        if txn.is_aborted:
            return
        if change.action in reorder_txn.STREAMABLE:
            txn.top.has_streamable_change = True
        txn.changes.append(change)
        txn.nentries += 1
        self._account(txn, reorder_txn.change_size(change))
        self._partial_change(change)
        self._check_memory_limit()

    def _partial_change(self, change: reorder_txn.ReorderBufferChange) -> None:
        """Do not stream a speculative insert that waits for its confirmation (rule E13)."""
        if not self._ctx.streaming:
            return
        top = change.txn.top
        if change.action is reorder_txn.Action.INTERNAL_SPEC_INSERT:
            top.has_partial_change = True
        elif change.action in {reorder_txn.Action.INTERNAL_SPEC_CONFIRM, reorder_txn.Action.INTERNAL_SPEC_ABORT}:
            top.has_partial_change = False
        complete = not top.has_partial_change and top.has_streamable_change
        if complete and change.txn.is_serialized and self._can_start_streaming():
            self._stream(top)

    def _account(self, txn: reorder_txn.ReorderBufferTXN, size: int) -> None:
        txn.size += size
        txn.top.total_size += size
        self.size += size

    # Memory ---------------------------------------------------------------------------------------

    def _check_memory_limit(self) -> None:
        """``ReorderBufferCheckMemoryLimit`` (rule E6)."""
        limit = self._settings.logical_decoding_work_mem
        while self.size >= limit or (self._immediate and self.size > 0):
            streamed = self._largest_streamable() if self._ctx.streaming and self._can_start_streaming() else None
            largest = streamed or max(self._txns.values(), key=lambda txn: txn.size)
            if self._forget_aborted(largest):
                continue
            if streamed is None:
                self._serialize(largest)
            else:
                self._stream(largest)

    def _largest_streamable(self) -> reorder_txn.ReorderBufferTXN | None:
        """``ReorderBufferLargestStreamableTopTXN``; of equal ones the oldest."""
        found = [
            txn
            for txn in self._with_base.values()
            if txn.total_size and txn.has_streamable_change and not txn.has_partial_change and not txn.is_aborted
        ]
        return max(found, key=lambda txn: txn.total_size, default=None)

    def _forget_aborted(self, txn: reorder_txn.ReorderBufferTXN) -> bool:
        """``ReorderBufferCheckAndTruncateAbortedTXN``: since 18, but not with ``immediate``."""
        looks = not self._immediate and self.committed.tables.server_version >= 180000
        if not looks or not self._settings.did_abort(txn.xid):
            return False
        self._truncate(txn)
        txn.is_aborted = True
        return True

    def _serialize(self, txn: reorder_txn.ReorderBufferTXN) -> None:
        for child in txn.subtxns:
            self._serialize(child)
        if txn.changes:
            if txn.spill is None:
                txn.spill = self._spill_file(txn)
                self.statistics.spill_txns += 1
            txn.spill.append(change.stored() for change in txn.changes)
            self.statistics.spill_count += 1
            self.statistics.spill_bytes += txn.size
            txn.changes = []
            self._account(txn, -txn.size)
        txn.is_serialized = True

    def _spill_file(self, txn: reorder_txn.ReorderBufferTXN) -> reorder_txn.SpillFile:
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix="subscriber-decoding-")
        return reorder_txn.SpillFile(os.path.join(self._folder, f"xid-{txn.xid}.spill"), txn.xid)

    def _truncate(self, txn: reorder_txn.ReorderBufferTXN) -> None:
        """Discard the changes, but not the transaction (``ReorderBufferTruncateTXN``)."""
        for child in txn.subtxns:
            # A subtransaction without changes is unknown to the plugin, so its abort is not sent.
            child.is_streamed = child.is_streamed or (txn.is_streamed and child.nentries > 0)
            self._truncate(child)
        self._account(txn, -txn.size)
        txn.changes, txn.nentries, txn.is_serialized = [], 0, False
        if txn.spill is not None:
            txn.spill.delete()
            txn.spill = None

    def _cleanup(self, txn: reorder_txn.ReorderBufferTXN) -> None:
        """``ReorderBufferCleanupTXN``"""
        for child in list(txn.subtxns):
            self._cleanup(child)
        self._account(txn, -txn.size)
        if txn.spill is not None:
            txn.spill.delete()
        if txn.toptxn is not None:
            txn.toptxn.subtxns.remove(txn)
        del self._txns[txn.xid]
        self._with_base.pop(txn.xid, None)
        self._ctx.catalog = self.committed

    # Replay ---------------------------------------------------------------------------------------

    def _replay(self, txn: reorder_txn.ReorderBufferTXN, *, streaming: bool) -> None:
        """``ReorderBufferProcessTXN``, and what follows it."""
        replay = Replay(self._ctx, self._call, txn, streaming=streaming, relation_cache=self._relation_cache)
        changes = merged_changes(txn, self._settings.logical_decoding_work_mem)
        replay.run(changes, 0 if streaming else txn.final_lsn)
        self._invalidate(txn.invalidations)
        if streaming:
            txn.catalog_now = replay.catalog
            txn.is_streamed = True
        if not streaming and not txn.is_prepared:
            self._cleanup(txn)
            return
        self._truncate(txn)
        self._ctx.catalog = self.committed

    def _invalidate(self, changes: Iterable[CatalogChange]) -> None:
        for change in changes:
            self._ctx.invalidate(change.invalidation)

    def _stream(self, txn: reorder_txn.ReorderBufferTXN) -> None:
        """``ReorderBufferStreamTXN``"""
        self.statistics.stream_txns += not txn.is_streamed
        self.statistics.stream_count += 1
        self.statistics.stream_bytes += txn.total_size
        self._replay(txn, streaming=True)

    def _finish(self, txn: reorder_txn.ReorderBufferTXN) -> None:
        """``ReorderBufferReplay``, also of the rest of a streamed transaction."""
        if not txn.is_streamed:
            if txn.base_catalog is not None:
                self._replay(txn, streaming=False)
            elif not txn.is_prepared:
                self._cleanup(txn)
            return
        self._stream(txn)
        if txn.is_prepared:
            self._call.at_end("stream_prepare", txn, txn.final_lsn)
            txn.sent_prepare = True
        else:
            self._call.at_end("stream_commit", txn, txn.final_lsn)
            self._cleanup(txn)

    # Ends of transactions -------------------------------------------------------------------------

    def commit_catalog(self, txn: reorder_txn.ReorderBufferTXN, lsn: int) -> None:
        """Make catalog changes visible to others, before the replay (``SnapBuildCommitTxn``)."""
        own = sorted(
            chain(txn.catalog_changes, *(child.catalog_changes for child in txn.subtxns)), key=lambda at: at[0]
        )
        self._take_effect(txn, lsn, tuple(change for _, change in own))

    def change_catalog(self, lsn: int, change: CatalogChange) -> None:
        self._ctx.invalidate(change.invalidation)
        self._take_effect(None, lsn, (change,))
        self._ctx.catalog = self.committed

    def _take_effect(
        self, txn: reorder_txn.ReorderBufferTXN | None, lsn: int, changes: tuple[CatalogChange, ...]
    ) -> None:
        if not changes:
            return
        self.committed = self.committed.apply_all(changes)
        for other in list(self._with_base.values()):
            if other.is_prepared:
                continue
            # PostgreSQL adds the snapshot to the transaction itself, too; it changes nothing there.
            seen = () if other is txn else changes
            other.invalidations.extend(seen)
            self.queue(
                reorder_txn.ReorderBufferChange(reorder_txn.Action.INTERNAL_SNAPSHOT, lsn, other, catalog_changes=seen)
            )

    def commit(self, txn: reorder_txn.ReorderBufferTXN) -> None:
        """``ReorderBufferCommit``"""
        self._finish(txn)

    def prepare(self, txn: reorder_txn.ReorderBufferTXN, gid: str) -> None:
        """As in 18, ``prepare`` is called even without a change, or after a rollback (rule E14)."""
        txn.gid = gid
        self._finish(txn)
        if not txn.sent_prepare:
            self._call.at_end("prepare", txn, txn.final_lsn)
            txn.sent_prepare = True

    def replay_skipped_prepare(self, txn: reorder_txn.ReorderBufferTXN, gid: str) -> None:
        """Replay at COMMIT PREPARED: the slot decodes at PREPARE since a later position only."""
        txn.gid = gid
        txn.is_prepared = True
        self._finish(txn)

    def finish_prepared(self, txn: reorder_txn.ReorderBufferTXN) -> None:
        self._invalidate(txn.invalidations)
        self._cleanup(txn)

    def abort(self, txn: reorder_txn.ReorderBufferTXN, lsn: int, abort_time: int) -> None:
        """``ReorderBufferAbort``"""
        txn.xact_time = abort_time
        if txn.is_streamed:
            self._call.stream_abort(txn, lsn)
            self._invalidate(txn.top.invalidations)
        txn.final_lsn = lsn
        top = txn.top
        if top is not txn and top.catalog_now is not None and top.base_catalog is not None:
            # The catalogs without what the subtransaction did to them.
            top.executed = [(maker, change) for maker, change in top.executed if maker != txn.xid]
            top.catalog_now = top.base_catalog.apply_all(change for _, change in top.executed)
        self._cleanup(txn)

    def forget(self, txn: reorder_txn.ReorderBufferTXN) -> None:
        """The transaction committed, but is not sent (``ReorderBufferForget``)."""
        self._invalidate(txn.invalidations)
        self._cleanup(txn)
