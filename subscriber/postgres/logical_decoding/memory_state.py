"""What the sessions of the publisher in memory share: the WAL, the catalogs, the rows with READ
COMMITTED, and the counters.

A row version has xmin and xmax, as in a heap. Where PostgreSQL would wait for another session,
there is an error, because a test that waits for itself never ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar

from subscriber.base.errors import UsageError
from subscriber.postgres.logical_decoding import wal_records as wal
from subscriber.postgres.logical_decoding.heap_tuples import ColumnDatum, HeapTuple
from subscriber.postgres.logical_decoding.historic_catalog import CatalogChange, HistoricCatalog
from subscriber.postgres.logical_decoding.memory_tables import Compute
from subscriber.postgres.schema.publisher_tables import PublisherTables
from subscriber.postgres.types.oids import FIRST_NORMAL_OID

_FIRST_XID: Final = 731
_FIRST_LSN: Final = 0x16B3748
_FIRST_TIME: Final = 820_454_400_000_000
"""2025-12-31 00:00 UTC"""
_MILLISECOND: Final = 1000
_BYTEWISE: Final = frozenset({100, 950})
"""The collation of the database, which is C, and the collation C."""
_RECORD_HEADER: Final = 24
_Record = TypeVar("_Record", bound=wal.WalRecord)


@dataclass(slots=True)
class Partitioning:
    """A row finds its partition by the value of one column."""

    column: str
    partitions: dict[int, frozenset[bytes] | None] = field(default_factory=dict)


@dataclass(slots=True)
class PreparedChanges:
    """A prepared transaction; its number is 0 if it has written nothing."""

    xid: int
    subxids: tuple[int, ...]
    changes: tuple[CatalogChange, ...]


class MemoryState:
    """The shared state. ``computes`` has the functions of stored generated columns, by column
    number.
    """

    def __init__(self, server_version: int = 180000) -> None:
        self.records: list[wal.WalRecord] = []
        self.catalog = self.first_catalog = HistoricCatalog(PublisherTables(server_version, {}, _BYTEWISE))
        self.rows = HeapRows()
        self.keys: dict[int, tuple[int, ...]] = {}
        self.computes: dict[tuple[int, int], Compute] = {}
        self.partitioning: dict[int, Partitioning] = {}
        self.prepared: dict[str, PreparedChanges] = {}
        self.origins: dict[str, int] = {}
        self._lsn = _FIRST_LSN
        self._time = _FIRST_TIME
        self._next_xid = _FIRST_XID
        self._next_oid = FIRST_NORMAL_OID

    def did_abort(self, xid: int) -> bool:
        """Whether a transaction was rolled back, for :class:`ReorderSettings` (rule E14)."""
        return self.rows.did_abort(xid)

    def origin(self, name: str) -> int:
        if name not in self.origins:
            raise UsageError(
                f'replication origin "{name}" does not exist', sqlstate="42704", hint="Call create_origin first."
            )
        return self.origins[name]

    def new_xid(self) -> int:
        self._next_xid += 1
        self.rows.set_status(self._next_xid - 1, "in progress")
        return self._next_xid - 1

    def new_oid(self) -> int:
        self._next_oid += 1
        return self._next_oid - 1

    def now(self) -> int:
        self._time += _MILLISECOND
        return self._time

    def log(self, kind: Callable[..., _Record], **fields: Any) -> _Record:
        silent = kind in {
            wal.BeginRecord,
            wal.SubtransactionStartRecord,
            wal.SubtransactionCommitRecord,
            wal.OriginChangeRecord,
        }
        size = 0 if silent else _aligned(_RECORD_HEADER + _size(fields))
        record = kind(lsn=self._lsn, end_lsn=self._lsn + size, **fields)
        self._lsn += size
        self.records.append(record)
        return record


def _size(fields: Mapping[str, Any]) -> int:
    size = 8
    for value in fields.values():
        if isinstance(value, HeapTuple):
            size += value.length
        elif isinstance(value, bytes | str | tuple):
            size += len(value)
    return size


def _aligned(size: int) -> int:
    return -(-size // 8) * 8


Status = Literal["in progress", "committed", "aborted"]


@dataclass(slots=True, eq=False)
class HeapRow:
    values: dict[int, ColumnDatum] = field(repr=False)
    given: dict[int, Any] = field(repr=False)
    xmin: int
    xmax: int = 0


class HeapRows:
    def __init__(self) -> None:
        self._tables: dict[int, list[HeapRow]] = {}
        self._status: dict[int, Status] = {}

    def set_status(self, xid: int, status: Status) -> None:
        self._status[xid] = status

    def did_abort(self, xid: int) -> bool:
        return self._status.get(xid) == "aborted"

    def add(self, oid: int, row: HeapRow) -> None:
        self._tables.setdefault(oid, []).append(row)

    def visible(self, oid: int, own: frozenset[int]) -> Iterator[HeapRow]:
        for row in list(self._tables.get(oid, ())):
            if self._sees(row.xmin, own) and not (row.xmax and self._sees(row.xmax, own)):
                yield row

    def end(self, row: HeapRow, xid: int) -> None:
        if row.xmax and self._status.get(row.xmax) == "in progress":
            raise UsageError(
                f"the row is locked by transaction {row.xmax}",
                sqlstate="55P03",
                hint="PostgreSQL would wait here. End that transaction first.",
            )
        row.xmax = xid

    def _sees(self, xid: int, own: frozenset[int]) -> bool:
        return xid in own or self._status.get(xid) == "committed"


def matches(row: HeapRow, wanted: Mapping[int, ColumnDatum]) -> bool:
    """Whether a row has these values; NULL is equal to NULL here."""
    return all(_text(row.values.get(number)) == _text(value) for number, value in wanted.items())


def _text(value: ColumnDatum | None) -> bytes | None:
    return getattr(value, "text", None)
