"""The columnar tuple decoder (A11, A12, A19, C6)."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from subscriber.base.errors import ProtocolError
from subscriber.postgres.protocol.message_batch import (
    KIND_NULL,
    KIND_TEXT,
    KIND_UNCHANGED,
    column_bytes,
    split_tuples,
)

NULL = b"n"
UNCHANGED = b"u"


def text(value: bytes) -> bytes:
    return b"t" + struct.pack(">I", len(value)) + value


def binary(value: bytes) -> bytes:
    return b"b" + struct.pack(">I", len(value)) + value


def tuple_of(*columns: bytes) -> bytes:
    return struct.pack(">H", len(columns)) + b"".join(columns)


def laid_out(*tuples: bytes, gap: bytes = b"I\xff\xff\xff\xffN") -> tuple[Any, Any, Any]:
    """A buffer with ``gap`` before every tuple and behind the last, the tuples' starts and
    limits.
    """
    buffer, starts, limits = b"", [], []
    for each in tuples:
        starts.append(len(buffer) + len(gap))
        buffer += gap + each
        limits.append(len(buffer))
    return np.frombuffer(buffer + gap, np.uint8), np.array(starts), np.array(limits)


def values(*tuples: bytes, ncolumns: int) -> list[list[bytes | None]]:
    buffer, starts, limits = laid_out(*tuples)
    later, at_once = (split_tuples(buffer, starts, limits, ncolumns, copies=copies) for copies in (False, True))
    assert later.end.tolist() == at_once.end.tolist() == limits.tolist()
    found, copied = (
        [column_bytes(buffer, columns, index).to_pylist() for index in range(ncolumns)] for columns in (later, at_once)
    )
    assert copied == found
    return found


def test_text_and_null_columns_become_one_array_each():
    """A11."""
    rows = (
        tuple_of(text(b"1"), text(b"one"), NULL),
        tuple_of(text(b"22"), NULL, NULL),
        tuple_of(text(b"333"), text(b""), text(b"x")),
    )
    assert values(*rows, ncolumns=3) == [[b"1", b"22", b"333"], [b"one", None, b""], [None, None, b"x"]]


def test_an_empty_value_is_not_null():
    """A11: a length of zero and the kind ``n`` are two things."""
    assert values(tuple_of(text(b"")), tuple_of(NULL), ncolumns=1) == [[b"", None]]


def test_a_binary_stream_may_hold_text_columns():
    """A12: the kinds say which column is which."""
    buffer, starts, limits = laid_out(
        tuple_of(binary(b"\0\0\0\1"), text(b"a")), tuple_of(binary(b"\0\0\0\2"), text(b"b"))
    )
    columns = split_tuples(buffer, starts, limits, 2)
    assert [bytes(kinds) for kinds in columns.kinds] == [b"bb", b"tt"]
    assert column_bytes(buffer, columns, 0).to_pylist() == [b"\0\0\0\1", b"\0\0\0\2"]


def test_a_column_in_one_form_shares_its_kinds_and_may_be_copied_at_once():
    buffer, starts, limits = laid_out(*[tuple_of(text(b"1"), binary(b"2"), text(b""), NULL)] * 2)
    columns = split_tuples(buffer, starts, limits, 4, copies=True)
    assert columns.kinds[0] is columns.kinds[2]
    assert [None if one is None else one.to_pylist() for one in columns.values] == [
        [b"1"] * 2,
        [b"2"] * 2,
        [b""] * 2,
        None,
    ]


def test_an_unchanged_value_is_refused_and_never_becomes_null():
    """C6 and absence_is_typed: the caller chooses rows by kind first."""
    buffer, starts, limits = laid_out(tuple_of(text(b"1"), UNCHANGED), tuple_of(text(b"2"), NULL))
    columns = split_tuples(buffer, starts, limits, 2)
    assert columns.kinds[1].tolist() == [KIND_UNCHANGED, KIND_NULL]
    with pytest.raises(ValueError, match="column 1 has unchanged values"):
        column_bytes(buffer, columns, 1)
    changed = np.flatnonzero(columns.kinds[1] != KIND_UNCHANGED)
    assert column_bytes(buffer, columns, 1, changed).to_pylist() == [None]
    assert column_bytes(buffer, columns, 0, changed).to_pylist() == [b"2"]


@pytest.mark.parametrize("rows", [[2, 0, 1], [1, 1], [], [2], [0, 2, 2, 0]])
def test_rows_are_selected_in_the_order_asked_for(rows):
    buffer, starts, limits = laid_out(*(tuple_of(text(value)) for value in (b"a", b"", b"ccc")))
    columns = split_tuples(buffer, starts, limits, 1)
    selected = column_bytes(buffer, columns, 0, np.array(rows, dtype=np.int64))
    assert selected.type == pa.binary()
    assert selected.to_pylist() == [[b"a", b"", b"ccc"][row] for row in rows]


def test_tuples_may_be_given_in_any_order():
    """Groups of rows need not follow the buffer; the array follows the groups."""
    buffer, starts, limits = laid_out(tuple_of(text(b"a")), tuple_of(NULL), tuple_of(text(b"ccc")))
    order = np.array([2, 0, 1])
    columns = split_tuples(buffer, starts[order], limits[order], 1)
    assert column_bytes(buffer, columns, 0).to_pylist() == [b"ccc", b"a", None]


def test_an_old_tuple_ends_before_its_message():
    """The new tuple of an update follows it: ``end`` says where."""
    old, new = tuple_of(text(b"1")), tuple_of(text(b"2"))
    buffer, starts, limits = laid_out(old + b"N" + new)
    columns = split_tuples(buffer, starts, limits, 1)
    assert columns.end.tolist() == [starts[0] + len(old)]
    columns = split_tuples(buffer, columns.end + 1, limits, 1)
    assert column_bytes(buffer, columns, 0).to_pylist() == [b"2"]


def test_a_tuple_of_no_columns_is_its_count():
    buffer, starts, limits = laid_out(tuple_of(), tuple_of())
    assert split_tuples(buffer, starts, limits, 0).end.tolist() == limits.tolist()


def test_no_tuples_are_columns_of_no_values():
    none = np.array([], dtype=np.int64)
    columns = split_tuples(np.array([], dtype=np.uint8), none, none, 2)
    assert column_bytes(np.array([], dtype=np.uint8), columns, 1).to_pylist() == []


def test_a_shared_or_strided_buffer_reads_like_a_contiguous_one():
    buffer, starts, limits = laid_out(tuple_of(text(b"abc")))
    spread = np.repeat(buffer, 2)[::2]
    assert not spread.flags.c_contiguous
    columns = split_tuples(spread, starts, limits, 1)
    assert column_bytes(spread, columns, 0).to_pylist() == [b"abc"]


@pytest.mark.parametrize("missing", range(1, len(tuple_of(text(b"two"), binary(b"\0\1"), NULL)) + 1))
def test_every_truncated_tuple_is_a_protocol_error_within_its_message(missing):
    """The second of three tuples is cut; the third's bytes follow at once and are never read as its
    own.
    """
    whole = tuple_of(text(b"two"), binary(b"\0\1"), NULL)
    buffer, starts, limits = laid_out(whole, whole, whole, gap=b"")
    limits[1] -= missing
    with pytest.raises(ProtocolError, match=r"^insufficient data left in message$") as caught:
        split_tuples(buffer, starts, limits, 3)
    assert starts[1] <= caught.value.offset <= limits[1]
    assert caught.value.detail == f"Tuple 1, at offset {caught.value.offset} of its buffer."


def test_a_limit_behind_the_buffer_does_not_let_anything_be_read_there():
    buffer, starts, limits = laid_out(tuple_of(text(b"abc")), gap=b"")
    with pytest.raises(ProtocolError, match="insufficient data"):
        split_tuples(buffer[:-1], starts, limits + 100, 1)


@pytest.mark.parametrize("size", range(4))
def test_a_buffer_shorter_than_a_length_is_a_protocol_error(size):
    buffer = np.frombuffer(b"\0\1t\0"[:size], np.uint8)
    with pytest.raises(ProtocolError, match="insufficient data"):
        split_tuples(buffer, np.array([0]), np.array([size]), 1)


@pytest.mark.parametrize("length", [4, 2**31 - 1, 2**31, 2**32 - 1])
def test_a_length_beyond_the_message_is_a_protocol_error(length):
    """Lengths are unsigned: one above 2**31 is too long, and not negative."""
    column = b"t" + struct.pack(">I", length) + b"abc"
    buffer, starts, limits = laid_out(tuple_of(column))
    with pytest.raises(ProtocolError, match="insufficient data") as caught:
        split_tuples(buffer, starts, limits, 1)
    assert caught.value.offset == starts[0] + 2 + 1 + 4


@pytest.mark.parametrize(
    ("kind", "shown"), [(b"x", "x"), (b"T", "T"), (b"'", "'"), (b"\0", r"\x00"), (b"\xff", r"\xff"), (b"\n", r"\x0a")]
)
def test_an_unknown_kind_is_named(kind, shown):
    """A19, with bytes that a log could not show escaped."""
    buffer, starts, limits = laid_out(tuple_of(text(b"a"), NULL), tuple_of(text(b"a"), kind))
    with pytest.raises(ProtocolError) as caught:
        split_tuples(buffer, starts, limits, 2)
    assert caught.value.message == f"unrecognized data representation type '{shown}'"
    assert caught.value.offset == limits[1] - 1


def test_an_error_names_the_row_also_where_only_some_rows_have_values():
    buffer, starts, limits = laid_out(tuple_of(NULL), tuple_of(text(b"ab")), tuple_of(NULL), tuple_of(text(b"ab")))
    limits[3] -= 1
    with pytest.raises(ProtocolError, match="insufficient data") as caught:
        split_tuples(buffer, starts, limits, 1)
    assert caught.value.detail == f"Tuple 3, at offset {caught.value.offset} of its buffer."
    assert caught.value.offset == starts[3] + 2 + 1 + 4


@pytest.mark.parametrize(("sent", "expected"), [(1, 2), (3, 2), (0, 2), (0xFFFF, 2), (1, 0)])
def test_another_number_of_columns_than_the_relations_is_a_protocol_error(sent, expected):
    """The manual's own table would otherwise be read with shifted columns."""
    buffer, starts, limits = laid_out(tuple_of(*[NULL] * sent))
    with pytest.raises(ProtocolError, match=rf"^tuple has {sent} columns, its relation {expected}$"):
        split_tuples(buffer, starts, limits, expected)


def test_an_error_carries_no_value():
    """names_are_data."""
    buffer, starts, limits = laid_out(tuple_of(text(b"secret"), text(b"secret")))
    with pytest.raises(ProtocolError) as caught:
        split_tuples(buffer, starts, limits - 1, 2)
    assert "secret" not in caught.value.report()


def test_a_start_before_the_buffer_is_the_callers_mistake():
    """numpy would read from the other end."""
    buffer, starts, limits = laid_out(tuple_of(NULL))
    with pytest.raises(ValueError, match="before the buffer"):
        split_tuples(buffer, starts - 100, limits, 1)


def test_values_behind_two_gibibytes_are_addressed_with_64_bits():
    """Untouched pages of the buffer cost no memory."""
    tail = tuple_of(text(b"far"), NULL)
    buffer = np.zeros(2**31 + len(tail), dtype=np.uint8)
    buffer[-len(tail) :] = np.frombuffer(tail, np.uint8)
    columns = split_tuples(buffer, np.array([2**31]), np.array([buffer.size]), 2)
    array = column_bytes(buffer, columns, 0)
    assert array.type == pa.large_binary()
    assert array.to_pylist() == [b"far"]
    assert column_bytes(buffer, columns, 1).to_pylist() == [None]
    assert columns.kinds[0].tolist() == [KIND_TEXT]
