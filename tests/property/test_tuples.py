"""The columnar tuple decoder and the message decoder read the same values (A11, A12, A19)."""

from __future__ import annotations

import struct
from random import Random
from typing import TypeAlias

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from subscriber.base.errors import ProtocolError
from subscriber.postgres.protocol.decode_message import decode
from subscriber.postgres.protocol.encode_message import encode
from subscriber.postgres.protocol.message_batch import (
    KIND_BINARY,
    KIND_NULL,
    KIND_TEXT,
    KIND_UNCHANGED,
    column_bytes,
    split_tuples,
)
from subscriber.postgres.protocol.messages import NULL, UNCHANGED, BinaryValue, ColumnValue, Insert, TextValue

Row: TypeAlias = tuple[ColumnValue, ...]

HEADER = b"I" + struct.pack(">I", 16_384) + b"N"
KINDS: dict[int, type[TextValue | BinaryValue]] = {KIND_TEXT: TextValue, KIND_BINARY: BinaryValue}
ABSENT: dict[int, ColumnValue] = {KIND_NULL: NULL, KIND_UNCHANGED: UNCHANGED}

values = st.binary(max_size=12)
columns = st.one_of(st.just(NULL), st.just(UNCHANGED), values.map(TextValue), values.map(BinaryValue))
batches = st.integers(0, 5).flatmap(lambda width: st.lists(st.tuples(*[columns] * width), min_size=1, max_size=12))
"""Rows of one relation."""


def laid_out(messages: list[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """The messages one after another: the buffer, the start of each tuple, and the end of each
    message.
    """
    limits = np.cumsum([len(message) for message in messages])
    starts = limits - np.array([len(message) - len(HEADER) for message in messages])
    return np.frombuffer(b"".join(messages), np.uint8), starts, limits


def columnar(messages: list[bytes], ncolumns: int) -> list[Row] | str:
    """The result of the columnar decoder: rows of values, or the error's message."""
    buffer, starts, limits = laid_out(messages)
    try:
        split = split_tuples(buffer, starts, limits, ncolumns)
    except ProtocolError as error:
        return error.message if error.offset in range(buffer.size + 1) else f"offset {error.offset}"
    if not np.array_equal(split.end, limits):
        return "bytes are left"
    rows: list[list[ColumnValue]] = [[] for _ in messages]
    for index in range(ncolumns):
        changed = np.flatnonzero(split.kinds[index] != KIND_UNCHANGED)
        sent = dict(zip(changed.tolist(), column_bytes(buffer, split, index, changed).to_pylist(), strict=True))
        for row, kind in enumerate(split.kinds[index].tolist()):
            assert (sent.get(row) is None) == (kind in ABSENT)
            rows[row].append(ABSENT.get(kind) or KINDS[kind](sent[row]))
    return [tuple(row) for row in rows]


def oracle(messages: list[bytes], ncolumns: int) -> list[Row] | None:
    """The result of the message decoder: rows, or None if it refuses one."""
    try:
        decoded = [decode(message) for message in messages]
    except ProtocolError:
        return None
    rows = [message.new for message in decoded if isinstance(message, Insert)]
    return rows if len(rows) == len(messages) and all(len(row) == ncolumns for row in rows) else None


@given(batches)
def test_both_decoders_read_the_same_values(rows: list[Row]) -> None:
    """Rules A11, A12: every kind of value, in any mixture within a column."""
    messages = [encode(Insert(16_384, row)) for row in rows]
    assert columnar(messages, len(rows[0])) == oracle(messages, len(rows[0])) == rows


@given(batches, st.data())
def test_both_decoders_accept_or_refuse_the_same_damaged_tuples(rows: list[Row], data: st.DataObject) -> None:
    """Rule A19: both read the same values or both raise a ProtocolError. Neighbouring messages are
    not read.
    """
    messages = [encode(Insert(16_384, row)) for row in rows]
    victim = data.draw(st.integers(0, len(messages) - 1))
    body = bytearray(messages[victim][len(HEADER) :])
    if data.draw(st.booleans()):
        del body[data.draw(st.integers(0, len(body) - 1)) :]
    else:
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    messages[victim] = HEADER + bytes(body)
    expected = oracle(messages, len(rows[0]))
    found = columnar(messages, len(rows[0]))
    if expected is None:
        assert isinstance(found, str)
        assert not found.startswith("offset")
    else:
        assert found == expected


@given(batches, st.randoms(use_true_random=False), st.booleans())
def test_any_selection_of_rows_is_read_in_its_order(rows: list[Row], random: Random, copies: bool) -> None:
    """Rows may be selected more than once and backwards."""
    messages = [encode(Insert(16_384, row)) for row in rows]
    buffer, starts, limits = laid_out(messages)
    split = split_tuples(buffer, starts, limits, len(rows[0]), copies=copies)
    for index in range(len(rows[0])):
        changed = [row for row, values in enumerate(rows) if values[index] is not UNCHANGED]
        chosen = random.choices(changed, k=2 * len(changed)) if changed else []
        array = column_bytes(buffer, split, index, np.array(chosen, dtype=np.int64))
        expected = [rows[row][index] for row in chosen]
        assert array.to_pylist() == [
            value.data if isinstance(value, (TextValue, BinaryValue)) else None for value in expected
        ]
        array.validate(full=True)
