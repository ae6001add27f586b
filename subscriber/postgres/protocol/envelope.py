"""The content of CopyData messages during logical replication, in both directions (rules A34-A36).

::

    walsender ──w XLogData──────────────▶ walreceiver     one pgoutput message each
              ──k Keepalive─────────────▶
              ◀─r StandbyStatusUpdate────                 received, flushed, applied
              ◀─p PrimaryStatusRequest───                 19 only, for retain_dead_tuples
              ──s PrimaryStatusUpdate───▶                 19 only

The LSNs of XLogData are 0/0 for messages that pgoutput writes before another message (rule A34),
and 0 is not progress. PostgreSQL's subscriber computes the three positions of a status update in
another order than it sends them (rule A35).

All layouts begin after the type byte. ``*_timestamp`` is in microseconds since 2000-01-01 UTC, by
the sender's clock.

A server also sends NoticeResponse between CopyData messages, at a place of the stream that may
matter. A replication stream therefore returns notices among the frames, in the layout of the
protocol (``N``, then for each field its code, its text and a NUL, then a NUL). No CopyData message
of replication begins with ``N``.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Final, TypeAlias

from subscriber.base.byte_reader import Reader, printable
from subscriber.base.errors import ProtocolError
from subscriber.base.lsn import LSN, parse_lsn

XLOGDATA_HEADER_SIZE: Final = 25

_XLOGDATA: Final = Struct(">cQQq")
_KEEPALIVE: Final = Struct(">cQq?")
_STATUS_UPDATE: Final = Struct(">cQQQq?")
_STATUS_REQUEST: Final = Struct(">cq")
_PRIMARY_STATUS: Final = Struct(">cQQQq")

_XLOGDATA_FIELDS: Final = Struct(">QQq")
_KEEPALIVE_FIELDS: Final = Struct(">Qq")
_STATUS_FIELDS: Final = Struct(">QQQq")
_REQUEST_FIELDS: Final = Struct(">q")


@dataclass(frozen=True, slots=True)
class XLogData:
    """One message of the output plugin; start_lsn and end_lsn are equal, maybe 0 (rule A34)."""

    type_byte: ClassVar[str] = "w"
    start_lsn: int
    end_lsn: int
    send_timestamp: int
    payload: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Keepalive:
    """The position that the walsender has read, and whether it requests a reply now (rule A35)."""

    type_byte: ClassVar[str] = "k"
    wal_end: int
    send_timestamp: int
    reply_requested: bool


@dataclass(frozen=True, slots=True)
class StandbyStatusUpdate:
    """The subscriber's positions (rule A35), each that of the last byte + 1. The publisher may
    recycle WAL before ``flushed_lsn``.
    """

    type_byte: ClassVar[str] = "r"
    received_lsn: int
    flushed_lsn: int
    applied_lsn: int
    timestamp: int
    reply_requested: bool


@dataclass(frozen=True, slots=True)
class PrimaryStatusRequest:
    """PostgreSQL 19: requests a :class:`PrimaryStatusUpdate` (rule A36)."""

    type_byte: ClassVar[str] = "p"
    timestamp: int


@dataclass(frozen=True, slots=True)
class PrimaryStatusUpdate:
    """PostgreSQL 19: the publisher's position; the two transaction IDs have 64 bits (rule A36)."""

    type_byte: ClassVar[str] = "s"
    remote_lsn: int
    oldest_committing_xid: int
    next_xid: int
    reply_timestamp: int


ServerEnvelope: TypeAlias = XLogData | Keepalive | PrimaryStatusUpdate

ClientEnvelope: TypeAlias = StandbyStatusUpdate | PrimaryStatusRequest

Envelope: TypeAlias = ServerEnvelope | ClientEnvelope


def decode_envelope(data: bytes | memoryview) -> ServerEnvelope:
    """Decode one CopyData message from the walsender; ProtocolError (08P01) for anything else.

    w start_lsn u64, end_lsn u64, send_timestamp i64, payload; k wal_end u64, send_timestamp i64,
    reply_requested u8; s remote_lsn u64, oldest_committing_xid u64, next_xid u64, reply_timestamp
    i64.
    """
    reader = Reader(bytes(data))
    message: ServerEnvelope
    match reader.type_byte():
        case 0x77:  # w
            start_lsn, end_lsn, send_timestamp = reader.unpack(_XLOGDATA_FIELDS)
            return XLogData(start_lsn, end_lsn, send_timestamp, reader.bytes(reader.remaining))
        case 0x6B:  # k
            wal_end, send_timestamp = reader.unpack(_KEEPALIVE_FIELDS)
            message = Keepalive(wal_end, send_timestamp, reader.flag("reply_requested"))
        case 0x73:  # s
            message = PrimaryStatusUpdate(*reader.unpack(_STATUS_FIELDS))
        case other:
            raise reader.error(f"invalid replication message type {other}", at=0)
    reader.end()
    return message


def decode_reply(data: bytes | memoryview) -> ClientEnvelope:
    """Decode a subscriber's CopyData message: r received_lsn u64, flushed_lsn u64, applied_lsn u64,
    timestamp i64, reply_requested u8; p timestamp i64.
    """
    reader = Reader(bytes(data))
    message: ClientEnvelope
    match reader.type_byte():
        case 0x72:  # r
            received, flushed, applied, timestamp = reader.unpack(_STATUS_FIELDS)
            message = StandbyStatusUpdate(received, flushed, applied, timestamp, reader.flag("reply_requested"))
        case 0x70:  # p
            message = PrimaryStatusRequest(*reader.unpack(_REQUEST_FIELDS))
        case other:
            raise reader.error(f'unexpected message type "{printable(other)}"', at=0)
    reader.end()
    return message


def encode_envelope(envelope: Envelope) -> bytes:
    try:
        return _encode(envelope)
    except struct.error:
        raise ProtocolError(
            f"cannot encode {type(envelope).__name__}: a field does not fit into the message",
            message_type=envelope.type_byte,
        ) from None


def _encode(envelope: Envelope) -> bytes:
    match envelope:
        case XLogData(start_lsn, end_lsn, send_timestamp, payload):
            return _XLOGDATA.pack(b"w", start_lsn, end_lsn, send_timestamp) + payload
        case Keepalive(wal_end, send_timestamp, reply_requested):
            return _KEEPALIVE.pack(b"k", wal_end, send_timestamp, reply_requested)
        case StandbyStatusUpdate(received_lsn, flushed_lsn, applied_lsn, timestamp, reply_requested):
            return _STATUS_UPDATE.pack(b"r", received_lsn, flushed_lsn, applied_lsn, timestamp, reply_requested)
        case PrimaryStatusRequest(timestamp):
            return _STATUS_REQUEST.pack(b"p", timestamp)
        case PrimaryStatusUpdate(remote_lsn, oldest_committing_xid, next_xid, reply_timestamp):
            return _PRIMARY_STATUS.pack(b"s", remote_lsn, oldest_committing_xid, next_xid, reply_timestamp)


NOTICE: Final = b"N"

_SEVERITY, _SQLSTATE, _MESSAGE, _DETAIL, _HINT, _CONTEXT, _FUNCTION = "VCMDHWR"
_LSN: Final = re.compile(r"\b[0-9A-F]+/[0-9A-F]+\b")


@dataclass(frozen=True, slots=True)
class Notice:
    """A message of the server that is no error. Only the severity is never translated."""

    severity: str
    sqlstate: str
    message: str
    detail: str = ""
    hint: str = ""
    context: str = ""
    function: str = ""

    @property
    def skips_publication(self) -> bool:
        """Whether pgoutput goes on without a publication that does not exist at this point of the
        WAL (18 and later). The server's function is asked, because the text may be translated.
        """
        return self.severity == "WARNING" and self.function == "LoadPublications"

    @property
    def lsn(self) -> LSN | None:
        """The LSN of the change that was decoded; None if the notice is of no change."""
        found = _LSN.findall(self.context)
        return parse_lsn(found[-1]) if found else None

    def report(self) -> str:
        """The notice as psql prints it, without its context."""
        parts = ((self.severity, self.message), ("DETAIL", self.detail), ("HINT", self.hint))
        return "\n".join(f"{name}:  {text}" for name, text in parts if text)


def encode_notice(fields: Mapping[str, bytes]) -> bytes:
    return NOTICE + b"".join(code.encode() + text + b"\0" for code, text in fields.items()) + b"\0"


def decode_notice(frame: bytes) -> Notice:
    """Decode a NoticeResponse; unknown fields are left out."""
    reader = Reader(frame)
    reader.type_byte()
    fields: dict[str, str] = {}
    while code := reader.byte():
        fields[chr(code)] = reader.string()
    reader.end()
    return Notice(
        *(fields.get(code, "") for code in (_SEVERITY, _SQLSTATE, _MESSAGE, _DETAIL, _HINT, _CONTEXT, _FUNCTION))
    )
