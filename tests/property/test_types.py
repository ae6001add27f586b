"""A type's decoder reads or refuses any bytes (C5, absence_is_typed)."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.base.errors import SubscriberError
from subscriber.postgres.types.arrays import output_texts
from subscriber.postgres.types.family import TypeFamily
from tests.decoder_inputs import EACH

pytestmark = pytest.mark.slow

NEAR_TEXT = st.text("0123456789-+.:eE \\xabcNIfintyBCdysmo", max_size=24).map(str.encode)
"""Text with the letters of numbers, dates and hex, so that some of it is almost right."""

NEAR_BINARY = st.sampled_from([0, 1, 2, 4, 8, 10, 12, 16]).flatmap(lambda size: st.binary(min_size=size, max_size=size))
"""Bytes of the lengths that send functions write."""


@pytest.mark.parametrize("family", EACH, ids=lambda family: family.name)
@given(data=st.data())
def test_a_decoder_returns_every_value_or_raises_an_error_with_a_reason(
    family: TypeFamily, data: st.DataObject
) -> None:
    """Rule C5: NULLs keep their places, a refused value raises the error, and nothing else is
    raised.
    """
    decode, near = data.draw(st.sampled_from([(family.decode_text, NEAR_TEXT), (family.decode_binary, NEAR_BINARY)]))
    values = data.draw(st.lists(st.none() | near | st.binary(max_size=20), max_size=4))
    try:
        decoded = decode(pa.array(values, type=pa.binary()))
    except SubscriberError:
        return
    decoded.validate(full=True)
    assert decoded.type == family.arrow_type
    assert [value is None for value in decoded.to_pylist()] == [value is None for value in values]


@pytest.mark.parametrize("family", EACH, ids=lambda family: family.name)
@given(data=st.data())
def test_the_text_of_a_decoded_binary_value_reads_as_the_same_value(family: TypeFamily, data: st.DataObject) -> None:
    """Rule C5: the type's text decoder reads the text of any accepted bytes unchanged."""
    if not pa.types.is_string(family.arrow_type):
        return
    value = data.draw(NEAR_BINARY | st.binary(max_size=20).map(b"\1".__add__))
    try:
        decoded = family.decode_binary(pa.array([value]))
    except SubscriberError:
        return
    assert family.decode_text(decoded.cast(pa.binary())).equals(decoded)


@pytest.mark.parametrize("family", EACH, ids=lambda family: family.name)
@given(data=st.data())
def test_the_send_function_writes_what_the_decoder_reads(family: TypeFamily, data: st.DataObject) -> None:
    """Rule A11: the text of any accepted bytes is sent as bytes of the same value."""
    assert family.send is not None
    value = data.draw(NEAR_BINARY | st.binary(max_size=20).map(b"\1".__add__))
    try:
        decoded = family.decode_binary(pa.array([value]))
        (text,) = output_texts(decoded)
        sent = family.send(text)
    except SubscriberError:
        return
    assert output_texts(family.decode_binary(pa.array([sent]))) == [text]
