"""Encodes messages as bytes of pgoutput: the exact inverse of
:mod:`subscriber.postgres.protocol.decode_message`, whose docstrings have the layouts.

``encode`` refuses fields that the format cannot represent (a number that is too large, a string
with NUL, an old tuple without its kind or the reverse). It does not check whether a reader would
accept the message, since tests need to write, for example, a Begin without final_lsn.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import fields
from struct import Struct
from typing import Any, Final, get_args

from subscriber.base.errors import ProtocolError
from subscriber.postgres.protocol import messages
from subscriber.postgres.protocol.messages import BinaryValue, ColumnValue, Message, TextValue, TupleData

_STREAM_ABORT: Final = Struct(">cII")
_ABORT_INFO: Final = Struct(">Qq")
_COLUMN_TYPE: Final = Struct(">Ii")
_TRUNCATE: Final = Struct(">IB")
_U8: Final = Struct(">B")
_U16: Final = Struct(">H")
_U32: Final = Struct(">I")


def encode(message: Message) -> bytes:
    """Encode one message; a change with an ``xid`` gets the form inside a stream block (rule A3).

    >>> encode(messages.Insert(16384, (TextValue(b"1"), messages.NULL))).hex()
    '49000040004e00027400000001316e'
    """
    try:
        return _ENCODERS[type(message)](message)
    except (struct.error, UnicodeEncodeError):
        # Not chained: a UnicodeEncodeError contains the string (invariant names_are_data).
        raise _refuse(message, "a field does not fit into the message") from None


def _relation(message: messages.Relation) -> bytes:
    identity = message.replica_identity.encode()
    if len(identity) != 1:
        raise _refuse(message, "a replica identity must be one byte")
    head = (
        _head(message)
        + _U32.pack(message.relation_id)
        + _namespace(message, message.namespace)
        + _string(message, message.name)
    )
    columns = [
        _U8.pack(column.flags)
        + _string(message, column.name)
        + _COLUMN_TYPE.pack(column.type_oid, column.type_modifier)
        for column in message.columns
    ]
    return head + identity + _U16.pack(len(columns)) + b"".join(columns)


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


def _stream_abort(message: messages.StreamAbort) -> bytes:
    xids = _STREAM_ABORT.pack(b"A", message.xid, message.subxid)
    if message.abort_lsn is None and message.abort_timestamp is None:
        return xids
    if message.abort_lsn is None or message.abort_timestamp is None:
        raise _refuse(message, "abort_lsn and abort_timestamp must be given together")
    return xids + _ABORT_INFO.pack(message.abort_lsn, message.abort_timestamp)


def _by_layout(kind: type[Any]) -> Callable[[Any], bytes]:
    """The function that writes a message with a layout."""
    names, numbers = messages.names_of(kind), kind.layout.rstrip("sngc")
    layout, count = Struct(">" + numbers.replace("0", "x")), len(numbers.replace("0", ""))
    texts = [(_WRITE[code], name) for code, name in zip(kind.layout[len(numbers) :], names[count:], strict=True)]
    in_stream = len(names) < len(fields(kind))

    def write(message: Any) -> bytes:
        head: bytes = _head(message) if in_stream else message.type_byte.encode()
        data = head + layout.pack(*[getattr(message, name) for name in names[:count]])
        return data + b"".join([write_text(message, getattr(message, name)) for write_text, name in texts])

    return write


def _head(message: Any) -> bytes:
    type_byte: bytes = message.type_byte.encode()
    return type_byte if message.xid is None else type_byte + _U32.pack(message.xid)


def _string(message: Message, text: str) -> bytes:
    if "\0" in text:
        raise _refuse(message, "a string cannot contain NUL")
    return text.encode() + b"\0"


def _namespace(message: Message, name: str) -> bytes:
    """pg_catalog is written as the empty string, so no other name may be empty (rule A7)."""
    if not name:
        raise _refuse(message, "a namespace must have a name")
    return _string(message, "" if name == "pg_catalog" else name)


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


_WRITE: Final[dict[str, Callable[[Message, Any], bytes]]] = {
    "s": _string,
    "n": _namespace,
    "g": _string,
    "c": lambda _, content: _counted(content),
}

_ENCODERS: Final[dict[type, Callable[[Any], bytes]]] = {
    **{kind: _by_layout(kind) for kind in get_args(Message) if hasattr(kind, "layout")},
    messages.Relation: _relation,
    messages.Insert: _insert,
    messages.Update: _update,
    messages.Delete: _delete,
    messages.Truncate: _truncate,
    messages.StreamAbort: _stream_abort,
}
