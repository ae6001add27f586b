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

from subscriber.errors import TransactionAborted, WalRecordError
from subscriber.output_plugin.context import LogicalDecodingContext
from subscriber.output_plugin.historic_catalog import HistoricCatalog, Invalidation, Relation
from subscriber.output_plugin.reorder_settings import DidAbort
from subscriber.output_plugin.reorder_txn import Action, ReorderBufferChange, ReorderBufferTXN
from subscriber.output_plugin.wrappers import CallbackWrappers

_OPENS_RELATIONS: Final = frozenset(
    {Action.INSERT, Action.UPDATE, Action.DELETE, Action.TRUNCATE, Action.INTERNAL_SPEC_CONFIRM}
)


class RelationCache:
    """The relations for which no catalog has to be read (``relcache.c``).

    Args:
        did_abort: whether a transaction was rolled back.
    """

    def __init__(self, did_abort: DidAbort) -> None:
        self._did_abort = did_abort
        self._oids: set[int] = set()

    def invalidate(self, invalidation: Invalidation) -> None:
        """Forget the relations that have changed; all, if publications or schemas have."""
        if invalidation.publications or invalidation.schemas:
            self._oids.clear()
        self._oids.difference_update(invalidation.relations)

    def open(self, change: ReorderBufferChange, *, committed: bool) -> None:
        """Read catalogs for a change, if one of its relations is not known.

        Raises:
            TransactionAborted: the change's transaction, not known to have ``committed``, was
                rolled back.
        """
        if change.action not in _OPENS_RELATIONS:
            return
        oids = {change.relation_oid, *change.relation_oids} - {0}
        if not committed and not oids <= self._oids and self._did_abort(change.txn.xid):
            raise TransactionAborted("transaction aborted during system catalog scan")
        self._oids |= oids


def changes_of(txn: ReorderBufferTXN, chunk_bytes: int) -> Iterator[ReorderBufferChange]:
    """The changes of one transaction without its subtransactions, those on disk first.

    Args:
        txn: the transaction.
        chunk_bytes: how much is read from disk at a time.

    Raises:
        OutputPluginError: the file cannot be read.
    """
    if txn.spill is not None:
        for stored in txn.spill.read(chunk_bytes):
            yield ReorderBufferChange.restored(stored, txn)
    yield from txn.changes


def merged_changes(txn: ReorderBufferTXN, work_mem: int) -> Iterator[ReorderBufferChange]:
    """The changes of a transaction and its subtransactions, in the order of the WAL (rule E12).

    Args:
        txn: the transaction.
        work_mem: how much may be read from disk at a time, for all subtransactions together.

    Raises:
        OutputPluginError: a file cannot be read.
    """
    sources = [one for one in (txn, *txn.subtxns) if one.nentries]
    chunk = max(1, work_mem // max(1, len(sources)))
    return heapq.merge(*(changes_of(one, chunk) for one in sources), key=lambda change: change.lsn)


class Replay:
    """The replay of one transaction, or of one block of it.

    Args:
        ctx: the context.
        call: the callbacks.
        txn: the transaction.
        streaming: whether a block is streamed.
        relation_cache: the relations that are known.

    Attributes:
        catalog: the catalogs at the position that the replay has reached.
    """

    def __init__(
        self,
        ctx: LogicalDecodingContext,
        call: CallbackWrappers,
        txn: ReorderBufferTXN,
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
        self._speculative: ReorderBufferChange | None = None

    def run(self, changes: Iterator[ReorderBufferChange], commit_lsn: int) -> None:
        """Call the callbacks for the whole transaction, or for one block.

        Args:
            changes: the changes.
            commit_lsn: the start of the record that commits or prepares; 0 for a block.

        Raises:
            SubscriberError: the error of a callback, or a change does not fit the catalogs.
        """
        self._ctx.catalog = self.catalog
        if not self._streaming:
            (self._call.begin_prepare if self._txn.is_prepared else self._call.begin)(self._txn)
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
            self._call.prepare(self._txn, commit_lsn)
            self._txn.sent_prepare = True
        else:
            self._call.commit(self._txn, commit_lsn)

    def _stop(self) -> None:
        if self._streaming and self._last_lsn:
            self._call.stream_stop(self._txn, self._last_lsn)

    def _one(self, change: ReorderBufferChange) -> None:
        if self._streaming and not self._last_lsn:
            self._txn.origin_id = change.origin_id
            self._call.stream_start(self._txn, change.lsn)
        self._last_lsn = change.lsn
        self._current = change.txn
        self._relation_cache.open(change, committed=not (self._streaming or self._txn.is_prepared))
        match change.action:
            case Action.INSERT | Action.UPDATE | Action.DELETE:
                self._row(change)
            case Action.INTERNAL_SPEC_INSERT:
                self._speculative = change
            case Action.INTERNAL_SPEC_CONFIRM:
                self._confirmed()
            case Action.INTERNAL_SPEC_ABORT:
                self._speculative = None
            case Action.TRUNCATE:
                self._truncate(change)
            case Action.MESSAGE:
                self._call.message(
                    self._txn, change.lsn, True, change.prefix, change.content, streaming=self._streaming
                )
            case Action.INVALIDATION | Action.INTERNAL_SNAPSHOT:
                self._catalog_changes(change)

    def _row(self, change: ReorderBufferChange) -> None:
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
        change.action = Action.INSERT
        self._row(change)

    def _truncate(self, change: ReorderBufferChange) -> None:
        found = [self.catalog.relation(oid) for oid in change.relation_oids]
        relations = tuple(relation for relation in found if relation.is_logically_logged)
        self._call.truncate(self._txn, relations, change, streaming=self._streaming)

    def _catalog_changes(self, change: ReorderBufferChange) -> None:
        maker = change.txn.xid if change.action is Action.INVALIDATION else 0
        for one in change.catalog_changes:
            self.catalog = self._ctx.catalog = self.catalog.apply(one)
            self._txn.executed.append((maker, one))
            self._ctx.invalidate(one.invalidation)


def _check_width(relation: Relation, change: ReorderBufferChange) -> None:
    width = len(relation.columns)
    for row in (change.old_tuple, change.new_tuple):
        if row is not None and len(row.values) != width:
            raise WalRecordError(
                f'a row of relation "{relation.qualified_name}" has {len(row.values)} columns, but the relation has {width}',
                hint="The change of the catalogs must precede the rows with other columns.",
                relation=relation.qualified_name,
                lsn=change.lsn,
            )
