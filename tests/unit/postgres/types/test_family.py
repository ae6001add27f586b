"""The class TypeFamily, and the steps that all decoders share."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.base.errors import NotSupportedError, ProtocolError
from subscriber.postgres.types.family import (
    Form,
    all_match,
    as_text,
    binary_array,
    binary_numbers,
    fixed_width,
    invalid_binary,
    invalid_text,
    of_decoders,
    values_of,
    without_modifier,
)
from tests.type_samples import bytes_of, from_text

VALUES = st.lists(st.binary(max_size=4), max_size=5)


def numbers(array: pa.BinaryArray) -> pa.Array:
    """A decoder that must never get a null or an empty array."""
    assert len(array)
    assert array.null_count == 0
    assert array.type == pa.binary()
    return pa.array([int(value) for value in array.to_pylist()], pa.int32())


NUMBER = of_decoders("number", 1, pa.int32(), numbers)


# --- nulls --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [[], [None], [None, None], [b"1"], [b"1", None], [None, b"1", None, None, b"2", b"3", None]],
    ids=["empty", "null", "nulls", "value", "null at the end", "nulls between values"],
)
@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()], ids=["binary", "large_binary"])
def test_nulls_stay_where_they_were(values, kind):
    decoded = NUMBER.decode_text(pa.array(values, kind))
    assert decoded.type == pa.int32()
    assert decoded.to_pylist() == [None if value is None else int(value) for value in values]


@given(st.lists(st.none() | st.integers(0, 9), max_size=8), st.integers(0, 8), st.integers(0, 8))
def test_a_slice_decodes_like_an_array_of_its_own(values, start, length):
    array = bytes_of(*(None if value is None else str(value).encode() for value in values))
    assert NUMBER.decode_text(array.slice(start, length)).to_pylist() == values[start : start + length]


# --- binary form and form -----------------------------------------------------------------------


def test_a_family_without_a_decoder_of_binary_values_refuses_them():
    assert not NUMBER.reads_binary
    with pytest.raises(NotSupportedError) as caught:
        NUMBER.decode_binary(bytes_of(b"1"))
    assert caught.value.message == "cannot decode values of type number in binary format"
    assert caught.value.hint == "Use ALTER SUBSCRIPTION ... SET (binary = false)."
    assert NUMBER.decode_binary(bytes_of(None)).to_pylist() == [None]


def test_the_decoder_of_texts_reads_the_columns_of_a_form_with_its_arrow_type():
    form = of_decoders("number", 1, pa.int32(), numbers, form=Form(without_modifier(int), str, pa.int32())).form
    assert form is not None
    assert form.from_texts is not None
    assert form.from_texts(pa.array(["1", None])).to_pylist() == [1, None]


@pytest.mark.parametrize("arrow", [pa.int64(), None], ids=["another type", "no type"])
def test_the_form_keeps_its_own_function_for_columns_otherwise(arrow):
    form = of_decoders("number", 1, pa.int32(), numbers, form=Form(without_modifier(int), str, arrow)).form
    assert form is not None
    assert form.from_texts is None


# --- bytes --------------------------------------------------------------------------------------


@given(VALUES, st.integers(0, 3))
def test_the_bytes_and_offsets_of_an_array_make_the_same_array(values, start):
    array = bytes_of(*values).slice(min(start, len(values)))
    data, offsets = values_of(array)
    assert offsets[0] == 0
    assert data.tobytes() == b"".join(values[start:])
    assert binary_array(data, offsets).to_pylist() == values[start:]


def test_values_of_one_length_are_rows():
    rows = fixed_width(bytes_of(b"ab", b"cd"), 2)
    assert rows is not None
    assert rows.tolist() == [[97, 98], [99, 100]]


def test_two_wrong_lengths_that_add_up_to_a_right_one_are_no_rows():
    assert fixed_width(bytes_of(b"a", b"bcd"), 2) is None


def test_numbers_are_in_network_byte_order():
    assert binary_numbers(bytes_of(b"\0\1", b"\xff\xfe"), ">i2", "smallint").tolist() == [1, -2]
    pair = binary_numbers(bytes_of(b"\0\1\2"), ">i2, u1", "pair")
    assert pair.tolist() == [(1, 2)]
    with pytest.raises(ProtocolError) as caught:
        binary_numbers(bytes_of(b"\0"), ">i2", "smallint")
    assert (caught.value.sqlstate, caught.value.message) == ("22P03", "incorrect binary data format for type smallint")


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4), min_size=1, max_size=4))
def test_a_text_is_its_bytes_in_utf8(texts):
    assert as_text(bytes_of(*(text.encode() for text in texts))).to_pylist() == texts


@pytest.mark.parametrize("bad", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"a\0b", b"\0"])
def test_bytes_that_are_not_a_text_of_postgresql_are_refused(bad):
    """UTF-8 has no overlong forms and no surrogates, and PostgreSQL has no zero byte."""
    with pytest.raises(ProtocolError) as caught:
        as_text(bytes_of(b"a", bad))
    assert (caught.value.sqlstate, caught.value.message) == ("22021", 'invalid byte sequence for encoding "UTF8"')


def test_free_text_is_refused_for_its_encoding():
    for name in ("text", "json", "jsonb", '"char"'):
        with pytest.raises(ProtocolError, match="invalid byte sequence") as caught:
            from_text(name, b"\xff")
        assert caught.value.sqlstate == "22021"


def test_every_value_must_match_the_whole_of_a_pattern():
    assert all_match(bytes_of(b"ab", b"b"), "a?b")
    assert all_match(bytes_of(b"a", b"b"), "a|b")
    assert not all_match(bytes_of(b"ab", b"abc"), "a?b")
    assert not all_match(bytes_of(b"ab\n"), "ab")
    assert not all_match(bytes_of(b"ax", b"xb"), "a|b")


def test_errors_name_the_type_and_no_value():
    error = invalid_text("date", "22007", hint="Write it.")
    assert (error.sqlstate, error.message, error.hint) == ("22007", "invalid input syntax for type date", "Write it.")
    assert invalid_text("uuid").sqlstate == "22P02"
    assert invalid_binary("uuid").sqlstate == "22P03"


def test_offsets_are_those_of_arrow():
    _, offsets = values_of(bytes_of(b"a", b"", b"bc"))
    assert offsets.dtype == np.int32
    assert offsets.tolist() == [0, 1, 1, 3]
