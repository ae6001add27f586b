"""Encoding and decoding are inverse functions. Any other bytes end in a ProtocolError."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.base.errors import ProtocolError
from subscriber.postgres.protocol.decode_message import decode
from subscriber.postgres.protocol.encode_message import encode
from subscriber.postgres.protocol.envelope import (
    XLOGDATA_HEADER_SIZE,
    XLogData,
    decode_envelope,
    decode_reply,
    encode_envelope,
)
from subscriber.postgres.protocol.messages import Message, StreamAbort
from tests import strategies

in_stream_messages = st.booleans().flatmap(
    lambda in_stream: st.tuples(strategies.messages(in_stream=in_stream), st.just(in_stream))
)


@given(in_stream_messages)
def test_every_message_decodes_to_itself(pair: tuple[Message, bool]):
    """Rules A3, A4: inside and outside of a stream block."""
    message, in_stream = pair
    assert decode(encode(message), in_stream=in_stream) == message
    assert decode(memoryview(encode(message)), in_stream=in_stream) == message


@given(in_stream_messages)
def test_a_proper_prefix_is_refused_or_decodes_to_another_message(pair: tuple[Message, bool]):
    """The decoder reads nothing past the end, no value from too few bytes, and searches for NUL
    only as far as the end.
    """
    message, in_stream = pair
    data = encode(message)
    for size in range(len(data)):
        _refused_or_exact(data[:size], lambda prefix: decode(prefix, in_stream=in_stream), encode)


@given(in_stream_messages)
def test_only_stream_abort_has_a_prefix_that_is_a_message(pair: tuple[Message, bool]):
    """Rule A5: Stream Abort has 9 or 25 bytes, by an option of the stream. Every other message has
    one length.
    """
    message, in_stream = pair
    data = encode(message)
    for size in range(len(data)):
        if isinstance(message, StreamAbort) and size == 9:
            continue
        with pytest.raises(ProtocolError):
            decode(data[:size], in_stream=in_stream)


@given(in_stream_messages, st.data())
def test_a_message_with_a_mutated_byte_is_refused_or_encodes_to_the_same_bytes(
    pair: tuple[Message, bool], data: st.DataObject
):
    """A message that was decoded encodes to the bytes that were given. So no column can have
    shifted.
    """
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
        return  # its longer form has a test by name
    with pytest.raises(ProtocolError, match="invalid message format"):
        decode(encode(message) + more, in_stream=in_stream)


@given(st.sampled_from(b"BCORYIUDTMSEcAbPKrpxyz\0"), st.binary(max_size=60), st.booleans())
def test_any_bytes_are_refused_or_encode_to_the_same_bytes(type_byte: int, body: bytes, in_stream: bool):
    _refused_or_exact(bytes([type_byte]) + body, lambda given: decode(given, in_stream=in_stream), encode)


@given(strategies.server_envelopes)
def test_every_envelope_of_the_server_decodes_to_itself(envelope: Any):
    """Rules A34 to A36."""
    assert decode_envelope(encode_envelope(envelope)) == envelope


@given(strategies.client_envelopes)
def test_every_envelope_of_the_client_decodes_to_itself(envelope: Any):
    """Rules A35, A36."""
    assert decode_reply(encode_envelope(envelope)) == envelope


@given(strategies.server_envelopes, st.data())
def test_a_damaged_envelope_of_the_server_is_refused_or_encodes_to_the_same_bytes(envelope: Any, data: st.DataObject):
    original = encode_envelope(envelope)
    for size in range(len(original)):
        if isinstance(envelope, XLogData) and size >= XLOGDATA_HEADER_SIZE:
            continue  # a payload of any length is a valid envelope
        with pytest.raises(ProtocolError):
            decode_envelope(original[:size])
    _refused_or_exact(data.draw(_mutations(original)), decode_envelope, encode_envelope)


@given(strategies.client_envelopes, st.data())
def test_a_damaged_envelope_of_the_client_is_refused_or_encodes_to_the_same_bytes(envelope: Any, data: st.DataObject):
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
    """Check that ``data`` decodes to a message that encodes to these bytes, or raises a
    ProtocolError with a position.
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
