"""Writes values of every type into every kind of database and reads them back. The result is the
publisher's text, or an error that names the column, and never another value.

The server's output functions write the texts, apply writes them as it writes a replicated
INSERT into the column that ``create_tables`` declares, and a scenario's reader reads them back.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from itertools import count, zip_longest
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import psycopg
import pyarrow as pa
import pytest
import sqlalchemy as sa

from subscriber.base.errors import TargetRelationError, UnsupportedValue
from subscriber.postgres.schema.publisher_tables import PublisherColumn, PublisherTable
from subscriber.postgres.types.registry import decode_column, family_of
from subscriber.targets import Target, TargetColumn, TargetTable, open_target
from subscriber.targets.base.loading import LoadColumn, Loading, write_block
from subscriber.targets.ddl import create_table
from subscriber.testing.nodes.mirrored_rows import Row, read_target_rows
from subscriber.verify.canonical_text import text_of
from tests.conftest import fresh_database
from tests.table_shapes import column_shape, table_shape
from tests.typed_values import NEWER, VALUES, array_of

_numbers = count(1)
_RANDOM_VALUES: Final = 150


class Values(NamedTuple):
    """A type with its name by ``format_type``, and texts of values."""

    oid: int
    declared: str
    texts: list[str | None]


MADE: Final = """
CREATE TYPE mood AS ENUM ('1', 'ok', 'so so', 'it''s', '"quoted"', '');
CREATE DOMAIN percentage AS numeric(5,2) CHECK (VALUE BETWEEN 0 AND 100);
CREATE DOMAIN words AS text;
CREATE TYPE pair AS (a int, b text);
"""
TEXTS: Final = (
    "", " ", "  ", "a", " a", "a ", "\ta\n", "A", "á", "a\u0301", "😀", "\U0010ffff", "'", '"', "\\", "\\N", "\\\\x", "%", "%s", ":a", "?", "$1",
    "NULL", "null", "nan", "007", "1.0", "1e5", "0x10", "+1", "-0", "1_000", "true", "t", "\x01", "\x7f", "\u200b", "line\r\nfeed",
    "ß", "İ", "\ufffd", "\ufeff", "b\u00a0", "{}", "[1]", "a" * 255, "é" * 300, "😀" * 70_000,
)  # fmt: skip
SHORT: Final = tuple(text for text in TEXTS if len(text) <= 255)
NUMBERS: Final = (
    "0", "-0", "0.00", "1", "1.0", "1.50", "-1.50", "007.10", "NaN", "Infinity", "-Infinity", "1e-10", "12345678901234567890.5",
    "9" * 38, "-" + "9" * 36 + ".99", "9" * 65, "9" * 1000, "0." + "0" * 200 + "1", "1" * 500 + "." + "2" * 500,
)  # fmt: skip
SPARE: Final = ("0", "-0", "0.005", "1.50", "-12.34", "99999999.99", "-99999999.99")
FLOATS: Final = ("0", "-0", "1", "0.1", "1e15", "1e16", "16777217", "1e-7", "-2.5", "NaN", "Infinity", "-Infinity")
BITS: Final = ("", "0", "1", "0110", "1" * 200)
RANGES: Final = {
    "int4range": ("empty", "[1,5)", "(,5]", "(,)"),
    "int8range": ("empty", "[1,5)", "[9223372036854775806,)"),
    "numrange": ("empty", "[1.0,1.10]", "(-Infinity,NaN)", "(,)"),
    "tsrange": ("empty", "[2024-01-01 00:00:00,infinity)", "(0044-03-15 00:00:00 BC,)"),
    "tstzrange": ("empty", "[2024-01-01 00:00:00+00,2024-01-02 00:00:00+05:30)"),
    "daterange": ("empty", "[2024-01-01,2024-01-31]", "(-infinity,)"),
}
JSON: Final = (
    "null", "1", "1.0", "1e400", '"a"', '{"b": [1, 2.50, null], "a": {"ü": "\\u20ac"}}', "[]", '{"a":1, "a":2}', '"\\ud83d\\ude00\\n\\\\\\""', '"😀"',
    "12345678901234567890.123456789", "  [ 1 ]  ",
)  # fmt: skip
PLAIN: Final[Mapping[str, Sequence[str]]] = {
    "boolean": ("t", "f"),
    "smallint": ("0", "-32768", "32767"),
    "integer": ("0", "-2147483648", "2147483647"),
    "bigint": ("0", "-9223372036854775808", "9223372036854775807", "9007199254740993"),
    "oid": ("0", "4294967295"),
    "xid": ("3", "4294967295"),
    "cid": ("0", "4294967295"),
    "xid8": ("0", "18446744073709551615"),
    "tid": ("(0,1)", "(4294967295,65535)"),
    "real": (*FLOATS, "3.4028235e38", "1e-45", "0.30000001"),
    "double precision": (*FLOATS, "1.7976931348623157e308", "5e-324", "0.30000000000000004", "9007199254740993"),
    "numeric": NUMBERS,
    "numeric(10,2)": (*SPARE, "NaN"),
    "numeric(38,0)": ("9" * 38, "-" + "9" * 38, "0"),
    "numeric(38,38)": ("0." + "9" * 38, "-0." + "0" * 37 + "1"),
    "numeric(65,30)": ("9" * 35 + "." + "9" * 30, "0"),
    "numeric(1000,500)": ("9" * 500 + "." + "9" * 500, "NaN"),
    "numeric(3,-2)": ("12345", "-99900"),
    "numeric(2,5)": ("0.00012", "-0.00099"),
    "money": ("0", "-1.05", "1234567.89", "92233720368547758.07"),
    "text": TEXTS,
    "character varying": TEXTS,
    "character varying(10)": tuple(text[:10] for text in TEXTS),
    "character varying(300)": SHORT,
    "character(5)": tuple(text[:5] for text in TEXTS),
    "character(300)": SHORT,
    "bpchar": TEXTS,
    "name": tuple(text for text in TEXTS if len(text.encode()) < 64),
    '"char"': ("a", " ", "\\", "\n", "\x7f", "1"),
    "refcursor": SHORT,
    "bytea": ("", "\\x00", "\\x0a5c27", "\\xff00ff", "\\x" + "ab" * 300, "\\x" + "00ff" * 524_288),
    "date": ("2024-02-29", "0001-01-01", "9999-12-31", "10000-01-01", "0044-03-15 BC", "4714-11-24 BC", "5874897-12-31", "infinity", "-infinity"),
    "time without time zone": ("00:00:00", "24:00:00", "23:59:59.999999", "12:00:00.5", "00:00:00.000001"),
    "time(0) without time zone": ("00:00:00", "24:00:00", "12:34:56.7"),
    "time with time zone": ("00:00:00+00", "24:00:00-15:59:59", "23:59:59.999999+05:30"),
    "timestamp without time zone": (
        "2024-02-29 12:00:00", "2024-02-29 12:00:00.5", "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "10000-01-01 00:00:00",
        "4714-11-24 00:00:00 BC", "294276-12-31 23:59:59.999999", "infinity", "-infinity", "1970-01-01 00:00:00", "2024-12-31 23:59:59.999999",
    ),
    "timestamp with time zone": (
        "2024-02-29 12:00:00+05:30", "0001-01-01 00:00:00+00", "9999-12-31 23:59:59.999999+00", "10000-01-01 00:00:00+00",
        "4714-11-24 00:00:00+00 BC", "294276-12-31 23:59:59.999999+00", "infinity", "-infinity", "1969-12-31 23:59:59.999999+00",
    ),
    "timestamp(3) with time zone": ("2024-02-29 12:00:00.1239+00", "infinity"),
    "interval": (
        "0", "1 year -13 mons", "-1 days +2:03:04", "178000000 years", "-178000000 years", "2562047788:00:54.775807", "1 microsecond", "infinity", "-infinity",
    ),
    "uuid": ("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"),
    "json": (*JSON, '"\\u0000"', "  {} "),
    "jsonb": JSON,
    "jsonpath": ("$", "$.a[*] ? (@ > 1)", 'strict $."ü"'),
    "inet": ("192.168.0.1", "192.168.0.1/24", "::1", "2001:db8::ffff:1/64"),
    "cidr": ("192.168.0.0/24", "::/0"),
    "macaddr": ("08:00:2b:01:02:03",),
    "macaddr8": ("08:00:2b:ff:fe:01:02:03",),
    "bit(4)": ("0110", "0000"),
    "bit varying": BITS,
    "bit varying(5)": ("", "10101"),
    "point": ("(1,2)", "(-0,1e300)", "(NaN,Infinity)"),
    "line": ("{1,-1,0}",),
    "lseg": ("[(0,0),(1,1)]",),
    "box": ("(1,1),(0,0)",),
    "path": ("((0,0),(1,1))", "[(0,0)]"),
    "polygon": ("((0,0),(1,1),(1,0))",),
    "circle": ("<(0,0),1.5>",),
    "pg_lsn": ("0/0", "FFFFFFFF/FFFFFFFF"),
    "tsvector": ("", "'a':1A 'it''s':2"),
    "tsquery": ("", "'a' & !'b c'"),
    "txid_snapshot": ("10:20:10,14",),
    "pg_snapshot": ("10:20:10,14",),
    "int2vector": ("", "1 -2 3"),
    "oidvector": ("", "1 2 4294967295"),
    "regclass": ("pg_class", "-"),
    "regtype": ("integer", "text"),
    "integer[]": ("{}", "{1,NULL,-3}", "[0:1]={1,2}", "{{1,2},{3,4}}"),
    "text[]": ("{}", '{"",NULL,"NULL","a\\"b","c\\\\d","{","😀"," "}', "[-1:0]={a,b}"),
    "numeric[]": ("{1.50,NaN}",),
    "bytea[]": ('{"\\\\x00ff",""}',),
    "timestamp with time zone[]": ('{"2024-01-01 00:00:00+05:30",infinity}',),
    "jsonb[]": ('{"{\\"a\\": 1}",null}',),
    **RANGES,
    **{name.replace("range", "multirange"): ("{}", *("{" + one + "}" for one in texts if one != "empty")) for name, texts in RANGES.items()},
    "mood": ("1", "ok", "so so", "it's", '"quoted"', ""),
    "mood[]": ("{}", '{1,"so so",NULL,""}'),
    "percentage": ("0", "12.345", "100"),
    "words": SHORT,
    "pair": ("(,)", '(1,"a,""b")', '(-1,"")'),
}  # fmt: skip
"""Declared type → texts of values. The server writes each text in its own way."""

REFUSED: Final = {
    ("duckdb", "numeric(10,2)"): ("NaN", "22003"),
    ("duckdb", "timestamp without time zone"): (r"2942(?:4[89]|[5-7]\d)-.*", "22008"),
    ("duckdb", "timestamp with time zone"): (r"2942(?:4[89]|[5-7]\d)-.*", "22008"),
    ("mariadb", "real"): ("NaN|-?Infinity", "22003"),
    ("mariadb", "double precision"): ("NaN|-?Infinity", "22003"),
    ("mariadb", "numeric(10,2)"): ("NaN", "22003"),
    ("mariadb", "date"): (r"-?infinity|.* BC|\d{5,}-.*", "22008"),
}
"""The values that columns of ``create_tables`` cannot store, and the SQLSTATE of the error."""

FRACTIONS: Final = {"time without time zone": "time", "time with time zone": "timetz", "timestamp without time zone": "timestamp",
                    "timestamp with time zone": "timestamptz", "smallint": "int2", "integer": "int4", "bigint": "int8",
                    "double precision": "float8", "boolean": "bool"}  # fmt: skip


def random_texts(name: str, random: Random) -> list[str]:
    base = name.removesuffix("[]")
    make = VALUES.get(FRACTIONS.get(base, base))
    if make is None:
        return []
    if name.endswith("[]"):
        make = array_of(make)
    texts = [make(random) for _ in range(_RANDOM_VALUES)]
    return texts + [text for text in NEWER.get(name, ()) if not name.endswith("[]")]


@pytest.fixture(scope="module")
def server(postgresql18) -> Iterator[psycopg.Connection]:
    for database in fresh_database(postgresql18):
        database.execute(MADE)
        options = "-c datestyle=ISO -c timezone=UTC -c intervalstyle=postgres -c extra_float_digits=3 -c lc_monetary=C"
        conninfo = postgresql18.conninfo(database.name, options=options)
        with psycopg.connect(conninfo, autocommit=True) as connection:
            yield connection


@pytest.fixture(scope="module")
def values(server) -> dict[str, Values]:
    """Every type, with the output function's texts of its values, and with NULL."""
    random = Random(20)
    names = (*PLAIN, "date[]", "interval[]")
    return {name: stored(server, name, [*PLAIN.get(name, ()), *random_texts(name, random)]) for name in names}


def stored(server: psycopg.Connection, declared: str, texts: Sequence[str]) -> Values:
    """The texts that a column of PostgreSQL returns for these texts."""
    server.execute(f"DROP TABLE IF EXISTS shape; CREATE TEMP TABLE shape (v {declared})")
    with server.cursor() as cursor, cursor.copy("COPY shape FROM STDIN") as copy:
        for text in (None, *texts):
            copy.write_row((text,))
    ((oid, name),) = server.execute(
        "SELECT atttypid::int8, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'shape'::regclass AND attnum = 1"
    ).fetchall()
    with server.cursor() as cursor, cursor.copy("COPY shape TO STDOUT") as copy:
        return Values(oid, name, [text for (text,) in copy.rows()])


@pytest.fixture(scope="module", params=["sqlite", "duckdb", "mariadb", "postgresql"])
def target(request, tmp_path_factory) -> Iterator[Target]:
    yield from opened(request.param, request, tmp_path_factory.mktemp("round_trip"))


def opened(kind: str, request: pytest.FixtureRequest, folder: Path) -> Iterator[Target]:
    name = f"round_trip_{os.getpid()}_{next(_numbers)}"
    if kind in ("sqlite", "duckdb"):
        with open_target(f"{kind}:///{folder / name}.db") as target:
            yield target
        return
    server = request.getfixturevalue("mariadb" if kind == "mariadb" else "postgresql18")
    server.create_database(name)
    try:
        with open_target(server.url(name)) as target:
            yield target
    finally:
        server.drop_database(name)


def dialect(target: Target) -> str:
    return target.capabilities.database.lower()


def made(target: Target, columns: Sequence[PublisherColumn], declared: Sequence[str] = ()) -> PublisherTable:
    """A new table, as ``create_tables`` creates it, or with the columns that are ``declared``."""
    shape = table_shape("public", f"t{next(_numbers)}", tuple(columns))
    with target.begin() as connection:
        if declared:
            written = ", ".join(f"{column.name} {words}" for column, words in zip(columns, declared, strict=True))
            connection.exec_driver_sql(f"CREATE TABLE {shape.name} ({written})")
        else:
            create_table(target, shape).create(connection)
    return shape


def reflected(target: Target, shape: PublisherTable) -> TargetTable:
    with target.engine.connect() as connection:
        table = target.shapes.reflect(connection, "public", shape.name)
    assert table is not None
    return table


def column_of(table: TargetTable, name: str) -> TargetColumn:
    column = table.column(name)
    assert column is not None
    return column


def written(target: Target, shape: PublisherTable, rows: Sequence[Row]) -> list[Row]:
    """Write only these rows, as apply binds and inserts them, and return the table's rows in their
    order.
    """
    table = reflected(target, shape)
    columns = [LoadColumn(column_of(table, column.name), column.type_oid) for column in shape.columns]
    texts = zip(*((str(number), *row) for number, row in enumerate(rows)), strict=True)
    arrays = [decoded(target, column.type_oid, some) for column, some in zip(shape.columns, texts, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, names=[column.name for column in shape.columns])
    with target.begin() as connection:
        connection.execute(sa.delete(table.clause()))
        loading = Loading(target.engine, target.errors, target.values, target.writing)
        with loading.loader(connection, table, columns) as load:
            load(write_block(batch))
    with target.engine.connect() as connection:
        found = read_target_rows(target, connection, shape)
    return [row[1:] for row in sorted(found, key=lambda row: int(row[0] or 0))]


def decoded(target: Target, type_oid: int, texts: Sequence[str | None]) -> pa.Array:
    """The decoded array, or the texts themselves for a target that reads PostgreSQL's text."""
    if target.capabilities.postgresql_text:
        return pa.array(texts, pa.string())
    raw = pa.array([None if text is None else text.encode() for text in texts], pa.binary())
    return decode_column(type_oid, raw, binary=False, column=1)


def refusal(target: Target, type_oid: int, column: TargetColumn, text: str | None) -> UnsupportedValue | None:
    """The error if a value cannot be bound, otherwise None."""
    try:
        target.values.bind_values(type_oid, column, decoded(target, type_oid, [text]))
    except UnsupportedValue as error:
        return error
    return None


def comparable(type_oid: int, text: str | None) -> object:
    """Floating-point numbers are compared as numbers, because SQLite and MariaDB lose the sign of
    zero.
    """
    arrow_type = family_of(type_oid).arrow_type
    if text is None or not pa.types.is_floating(arrow_type):
        return text
    return str(arrow_type.to_pandas_dtype()(text) + 0)


K: Final = column_shape("k", 23, "integer", nullable=False)


def test_every_value_comes_back_as_it_was_or_is_refused(target, values):
    """Rule C5, refuse_not_guess: in columns as ``create_tables`` declares them. One table has many
    types.
    """
    names = list(values)
    for some in (names[at : at + 20] for at in range(0, len(names), 20)):
        columns = [column_shape(f"c{at}", values[name].oid, values[name].declared) for at, name in enumerate(some)]
        shape = made(target, [K, *columns])
        table = reflected(target, shape)
        kept = []
        for name, column in zip(some, columns, strict=True):
            here = column_of(table, column.name)
            target.values.check_column(column.type_oid, here)
            refused = {text: refusal(target, column.type_oid, here, text) for text in set(values[name].texts)}
            for text, error in refused.items():
                expected = REFUSED.get((dialect(target), name), (".^", ""))
                assert (error is not None) == (text is not None and re.fullmatch(expected[0], text) is not None), (
                    name,
                    text,
                )
                if error is not None:
                    assert (error.sqlstate, error.column) == (expected[1], column.name)
                    assert text not in error.report()
            kept.append([text for text in values[name].texts if refused[text] is None])
        found = list(zip(*written(target, shape, list(zip_longest(*kept))), strict=True))
        for name, column, texts, back in zip(some, columns, kept, found, strict=True):
            oid = column.type_oid
            different = [
                (sent, got)
                for sent, got in zip(texts, back, strict=False)
                if comparable(oid, sent) != comparable(oid, got)
            ]
            assert different == [], name
            assert set(back[len(texts) :]) <= {None}


@pytest.mark.parametrize(
    ("kind", "declared", "name", "narrow"),
    [
        ("sqlite", "", "text", False), ("sqlite", "INTEGER", "bigint", False), ("sqlite", "TEXT", "bigint", False),
        ("sqlite", "NUMERIC", "double precision", False), ("sqlite", "REAL", "numeric", True), ("sqlite", "DATETIME", "timestamp with time zone", False),
        ("duckdb", "HUGEINT", "bigint", False), ("duckdb", "INTEGER", "bigint", True), ("duckdb", "UTINYINT", "smallint", True),
        ("duckdb", "DECIMAL(5,2)", "numeric", True), ("duckdb", "DECIMAL(5,0)", "integer", True), ("duckdb", "DOUBLE", "real", False),
        ("duckdb", "DOUBLE", "numeric", True), ("duckdb", "UUID", "uuid", False), ("duckdb", "JSON", "jsonb", False), ("duckdb", "JSON", "json", False),
        ("mariadb", "INT", "bigint", True), ("mariadb", "TINYINT UNSIGNED", "integer", True), ("mariadb", "DECIMAL(5,2)", "numeric", True),
        ("mariadb", "DECIMAL(5,0)", "integer", True), ("mariadb", "TIME(6)", "time without time zone", False),
        ("mariadb", "DATETIME(6)", "timestamp without time zone", True), ("mariadb", "TIMESTAMP(6) NULL", "timestamp with time zone", True),
        ("mariadb", "UUID", "uuid", True), ("mariadb", "CHAR(36)", "uuid", False), ("mariadb", "VARCHAR(10)", "text", True),
        ("mariadb", "TEXT CHARACTER SET latin1 COLLATE latin1_bin", "text", True), ("mariadb", "TINYTEXT", "text", True),
        ("mariadb", "DATETIME(6)", "date", True), ("duckdb", "TIMESTAMP", "date", True), ("mariadb", "VARBINARY(4)", "bytea", True), ("mariadb", "DOUBLE", "numeric", True),
    ],
)  # fmt: skip
def test_a_column_that_the_user_declared_keeps_a_value_or_refuses_it_by_name(
    request, tmp_path, values, kind, declared, name, narrow
):
    """Rule C5, names_are_data: the value is refused before it is bound, or by the server. The error
    names the column and contains no value of the row.
    """
    oid = values[name].oid
    for target in opened(kind, request, tmp_path):
        shape = made(target, [K, column_shape("v", oid, name)], ["INTEGER", declared])
        column = column_of(reflected(target, shape), "v")
        target.values.check_column(oid, column)
        texts = list(dict.fromkeys(values[name].texts[: len(PLAIN[name]) + 20]))
        errors = {text: refusal(target, oid, column, text) or refusal_by_server(target, shape, text) for text in texts}
        refused = {text: error for text, error in errors.items() if error is not None}
        assert bool(refused) == narrow
        for text, error in refused.items():
            assert error.column == "v"
            assert error.sqlstate in {"22001", "22003", "22007", "22008", "22021"}
            assert len(text) < 4 or text not in error.report()
        kept = [(text,) for text in texts if text not in refused]
        assert len(kept) > 1
        for (sent,), (got,) in zip(kept, written(target, shape, kept), strict=True):
            assert is_same(oid, sent, got), sent


def refusal_by_server(target: Target, shape: PublisherTable, text: str | None) -> UnsupportedValue | None:
    """The error if MariaDB refuses a value that was bound. DuckDB's errors name no column, so a
    value must be refused before it is bound there.
    """
    if dialect(target) != "mariadb":
        return None
    try:
        written(target, shape, [(text,)])
    except UnsupportedValue as error:
        return error
    return None


def is_same(type_oid: int, sent: str | None, got: str | None) -> bool:
    """Whether the values are equal: by text, by number (the column has its own scale), as a time in
    UTC without the zone, or as midnight of a date.
    """
    if sent is None or got is None:
        return sent is got
    if comparable(type_oid, sent) == comparable(type_oid, got) or sent in (f"{got}+00", got.replace(" 00:00:00", "")):
        return True
    if sent in ("NaN", "Infinity", "-Infinity"):
        return repr(float(sent)) == repr(float(got))
    try:
        return Decimal(sent) == Decimal(got)
    except InvalidOperation:
        return False


WORDS: Final = (
    "", "1", " 1 ", "+1", "-1", "--1", "0x1F", "0X_1f", "0x_", "0x1p-2", "0b101", "0o17", "1_000", "1__0", "_1", "1_", "32768", "-32768", "99999999999",
    "9223372036854775808", "9" * 90, "-9223372036854775808", "1.", "1.0", ".5", ".", "1e3", "1e-3", "1.5e400", "1e-400", "nan", "NaN", " inf",
    "-Infinity", "infinit", "t", "TRUE", "tr", "y", "ye", "of", "o", "off", "on", "OFF", "no", "n", "1e", "0.1", "-0", "-0.00", "0e5", "1_0.5_0",
    "1_0e0_1", "\t1\n", "1\u00a0", "٣", "5e-324", "1e308", "12.34500", "-99.5", "abc", "9" * 40 + "x", "1e400x", "0e200000",
)  # fmt: skip
CONVERSIONS: Final = {
    **dict.fromkeys([("text", name) for name in ("boolean", "smallint", "integer", "bigint", "double precision", "numeric(20,5)")], WORDS),
    ("character(5)", "integer"): ("12", " 7", "x"),
    ("mood", "integer"): ("1", "ok"),
    ("numeric", "integer"): ("17", "17.0", "-3", "3000000000", "NaN"),
    ("numeric", "double precision"): ("1.50", "1e30", "0.1", "-0.000", "NaN", "Infinity", "1e400"),
    ("bigint", "boolean"): ("1", "0", "2"),
    ("bigint", "double precision"): ("5", "-9007199254740992"),
    ("double precision", "text"): FLOATS,
    ("real", "text"): FLOATS,
    ("double precision", "integer"): ("5", "5.5", "1e15"),
    ("boolean", "text"): ("t", "f"),
    ("date", "timestamp without time zone"): ("2024-02-29", "0044-03-15 BC", "infinity", "5874897-12-31"),
    ("timestamp with time zone", "timestamp without time zone"): ("2024-02-29 12:00:00.5+05:30", "0044-03-15 00:00:00+00 BC"),
}  # fmt: skip
"""Type of the publisher's column and type of the target's → texts of the first type. Some are not
valid for the second.
"""


@pytest.mark.parametrize("kind", ["sqlite", "duckdb", "mariadb"])
def test_a_value_of_another_type_is_read_as_postgresql_reads_it(request, tmp_path, server, kind):
    """Rules C2, C5: the result is the input function's value, or its SQLSTATE with the column's
    name. A value that it would round is refused.
    """
    for target in opened(kind, request, tmp_path):
        for (source, name), texts in CONVERSIONS.items():
            into = name
            sent = stored(server, source, texts)
            if kind == "sqlite" and "numeric" in name:
                into = "numeric"  # in the others, a numeric without precision is a text column, which takes every value
            place = stored(server, into, [])
            shape = made(target, [K, column_shape("v", place.oid, place.declared)])
            column = column_of(reflected(target, shape), "v")
            if (kind, source, into) == ("mariadb", "text", "boolean"):
                with pytest.raises(TargetRelationError):  # a column TINYINT may be a boolean or a number
                    target.values.check_column(sent.oid, column)
            if kind == "mariadb" and into in ("boolean", "timestamp without time zone"):
                continue  # a timestamp is a text column there, which takes every value
            target.values.check_column(sent.oid, column)
            kept = {
                text: theirs
                for text in sent.texts
                if text is not None and (theirs := read(server, target, sent.oid, into, column, text)) is not None
            }
            shape = replace(shape, columns=(K, column_shape("v", sent.oid, sent.declared)))
            rows = written(target, shape, [(text,) for text in kept])
            for (text, theirs), (ours,) in zip(kept.items(), rows, strict=True):
                assert is_same(place.oid, theirs, text_of(place.oid, ours)), (source, into, text)


_ANSWERS: Final[dict[tuple[str, str], tuple[str | None, str | None]]] = {}
"""The server's answers, which are the same for all targets."""


def answer(server: psycopg.Connection, into: str, text: str) -> tuple[str | None, str | None]:
    """The text that a column of a type returns for this text, or the SQLSTATE."""
    try:
        return stored(server, into, [text]).texts[1], None
    except psycopg.Error as error:
        return None, error.sqlstate


def read(
    server: psycopg.Connection, target: Target, type_oid: int, into: str, column: TargetColumn, text: str
) -> str | None:
    """The value that PostgreSQL reads from a text. None if both refuse it, or if the subscriber
    alone refuses it because it would have to round it.
    """
    error = refusal(target, type_oid, column, text)
    if error is not None:
        assert error.column == column.name
        assert len(text) < 4 or text not in error.report()
    if (into, text) not in _ANSWERS:
        _ANSWERS[into, text] = answer(server, into, text)
    theirs, sqlstate = _ANSWERS[into, text]
    if theirs is None:
        assert error is not None, (into, text)
        assert error.sqlstate == sqlstate, (into, text)
        return None
    if error is None:
        return theirs
    rounded = theirs in ("NaN", "Infinity", "-Infinity") or Decimal(text.replace("_", "")) != Decimal(theirs)
    assert (error.sqlstate, rounded) == ("22003", True), (into, text)
    return None
