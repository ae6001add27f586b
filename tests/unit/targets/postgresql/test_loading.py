"""COPY into PostgreSQL. tests/targets/test_loading.py loads into a real server."""

from __future__ import annotations

import psycopg
import pytest

from subscriber.errors import SubscriberError, TargetUnavailable, UnsupportedValue
from subscriber.targets import TargetColumn, TargetTable
from subscriber.targets.loader import LoadColumn
from tests.unit.targets.recorded_server import RecordedServer

URL = "postgresql+psycopg://user@host/db"
INTEGER, TEXT = TargetColumn("a", "integer", "integer"), TargetColumn('b"%', "text", "text")
TABLE = TargetTable("s.x", "t", (INTEGER, TEXT), ("a",))
HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)


def load(target, server: RecordedServer, columns: dict[TargetColumn, int], *blocks: bytes) -> None:
    loads = [LoadColumn(column, type_oid) for column, type_oid in columns.items()]
    with server.engine(URL).connect() as connection, target.loading.loader(connection, TABLE, loads) as load_block:
        for block in blocks:
            load_block(block)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ([("numeric(10,2)", 1700), ("character varying(3)", 1043), ("timestamp with time zone", 1184)], "binary"),
        ([("integer", 23), ("bigint", 23)], "text"),  # another type reads other bytes
        ([("text", 1043)], "text"),
        ([("interval", 1186)], "text"),  # infinity, from 17 on
        ([("regclass", 2205)], "text"),  # an oid in binary, a name in text
        ([("mood", 16400)], "text"),  # whose oid is another one there
        ([], "text"),
    ],
)
def test_blocks_are_binary_if_that_has_the_same_meaning_in_every_column(target, columns, expected):
    loads = [LoadColumn(TargetColumn("c", declared, declared.partition("(")[0]), oid) for declared, oid in columns]
    assert target.loading.block_format(loads) == expected


def test_binary_blocks_are_written_between_a_header_and_an_end(target):
    """https://www.postgresql.org/docs/current/sql-copy.html, "Binary Format"."""
    server = RecordedServer()
    load(target, server, {INTEGER: 23, TEXT: 25}, b"one", b"two")
    assert server.statements[1] == 'COPY "s.x".t (a, "b""%") FROM STDIN (FORMAT binary)'
    assert server.copied == [HEADER, b"one", b"two", b"\xff\xff"]


def test_text_blocks_are_written_as_they_are(target):
    server = RecordedServer()
    load(target, server, {INTEGER: 20}, b"1\n", b"2\n")
    assert server.statements[1] == 'COPY "s.x".t (a) FROM STDIN'
    assert server.copied == [b"1\n", b"2\n"]


def test_rows_without_any_column_are_inserted(target):
    server = RecordedServer()
    load(target, server, {}, b"\n\n\n")
    assert server.statements[1] == 'INSERT INTO "s.x".t SELECT FROM generate_series(1, 3)'
    assert server.copied == []


@pytest.mark.parametrize(
    ("answers", "error", "sqlstate"),
    [
        ({"END OF COPY": psycopg.errors.NumericValueOutOfRange("secret")}, UnsupportedValue, "22003"),
        ({"COPY": psycopg.OperationalError("secret")}, TargetUnavailable, "08006"),
    ],
    ids=["a value is refused", "the connection is lost"],
)
def test_an_error_of_copy_is_translated(target, answers, error, sqlstate):
    """names_are_data"""
    with pytest.raises(SubscriberError) as raised:
        load(target, RecordedServer(answers), {INTEGER: 20}, b"1\n")
    assert (type(raised.value), raised.value.sqlstate) == (error, sqlstate)
    assert "secret" not in raised.value.report()
    assert raised.value.__suppress_context__
