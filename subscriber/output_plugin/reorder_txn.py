"""Transactions and changes, as the reorder buffer keeps them and a plugin receives them
(``reorderbuffer.h``).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

from subscriber.output_plugin.heap_tuples import HeapTuple
from subscriber.output_plugin.historic_catalog import CatalogChange, HistoricCatalog
from subscriber.output_plugin.spill_file import SpillFile


class Action(enum.IntEnum):
    """``ReorderBufferChangeType``. A plugin receives the first five only."""

    INSERT = 0
    UPDATE = 1
    DELETE = 2
    MESSAGE = 3
    TRUNCATE = 4
    INVALIDATION = 5
    INTERNAL_SNAPSHOT = 6
    INTERNAL_SPEC_INSERT = 7
    INTERNAL_SPEC_CONFIRM = 8
    INTERNAL_SPEC_ABORT = 9


STREAMABLE = frozenset(
    {Action.INSERT, Action.UPDATE, Action.DELETE, Action.MESSAGE, Action.TRUNCATE, Action.INTERNAL_SPEC_INSERT}
)
"""The changes for which a transaction may be streamed."""


@dataclass(slots=True, eq=False)
class ReorderBufferTXN:
    """A transaction or subtransaction.

    What a plugin may use (and the only attribute that it may set is ``output_plugin_private``):

    Attributes:
        xid: its number.
        toptxn: for a subtransaction, the transaction that it belongs to; else None.
        gid: the name of a prepared transaction; None unless it is decoded at PREPARE.
        first_lsn: the position of its first record.
        final_lsn: the start of the record that commits, prepares or aborts it; 0 before.
        end_lsn: the first byte after that record; 0 before.
        xact_time: the time of the commit, of PREPARE or of the abort, in microseconds since
            2000-01-01 UTC; at the origin, if there is one (rule A16).
        origin_id: the replication origin; 0 for none. In a streamed block, that of the block's
            first change.
        origin_lsn: the position at the origin; 0 while the transaction is in progress.
        is_prepared: whether it is decoded at PREPARE.
        is_streamed: whether a block of it has been streamed. It is False during the first block.
        has_catalog_changes: whether it has changed catalogs.
        output_plugin_private: the plugin's own data of this transaction.

    Attributes of the reorder buffer:

        subtxns: the subtransactions that were not rolled back.
        changes: the changes in memory, in the order of the WAL.
        spill: the changes before those, on disk; None if there are none.
        nentries: the number of changes, in memory and on disk.
        size: the memory of its changes, in bytes.
        total_size: the same with its subtransactions.
        is_serialized: whether its changes have been written to disk since the last block.
        is_aborted: whether it was found to be rolled back before its end was decoded (rule E14).
        skipped_prepare, sent_prepare: what became of PREPARE.
        has_partial_change: whether a speculative insert waits for its confirmation.
        has_streamable_change: whether it ever had a change that a plugin receives.
        base_catalog: the catalogs at its first change; None before.
        catalog_now: the catalogs after its last streamed block; None before.
        catalog_changes: its own changes of the catalogs.
        executed: the changes of the catalogs that led from ``base_catalog`` to ``catalog_now``,
            each with the subtransaction that made it, or 0.
        invalidations: all changes of the catalogs that it has seen, also of subtransactions.
    """

    xid: int
    first_lsn: int
    toptxn: ReorderBufferTXN | None = None
    gid: str | None = None
    final_lsn: int = 0
    end_lsn: int = 0
    xact_time: int = 0
    origin_id: int = 0
    origin_lsn: int = 0
    is_prepared: bool = False
    is_streamed: bool = False
    has_catalog_changes: bool = False
    output_plugin_private: Any = None

    subtxns: list[ReorderBufferTXN] = field(default_factory=list, repr=False)
    changes: list[ReorderBufferChange] = field(default_factory=list, repr=False)
    spill: SpillFile | None = field(default=None, repr=False)
    nentries: int = 0
    size: int = 0
    total_size: int = 0
    is_serialized: bool = False
    is_aborted: bool = False
    skipped_prepare: bool = False
    sent_prepare: bool = False
    has_partial_change: bool = False
    has_streamable_change: bool = False
    base_catalog: HistoricCatalog | None = field(default=None, repr=False)
    catalog_now: HistoricCatalog | None = field(default=None, repr=False)
    catalog_changes: list[tuple[int, CatalogChange]] = field(default_factory=list, repr=False)
    executed: list[tuple[int, CatalogChange]] = field(default_factory=list, repr=False)
    invalidations: list[CatalogChange] = field(default_factory=list, repr=False)

    @property
    def top(self) -> ReorderBufferTXN:
        """The transaction that it belongs to, or itself (``rbtxn_get_toptxn``)."""
        return self if self.toptxn is None else self.toptxn

    @property
    def is_subtransaction(self) -> bool:
        """Whether it is a subtransaction."""
        return self.toptxn is not None


@dataclass(slots=True, eq=False)
class ReorderBufferChange:
    """One change.

    Attributes:
        action: what happened.
        lsn: the position of its record; for a message the first byte after it.
        txn: the transaction or subtransaction that made it. Its ``xid`` is the number that a
            streamed change has (rule A3).
        origin_id: the replication origin of its record.
        relation_oid: of INSERT, UPDATE and DELETE: the table.
        old_tuple: of UPDATE and DELETE: the old key or the old row; None if it was not logged.
        new_tuple: of INSERT and UPDATE: the new row.
        relation_oids, cascade, restart_seqs: of TRUNCATE.
        prefix, content: of a message.
        catalog_changes: of INVALIDATION and INTERNAL_SNAPSHOT.
    """

    action: Action
    lsn: int
    txn: ReorderBufferTXN = field(repr=False)
    origin_id: int = 0
    relation_oid: int = 0
    old_tuple: HeapTuple | None = field(default=None, repr=False)
    new_tuple: HeapTuple | None = field(default=None, repr=False)
    relation_oids: tuple[int, ...] = ()
    cascade: bool = False
    restart_seqs: bool = False
    prefix: str = ""
    content: bytes = field(default=b"", repr=False)
    catalog_changes: tuple[CatalogChange, ...] = field(default=(), repr=False)

    def stored(self) -> tuple[Any, ...]:
        """The content without the transaction, to be written to disk."""
        return (
            self.action,
            self.lsn,
            self.origin_id,
            self.relation_oid,
            self.old_tuple,
            self.new_tuple,
            self.relation_oids,
            self.cascade,
            self.restart_seqs,
            self.prefix,
            self.content,
            self.catalog_changes,
        )

    @classmethod
    def restored(cls, stored: tuple[Any, ...], txn: ReorderBufferTXN) -> ReorderBufferChange:
        """The change whose :meth:`stored` content was read from disk."""
        action, lsn, *rest = stored
        return cls(action, lsn, txn, *rest)


_CHANGE_SIZE = 80
"""``sizeof(ReorderBufferChange)`` of PostgreSQL 18 on a machine with 64 bits."""
_TUPLE_SIZE = 24
"""``sizeof(HeapTupleData)``"""
_OID_SIZE = 4
_SIZE_SIZE = 8
_INVALIDATION_SIZE = 16
"""``sizeof(SharedInvalidationMessage)``"""
_SNAPSHOT_SIZE = 120
"""``sizeof(SnapshotData)``; the numbers of transactions in it are not counted."""
_TOAST_CHUNK = 1996
"""``TOAST_MAX_CHUNK_SIZE``"""
_TOAST_ROW = _CHANGE_SIZE + _TUPLE_SIZE + 24 + 4 + 4 + 4
"""A chunk is an insert into the TOAST table: a change with a tuple of three columns."""


def change_size(change: ReorderBufferChange) -> int:
    """The memory of a change in bytes (``ReorderBufferChangeSize``, rule E6).

    The chunks of out-of-line values, which PostgreSQL counts as changes before the row, are
    included.
    """
    size = _CHANGE_SIZE
    for row in (change.old_tuple, change.new_tuple):
        if row is not None:
            size += _TUPLE_SIZE + row.length
    if change.new_tuple is not None:
        size += sum(length + -(-length // _TOAST_CHUNK) * _TOAST_ROW for length in change.new_tuple.external_lengths)
    if change.action is Action.MESSAGE:
        size += len(change.prefix.encode()) + 1 + len(change.content) + 2 * _SIZE_SIZE
    if change.action is Action.INTERNAL_SNAPSHOT:
        size += _SNAPSHOT_SIZE
    for one in change.catalog_changes:
        size += _INVALIDATION_SIZE * max(1, len(one.invalidation.relations))
    return size + _OID_SIZE * len(change.relation_oids)
