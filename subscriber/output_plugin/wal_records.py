"""The records that logical decoding reads, in the order of the WAL.

They contain what PostgreSQL's records contain and ``decode.c`` reads. Four kinds are explicit here
although PostgreSQL writes no record for them: :class:`Begin`, :class:`SubtransactionStart`,
:class:`SubtransactionCommit` and :class:`OriginChange`. PostgreSQL's WAL shows a transaction by its
first record, a subtransaction by a flag of its first record, and an origin by a row of a catalog.
Such a record has no bytes: its ``end_lsn`` is its ``lsn``.

::

    Begin 731 │ Insert 731 │ SubtransactionStart 732 of 731 │ Insert 732 │ Begin 733 │ … │ Commit 731

Conventions for all fields:

- ``lsn`` is the first byte of the record, ``end_lsn`` the first byte after it.
- ``xid`` is the transaction or subtransaction that wrote the record; 0 for none.
- ``origin_id`` is the number of the replication origin of the session that wrote it; 0 for none.
- ``timestamp`` counts microseconds since 2000-01-01 00:00 UTC (rule A1).

Values of rows are left out of every ``repr`` (invariant names_are_data).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from subscriber.output_plugin.heap_tuples import HeapTuple
from subscriber.output_plugin.historic_catalog import CatalogChange


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """What every record has."""

    lsn: int
    end_lsn: int
    xid: int = 0
    origin_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finish(_Record):
    """What the records have that finish a transaction.

    Attributes:
        timestamp: the local time.
        subxids: the subtransactions that end with it.
        origin_lsn: the position at the origin, if the session replays a transaction of another
            server; else 0.
        origin_timestamp: the time at the origin; None unless the session replays a transaction.
    """

    timestamp: int
    subxids: tuple[int, ...] = ()
    origin_lsn: int = 0
    origin_timestamp: int | None = None

    @property
    def xact_time(self) -> int:
        """The time that a plugin sees: that at the origin, if there is one (rule A16)."""
        return self.timestamp if self.origin_timestamp is None else self.origin_timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin(_Record):
    """A transaction has got its number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtransactionStart(_Record):
    """The subtransaction ``xid`` of ``top_xid`` has got its number (an assignment)."""

    top_xid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtransactionCommit(_Record):
    """RELEASE SAVEPOINT: the subtransaction ``xid`` now ends as its parent ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtransactionAbort(_Record):
    """ROLLBACK TO SAVEPOINT: the subtransaction ``xid``, with ``subxids`` below it, was rolled
    back.
    """

    timestamp: int
    subxids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert(_Record):
    """A row was inserted.

    Attributes:
        relation_oid: the table, a partition of its own name.
        new: the row.
        speculative: whether the row is of INSERT … ON CONFLICT, so that a
            :class:`SpeculativeConfirm` follows (rule E17).
    """

    relation_oid: int
    new: HeapTuple = field(repr=False)
    speculative: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculativeConfirm(_Record):
    """What became of the speculative insert before it.

    Attributes:
        relation_oid: the table.
        confirmed: False if there was a conflict, so that the row was removed.
    """

    relation_oid: int
    confirmed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Update(_Record):
    """A row was updated.

    Attributes:
        relation_oid: the table.
        old: what ``ExtractReplicaIdentity`` has logged of the old row: its key, or the whole row;
            None if nothing (section B.3).
        new: the new row, with ``UNCHANGED`` for out-of-line values that were not written again.
    """

    relation_oid: int
    old: HeapTuple | None = field(repr=False)
    new: HeapTuple = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete(_Record):
    """A row was deleted; ``old`` as in :class:`Update`."""

    relation_oid: int
    old: HeapTuple | None = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate(_Record):
    """Tables were truncated by one command; with a partitioned table also its partitions."""

    relation_oids: tuple[int, ...]
    cascade: bool = False
    restart_seqs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalMessage(_Record):
    """``pg_logical_emit_message`` wrote a message; the function's result is ``end_lsn`` (rule
    A17).
    """

    transactional: bool
    prefix: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChange(_Record):
    """A command of the transaction has changed catalogs (rule B12b).

    It takes effect for the transaction's later records, and for other transactions when it commits.
    With transaction 0 it takes effect at once. Only a journal has that: its descriptions of tables
    hold for whatever follows them.
    """

    change: CatalogChange


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginChange(_Record):
    """The replication origin ``number`` was created, or dropped if ``name`` is None."""

    number: int
    name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit(_Finish):
    """The transaction committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Abort(_Finish):
    """The transaction was rolled back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare(_Finish):
    """PREPARE TRANSACTION."""

    gid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPrepared(_Finish):
    """COMMIT PREPARED. ``xid`` is the transaction that was prepared."""

    gid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackPrepared(_Finish):
    """ROLLBACK PREPARED. ``xid`` is the transaction that was prepared."""

    gid: str


RowRecord: TypeAlias = Insert | SpeculativeConfirm | Update | Delete | Truncate
"""The records that change rows."""

WalRecord: TypeAlias = (
    Begin
    | SubtransactionStart
    | SubtransactionCommit
    | SubtransactionAbort
    | RowRecord
    | LogicalMessage
    | SchemaChange
    | OriginChange
    | Commit
    | Abort
    | Prepare
    | CommitPrepared
    | RollbackPrepared
)
"""Every record: a closed union."""
