"""COPY's text format, column by column."""

from __future__ import annotations

import pyarrow as pa
import pytest

from subscriber.postgres.protocol.copy_text import copy_text_columns, with_columns


def read(lines: bytes, *places: int) -> list[list[bytes | None]]:
    return [column.to_pylist() for column in copy_text_columns(lines, places)]


def test_the_columns_that_are_asked_for_are_read_in_their_order():
    assert read(b"a\tb\tc\nd\t\\N\tf\n", 2, 1) == [[b"c", b"f"], [b"b", None]]


def test_escapes_are_read_and_an_escaped_backslash_before_n_is_not_null():
    lines = b"a\\tb\\nc\\rd\\be\\ff\\vg\\\\h\n\\\\N\n\\N\n"
    assert read(lines, 0) == [[b"a\tb\nc\rd\be\ff\vg\\h", b"\\N", None]]


@pytest.mark.parametrize("lines", [b"\n\n", b"x\n\n", b"\xef\xbb\xbfx\n\n", b'"x\n"\n', b"NULL\nnan\n"])
def test_each_line_is_a_row_whatever_is_in_it(lines):
    assert read(lines, 0) == [lines.split(b"\n")[:-1]]


def test_no_lines_give_empty_columns():
    assert [column.type for column in copy_text_columns(b"", [0, 3])] == [pa.binary(), pa.binary()]


def test_a_long_line_is_one_row():
    assert read(b"x" * 3_000_000 + b"\ty\n", 1) == [[b"y"]]


@pytest.mark.parametrize("value", ["", "a\tb\nc\rd\be\ff\vg\\h", "\\N", "\\.", "é", None])
def test_other_values_are_written_as_they_are_read(value):
    lines = with_columns(b"1\ta\tx\n2\t\\N\ty\n", {1: pa.array([value, "z"])})
    expected = [None if value is None else value.encode(), b"z"]
    assert read(lines, 0, 1, 2) == [[b"1", b"2"], expected, [b"x", b"y"]]


def test_lines_of_one_column_may_be_empty_texts():
    assert with_columns(b"\n\n", {0: pa.array(["a", ""])}) == b"a\n\n"
    assert with_columns(b"", {0: pa.array([], pa.string())}) == b""
