"""encode and decode are inverses, and no bytes whatever end in anything but a message or a
ProtocolError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.errors import ProtocolError
from subscriber.protocol import decode, decode_envelope, decode_reply, encode, encode_envelope
from subscriber.protocol.envelope import XLOGDATA_HEADER_SIZE, XLogData
from subscriber.protocol.messages import Message, StreamAbort
from tests import strategies

in_stream_messages = st.booleans().flatmap(
    lambda in_stream: st.tuples(strategies.messages(in_stream=in_stream), st.just(in_stream))
)


@given(in_stream_messages)
def test_every_message_survives_the_wire(pair: tuple[Message, bool]):
    """A3, A4: the same in and out of a stream block."""
    message, in_stream = pair
    assert decode(encode(message), in_stream=in_stream) == message
    assert decode(memoryview(encode(message)), in_stream=in_stream) == message


@given(in_stream_messages)
def test_every_proper_prefix_is_refused_or_another_message(pair: tuple[Message, bool]):
    """No read past the end, no value of too few bytes, no endless search for a NUL."""
    message, in_stream = pair
    data = encode(message)
    for size in range(len(data)):
        _refused_or_exact(data[:size], lambda prefix: decode(prefix, in_stream=in_stream), encode)


@given(in_stream_messages)
def test_a_proper_prefix_is_a_message_only_where_the_option_decides(pair: tuple[Message, bool]):
    """A5: the 9 byte form is a prefix of the 25 byte form of Stream Abort; nothing else has two
    lengths.
    """
    message, in_stream = pair
    data = encode(message)
    for size in range(len(data)):
        if isinstance(message, StreamAbort) and size == 9:
            continue
        with pytest.raises(ProtocolError):
            decode(data[:size], in_stream=in_stream)


@given(in_stream_messages, st.data())
def test_every_mutated_byte_is_refused_or_told_exactly(pair: tuple[Message, bool], data: st.DataObject):
    """A message that decodes re-encodes to the very bytes given, so no column can have shifted."""
    message, in_stream = pair
    original = encode(message)
    position = data.draw(st.integers(0, len(original) - 1))
    for byte in {*data.draw(st.lists(st.integers(0, 255), max_size=8)), *b"\0\1\2\xffKNOntub"}:
        mutated = original[:position] + bytes([byte]) + original[position + 1 :]
        _refused_or_exact(mutated, lambda given: decode(given, in_stream=in_stream), encode)


@given(in_stream_messages, st.binary(min_size=1, max_size=3))
def test_bytes_left_over_are_refused(pair: tuple[Message, bool], more: bytes):
    message, in_stream = pair
    if isinstance(message, StreamAbort):
        return  # its longer form is tested by name
    with pytest.raises(ProtocolError, match="invalid message format"):
        decode(encode(message) + more, in_stream=in_stream)


@given(st.sampled_from(b"BCORYIUDTMSEcAbPKrpxyz\0"), st.binary(max_size=60), st.booleans())
def test_any_bytes_are_refused_or_told_exactly(type_byte: int, body: bytes, in_stream: bool):
    _refused_or_exact(bytes([type_byte]) + body, lambda given: decode(given, in_stream=in_stream), encode)


@given(strategies.server_envelopes)
def test_every_server_envelope_survives_the_wire(envelope: Any):
    """A34-A36."""
    assert decode_envelope(encode_envelope(envelope)) == envelope


@given(strategies.client_envelopes)
def test_every_client_envelope_survives_the_wire(envelope: Any):
    """A35, A36."""
    assert decode_reply(encode_envelope(envelope)) == envelope


@given(strategies.server_envelopes, st.data())
def test_a_damaged_server_envelope_is_refused_or_told_exactly(envelope: Any, data: st.DataObject):
    original = encode_envelope(envelope)
    for size in range(len(original)):
        if isinstance(envelope, XLogData) and size >= XLOGDATA_HEADER_SIZE:
            continue  # a payload of any length is a valid envelope
        with pytest.raises(ProtocolError):
            decode_envelope(original[:size])
    _refused_or_exact(data.draw(_mutations(original)), decode_envelope, encode_envelope)


@given(strategies.client_envelopes, st.data())
def test_a_damaged_client_envelope_is_refused_or_told_exactly(envelope: Any, data: st.DataObject):
    original = encode_envelope(envelope)
    for size in range(len(original)):
        with pytest.raises(ProtocolError):
            decode_reply(original[:size])
    _refused_or_exact(data.draw(_mutations(original)), decode_reply, encode_envelope)


def _mutations(original: bytes) -> st.SearchStrategy[bytes]:
    return st.builds(
        lambda position, byte: original[:position] + bytes([byte]) + original[position + 1 :],
        st.integers(0, len(original) - 1),
        st.integers(0, 255),
    )


def _refused_or_exact(data: bytes, read: Callable[[bytes], Any], write: Callable[[Any], bytes]) -> None:
    """Reading ``data`` ends in a message of exactly these bytes, or in a ProtocolError that says
    where.
    """
    refused: ProtocolError | None = None
    try:
        message = read(data)
    except ProtocolError as error:
        refused = error
    if refused is None:
        assert write(message) == data
    else:
        assert refused.offset is not None
        assert 0 <= refused.offset <= len(data)
        assert refused.sqlstate in ("08P01", "22021")
