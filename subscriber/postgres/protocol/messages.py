"""The messages of pgoutput, protocol versions 1 to 4: one frozen class for each message.

Names and field order are those of the manual's page "Logical Replication Message Formats" and of
``logicalproto.h``. Conventions for all fields:

- ``*_lsn`` is a WAL position (:mod:`subscriber.base.lsn`); 0 is no position.
- ``*_timestamp`` counts microseconds since 2000-01-01 00:00 UTC and may be negative (rule A1).
- ``xid`` of a change is the (sub)transaction that made it, sent only inside a stream block; it is
  None outside, where the transaction is that of the last Begin (rules A3, A4).
- ``type_byte`` is the message's first byte as text.
- ``layout`` has a letter for each field behind it, in the order of the bytes, for decoder and
  encoder: ``Q`` u64, ``q`` i64, ``I`` u32, ``?`` a byte that is 0 or 1, ``0`` a byte of flags that
  is zero and no field; then ``s`` a string, ``n`` the name of a schema, ``g`` a GID, ``c`` bytes
  after their length u32. A message without it has functions of its own there.

A column is ``NULL``, ``UNCHANGED`` or a value, and a tuple that was not sent is None (invariant
absence_is_typed). The values of rows are left out of every ``repr``, because reprs are written to
logs (invariant names_are_data).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Final, Literal, TypeAlias

IDENTITY_FLAG: Final = 1
"""Bit 0 of :attr:`RelationColumn.flags` (LOGICALREP_IS_REPLICA_IDENTITY)."""


class Absence(enum.Enum):
    """Why a column has no value (rule A11); the members are true, and mypy tells them apart."""

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
    """A value as its type's output function writes it, in the client's encoding (rule A11)."""

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

TupleData: TypeAlias = tuple[ColumnValue, ...]
"""One row version: a value for each column of the Relation, in its order (rule A9)."""

OldKind: TypeAlias = Literal["K", "O"]
"""``K``: an old tuple with the key columns only; ``O``: the complete old row (rule A10)."""


@dataclass(frozen=True, slots=True)
class Begin:
    """The start of a transaction that is sent whole, after it committed (rules A17, A21).
    ``final_lsn`` is the start of the commit record, and equals ``commit_lsn`` of the later Commit.
    """

    type_byte: ClassVar[str] = "B"
    layout: ClassVar[str] = "QqI"
    final_lsn: int
    commit_timestamp: int
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    """``end_lsn`` is the first byte after the transaction's commit record (rule A17)."""

    type_byte: ClassVar[str] = "C"
    layout: ClassVar[str] = "0QQq"
    commit_lsn: int
    end_lsn: int
    commit_timestamp: int


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a transaction that was itself replicated to the publisher (rule A15)."""

    type_byte: ClassVar[str] = "O"
    layout: ClassVar[str] = "Qs"
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
    A24). ``replica_identity`` is pg_class.relreplident: ``d`` default, ``n`` nothing, ``f`` full,
    ``i`` index.
    """

    type_byte: ClassVar[str] = "R"
    relation_id: int
    namespace: str
    name: str
    replica_identity: str
    columns: tuple[RelationColumn, ...]
    xid: int | None = None

    def __hash__(self) -> int:
        """Of the number and the name: hashes of the columns would take long."""
        return hash((self.relation_id, self.namespace, self.name))

    @property
    def qualified_name(self) -> str:
        """``schema.table`` without quotes, as in PostgreSQL's messages. Not for use in SQL."""
        return f"{self.namespace}.{self.name}"


@dataclass(frozen=True, slots=True)
class Type:
    """The name of a type that is not built-in; of a domain, of its base type (rule A13)."""

    type_byte: ClassVar[str] = "Y"
    layout: ClassVar[str] = "Ins"
    type_oid: int
    namespace: str
    name: str
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class Insert:
    type_byte: ClassVar[str] = "I"
    relation_id: int
    new: TupleData
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class Update:
    """``old_kind`` and ``old`` are both None if no old tuple was sent (rules A9, A10)."""

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
    """What ``pg_logical_emit_message`` wrote, and its result ``lsn`` (rules A17, A25)."""

    type_byte: ClassVar[str] = "M"
    layout: ClassVar[str] = "?Qsc"
    transactional: bool
    lsn: int
    prefix: str
    content: bytes = field(repr=False)
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class StreamStart:
    type_byte: ClassVar[str] = "S"
    layout: ClassVar[str] = "I?"
    xid: int
    first_segment: bool


@dataclass(frozen=True, slots=True)
class StreamStop:
    type_byte: ClassVar[str] = "E"
    layout: ClassVar[str] = ""


@dataclass(frozen=True, slots=True)
class StreamCommit:
    type_byte: ClassVar[str] = "c"
    layout: ClassVar[str] = "I0QQq"
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
    layout: ClassVar[str] = "QQqIg"
    prepare_lsn: int
    end_lsn: int
    prepare_timestamp: int
    xid: int
    gid: str


@dataclass(frozen=True, slots=True)
class Prepare:
    type_byte: ClassVar[str] = "P"
    layout: ClassVar[str] = "0QQqIg"
    prepare_lsn: int
    end_lsn: int
    prepare_timestamp: int
    xid: int
    gid: str


@dataclass(frozen=True, slots=True)
class CommitPrepared:
    type_byte: ClassVar[str] = "K"
    layout: ClassVar[str] = "0QQqIg"
    commit_lsn: int
    end_lsn: int
    commit_timestamp: int
    xid: int
    gid: str


@dataclass(frozen=True, slots=True)
class RollbackPrepared:
    """``end_lsn`` is ``rollback_end_lsn`` in the manual."""

    type_byte: ClassVar[str] = "r"
    layout: ClassVar[str] = "0QQqqIg"
    prepare_end_lsn: int
    end_lsn: int
    prepare_timestamp: int
    rollback_timestamp: int
    xid: int
    gid: str


@dataclass(frozen=True, slots=True)
class StreamPrepare:
    type_byte: ClassVar[str] = "p"
    layout: ClassVar[str] = "0QQqIg"
    prepare_lsn: int
    end_lsn: int
    prepare_timestamp: int
    xid: int
    gid: str


def names_of(kind: type[Any]) -> tuple[str, ...]:
    """The fields of a layout; without the xid that precedes a change in a stream block."""
    return tuple(one.name for one in fields(kind))[: len(kind.layout.replace("0", ""))]


Change: TypeAlias = Insert | Update | Delete | Truncate

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
