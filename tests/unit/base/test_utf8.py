"""Bytes that are not UTF-8 are refused with PostgreSQL's message, and with their place."""

from __future__ import annotations

import os

import pytest

from subscriber.base.errors import ScenarioError, UsageError
from subscriber.base.utf8 import decode_utf8, invalid_utf8


def test_the_lines_of_a_file_end_as_those_of_unix():
    assert decode_utf8("é\r\nb\rc\n".encode(), "f") == "é\nb\nc\n"


@pytest.mark.parametrize(
    ("content", "shown", "line", "column", "offset"),
    [
        (b"\xff", "0xff", 1, 1, 1),
        (b"SELECT 1;\nSELECT '\xe9';\n", "0xe9 0x27 0x3b", 2, 9, 19),
        (b"a\r\n\xc3(", "0xc3 0x28", 2, 1, 4),
        (b"caf\xc3\xa9 \xf0\x9f'", "0xf0 0x9f 0x27", 1, 7, 7),
        (b"\xed\xa0\x80", "0xed 0xa0 0x80", 1, 1, 1),
    ],
)
def test_the_error_has_the_bytes_that_the_server_shows_and_their_place(content, shown, line, column, offset):
    """tests/conformance/test_bad_input.py has the server's message."""
    with pytest.raises(UsageError) as raised:
        decode_utf8(content, "f.sql")
    error = raised.value
    assert (error.message, error.sqlstate) == (f'invalid byte sequence for encoding "UTF8": {shown}', "22021")
    assert error.detail == f"It is byte {column} of line {line}, and byte {offset} of the file."
    assert error.context == f"f.sql:{line}"


def test_the_reader_of_a_file_names_the_class_of_its_error():
    with pytest.raises(ScenarioError):
        decode_utf8(b"\xff", "f.psql", ScenarioError)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("é", None),
        (os.fsdecode(b"caf\xe9"), "0xe9 (byte 4)"),
        (os.fsdecode(b"\xc3\xa9\xff"), "0xff (byte 3)"),
        ("a\ud800\udcff", "0xed 0xa0 0x80 (byte 2)"),
    ],
)
def test_python_keeps_such_bytes_of_the_command_line_as_halves_of_pairs(text, wrong):
    assert invalid_utf8(text) == (None if wrong is None else f'invalid byte sequence for encoding "UTF8": {wrong}')
