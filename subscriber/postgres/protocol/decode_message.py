"""Decodes pgoutput messages, by the layout of their class or a function of their own.

Each docstring gives the message's layout as the PostgreSQL manual does, after the type byte. ``[xid
u32]`` is present only inside a stream block; the bytes of an Insert do not show whether one is open
(rule A3). ``in_stream`` is therefore an argument.

*Rejected:* guessing ``in_stream`` from the message's length, or from whether decoding fails without
it. An Insert whose relation id is read as an xid can sometimes be decoded, as a row of another
table.

The decoder is stricter than PostgreSQL's readers, so that ``encode(decode(data)) == data``. The
whole message must be consumed. Undefined flags are refused, and so is the schema name
``pg_catalog``, which is always sent as the empty string (rule A7).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import Any, Final

from subscriber.base.byte_reader import Reader, printable
from subscriber.postgres.protocol import messages
from subscriber.postgres.protocol.messages import (
    NULL,
    UNCHANGED,
    BinaryValue,
    ColumnValue,
    Message,
    OldKind,
    TextValue,
    TupleData,
)

GID_SIZE: Final = 200
"""Maximum size in bytes of the GID of a prepared transaction, including its NUL (rule A18)."""

_BEGIN: Final = Struct(">QqI")
_COMMIT: Final = Struct(">BQQq")
_BEGIN_SIZE, _COMMIT_SIZE = 1 + _BEGIN.size, 1 + _COMMIT.size
_ABORT_INFO: Final = Struct(">Qq")
_XIDS: Final = Struct(">II")
_COLUMN_TYPE: Final = Struct(">Ii")

_COLUMN_SIZE: Final = 10  # flags, an empty name's NUL, type, modifier: the least a column of R takes
_RELATION_ID_SIZE: Final = 4
_KNOWN_TRUNCATE_FLAGS: Final = 3
_REPLICA_IDENTITIES: Final = b"dnfi"

_B, _C, _N, _K, _O = ord("B"), ord("C"), ord("N"), ord("K"), ord("O")
_TEXT, _BINARY, _NULL, _UNCHANGED = ord("t"), ord("b"), ord("n"), ord("u")


def decode(data: bytes | memoryview, *, in_stream: bool = False, write_abort_info: bool | None = None) -> Message:
    """Decode one whole message, from its type byte to its last byte (the payload of an XLogData).

    ``in_stream``: it came between Stream Start and Stream Stop (rule A3). ``write_abort_info``: the
    session requested ``streaming 'parallel'``, so that Stream Abort has its two extra fields (rule
    A5); if None, the message's length decides. Anything that is not exactly one message is a
    ProtocolError, 08P01 (22021 for invalid UTF-8), with PostgreSQL's text, the offset and the
    message type (rules A19, A20).

    >>> decode(bytes.fromhex("4200000000016b374800000000000f4240000002db"))
    Begin(final_lsn=23803720, commit_timestamp=1000000, xid=731)
    """
    if len(data) == _BEGIN_SIZE and data[0] == _B:
        # Begin and Commit are most messages of a stream of small transactions.
        final_lsn, commit_timestamp, xid = _BEGIN.unpack_from(data, 1)
        if final_lsn:
            return messages.Begin(final_lsn, commit_timestamp, xid)
    elif len(data) == _COMMIT_SIZE and data[0] == _C:
        flags, commit_lsn, end_lsn, commit_timestamp = _COMMIT.unpack_from(data, 1)
        if not flags:
            return messages.Commit(commit_lsn, end_lsn, commit_timestamp)
    reader = Reader(bytes(data))
    type_byte = reader.type_byte()
    plain = _PLAIN.get(type_byte)
    if plain is not None:
        message = plain(reader)
    elif (change := _IN_STREAM.get(type_byte)) is not None:
        message = change(reader, reader.u32() if in_stream else None)
    elif type_byte == _STREAM_ABORT:
        message = _stream_abort(reader, write_abort_info)
    else:
        raise reader.error(f'invalid logical replication message type "??? ({type_byte})"', at=0)
    reader.end()
    return message


def _relation(reader: Reader, xid: int | None) -> Message:
    """R: [xid u32], relation_id u32, namespace string, name string, replica_identity u8, natts u16,
    columns (flags u8, name string, type_oid u32, type_modifier i32).
    """
    relation_id, namespace, name = reader.u32(), _namespace(reader), reader.string()
    identity = reader.byte()
    if identity not in _REPLICA_IDENTITIES:
        raise reader.error(f"unrecognized replica identity '{printable(identity)}'", at=reader.offset - 1)
    natts = reader.count(reader.u16(), _COLUMN_SIZE)
    columns = tuple([_relation_column(reader) for _ in range(natts)])
    return messages.Relation(relation_id, namespace, name, chr(identity), columns, xid)


def _relation_column(reader: Reader) -> messages.RelationColumn:
    flags = reader.byte()
    if flags & ~messages.IDENTITY_FLAG:
        raise reader.error(f"unrecognized flags {flags} in column of relation message", at=reader.offset - 1)
    return messages.RelationColumn(flags, reader.string(), *reader.unpack(_COLUMN_TYPE))


def _insert(reader: Reader, xid: int | None) -> Message:
    """I: [xid u32], relation_id u32, 'N', new tuple."""
    relation_id, action = reader.u32(), reader.byte()
    if action != _N:
        raise reader.error(f"expected new tuple but got {action}", at=reader.offset - 1)
    return messages.Insert(relation_id, _tuple(reader), xid)


def _update(reader: Reader, xid: int | None) -> Message:
    """U: [xid u32], relation_id u32, optional ('K' or 'O', old tuple), 'N', new tuple."""
    relation_id, action = reader.u32(), reader.byte()
    old_kind: OldKind | None = None
    old: TupleData | None = None
    if action in (_K, _O):
        old_kind, old = _old_kind(action), _tuple(reader)
        action = reader.byte()
        if action != _N:
            raise reader.error(f"expected action 'N', got {printable(action)}", at=reader.offset - 1)
    elif action != _N:
        raise reader.error(f"expected action 'N', 'O' or 'K', got {printable(action)}", at=reader.offset - 1)
    return messages.Update(relation_id, old_kind, old, _tuple(reader), xid)


def _delete(reader: Reader, xid: int | None) -> Message:
    """D: [xid u32], relation_id u32, 'K' or 'O', old tuple."""
    relation_id, action = reader.u32(), reader.byte()
    if action not in (_K, _O):
        raise reader.error(f"expected action 'O' or 'K', got {printable(action)}", at=reader.offset - 1)
    return messages.Delete(relation_id, _old_kind(action), _tuple(reader), xid)


def _truncate(reader: Reader, xid: int | None) -> Message:
    """T: [xid u32], nrels u32, flags u8 (1 cascade, 2 restart identity), relation_id u32 each."""
    nrels, flags = reader.u32(), reader.byte()
    if flags & ~_KNOWN_TRUNCATE_FLAGS:
        raise reader.error(f"unrecognized flags {flags} in truncate message", at=reader.offset - 1)
    relation_ids = reader.unpack(Struct(f">{reader.count(nrels, _RELATION_ID_SIZE)}I"))
    return messages.Truncate(relation_ids, bool(flags & 1), bool(flags & 2), xid)


def _stream_abort(reader: Reader, write_abort_info: bool | None) -> Message:
    """A: xid u32, subxid u32 [, abort_lsn u64, abort_timestamp i64]."""
    xid, subxid = reader.unpack(_XIDS)
    if write_abort_info or (write_abort_info is None and reader.remaining):
        return messages.StreamAbort(xid, subxid, *reader.unpack(_ABORT_INFO))
    return messages.StreamAbort(xid, subxid)


def _gid(reader: Reader) -> str:
    """PostgreSQL truncates a GID to 199 bytes (strlcpy); a longer one is refused (rule A18)."""
    start = reader.offset
    gid = reader.string()
    if reader.offset - start > GID_SIZE:
        raise reader.error("transaction identifier is too long", at=start)
    return gid


def _namespace(reader: Reader) -> str:
    """The empty string stands for pg_catalog, which is never sent by name (rule A7)."""
    start = reader.offset
    namespace = reader.string()
    if namespace == "pg_catalog":
        raise reader.error("unexpected namespace pg_catalog: it is sent as the empty string", at=start)
    return namespace or "pg_catalog"


def _old_kind(action: int) -> OldKind:
    return "K" if action == _K else "O"


def _tuple(reader: Reader) -> TupleData:
    """TupleData: ncols u16, columns: 'n' or 'u', or 't' or 'b' with length u32 and that many bytes
    (A11).
    """
    return tuple([_column_value(reader) for _ in range(reader.count(reader.u16(), 1))])


def _column_value(reader: Reader) -> ColumnValue:
    kind = reader.byte()
    if kind == _TEXT:
        return TextValue(reader.bytes(reader.u32()))
    if kind == _NULL:
        return NULL
    if kind == _UNCHANGED:
        return UNCHANGED
    if kind == _BINARY:
        return BinaryValue(reader.bytes(reader.u32()))
    raise reader.error(f"unrecognized data representation type '{printable(kind)}'", at=reader.offset - 1)


_READ: Final[dict[str, Callable[[Reader], Any]]] = {
    "Q": Reader.u64,
    "q": Reader.i64,
    "I": Reader.u32,
    "s": Reader.string,
    "n": _namespace,
    "g": _gid,
    "c": lambda reader: reader.bytes(reader.u32()),
}
_REQUIRED: Final[dict[tuple[type, str], str]] = {
    (messages.Begin, "final_lsn"): "final_lsn not set in begin message",
    (messages.BeginPrepare, "prepare_lsn"): "prepare_lsn not set in begin prepare message",
    (messages.BeginPrepare, "end_lsn"): "end_lsn not set in begin prepare message",
    (messages.Prepare, "prepare_lsn"): "prepare_lsn is not set in prepare message",
    (messages.Prepare, "end_lsn"): "end_lsn is not set in prepare message",
    (messages.Prepare, "xid"): "invalid two-phase transaction ID in prepare message",
    (messages.StreamPrepare, "prepare_lsn"): "prepare_lsn is not set in stream prepare message",
    (messages.StreamPrepare, "end_lsn"): "end_lsn is not set in stream prepare message",
    (messages.StreamPrepare, "xid"): "invalid two-phase transaction ID in stream prepare message",
    (messages.CommitPrepared, "commit_lsn"): "commit_lsn is not set in commit prepared message",
    (messages.CommitPrepared, "end_lsn"): "end_lsn is not set in commit prepared message",
    (messages.RollbackPrepared, "prepare_end_lsn"): "prepare_end_lsn is not set in rollback prepared message",
    (messages.RollbackPrepared, "end_lsn"): "rollback_end_lsn is not set in rollback prepared message",
}
"""Fields that are never zero, and PostgreSQL's error if one is."""
_FLAGS: Final = {
    messages.Commit: "commit", messages.StreamCommit: "commit", messages.Prepare: "prepare",
    messages.StreamPrepare: "stream prepare", messages.CommitPrepared: "commit prepared",
    messages.RollbackPrepared: "rollback prepared",
}  # fmt: skip
"""What the error for flags calls the message."""


def _no_flags(what: str, reader: Reader) -> None:
    flags = reader.byte()
    if flags:
        raise reader.error(f"unrecognized flags {flags} in {what} message", at=reader.offset - 1)


def _by_layout(kind: type[Any]) -> Callable[..., Message]:
    """The function that reads a message with a layout, which gets the xid of a stream block, too.
    Field by field, as PostgreSQL does.
    """
    names = iter(messages.names_of(kind))
    steps: list[tuple[Callable[[Reader], Any], bool, str | None]] = []
    for code in kind.layout:
        if code == "0":
            steps.append((partial(_no_flags, _FLAGS[kind]), False, None))
            continue
        name = next(names)
        read_field = _READ.get(code) or partial(Reader.flag, what="flags" if name == "transactional" else name)
        steps.append((read_field, True, _REQUIRED.get((kind, name))))

    def read(reader: Reader, *xid: int | None) -> Message:
        values = []
        for read_field, is_field, not_set in steps:
            at = reader.offset
            value = read_field(reader)
            if not_set and not value:
                raise reader.error(not_set, at=at)
            if is_field:
                values.append(value)
        message: Message = kind(*values, *xid)
        return message

    return read


_STREAM_ABORT: Final = ord("A")

_PLAIN: Final = {
    ord(kind.type_byte): _by_layout(kind)
    for kind in (
        messages.Begin, messages.Commit, messages.Origin, messages.StreamStart, messages.StreamStop, messages.StreamCommit,
        messages.BeginPrepare, messages.Prepare, messages.CommitPrepared, messages.RollbackPrepared, messages.StreamPrepare,
    )
}  # fmt: skip
"""Messages that never have an xid prefix (rule A4), but not A, whose decoder needs an option."""

_IN_STREAM: Final[dict[int, Callable[[Reader, int | None], Message]]] = {
    ord("R"): _relation,
    ord("Y"): _by_layout(messages.Type),
    ord("I"): _insert,
    ord("U"): _update,
    ord("D"): _delete,
    ord("T"): _truncate,
    ord("M"): _by_layout(messages.LogicalMessage),
}
"""Messages that have an xid prefix inside a stream block (rule A3)."""
