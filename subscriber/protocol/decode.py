"""Decodes pgoutput messages: one function without side effects for each type byte.

Each docstring gives the message's layout as the PostgreSQL manual does, field by field, after the
type byte. ``[xid u32]`` is present only inside a stream block, and only the caller knows whether a
block is open: the bytes of an Insert do not show it (rule A3). ``in_stream`` is therefore an
argument.

*Rejected:* guessing ``in_stream`` from the message's length, or from whether decoding fails without
it. An Insert whose relation id is read as an xid can sometimes be decoded, as a row of another
table.

The decoder is stricter than PostgreSQL's readers, so that ``encode(decode(data)) == data`` for
every accepted message. The whole message must be consumed. Undefined flags are refused, and so is
the schema name ``pg_catalog``, which is always sent as the empty string (rule A7).
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final, Literal

from subscriber.protocol import messages
from subscriber.protocol.byte_reader import Reader, printable
from subscriber.protocol.messages import (
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
_STREAM_COMMIT: Final = Struct(">IBQQq")
_ABORT_INFO: Final = Struct(">Qq")
_PREPARE: Final = Struct(">QQqI")
_ROLLBACK: Final = Struct(">QQqqI")
_XIDS: Final = Struct(">II")
_COLUMN_TYPE: Final = Struct(">Ii")

_COLUMN_SIZE: Final = 10  # flags, an empty name's NUL, type, modifier: the least a column of R takes
_RELATION_ID_SIZE: Final = 4
_KNOWN_TRUNCATE_FLAGS: Final = 3
_REPLICA_IDENTITIES: Final = b"dnfi"

_B, _C, _N, _K, _O = ord("B"), ord("C"), ord("N"), ord("K"), ord("O")
_TEXT, _BINARY, _NULL, _UNCHANGED = ord("t"), ord("b"), ord("n"), ord("u")


def decode(data: bytes | memoryview, *, in_stream: bool = False, write_abort_info: bool | None = None) -> Message:
    """Decode one whole message.

    Args:
        data: the message from its type byte to its last byte (the payload of an XLogData).
        in_stream: whether it came between Stream Start and Stream Stop (rule A3).
        write_abort_info: whether the session requested ``streaming 'parallel'``, so that Stream
            Abort has its two extra fields (rule A5); None: the message's length decides.

    Raises:
        ProtocolError: 08P01 (22021 for invalid UTF-8) with PostgreSQL's text, the byte offset and
            the message type, for anything that is not exactly one message (rules A19, A20).

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


def _begin(reader: Reader) -> Message:
    """B: final_lsn u64, commit_timestamp i64, xid u32."""
    final_lsn, commit_timestamp, xid = reader.unpack(_BEGIN)
    if not final_lsn:
        raise reader.error("final_lsn not set in begin message", at=1)
    return messages.Begin(final_lsn, commit_timestamp, xid)


def _commit(reader: Reader) -> Message:
    """C: flags u8 (0), commit_lsn u64, end_lsn u64, commit_timestamp i64."""
    flags, commit_lsn, end_lsn, commit_timestamp = reader.unpack(_COMMIT)
    if flags:
        raise reader.error(f"unrecognized flags {flags} in commit message", at=1)
    return messages.Commit(commit_lsn, end_lsn, commit_timestamp)


def _origin(reader: Reader) -> Message:
    """O: origin_lsn u64, name string."""
    return messages.Origin(reader.u64(), reader.string())


def _relation(reader: Reader, xid: int | None) -> Message:
    """R: [xid u32], relation_id u32, namespace string, name string, replica_identity u8, natts u16,
    columns.

    A column: flags u8, name string, type_oid u32, type_modifier i32.
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


def _type(reader: Reader, xid: int | None) -> Message:
    """Y: [xid u32], type_oid u32, namespace string, name string."""
    return messages.Type(reader.u32(), _namespace(reader), reader.string(), xid)


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
    """T: [xid u32], nrels u32, flags u8 (1 cascade, 2 restart identity), nrels times relation_id
    u32.
    """
    nrels, flags = reader.u32(), reader.byte()
    if flags & ~_KNOWN_TRUNCATE_FLAGS:
        raise reader.error(f"unrecognized flags {flags} in truncate message", at=reader.offset - 1)
    relation_ids = reader.unpack(Struct(f">{reader.count(nrels, _RELATION_ID_SIZE)}I"))
    return messages.Truncate(relation_ids, bool(flags & 1), bool(flags & 2), xid)


def _logical_message(reader: Reader, xid: int | None) -> Message:
    """M: [xid u32], flags u8 (1 transactional), lsn u64, prefix string, length u32, content."""
    transactional, lsn, prefix = reader.flag("flags"), reader.u64(), reader.string()
    return messages.LogicalMessage(transactional, lsn, prefix, reader.bytes(reader.u32()), xid)


def _stream_start(reader: Reader) -> Message:
    """S: xid u32, first_segment u8 (1 or 0)."""
    return messages.StreamStart(reader.u32(), reader.flag("first_segment"))


def _stream_stop(_reader: Reader) -> Message:
    """E: no fields."""
    return messages.StreamStop()


def _stream_commit(reader: Reader) -> Message:
    """c: xid u32, flags u8 (0), commit_lsn u64, end_lsn u64, commit_timestamp i64."""
    xid, flags, commit_lsn, end_lsn, commit_timestamp = reader.unpack(_STREAM_COMMIT)
    if flags:
        raise reader.error(f"unrecognized flags {flags} in commit message", at=5)
    return messages.StreamCommit(xid, commit_lsn, end_lsn, commit_timestamp)


def _stream_abort(reader: Reader, write_abort_info: bool | None) -> Message:
    """A: xid u32, subxid u32 [, abort_lsn u64, abort_timestamp i64]."""
    xid, subxid = reader.unpack(_XIDS)
    if write_abort_info or (write_abort_info is None and reader.remaining):
        return messages.StreamAbort(xid, subxid, *reader.unpack(_ABORT_INFO))
    return messages.StreamAbort(xid, subxid)


def _begin_prepare(reader: Reader) -> Message:
    """b: prepare_lsn u64, end_lsn u64, prepare_timestamp i64, xid u32, gid string."""
    prepare_lsn, end_lsn, prepare_timestamp, xid = reader.unpack(_PREPARE)
    if not prepare_lsn:
        raise reader.error("prepare_lsn not set in begin prepare message", at=1)
    if not end_lsn:
        raise reader.error("end_lsn not set in begin prepare message", at=9)
    return messages.BeginPrepare(prepare_lsn, end_lsn, prepare_timestamp, xid, _gid(reader))


def _prepare(reader: Reader) -> Message:
    """P: flags u8 (0), prepare_lsn u64, end_lsn u64, prepare_timestamp i64, xid u32, gid string."""
    return messages.Prepare(*_prepare_body(reader, "prepare"))


def _stream_prepare(reader: Reader) -> Message:
    """p: flags u8 (0), prepare_lsn u64, end_lsn u64, prepare_timestamp i64, xid u32, gid string."""
    return messages.StreamPrepare(*_prepare_body(reader, "stream prepare"))


def _commit_prepared(reader: Reader) -> Message:
    """K: flags u8 (0), commit_lsn u64, end_lsn u64, commit_timestamp i64, xid u32, gid string."""
    return messages.CommitPrepared(*_prepare_body(reader, "commit prepared", "commit_lsn"))


def _prepare_body(
    reader: Reader, what: Literal["prepare", "stream prepare", "commit prepared"], first_lsn: str = "prepare_lsn"
) -> tuple[int, int, int, int, str]:
    _no_flags(reader, what)
    lsn, end_lsn, timestamp, xid = reader.unpack(_PREPARE)
    if not lsn:
        raise reader.error(f"{first_lsn} is not set in {what} message", at=2)
    if not end_lsn:
        raise reader.error(f"end_lsn is not set in {what} message", at=10)
    if not xid and first_lsn == "prepare_lsn":
        raise reader.error(f"invalid two-phase transaction ID in {what} message", at=26)
    return lsn, end_lsn, timestamp, xid, _gid(reader)


def _rollback_prepared(reader: Reader) -> Message:
    """r: flags u8 (0), prepare_end_lsn u64, end_lsn u64, prepare_timestamp i64, rollback_timestamp
    i64, xid u32, gid.
    """
    _no_flags(reader, "rollback prepared")
    prepare_end_lsn, end_lsn, prepare_timestamp, rollback_timestamp, xid = reader.unpack(_ROLLBACK)
    if not prepare_end_lsn:
        raise reader.error("prepare_end_lsn is not set in rollback prepared message", at=2)
    if not end_lsn:
        raise reader.error("rollback_end_lsn is not set in rollback prepared message", at=10)
    return messages.RollbackPrepared(prepare_end_lsn, end_lsn, prepare_timestamp, rollback_timestamp, xid, _gid(reader))


def _no_flags(reader: Reader, what: str) -> None:
    flags = reader.byte()
    if flags:
        raise reader.error(f"unrecognized flags {flags} in {what} message", at=1)


def _gid(reader: Reader) -> str:
    """Read a GID. PostgreSQL truncates a GID to 199 bytes (strlcpy); here a longer one is refused
    (rule A18).
    """
    start = reader.offset
    gid = reader.string()
    if reader.offset - start > GID_SIZE:
        raise reader.error("transaction identifier is too long", at=start)
    return gid


def _namespace(reader: Reader) -> str:
    """Read a schema name. The empty string stands for pg_catalog, which is never sent by name (rule
    A7).
    """
    start = reader.offset
    namespace = reader.string()
    if namespace == "pg_catalog":
        raise reader.error("unexpected namespace pg_catalog: it is sent as the empty string", at=start)
    return namespace or "pg_catalog"


def _old_kind(action: int) -> OldKind:
    return "K" if action == _K else "O"


def _tuple(reader: Reader) -> TupleData:
    """TupleData: ncols u16, columns (rule A11).

    A column: 'n' or 'u', or 't' or 'b' with length u32 and that many bytes.
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


_STREAM_ABORT: Final = ord("A")

_PLAIN: Final[dict[int, Callable[[Reader], Message]]] = {
    ord("B"): _begin,
    ord("C"): _commit,
    ord("O"): _origin,
    ord("S"): _stream_start,
    ord("E"): _stream_stop,
    ord("c"): _stream_commit,
    ord("b"): _begin_prepare,
    ord("P"): _prepare,
    ord("K"): _commit_prepared,
    ord("r"): _rollback_prepared,
    ord("p"): _stream_prepare,
}
"""Messages that never have an xid prefix (rule A4), except Stream Abort (A), whose decoder needs an
option.
"""

_IN_STREAM: Final[dict[int, Callable[[Reader, int | None], Message]]] = {
    ord("R"): _relation,
    ord("Y"): _type,
    ord("I"): _insert,
    ord("U"): _update,
    ord("D"): _delete,
    ord("T"): _truncate,
    ord("M"): _logical_message,
}
"""Messages that have an xid prefix inside a stream block (rule A3)."""
