"""The messages of pgoutput, protocol versions 1 to 4: one frozen class for each message.

Names and field order are those of the manual's page "Logical Replication Message Formats" and of
``logicalproto.h``. Conventions for all fields:

- ``*_lsn`` is a WAL position (:mod:`subscriber.lsn`); 0 is no position.
- ``*_timestamp`` counts microseconds since 2000-01-01 00:00 UTC and may be negative (rule A1).
- ``xid`` of a change is the (sub)transaction that made it, sent only inside a stream block; it is
  None outside, where the transaction is that of the last Begin (rules A3, A4).
- ``type_byte`` is the message's first byte as text.

Values that are not sent have explicit types (invariant absence_is_typed): a column is ``NULL``,
``UNCHANGED`` or a value, and a tuple that was not sent is None. The values of rows are left out of
every ``repr``, because reprs are written to logs (invariant names_are_data).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal, TypeAlias

IDENTITY_FLAG: Final = 1
"""Bit 0 of :attr:`RelationColumn.flags` (LOGICALREP_IS_REPLICA_IDENTITY)."""


class Absence(enum.Enum):
    """Why a column of a tuple has no value (rule A11).

    This is an enum and not None: its members are true in a boolean context, keep their identity
    when they are pickled, and mypy checks that code distinguishes them.
    """

    NULL = "n"
    UNCHANGED = "u"

    def __repr__(self) -> str:
        return self.name


NULL: Final = Absence.NULL
"""The NULL of SQL. In a key tuple it also stands for every column outside of the key (rule A9)."""

UNCHANGED: Final = Absence.UNCHANGED
"""An out-of-line (TOAST) value that the update did not change and that was not sent (rule A11)."""


@dataclass(frozen=True, slots=True)
class TextValue:
    """A value in the text form of its type's output function, in the client's encoding
    (rule A11).
    """

    data: bytes

    def __repr__(self) -> str:
        return f"TextValue(<{len(self.data)} bytes>)"


@dataclass(frozen=True, slots=True)
class BinaryValue:
    """A value in the binary format of its type's send function (rules A11, A12)."""

    data: bytes

    def __repr__(self) -> str:
        return f"BinaryValue(<{len(self.data)} bytes>)"


ColumnValue: TypeAlias = Absence | TextValue | BinaryValue
"""One column of a tuple: ``NULL``, ``UNCHANGED``, or a value in text or binary format."""

TupleData: TypeAlias = tuple[ColumnValue, ...]
"""One row version: a :data:`ColumnValue` for each column of the Relation, in its order (rule
A9).
"""

OldKind: TypeAlias = Literal["K", "O"]
"""``K``: an old tuple with the key columns only; ``O``: the complete old row (rule A10)."""


@dataclass(frozen=True, slots=True)
class Begin:
    """The start of a transaction that is sent whole, after it committed (rules A17, A21).

    ``final_lsn`` is the start of the commit record, and equals ``commit_lsn`` of the later Commit.
    """

    type_byte: ClassVar[str] = "B"
    final_lsn: int
    commit_timestamp: int
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    """The end of a transaction. ``end_lsn`` is the first byte after its commit record (rule
    A17).
    """

    type_byte: ClassVar[str] = "C"
    commit_lsn: int
    end_lsn: int
    commit_timestamp: int


@dataclass(frozen=True, slots=True)
class Origin:
    """The replication origin of a transaction that was itself replicated to the publisher (rule
    A15).
    """

    type_byte: ClassVar[str] = "O"
    origin_lsn: int
    name: str


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """One published column of a :class:`Relation`; ``type_modifier`` is -1 for none (rule A14)."""

    flags: int
    name: str
    type_oid: int
    type_modifier: int

    @property
    def is_identity(self) -> bool:
        """Whether the column is part of the replica identity (rule A8)."""
        return bool(self.flags & IDENTITY_FLAG)


@dataclass(frozen=True, slots=True)
class Relation:
    """The description of a relation for all later tuples with its ``relation_id`` (rules A7-A9,
    A24).

    ``replica_identity`` is pg_class.relreplident: ``d`` default, ``n`` nothing, ``f`` full, ``i``
    index.
    """

    type_byte: ClassVar[str] = "R"
    relation_id: int
    namespace: str
    name: str
    replica_identity: str
    columns: tuple[RelationColumn, ...]
    xid: int | None = None

    def __hash__(self) -> int:
        """The hash of the number and the name: those of the columns would take long."""
        return hash((self.relation_id, self.namespace, self.name))

    @property
    def qualified_name(self) -> str:
        """``schema.table`` without quotes, as in PostgreSQL's messages. Not for use in SQL."""
        return f"{self.namespace}.{self.name}"


@dataclass(frozen=True, slots=True)
class Type:
    """The name of a type that is not built-in; if ``type_oid`` is a domain, of its base type (rule
    A13).
    """

    type_byte: ClassVar[str] = "Y"
    type_oid: int
    namespace: str
    name: str
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class Insert:
    """A row was inserted."""

    type_byte: ClassVar[str] = "I"
    relation_id: int
    new: TupleData
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class Update:
    """A row was updated. ``old_kind`` and ``old`` are both None if no old tuple was sent (rules A9,
    A10).
    """

    type_byte: ClassVar[str] = "U"
    relation_id: int
    old_kind: OldKind | None
    old: TupleData | None
    new: TupleData
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """A row was deleted (rules A9, A10)."""

    type_byte: ClassVar[str] = "D"
    relation_id: int
    old_kind: OldKind
    old: TupleData
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class Truncate:
    """Tables were truncated by one command (rule A26)."""

    type_byte: ClassVar[str] = "T"
    relation_ids: tuple[int, ...]
    cascade: bool
    restart_identity: bool
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class LogicalMessage:
    """The message that ``pg_logical_emit_message`` wrote. ``lsn`` is the result of that function
    (rules A17, A25).
    """

    type_byte: ClassVar[str] = "M"
    transactional: bool
    lsn: int
    prefix: str
    content: bytes = field(repr=False)
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class StreamStart:
    """The start of a block of changes of transaction ``xid``, which is still in progress."""

    type_byte: ClassVar[str] = "S"
    xid: int
    first_segment: bool


@dataclass(frozen=True, slots=True)
class StreamStop:
    """The end of the block that the last StreamStart began."""

    type_byte: ClassVar[str] = "E"


@dataclass(frozen=True, slots=True)
class StreamCommit:
    """The streamed transaction ``xid`` committed."""

    type_byte: ClassVar[str] = "c"
    xid: int
    commit_lsn: int
    end_lsn: int
    commit_timestamp: int


@dataclass(frozen=True, slots=True)
class StreamAbort:
    """The streamed (sub)transaction ``subxid`` of ``xid`` aborted; the whole transaction if both
    are equal (rule A6).

    The last two fields are both None unless the session requested ``streaming 'parallel'`` (rule
    A5). ``abort_lsn`` 0 means that the field was sent, but the LSN is unknown (rule A6).
    """

    type_byte: ClassVar[str] = "A"
    xid: int
    subxid: int
    abort_lsn: int | None = None
    abort_timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class BeginPrepare:
    """The start of a transaction that was prepared for two-phase commit (rules A18, A22)."""

    type_byte: ClassVar[str] = "b"
    prepare_lsn: int
    end_lsn: int
    prepare_timestamp: int
    xid: int
    gid: str


@dataclass(frozen=True, slots=True)
class Prepare:
    """The end of a transaction that was prepared."""

    type_byte: ClassVar[str] = "P"
    prepare_lsn: int
    end_lsn: int
    prepare_timestamp: int
    xid: int
    gid: str


@dataclass(frozen=True, slots=True)
class CommitPrepared:
    """A transaction prepared earlier was committed."""

    type_byte: ClassVar[str] = "K"
    commit_lsn: int
    end_lsn: int
    commit_timestamp: int
    xid: int
    gid: str


@dataclass(frozen=True, slots=True)
class RollbackPrepared:
    """A transaction prepared earlier was rolled back. ``end_lsn`` is ``rollback_end_lsn`` in the
    manual.
    """

    type_byte: ClassVar[str] = "r"
    prepare_end_lsn: int
    end_lsn: int
    prepare_timestamp: int
    rollback_timestamp: int
    xid: int
    gid: str


@dataclass(frozen=True, slots=True)
class StreamPrepare:
    """A streamed transaction was prepared."""

    type_byte: ClassVar[str] = "p"
    prepare_lsn: int
    end_lsn: int
    prepare_timestamp: int
    xid: int
    gid: str


Change: TypeAlias = Insert | Update | Delete | Truncate
"""The messages that change rows."""

Message: TypeAlias = (
    Begin
    | Commit
    | Origin
    | Relation
    | Type
    | Insert
    | Update
    | Delete
    | Truncate
    | LogicalMessage
    | StreamStart
    | StreamStop
    | StreamCommit
    | StreamAbort
    | BeginPrepare
    | Prepare
    | CommitPrepared
    | RollbackPrepared
    | StreamPrepare
)
"""Every message of pgoutput: a closed union, to be matched with ``assert_never``."""
