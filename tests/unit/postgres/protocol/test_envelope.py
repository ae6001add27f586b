"""The CopyBoth envelope, both directions (A34-A36)."""

from __future__ import annotations

import struct

import pytest

from subscriber.base.errors import ProtocolError
from subscriber.postgres.protocol.envelope import (
    XLOGDATA_HEADER_SIZE,
    Keepalive,
    PrimaryStatusRequest,
    PrimaryStatusUpdate,
    StandbyStatusUpdate,
    XLogData,
    decode_envelope,
    decode_reply,
    encode_envelope,
)


def test_xlogdata_is_a_header_of_25_bytes_and_the_payload():
    """A34."""
    data = b"w" + struct.pack(">QQq", 1, 2, -3) + b"payload"
    assert decode_envelope(data) == decode_envelope(memoryview(data)) == XLogData(1, 2, -3, b"payload")
    assert encode_envelope(XLogData(1, 2, -3, b"payload")) == data
    assert data[XLOGDATA_HEADER_SIZE:] == b"payload"


def test_xlogdata_without_position_is_valid():
    """A34: the LSNs of R, Y and of B before O are 0/0; whoever takes them for progress is wrong
    elsewhere.
    """
    assert decode_envelope(b"w" + bytes(24)) == XLogData(0, 0, 0, b"")


def test_keepalive_asks_or_does_not():
    """A35."""
    assert decode_envelope(b"k" + struct.pack(">Qq", 7, 8) + b"\1") == Keepalive(7, 8, reply_requested=True)
    assert encode_envelope(Keepalive(7, 8, reply_requested=False)) == b"k" + struct.pack(">Qq", 7, 8) + b"\0"


def test_a_status_update_travels_received_flushed_applied():
    """A35: in this order, whatever the order of their computation."""
    update = StandbyStatusUpdate(received_lsn=3, flushed_lsn=2, applied_lsn=1, timestamp=9, reply_requested=True)
    data = b"r" + struct.pack(">QQQq", 3, 2, 1, 9) + b"\1"
    assert encode_envelope(update) == data
    assert decode_reply(data) == update
    assert len(data) == 34


def test_the_status_messages_of_19():
    """A36."""
    request, update = PrimaryStatusRequest(-5), PrimaryStatusUpdate(1, 2**32 + 1, 2**32 + 2, 5)
    assert decode_reply(b"p" + struct.pack(">q", -5)) == request
    assert decode_envelope(b"s" + struct.pack(">QQQq", 1, 2**32 + 1, 2**32 + 2, 5)) == update


def test_each_direction_refuses_the_other_ones_messages():
    with pytest.raises(ProtocolError, match="invalid replication message type 114") as caught:
        decode_envelope(b"r" + bytes(33))
    assert caught.value.message_type == "r"
    with pytest.raises(ProtocolError, match='unexpected message type "w"'):
        decode_reply(b"w" + bytes(24))


@pytest.mark.parametrize(
    "data", [b"k" + bytes(16) + b"\2", b"k" + bytes(18), b"k" + bytes(16), b"s" + bytes(33), b"w" + bytes(23), b""]
)
def test_a_malformed_server_envelope_is_refused(data):
    with pytest.raises(ProtocolError):
        decode_envelope(data)


@pytest.mark.parametrize("data", [b"r" + bytes(32) + b"\2", b"r" + bytes(34), b"p" + bytes(7), b"p" + bytes(9), b""])
def test_a_malformed_reply_is_refused(data):
    with pytest.raises(ProtocolError):
        decode_reply(data)


def test_a_number_without_a_place_is_refused():
    with pytest.raises(ProtocolError, match="cannot encode StandbyStatusUpdate"):
        encode_envelope(StandbyStatusUpdate(-1, 0, 0, 0, reply_requested=False))


def test_a_repr_never_shows_the_payload():
    """names_are_data."""
    assert "secret" not in repr(XLogData(0, 0, 0, b"secret"))
