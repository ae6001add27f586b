"""The records that logical decoding reads, in the order of the WAL.

They contain what ``decode.c`` reads of PostgreSQL's records. Four kinds have no record there:
PostgreSQL's WAL shows a transaction by its first record (:class:`BeginRecord`), a subtransaction by
a flag of its first record (:class:`SubtransactionStartRecord`,
:class:`SubtransactionCommitRecord`), and an origin by a row of a catalog
(:class:`OriginChangeRecord`). Such a record has no bytes: its ``end_lsn`` is its ``lsn``.

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

from subscriber.postgres.logical_decoding.heap_tuples import HeapTuple
from subscriber.postgres.logical_decoding.historic_catalog import CatalogChange


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    lsn: int
    end_lsn: int
    xid: int = 0
    origin_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finish(_Record):
    """The end of a transaction: local time, and place and time at the origin if replayed."""

    timestamp: int
    subxids: tuple[int, ...] = ()
    origin_lsn: int = 0
    origin_timestamp: int | None = None

    @property
    def xact_time(self) -> int:
        """The time that a plugin sees: that at the origin, if there is one (rule A16)."""
        return self.timestamp if self.origin_timestamp is None else self.origin_timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginRecord(_Record):
    """A transaction has got its number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtransactionStartRecord(_Record):
    """The subtransaction ``xid`` of ``top_xid`` has got its number (an assignment)."""

    top_xid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtransactionCommitRecord(_Record):
    """RELEASE SAVEPOINT: the subtransaction ``xid`` now ends as its parent ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtransactionAbortRecord(_Record):
    """ROLLBACK TO SAVEPOINT: ``xid``, with ``subxids`` below it, was rolled back."""

    timestamp: int
    subxids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertRecord(_Record):
    """A row was inserted. ``speculative``: the row is of INSERT … ON CONFLICT, so that a
    :class:`SpeculativeConfirmRecord` follows (rule E17).
    """

    relation_oid: int
    new: HeapTuple = field(repr=False)
    speculative: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculativeConfirmRecord(_Record):
    """What became of a speculative insert; the row was removed if not ``confirmed``."""

    relation_oid: int
    confirmed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRecord(_Record):
    """``old`` is None if it was not logged (B.3); ``new`` may have ``UNCHANGED`` (rule B14)."""

    relation_oid: int
    old: HeapTuple | None = field(repr=False)
    new: HeapTuple = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecord(_Record):
    """A row was deleted; ``old`` as in :class:`UpdateRecord`."""

    relation_oid: int
    old: HeapTuple | None = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateRecord(_Record):
    """Tables were truncated by one command; with a partitioned table also its partitions."""

    relation_oids: tuple[int, ...]
    cascade: bool = False
    restart_seqs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalMessageRecord(_Record):
    """``pg_logical_emit_message`` wrote a message and returned ``end_lsn`` (rule A17)."""

    transactional: bool
    prefix: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChangeRecord(_Record):
    """A command of the transaction has changed catalogs (rule B12b), for its later records, and for
    other transactions when it commits. With transaction 0, which only a journal has, at once.
    """

    change: CatalogChange


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginChangeRecord(_Record):
    """The replication origin ``number`` was created, or dropped if ``name`` is None."""

    number: int
    name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRecord(_Finish):
    """The transaction committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortRecord(_Finish):
    """The transaction was rolled back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareRecord(_Finish):
    gid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPreparedRecord(_Finish):
    gid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackPreparedRecord(_Finish):
    gid: str


RowRecord: TypeAlias = InsertRecord | SpeculativeConfirmRecord | UpdateRecord | DeleteRecord | TruncateRecord

WalRecord: TypeAlias = (
    BeginRecord
    | SubtransactionStartRecord
    | SubtransactionCommitRecord
    | SubtransactionAbortRecord
    | RowRecord
    | LogicalMessageRecord
    | SchemaChangeRecord
    | OriginChangeRecord
    | CommitRecord
    | AbortRecord
    | PrepareRecord
    | CommitPreparedRecord
    | RollbackPreparedRecord
)
"""Every record: a closed union."""
