"""What the sessions of the publisher in memory share: the WAL, the committed catalogs, the rows,
and the counters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from subscriber.errors import UsageError
from subscriber.output_plugin import wal_records as wal
from subscriber.output_plugin.heap_tuples import HeapTuple
from subscriber.output_plugin.historic_catalog import CatalogChange, HistoricCatalog
from subscriber.output_plugin.publisher.rows import Rows
from subscriber.output_plugin.publisher.tables import Compute
from subscriber.schema.publisher_tables import PublisherTables

_FIRST_XID: Final = 731
_FIRST_OID: Final = 16384
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
    """How rows find their partition: by the value of one column.

    Attributes:
        column: the column of the partition key.
        partitions: for each partition, by OID, its values as text; None for DEFAULT.
    """

    column: str
    partitions: dict[int, frozenset[bytes] | None] = field(default_factory=dict)


@dataclass(slots=True)
class Prepared:
    """A prepared transaction: its number, its subtransactions and its catalog changes."""

    xid: int
    subxids: tuple[int, ...]
    changes: tuple[CatalogChange, ...]


class PublisherState:
    """The shared state.

    Args:
        server_version: the version whose types and rules it has, such as 180000.

    Attributes:
        records: the WAL, in its order.
        catalog: the tables, types and publications that are committed.
        first_catalog: the same before the first of ``records``.
        rows: the rows of all tables.
        keys: the column numbers of primary keys, by the OID of the table.
        computes: the functions of stored generated columns, by table and column number.
        partitioning: how partitioned tables find the partition of a row, by OID.
        prepared: the prepared transactions, by name.
        origins: the numbers of replication origins, by name.
    """

    def __init__(self, server_version: int = 180000) -> None:
        self.records: list[wal.WalRecord] = []
        self.catalog = self.first_catalog = HistoricCatalog(PublisherTables(server_version, {}, _BYTEWISE))
        self.rows = Rows()
        self.keys: dict[int, tuple[int, ...]] = {}
        self.computes: dict[tuple[int, int], Compute] = {}
        self.partitioning: dict[int, Partitioning] = {}
        self.prepared: dict[str, Prepared] = {}
        self.origins: dict[str, int] = {}
        self._lsn = _FIRST_LSN
        self._time = _FIRST_TIME
        self._next_xid = _FIRST_XID
        self._next_oid = _FIRST_OID

    def did_abort(self, xid: int) -> bool:
        """Whether a transaction was rolled back, for :class:`ReorderSettings` (rule E14)."""
        return self.rows.did_abort(xid)

    def origin(self, name: str) -> int:
        """The number of an origin.

        Raises:
            UsageError: 42704, there is none.
        """
        if name not in self.origins:
            raise UsageError(
                f'replication origin "{name}" does not exist', sqlstate="42704", hint="Call create_origin first."
            )
        return self.origins[name]

    def new_xid(self) -> int:
        """The next transaction number."""
        self._next_xid += 1
        self.rows.set_status(self._next_xid - 1, "in progress")
        return self._next_xid - 1

    def new_oid(self) -> int:
        """The next OID."""
        self._next_oid += 1
        return self._next_oid - 1

    def now(self) -> int:
        """The next time."""
        self._time += _MILLISECOND
        return self._time

    def log(self, kind: Callable[..., _Record], **fields: Any) -> _Record:
        """Write a record."""
        silent = kind in {wal.Begin, wal.SubtransactionStart, wal.SubtransactionCommit, wal.OriginChange}
        size = 0 if silent else _aligned(_RECORD_HEADER + _size(fields))
        record = kind(lsn=self._lsn, end_lsn=self._lsn + size, **fields)
        self._lsn += size
        self.records.append(record)
        return record


def _size(fields: Mapping[str, Any]) -> int:
    """The size of a record's content, about as PostgreSQL's."""
    size = 8
    for value in fields.values():
        if isinstance(value, HeapTuple):
            size += value.length
        elif isinstance(value, bytes | str | tuple):
            size += len(value)
    return size


def _aligned(size: int) -> int:
    return -(-size // 8) * 8
