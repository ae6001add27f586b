"""The encoder refuses what has no place in the bytes; its layouts are tested with the decoder."""

from __future__ import annotations

import typing

import pytest

from subscriber.base.errors import ProtocolError
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.decode_message import _IN_STREAM, _PLAIN, _STREAM_ABORT
from subscriber.postgres.protocol.encode_message import _ENCODERS, encode


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (m.Begin(-1, 0, 1), "a field does not fit"),
        (m.Begin(2**64, 0, 1), "a field does not fit"),
        (m.Insert(2**32, ()), "a field does not fit"),
        (m.Insert(1, (), 2**32), "a field does not fit"),
        (m.Insert(1, (m.NULL,) * 65536), "a field does not fit"),
        (m.Origin(1, "secret\ud800"), "a field does not fit"),
        (m.Origin(1, "secret\0"), "a string cannot contain NUL"),
        (m.Relation(1, "", "t", "d", ()), "a namespace must have a name"),
        (m.Relation(1, "s", "t", "", ()), "a replica identity must be one byte"),
        (m.Relation(1, "s", "t", "é", ()), "a replica identity must be one byte"),
        (m.Update(1, "K", None, ()), "an old tuple and its kind must be given together"),
        (m.Update(1, None, (), ()), "an old tuple and its kind must be given together"),
        (m.StreamAbort(1, 1, 5), "abort_lsn and abort_timestamp must be given together"),
        (m.StreamAbort(1, 1, None, 5), "abort_lsn and abort_timestamp must be given together"),
    ],
)
def test_what_the_wire_cannot_say_is_refused(message, reason):
    """refuse_not_guess, without the value."""
    with pytest.raises(ProtocolError, match=f"cannot encode {type(message).__name__}: {reason}") as caught:
        encode(message)
    assert "secret" not in caught.value.report()
    assert caught.value.message_type == message.type_byte
    assert caught.value.__cause__ is None


def test_every_message_of_the_union_has_a_decoder_and_an_encoder():
    """A.2: nineteen messages, nineteen type bytes."""
    union = typing.get_args(m.Message)
    assert set(_ENCODERS) == set(union)
    assert {ord(kind.type_byte) for kind in union} == {*_PLAIN, *_IN_STREAM, _STREAM_ABORT}
    assert len({kind.type_byte for kind in union}) == len(union) == 19
