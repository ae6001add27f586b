"""How much of a table is read at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import pq

from subscriber.publisher import copy_out
from subscriber.publisher.copy_out import STEP_BYTES, CopyReader, next_step
from subscriber.publisher.copy_plan import CopyQuery, CopyRange, Piece


def query(*filters: str, tid_ranges: bool = True) -> CopyQuery:
    return CopyQuery("public", "t", ("a", 'B"'), filters, tid_ranges=tid_ranges)


@given(st.integers(1, 10**9), st.integers(0, 10**12))
def test_the_next_step_aims_at_its_size_and_grows_with_care(slots, size):
    step = next_step(slots, size)
    assert 1 <= step <= 4 * slots
    if size:
        assert step == 1 or step * size <= slots * STEP_BYTES


def test_a_reader_does_not_show_the_connection_string():
    """names_are_data"""
    assert repr(CopyReader("password=geheim", "sub", "0-1", query(), "csv")) == "CopyReader(public.t)"


# Blocks -------------------------------------------------------------------------------------------

HEADER, END = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"


class Server:
    """What a COPY asks of libpq: each message is one row, the first one with the header."""

    def __init__(self, messages: list[bytes]) -> None:
        self._answers = [(len(one), one) for one in messages] + [(-1, b"")]
        self._results = [SimpleNamespace(status=pq.ExecStatus.COMMAND_OK), None]

    def exec_(self, _command: bytes) -> SimpleNamespace:
        return SimpleNamespace(status=pq.ExecStatus.COPY_OUT)

    def get_copy_data(self, _do_not_wait: int) -> tuple[int, bytes]:
        return self._answers.pop(0)


@given(st.lists(st.sampled_from([b"\0\0", b"\0\1\0\0\0\2\xff\xff", b"row"])), st.integers(1, 12), st.booleans())
def test_blocks_have_every_row_without_header_and_trailer(rows, most, is_binary):
    """Also if the trailer is alone in a block, and if a value looks like it."""
    messages = [*rows, END] if is_binary else rows
    server: Any = Server([HEADER + messages[0], *messages[1:]] if is_binary else messages)
    reader = CopyReader("", "s", "1", query(), "binary" if is_binary else "text")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copy_out, "BLOCK_BYTES", most)
        patch.setattr(copy_out, "next_result", lambda pgconn: pgconn._results.pop(0))
        blocks = list(reader._blocks(server, CopyRange(Piece("public", "t", 1, (), 0, 1.0), 0, 0), None))
    assert b"".join(block.data for block in blocks) == b"".join(rows)
    assert sum(block.rows for block in blocks) == len(rows)
    assert all(block.rows for block in blocks)
