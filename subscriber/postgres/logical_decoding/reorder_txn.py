"""Transactions and changes, as the reorder buffer keeps them and a plugin receives them
(``reorderbuffer.h``), with the buffer's settings and its files.

A file is opened for each batch that is written or read. So the number of open files does not depend
on the number of transactions (bounded_memory).
"""

from __future__ import annotations

import enum
import errno
import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import Any, Final, Literal

from subscriber.base.errors import OutputPluginError, UsageError
from subscriber.postgres.logical_decoding.heap_tuples import HeapTuple
from subscriber.postgres.logical_decoding.historic_catalog import CatalogChange, HistoricCatalog


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

    A plugin may use these attributes, and set ``output_plugin_private``, its own data:

    Attributes:
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
        is_streamed: whether a block of it has been streamed. It is False during the first block.

    Attributes of the reorder buffer:

        subtxns: the subtransactions that were not rolled back.
        spill: the changes before those in ``changes``, on disk; None if there are none.
        nentries, size: the number of changes, also on disk; the memory of its changes, in bytes.
        is_serialized: whether its changes have been written to disk since the last block.
        is_aborted: whether it was found to be rolled back before its end was decoded (rule E14).
        has_partial_change: whether a speculative insert waits for its confirmation.
        has_streamable_change: whether it ever had a change that a plugin receives.
        base_catalog, catalog_now: the catalogs at its first change, after its last streamed block.
        executed: the changes of the catalogs that led from the one to the other, each with the
            subtransaction that made it, or 0.
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
        return self if self.toptxn is None else self.toptxn

    @property
    def is_subtransaction(self) -> bool:
        return self.toptxn is not None


@dataclass(slots=True, eq=False)
class ReorderBufferChange:
    """One change. ``lsn`` is the position of its record; for a message the first byte after it.
    ``txn`` is the (sub)transaction that made it, whose ``xid`` a streamed change has (rule A3).
    ``old_tuple`` is the old key or the old row; None if it was not logged. What follows belongs to
    TRUNCATE, to a message, and to INVALIDATION and INTERNAL_SNAPSHOT.
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
        return tuple(getattr(self, name) for name in self.__slots__ if name != "txn")

    @classmethod
    def restored(cls, stored: tuple[Any, ...], txn: ReorderBufferTXN) -> ReorderBufferChange:
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
    """``ReorderBufferChangeSize`` (rule E6), with the TOAST chunks, which are changes there."""
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


_MEGABYTE: Final = 1 << 20

DidAbort = Callable[[int], bool]


def _nothing_aborted(_xid: int) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class ReorderSettings:
    """The settings of the server: the memory for changes in bytes; with ``immediate`` every change
    is streamed, or written to disk, at once (rule E6). ``did_abort`` knows rolled back
    (sub)transactions before the record that says so is read (rule E14; ``pg_xact``).
    """

    logical_decoding_work_mem: int = 64 * _MEGABYTE
    debug_logical_replication_streaming: Literal["buffered", "immediate"] = "buffered"
    did_abort: DidAbort = field(default=_nothing_aborted, repr=False)

    def __post_init__(self) -> None:
        if self.logical_decoding_work_mem <= 0:
            raise UsageError(
                f'invalid value for parameter "logical_decoding_work_mem": "{self.logical_decoding_work_mem}"',
                hint="It is a number of bytes, at least 1; a server takes 64kB or more.",
            )


@dataclass(slots=True)
class ReorderStatistics:
    """What became of large transactions (``pg_stat_replication_slots``)."""

    spill_txns: int = 0
    spill_count: int = 0
    spill_bytes: int = 0
    stream_txns: int = 0
    stream_count: int = 0
    stream_bytes: int = 0


_LENGTH: Final = Struct("<I")


class SpillFile:
    def __init__(self, path: str, xid: int) -> None:
        self._path = path
        self._xid = xid

    def append(self, items: Iterable[tuple[Any, ...]]) -> None:
        try:
            with open(self._path, "ab") as file:
                for item in items:
                    data = pickle.dumps(item, pickle.HIGHEST_PROTOCOL)
                    file.write(_LENGTH.pack(len(data)))
                    file.write(data)
        except OSError as error:
            raise self._failed("could not write to data file", error) from error

    def read(self, chunk_bytes: int) -> Iterator[tuple[Any, ...]]:
        offset = 0
        while True:
            items, offset = self._chunk(offset, chunk_bytes)
            if not items:
                return
            yield from items

    def _chunk(self, offset: int, chunk_bytes: int) -> tuple[list[tuple[Any, ...]], int]:
        items: list[tuple[Any, ...]] = []
        end = offset + chunk_bytes
        try:
            with open(self._path, "rb") as file:
                file.seek(offset)
                while offset < end and (head := file.read(_LENGTH.size)):
                    data = file.read(*_LENGTH.unpack(head))
                    items.append(pickle.loads(data))  # noqa: S301 - this object has written the file, in a private folder
                    offset += len(head) + len(data)
        except OSError as error:
            raise self._failed("could not read from data file", error) from error
        return items, offset

    def delete(self) -> None:
        os.unlink(self._path)

    def _failed(self, action: str, error: OSError) -> OutputPluginError:
        return OutputPluginError(
            f"{action} for XID {self._xid}: {error.strerror}",
            sqlstate="53100" if error.errno == errno.ENOSPC else "58030",
            hint="Make room in the folder for temporary files, or allow more logical_decoding_work_mem.",
        )
