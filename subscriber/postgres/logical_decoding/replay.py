"""The replay of one transaction: its changes in the order of the WAL, with the catalogs of each
position (``ReorderBufferProcessTXN``).

::

    txn        10 ──────── 30 ── 40 ─────────── 70
    subtxn 1        20 ─────────────── 50              heapq.merge by LSN: 10 20 30 40 50 60 70
    subtxn 2                               60

A transaction that is streamed, or decoded at PREPARE, may turn out to be rolled back. PostgreSQL
finds out when it reads catalogs for a change, so at the first change of a relation since the
relation was last changed itself. Then the replay ends quietly: a streamed block gets its
stream_stop, and the abort is decoded later (rule E14).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Final

from subscriber.base.errors import TransactionAborted, WalRecordError
from subscriber.postgres.logical_decoding import reorder_txn
from subscriber.postgres.logical_decoding.callbacks import CallbackWrappers
from subscriber.postgres.logical_decoding.context import LogicalDecodingContext
from subscriber.postgres.logical_decoding.historic_catalog import HistoricCatalog, Invalidation, RelationData

_OPENS_RELATIONS: Final = frozenset(
    {
        reorder_txn.Action.INSERT,
        reorder_txn.Action.UPDATE,
        reorder_txn.Action.DELETE,
        reorder_txn.Action.TRUNCATE,
        reorder_txn.Action.INTERNAL_SPEC_CONFIRM,
    }
)


class RelationCache:
    """The relations for which no catalog has to be read (``relcache.c``)."""

    def __init__(self, did_abort: reorder_txn.DidAbort) -> None:
        self._did_abort = did_abort
        self._oids: set[int] = set()

    def invalidate(self, invalidation: Invalidation) -> None:
        if invalidation.publications or invalidation.schemas:
            self._oids.clear()
        self._oids.difference_update(invalidation.relations)

    def open(self, change: reorder_txn.ReorderBufferChange, *, committed: bool) -> None:
        if change.action not in _OPENS_RELATIONS:
            return
        oids = {change.relation_oid, *change.relation_oids} - {0}
        if not committed and not oids <= self._oids and self._did_abort(change.txn.xid):
            raise TransactionAborted("transaction aborted during system catalog scan")
        self._oids |= oids


def changes_of(txn: reorder_txn.ReorderBufferTXN, chunk_bytes: int) -> Iterator[reorder_txn.ReorderBufferChange]:
    if txn.spill is not None:
        for stored in txn.spill.read(chunk_bytes):
            yield reorder_txn.ReorderBufferChange.restored(stored, txn)
    yield from txn.changes


def merged_changes(txn: reorder_txn.ReorderBufferTXN, work_mem: int) -> Iterator[reorder_txn.ReorderBufferChange]:
    """In the order of the WAL (rule E12)."""
    sources = [one for one in (txn, *txn.subtxns) if one.nentries]
    chunk = max(1, work_mem // max(1, len(sources)))
    return heapq.merge(*(changes_of(one, chunk) for one in sources), key=lambda change: change.lsn)


class Replay:
    def __init__(
        self,
        ctx: LogicalDecodingContext,
        call: CallbackWrappers,
        txn: reorder_txn.ReorderBufferTXN,
        *,
        streaming: bool,
        relation_cache: RelationCache,
    ) -> None:
        start = txn.base_catalog if txn.catalog_now is None else txn.catalog_now
        assert start is not None
        self.catalog: HistoricCatalog = start
        self._ctx = ctx
        self._call = call
        self._txn = txn
        self._streaming = streaming
        self._relation_cache = relation_cache
        self._last_lsn = 0
        self._current = txn
        self._speculative: reorder_txn.ReorderBufferChange | None = None

    def run(self, changes: Iterator[reorder_txn.ReorderBufferChange], commit_lsn: int) -> None:
        self._ctx.catalog = self.catalog
        if not self._streaming:
            self._call.begin(self._txn)
        try:
            for change in changes:
                self._one(change)
        except TransactionAborted:
            if not (self._streaming or self._txn.is_prepared):
                raise
            self._current.is_aborted = True
            self._stop()
            return
        if self._streaming:
            self._stop()
        elif self._txn.is_prepared:
            self._call.at_end("prepare", self._txn, commit_lsn)
            self._txn.sent_prepare = True
        else:
            self._call.at_end("commit", self._txn, commit_lsn)

    def _stop(self) -> None:
        if self._streaming and self._last_lsn:
            self._call.stream_stop(self._txn, self._last_lsn)

    def _one(self, change: reorder_txn.ReorderBufferChange) -> None:
        if self._streaming and not self._last_lsn:
            self._txn.origin_id = change.origin_id
            self._call.stream_start(self._txn, change.lsn)
        self._last_lsn = change.lsn
        self._current = change.txn
        self._relation_cache.open(change, committed=not (self._streaming or self._txn.is_prepared))
        match change.action:
            case reorder_txn.Action.INSERT | reorder_txn.Action.UPDATE | reorder_txn.Action.DELETE:
                self._row(change)
            case reorder_txn.Action.INTERNAL_SPEC_INSERT:
                self._speculative = change
            case reorder_txn.Action.INTERNAL_SPEC_CONFIRM:
                self._confirmed()
            case reorder_txn.Action.INTERNAL_SPEC_ABORT:
                self._speculative = None
            case reorder_txn.Action.TRUNCATE:
                self._truncate(change)
            case reorder_txn.Action.MESSAGE:
                self._call.message(
                    self._txn, change.lsn, True, change.prefix, change.content, streaming=self._streaming
                )
            case reorder_txn.Action.INVALIDATION | reorder_txn.Action.INTERNAL_SNAPSHOT:
                self._catalog_changes(change)

    def _row(self, change: reorder_txn.ReorderBufferChange) -> None:
        self._speculative = None
        relation = self.catalog.relation(change.relation_oid)
        if not relation.is_logically_logged or (relation.relrewrite and not self._ctx.options.receive_rewrites):
            return
        _check_width(relation, change)
        self._call.change(self._txn, relation, change, streaming=self._streaming)

    def _confirmed(self) -> None:
        if self._speculative is None:
            raise WalRecordError(
                "invalid ordering of speculative insertion changes",
                hint="A confirmation must follow the speculative insert of the same subtransaction.",
            )
        change, self._speculative = self._speculative, None
        change.action = reorder_txn.Action.INSERT
        self._row(change)

    def _truncate(self, change: reorder_txn.ReorderBufferChange) -> None:
        found = [self.catalog.relation(oid) for oid in change.relation_oids]
        relations = tuple(relation for relation in found if relation.is_logically_logged)
        self._call.truncate(self._txn, relations, change, streaming=self._streaming)

    def _catalog_changes(self, change: reorder_txn.ReorderBufferChange) -> None:
        maker = change.txn.xid if change.action is reorder_txn.Action.INVALIDATION else 0
        for one in change.catalog_changes:
            self.catalog = self._ctx.catalog = self.catalog.apply(one)
            self._txn.executed.append((maker, one))
            self._ctx.invalidate(one.invalidation)


def _check_width(relation: RelationData, change: reorder_txn.ReorderBufferChange) -> None:
    width = len(relation.columns)
    for row in (change.old_tuple, change.new_tuple):
        if row is not None and len(row.values) != width:
            raise WalRecordError(
                f'a row of relation "{relation.qualified_name}" has {len(row.values)} columns, but the relation has {width}',
                hint="The change of the catalogs must precede the rows with other columns.",
                relation=relation.qualified_name,
                lsn=change.lsn,
            )
