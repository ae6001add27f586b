"""Encodes messages as bytes of pgoutput: the exact inverse of :mod:`subscriber.protocol.decode`.

For every message that ``decode`` accepts, ``encode(decode(data)) == data``. The output plugin host,
the journal and tests need this publisher's side of the protocol. The layouts are in the docstrings
of the decoders.

``encode`` refuses fields that the format cannot represent (a number that is too large, a string
with NUL, an old tuple without its kind or the reverse). It does not check whether a reader would
accept the message, since tests need to write, for example, a Begin without final_lsn.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from subscriber.errors import ProtocolError
from subscriber.protocol import messages
from subscriber.protocol.messages import BinaryValue, ColumnValue, Message, TextValue, TupleData

_BEGIN: Final = Struct(">cQqI")
_COMMIT: Final = Struct(">cBQQq")
_STREAM_COMMIT: Final = Struct(">cIBQQq")
_STREAM_ABORT: Final = Struct(">cII")
_ABORT_INFO: Final = Struct(">Qq")
_BEGIN_PREPARE: Final = Struct(">cQQqI")
_PREPARE: Final = Struct(">cBQQqI")
_ROLLBACK: Final = Struct(">cBQQqqI")
_STREAM_START: Final = Struct(">cI?")
_LOGICAL_MESSAGE: Final = Struct(">?Q")
_COLUMN_TYPE: Final = Struct(">Ii")
_TRUNCATE: Final = Struct(">IB")
_U8: Final = Struct(">B")
_U16: Final = Struct(">H")
_U32: Final = Struct(">I")
_U64: Final = Struct(">Q")

_NO_FLAGS: Final = 0


def encode(message: Message) -> bytes:
    """Encode one message; a change with an ``xid`` gets the form inside a stream block (rule A3).

    Raises:
        ProtocolError: a field that the message's format cannot represent.

    >>> encode(messages.Insert(16384, (TextValue(b"1"), messages.NULL))).hex()
    '49000040004e00027400000001316e'
    """
    try:
        return _ENCODERS[type(message)](message)
    except (struct.error, UnicodeEncodeError):
        # Not chained: a UnicodeEncodeError contains the string (invariant names_are_data).
        raise _refuse(message, "a field does not fit into the message") from None


def _begin(message: messages.Begin) -> bytes:
    return _BEGIN.pack(b"B", message.final_lsn, message.commit_timestamp, message.xid)


def _commit(message: messages.Commit) -> bytes:
    return _COMMIT.pack(b"C", _NO_FLAGS, message.commit_lsn, message.end_lsn, message.commit_timestamp)


def _origin(message: messages.Origin) -> bytes:
    return b"O" + _U64.pack(message.origin_lsn) + _string(message, message.name)


def _relation(message: messages.Relation) -> bytes:
    identity = message.replica_identity.encode()
    if len(identity) != 1:
        raise _refuse(message, "a replica identity must be one byte")
    head = _head(message) + _U32.pack(message.relation_id) + _namespace(message) + _string(message, message.name)
    columns = [
        _U8.pack(column.flags)
        + _string(message, column.name)
        + _COLUMN_TYPE.pack(column.type_oid, column.type_modifier)
        for column in message.columns
    ]
    return head + identity + _U16.pack(len(columns)) + b"".join(columns)


def _type(message: messages.Type) -> bytes:
    return _head(message) + _U32.pack(message.type_oid) + _namespace(message) + _string(message, message.name)


def _insert(message: messages.Insert) -> bytes:
    return _head(message) + _U32.pack(message.relation_id) + b"N" + _tuple(message.new)


def _update(message: messages.Update) -> bytes:
    if (message.old_kind is None) != (message.old is None):
        raise _refuse(message, "an old tuple and its kind must be given together")
    old = b"" if message.old_kind is None or message.old is None else _old(message.old_kind, message.old)
    return _head(message) + _U32.pack(message.relation_id) + old + b"N" + _tuple(message.new)


def _delete(message: messages.Delete) -> bytes:
    return _head(message) + _U32.pack(message.relation_id) + _old(message.old_kind, message.old)


def _truncate(message: messages.Truncate) -> bytes:
    relation_ids = message.relation_ids
    flags = message.cascade | message.restart_identity << 1
    head = _head(message) + _TRUNCATE.pack(len(relation_ids), flags)
    return head + Struct(f">{len(relation_ids)}I").pack(*relation_ids)


def _logical_message(message: messages.LogicalMessage) -> bytes:
    head = _head(message) + _LOGICAL_MESSAGE.pack(message.transactional, message.lsn)
    return head + _string(message, message.prefix) + _counted(message.content)


def _stream_start(message: messages.StreamStart) -> bytes:
    return _STREAM_START.pack(b"S", message.xid, message.first_segment)


def _stream_stop(_message: messages.StreamStop) -> bytes:
    return b"E"


def _stream_commit(message: messages.StreamCommit) -> bytes:
    return _STREAM_COMMIT.pack(
        b"c", message.xid, _NO_FLAGS, message.commit_lsn, message.end_lsn, message.commit_timestamp
    )


def _stream_abort(message: messages.StreamAbort) -> bytes:
    xids = _STREAM_ABORT.pack(b"A", message.xid, message.subxid)
    if message.abort_lsn is None and message.abort_timestamp is None:
        return xids
    if message.abort_lsn is None or message.abort_timestamp is None:
        raise _refuse(message, "abort_lsn and abort_timestamp must be given together")
    return xids + _ABORT_INFO.pack(message.abort_lsn, message.abort_timestamp)


def _begin_prepare(message: messages.BeginPrepare) -> bytes:
    head = _BEGIN_PREPARE.pack(b"b", message.prepare_lsn, message.end_lsn, message.prepare_timestamp, message.xid)
    return head + _string(message, message.gid)


def _prepare(message: messages.Prepare | messages.StreamPrepare) -> bytes:
    head = _PREPARE.pack(
        message.type_byte.encode(),
        _NO_FLAGS,
        message.prepare_lsn,
        message.end_lsn,
        message.prepare_timestamp,
        message.xid,
    )
    return head + _string(message, message.gid)


def _commit_prepared(message: messages.CommitPrepared) -> bytes:
    head = _PREPARE.pack(b"K", _NO_FLAGS, message.commit_lsn, message.end_lsn, message.commit_timestamp, message.xid)
    return head + _string(message, message.gid)


def _rollback_prepared(message: messages.RollbackPrepared) -> bytes:
    head = _ROLLBACK.pack(
        b"r",
        _NO_FLAGS,
        message.prepare_end_lsn,
        message.end_lsn,
        message.prepare_timestamp,
        message.rollback_timestamp,
        message.xid,
    )
    return head + _string(message, message.gid)


def _head(message: Any) -> bytes:
    """The type byte, and the xid of a message inside a stream block (rule A3)."""
    type_byte: bytes = message.type_byte.encode()
    return type_byte if message.xid is None else type_byte + _U32.pack(message.xid)


def _string(message: Message, text: str) -> bytes:
    if "\0" in text:
        raise _refuse(message, "a string cannot contain NUL")
    return text.encode() + b"\0"


def _namespace(message: messages.Relation | messages.Type) -> bytes:
    """Encode a schema name. pg_catalog is written as the empty string, so that no other name may be
    empty (rule A7).
    """
    if not message.namespace:
        raise _refuse(message, "a namespace must have a name")
    return _string(message, "" if message.namespace == "pg_catalog" else message.namespace)


def _old(kind: messages.OldKind, old: TupleData) -> bytes:
    return (b"K" if kind == "K" else b"O") + _tuple(old)


def _tuple(values: TupleData) -> bytes:
    return _U16.pack(len(values)) + b"".join([_column_value(value) for value in values])


def _column_value(value: ColumnValue) -> bytes:
    match value:
        case TextValue(data):
            return b"t" + _counted(data)
        case BinaryValue(data):
            return b"b" + _counted(data)
        case messages.Absence.NULL:
            return b"n"
        case messages.Absence.UNCHANGED:
            return b"u"


def _counted(data: bytes) -> bytes:
    return _U32.pack(len(data)) + data


def _refuse(message: Message, reason: str) -> ProtocolError:
    return ProtocolError(f"cannot encode {type(message).__name__}: {reason}", message_type=message.type_byte)


_ENCODERS: Final[dict[type, Callable[[Any], bytes]]] = {
    messages.Begin: _begin,
    messages.Commit: _commit,
    messages.Origin: _origin,
    messages.Relation: _relation,
    messages.Type: _type,
    messages.Insert: _insert,
    messages.Update: _update,
    messages.Delete: _delete,
    messages.Truncate: _truncate,
    messages.LogicalMessage: _logical_message,
    messages.StreamStart: _stream_start,
    messages.StreamStop: _stream_stop,
    messages.StreamCommit: _stream_commit,
    messages.StreamAbort: _stream_abort,
    messages.BeginPrepare: _begin_prepare,
    messages.Prepare: _prepare,
    messages.CommitPrepared: _commit_prepared,
    messages.RollbackPrepared: _rollback_prepared,
    messages.StreamPrepare: _prepare,
}
