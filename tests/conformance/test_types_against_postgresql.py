"""Compares every family with a real server: the text and the binary format of a value decode to the
same Arrow value (C5).

The server's output function writes the text and its send function writes the bytes, so the
subscriber computes neither side of the comparison.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from subscriber.base.errors import ProtocolError
from subscriber.postgres.types.oids import BUILT_IN_TYPES, ELEMENT_TYPES, type_name
from subscriber.postgres.types.registry import FAMILIES, family_of, send_of

pytestmark = pytest.mark.server

SESSION = " ".join(
    f"-c {setting}"
    for setting in (
        "datestyle=ISO",
        "TimeZone=UTC",
        "intervalstyle=postgres",
        "extra_float_digits=3",
        "bytea_output=hex",
        "client_encoding=UTF8",
    )
)
"""The settings of a replication session, which decide the text format."""

NUMBERS = ("0", "1", "-1", "42", "-32768", "32767")
FLOATS = ("0", "-0", "1", "-1.5", "NaN", "Infinity", "-Infinity", "0.1", "1e15", "1e16", "123456789", "1e-7")
DATES = (
    "2000-01-01", "1999-12-31", "2024-02-29", "1900-02-28", "1900-03-01", "1600-02-29", "0001-01-01", "9999-12-31",
    "10000-01-01", "294276-12-31", "0001-12-31 BC", "0001-01-01 BC", "0005-02-29 BC", "0044-03-15 BC", "4714-11-24 BC",
    "infinity", "-infinity",
)  # fmt: skip
TIMES = (
    "00:00:00", "00:00:01", "12:34:56.789", "12:34:56.7890", "23:59:59.999999", "24:00:00", "10:20:30.000001", "10:20:30.1",
)  # fmt: skip
TIMESTAMPS = tuple(
    f"{day} {time}{' BC' if era else ''}"
    for day, era, _ in (date.partition(" BC") for date in DATES if "infinity" not in date)
    for time in TIMES
    if time != "24:00:00" and not (day == "294276-12-31" and time > "23:59:59")
)
JSON_VALUES = ("null", "1", '"a"', '{"b": [1, 2.50, null], "a": {"ü": "\\u20ac"}}', "[]", '  {"a" :1}')
TEXTS = ("", " ", "a", "ü€😀", "line\nfeed\ttab", "\\N", "NULL", "'\"\\", "trailing  ", "x" * 10_000)

EDGES = {
    "boolean": ("true", "false"),
    "smallint": NUMBERS,
    "integer": (*NUMBERS, "-2147483648", "2147483647"),
    "bigint": (*NUMBERS, "-9223372036854775808", "9223372036854775807"),
    "oid": ("0", "1", "16384", "2147483648", "4294967295"),
    "xid": ("0", "3", "2147483648", "4294967295"),
    "cid": ("0", "3", "4294967295"),
    "real": (*FLOATS, "3.4028235e38", "-3.4028235e38", "1e-45", "1.17549435e-38", "0.30000001", "16777217"),
    "double precision": (
        *FLOATS, "1.7976931348623157e308", "5e-324", "2.2250738585072014e-308", "0.30000000000000004", "9007199254740993",
    ),
    "numeric": (
        "0", "-0", "0.0", "0.000", "1", "-1", "10", "100.00", "10000", "9999", "0.0001", "0.00001", "-0.00000000000000012300",
        "1.5", "12345678901234567890.12345678901234567890", "NaN", "Infinity", "-Infinity", "1e40", "-1e-40", "10000.0001",
        "100000000", "99999999.9999", "0.1", "00012.50", "1e1000", "1e-1000", "1e131071", "1e-16383",
    ),
    "text": TEXTS,
    "character varying": TEXTS,
    "character": TEXTS,
    "name": TEXTS[:-1],
    "refcursor": TEXTS,
    '"char"': ("", "a", "\\200", "\\377", "\\001", "\\", " ", "\x7f", "\n"),
    "json": JSON_VALUES,
    "jsonb": JSON_VALUES,
    "jsonpath": ("$", "$.a[*] ? (@ > 1)", 'strict $."ü"'),
    "xml": ("<a/>", '<?xml version="1.0"?><a/>', '<?xml version="1.1" encoding="UTF-8" standalone="yes"?><a>ü</a>'),
    "bytea": ("", "\\x", "\\x00", "\\x00ff5c27", "\\xdeadbeef", "a\\\\b", "\\000\\377", "\\\\x41"),
    "uuid": (
        "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff",
        "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "01234567-89ab-cdef-0123-456789abcdef",
    ),
    "date": (*DATES, "5874897-12-31"),
    "time without time zone": TIMES,
    "time with time zone": tuple(
        time + zone for time in TIMES for zone in ("+00", "-08", "+05:30", "-03:30", "+15:59:59", "-15:59:59", "+00:00:01")
    ),
    "timestamp without time zone": (*TIMESTAMPS, "infinity", "-infinity"),
    "timestamp with time zone": (*TIMESTAMPS, "infinity", "-infinity", "2024-06-01 12:00:00+05:30"),
    "interval": (
        "0", "1 year", "-1 year", "2 years", "1 mon", "-1 mon 2 days", "1 day", "-1 days +2:03:04", "1 day -2:03:04",
        "13 mons", "-13 mons", "-11 mons", "-1 year 1 mon", "1 year -13 mons", "2 days 04:05:06.7", "-04:05:06.000001",
        "100:00:00", "-2562047788:00:54.775807", "2562047788:00:54.775807", "178000000 years", "-178000000 years",
        "2147483647 days", "-2147483648 days", "-1 year +2 mons -3 days +4:05:06.7", "1 microsecond", "-1 microsecond",
        "1 mon -1 day", "-1 mon +1 day -1 second",
    ),
    "bit": ("", "0", "1", "0000000001", "10101010", "101010101"),
    "bit varying": ("", "0", "1", "0000000001", "10101010", "101010101", "01" * 500),
    "point": tuple(f"({x},{y})" for x, y in zip(FLOATS, reversed(FLOATS), strict=True)),
    "lseg": ("[(0,0),(1,1)]", "[(1,2),(-0,NaN)]", "[(Infinity,1e15),(1e-5,1e-4)]"),
    "path": ("[(0,0)]", "((0,0))", "[(0,0),(1,1),(0.1,0.2)]", "((0,0),(1,1))"),
    "box": ("(1,2),(3,4)", "(0,0),(0,0)", "(Infinity,1),(-Infinity,0)", "(NaN,1),(1,NaN)"),
    "polygon": ("((0,0))", "((0,0),(1,1),(0.1,0.2))"),
    "line": ("{1,2,3}", "{0,-1,0.1}", "[(0,0),(1,1)]", "[(0,0),(0,1)]", "{1,0,NaN}"),
    "circle": ("<(1,2),3>", "<(0,0),0>", "<(1e20,-1e-20),Infinity>", "<(0,0),NaN>"),
    "inet": (
        "1.2.3.4", "0.0.0.0/0", "10.1.2.3/8", "255.255.255.255/31", "::", "::1", "::2", "::/0", "1::", "1::1", "1:0:0:2::3", "1:0:2::",
        "1:0:2:3:4:5:6:7", "0:1:2:3:4:5:6:7", "1:2:3:4:5:6:7:0", "0:0:1:2:3:4:0:0", "::ffff:1.2.3.4", "::1.2.3.4", "::fffe:1.2.3.4",
        "::1:2.3.4.5", "::ffff:0:0", "::1:0/112", "fe80::1/64", "ABCD:EF01:2345:6789:ABCD:EF01:2345:6789/127",
    ),
    "cidr": ("0.0.0.0/0", "10.0.0.0/8", "1.2.3.4", "10.1", "::", "::/0", "fe80::/64", "::ffff:1.2.3.4/128", "::1.2.0.0/112"),
    "macaddr": ("08:00:2b:01:02:03", "0000.0000.0000", "ff-ff-ff-ff-ff-ff"),
    "macaddr8": ("08:00:2b:01:02:03:04:05", "08002b010203", "ff:ff:ff:ff:ff:ff:ff:ff"),
    "tsvector": (
        "", "a", "a:1 b:2B", "fat:2,4A cat:3C,16383 rat:5B,6", r"'it''s' 'b\\s' ' ' 'ü€' ':' '&'", "a:1A,2B,3C,4D", "a:99999", "'x y':7",
    ),
    "tsquery": (
        "", "a", "a & b", "a | b & c", "(a | b) & c", "!a", "!(a & b)", "!!a", "!(!a)", "a <-> b", "a <-> b <-> c", "a <-> (b <-> c)",
        "a <5> b", "a <0> b", "(a | b) <-> c", "a <-> (b & c)", "!a <-> b", "!(a <-> b)", "a:*", "a:AB", "a:*D", "a:ABCD",
        r"'it''s' & 'b\\s'", "a & b & c & (d | e | !f)", "'ü' | ' '",
    ),
    "pg_lsn": ("0/0", "16/B374D848", "FFFFFFFF/FFFFFFFF", "0/1", "1/0"),
    "tid": ("(0,0)", "(0,1)", "(4294967295,65535)"),
    "xid8": ("0", "3", "4294967296", "18446744073709551615"),
    "pg_snapshot": ("1:1:", "3:9:3,4,8", "10:20:10,14,15", "9223372036854775806:9223372036854775807:"),
    "txid_snapshot": ("1:1:", "3:9:3,4,8", "10:20:10,14,15"),
    "int4range": ("empty", "(,)", "[1,2)", "[1,2]", "(1,5]", "[-2147483648,)", "(,2147483647)"),
    "int8range": ("empty", "(,)", "[1,2]", "[-9223372036854775808,)"),
    "numrange": ("empty", "(,)", "[1.50,2.00]", "(1,)", "[NaN,]", "(-Infinity,Infinity]", "[1e40,1e41)"),
    "tsrange": ("empty", "(,)", "[2000-01-01,2000-01-02 00:00:00.5]", "(-infinity,infinity]", "[0044-03-15 BC,)"),
    "tstzrange": ("empty", "(,)", "[2000-01-01,2000-01-02 00:00:00.5+05:30]", "[-infinity,infinity)"),
    "daterange": ("empty", "(,)", "[2000-01-01,2000-12-31]", "[-infinity,infinity]", "(0044-03-15 BC,0001-01-01)"),
    "int4multirange": ("{}", "{(,)}", "{[1,3),[5,7]}", "{(,1),[3,3],(9,)}"),
    "int8multirange": ("{}", "{(,)}", "{[1,3),[5,7]}"),
    "nummultirange": ("{}", "{(,)}", "{[1.5,3),[5.00,7]}"),
    "tsmultirange": ("{}", "{(,)}", "{[2000-01-01,2000-01-02),(2001-01-01,infinity]}"),
    "tstzmultirange": ("{}", "{(,)}", "{[2000-01-01,2000-01-02),(2001-01-01,infinity]}"),
    "datemultirange": ("{}", "{(,)}", "{[2000-01-01,2000-01-02],(2001-01-01,)}"),
    "int2vector": ("", "1", "1 -2 32767"),
    "oidvector": ("", "1", "1 4294967295"),
}  # fmt: skip
"""Texts of values, by type name. The server reads each, and the two formats of the value are
compared.
"""


@pytest.fixture
def connection(postgresql) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgresql.conninfo(options=SESSION), autocommit=True) as connection:
        connection.execute("SELECT setseed(0.5)")
        yield connection


def one_row(connection: psycopg.Connection, query: str, parameters: Sequence[Any] = ()) -> tuple[Any, ...]:
    row = connection.execute(query, parameters or None, binary=True).fetchone()
    assert row is not None
    return row


def both_forms(
    connection: psycopg.Connection, type_oid: int, values: tuple[str, ...]
) -> tuple[list[bytes], list[bytes]]:
    """The output function's text and the send function's bytes of each value.

    ``format('%s', x)`` calls the output function; a cast to text would print ``true`` for ``t`` and
    trim a ``character``.
    """
    name = type_name(type_oid).replace("character varying", "varchar")
    name = {"character": "bpchar", "bit": '"bit"'}.get(name, name)
    (send,) = one_row(connection, "SELECT typsend::text FROM pg_type WHERE oid = %s", [type_oid])
    cast = "::text" if name == "refcursor" else ""  # borrows textsend
    query = f"SELECT convert_to(format('%%s', v), 'UTF8'), {send}(v{cast}) FROM (SELECT %s::text::{name}) AS _(v)"
    if name == '"char"':
        query = query.replace('%s::text::"char"', "charin(textout(%s))")
    rows = [one_row(connection, query, [value]) for value in values]
    return [text for text, _ in rows], [sent for _, sent in rows]


def oid_of(name: str) -> int:
    return next(oid for oid in BUILT_IN_TYPES if type_name(oid) == name)


def test_every_family_has_edge_values():
    """A family without edge values would not be tested."""
    assert {type_name(family.oid) for family in FAMILIES if family.oid not in ELEMENT_TYPES} == set(EDGES)


@pytest.mark.parametrize("name", EDGES)
def test_text_and_binary_forms_decode_to_the_same_arrow_values(connection, name):
    """Rules C5, A12."""
    values = EDGES[name]
    if name == "interval" and connection.info.server_version >= 170000:
        values += ("infinity", "-infinity")
    type_oid = oid_of(name)
    try:
        texts, sent = both_forms(connection, type_oid, values)
    except psycopg.errors.FeatureNotSupported as error:
        pytest.skip(f"this server has no {name}: {error.diag.message_primary}")
    if name == '"char"' and connection.info.server_version < 150000:
        pytest.skip("charout writes bytes above 127 as they are before 15")
    family = family_of(type_oid)
    from_text = family.decode_text(pa.array([None, *texts], type=pa.binary()))
    from_binary = family.decode_binary(pa.array([None, *sent], type=pa.binary()))
    assert from_text.type == from_binary.type == family.arrow_type
    # repr distinguishes -0.0 from 0.0, and nan equals nan there.
    assert list(map(repr, from_text.to_pylist())) == list(map(repr, from_binary.to_pylist()))
    if family.arrow_type == pa.string():
        assert from_text.to_pylist()[1:] == [text.decode() for text in texts]
    check_send(type_oid, [text.decode() for text in texts], sent)


def check_send(type_oid: int, texts: Sequence[str], sent: Sequence[bytes]) -> None:
    """Check that our send function writes the bytes of the server's (A11)."""
    send = send_of(type_oid)
    assert send is not None
    assert [(text, one) for text, one in zip(texts, sent, strict=True) if send(text) != one][:3] == []


def compared(connection: psycopg.Connection, type_oid: int, query: str, parameters: Sequence[Any] = ()) -> int:
    """Check that decode_binary reads the send function's bytes as the value that the output
    function prints, and that our send function writes them. Returns the number of values.

    Args:
        connection: a connection to the server.
        type_oid: the type of the values.
        query: returns the values in one column.
        parameters: the query's parameters.
    """
    (send,) = one_row(connection, "SELECT typsend::text FROM pg_type WHERE oid = %s", [type_oid])
    # The text of a tsquery does not tell a & (b & c) from (a & b) & c, which is how it is read.
    again = "concat(v)::tsquery" if send == "tsquerysend" else "v"
    values = f"WITH _(v) AS ({query}) SELECT concat(v), {send}(v), {send}({again}) FROM _ WHERE v IS NOT NULL"
    rows = connection.execute(values, parameters or None, binary=True).fetchall()
    texts, sent, sent_again = zip(*rows, strict=True)
    decoded = family_of(type_oid).decode_binary(pa.array(sent, type=pa.binary())).to_pylist()
    assert [pair for pair in zip(decoded, texts, strict=True) if pair[0] != pair[1]][:3] == []
    check_send(type_oid, texts, sent_again)
    return len(rows)


@pytest.mark.parametrize("array", [family.oid for family in FAMILIES if family.oid in ELEMENT_TYPES], ids=type_name)
def test_arrays_of_every_type_are_written_as_array_out_writes_them(connection, array):
    """Rule C5: an array of every edge value, in quotes where they are needed, with NULLs; arrays
    with other dimensions and lower bounds; and empty arrays.
    """
    name = type_name(ELEMENT_TYPES[array])
    if name == '"char"' and connection.info.server_version < 150000:
        pytest.skip("charout writes bytes above 127 as they are before 15")
    sql = {"character": "bpchar", "bit": '"bit"'}.get(name, name)
    element = "charin(textout(v))" if name == '"char"' else f"v::{sql}"
    shapes = [
        "array_agg(CASE WHEN n <> 2 THEN v END)",
        "array_fill((array_agg(v))[1], ARRAY[2, 1, 2], ARRAY[0, -1, 1])",
        "array_fill((array_agg(v))[2], ARRAY[1], ARRAY[7])",
        "ARRAY[array_agg(v), array_agg(CASE WHEN n > 1 THEN v END)]",
        "(array_agg(v))[2:1]",
    ]
    if name in {"int2vector", "oidvector"}:
        # The functions take what is made of several of those for an array of numbers.
        shapes = [f"array_agg(CASE WHEN n <> 2 THEN v::text END)::{name}[]"]
    source = f"(SELECT n, {element} AS v FROM unnest(%s::text[]) WITH ORDINALITY AS _(v, n)) AS _"
    query = " UNION ALL ".join(f"SELECT {shape} FROM {source}" for shape in shapes)
    try:
        assert compared(connection, array, query, [list(EDGES[name])] * len(shapes)) == len(shapes)
    except psycopg.errors.FeatureNotSupported as error:
        pytest.skip(f"this server has no {name}: {error.diag.message_primary}")


FLOAT = (
    "(CASE (random() * 8)::int WHEN 0 THEN (ARRAY['NaN', 'Infinity', '-Infinity', '-0'])[1 + g % 4]"
    " WHEN 1 THEN (random() * 100)::int::text WHEN 2 THEN power(2, (random() * 2000 - 1000)::int)::text"
    " WHEN 3 THEN '1e' || (random() * 600 - 300)::int WHEN 4 THEN (random() * 2 ^ 60)::int8::text"
    " ELSE ((random() * 2 - 1) * 10::float8 ^ (random() * 60 - 30)::int)::text END)::float8"
)
REAL = (
    "(CASE (random() * 5)::int WHEN 0 THEN power(2, (random() * 240 - 120)::int) WHEN 1 THEN (random() * 3e7)::int"
    " WHEN 2 THEN ('1e' || (random() * 76 - 38)::int)::float8 ELSE random() * power(10, (random() * 70 - 35)::int) END)::float4"
)
ADDRESS = (
    "set_masklen((SELECT string_agg(CASE WHEN random() < 0.5 THEN '0' ELSE to_hex((random() * 65535)::int >> (random() * 16)::int)"
    " END, ':') FROM generate_series(1, 8 + g * 0))::inet, (random() * 128)::int)"
)
WORD = r"(ARRAY['fat', 'b''''c', 'd\\\\e', 'ü', 'x:y', '&'])[1 + (random() * 5)::int]"

RANDOM = {
    "double precision[]": f"ARRAY[{FLOAT}, {FLOAT}, {FLOAT}, {FLOAT}]",
    "real[]": f"ARRAY[{REAL}, {REAL}, {REAL}, {REAL}]",
    "inet": ADDRESS,
    "cidr": f"{ADDRESS}::cidr",
    "bit varying": "substr((random() * 2 ^ 60)::bigint::bit(64)::text, 1, (random() * 64)::int)::varbit",
    "tsvector": (
        f"(SELECT string_agg(format('''%s''%s', {WORD}, CASE WHEN random() < 0.3 THEN '' ELSE ':' || (random() * 20000)::int + 1"
        "  || (ARRAY['', 'A', 'B', 'C', 'D'])[1 + (random() * 4)::int] || ',' || (random() * 200)::int + 1 END), ' ')"
        " FROM generate_series(1, 1 + g % 9))::tsvector"
    ),
    "tsquery": "pg_temp.query(g % 7)::tsquery",
    "tstzmultirange": (
        "(SELECT range_agg(tstzrange('2020-01-01'::timestamptz + random() * interval '9 years',"
        " CASE WHEN random() < 0.9 THEN '2030-01-01'::timestamptz + random() * interval '9 years' END, '[]'))"
        " FROM generate_series(1, 1 + g % 3))"
    ),
    "text[]": (
        r"(SELECT array_agg(CASE (random() * 9)::int WHEN 0 THEN NULL WHEN 1 THEN 'nUlL' ELSE (SELECT coalesce(string_agg("
        r"substr(E' ,{}\"\\\t\n\u00a0\v\f;a\'ü', 1 + (random() * 14)::int, 1), ''), '') FROM generate_series(1, (random() * 3)::int + i * 0))"
        r" END) FROM generate_series(1, 1 + g % 5) AS i)"
    ),
    "numrange[]": "ARRAY[numrange(round(random()::numeric, g % 9), NULLIF(2 + g % 5, 3), '(]'), NULL, 'empty']",
}
"""For each type whose text has special rules, SQL of a random value; ``g`` is the number of the
row.
"""

QUERY = rf"""
CREATE FUNCTION pg_temp.query(depth int) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
  IF depth = 0 OR random() < 0.2 THEN
    RETURN format('''%s''%s', {WORD}, (ARRAY['', ':*', ':A', ':*BD', ':ABCD'])[1 + (random() * 4)::int]);
  END IF;
  RETURN CASE (random() * 5)::int WHEN 0 THEN '!(' || pg_temp.query(depth - 1) || ')' ELSE
    '(' || pg_temp.query(depth - 1) || ')' || (ARRAY['&', '|', '<->', '<' || (random() * 16384)::int || '>'])[1 + (random() * 3)::int]
    || '(' || pg_temp.query(depth - 1) || ')' END;
END $$"""
"""A random text search query with at most ``depth`` levels."""


@pytest.mark.parametrize("name", RANDOM)
def test_random_values_are_written_as_the_server_writes_them(connection, name):
    """Rule C5: thousands of values are compared with the text of the server's output function."""
    connection.execute(QUERY)
    assert compared(connection, oid_of(name), f"SELECT {RANDOM[name]} FROM generate_series(1, 3000) AS g") > 2900


@pytest.mark.parametrize(("name", "bits"), [("real", 32), ("double precision", 64)])
def test_floats_keep_every_bit(connection, name, bits):
    """The server's output function prints random bit patterns. Except for NaN, the text keeps every
    bit.
    """
    family = family_of(oid_of(name))
    query = (
        f"SELECT convert_to(format('%s', v), 'UTF8'), float{bits // 8}send(v) FROM (SELECT"
        f" (random() * 2 - 1)::float8 * (10::float8 ^ (random() * {70 if bits == 32 else 600} - {35 if bits == 32 else 300}))"
        f" FROM generate_series(1, 2000)) AS _(w), LATERAL (SELECT w::float{bits // 8}) AS __(v)"
    )
    rows = connection.execute(query, binary=True).fetchall()
    texts, sent = (pa.array(list(column), type=pa.binary()) for column in zip(*rows, strict=True))
    assert family.decode_text(texts).equals(family.decode_binary(sent))


def test_random_moments_are_written_as_the_server_writes_them(connection):
    """Dates and times over the calendar's whole range, with leap years and eras."""
    query = (
        "SELECT convert_to(d::text, 'UTF8'), date_send(d), convert_to(t::text, 'UTF8'), timestamptz_send(t) FROM"
        " (SELECT 'epoch'::date + (random() * 4e6 - 2.4e6)::int, 'epoch'::timestamptz"
        " + (random() * 4e6 - 2.4e6)::int * interval '1 day' + random() * interval '1 day'"
        " FROM generate_series(1, 5000)) AS _(d, t)"
    )
    columns = [
        pa.array(list(column), type=pa.binary()) for column in zip(*connection.execute(query, binary=True), strict=True)
    ]
    for family, texts, sent in ((family_of(1082), *columns[:2]), (family_of(1184), *columns[2:])):
        assert family.decode_text(texts).equals(family.decode_binary(sent))


def test_random_numerics_are_written_as_the_server_writes_them(connection):
    """Any digits, weight and scale."""
    query = (
        "SELECT convert_to(n::text, 'UTF8'), numeric_send(n) FROM (SELECT"
        " round((random() * 2 - 1)::numeric * 10::numeric ^ (random() * 60 - 30)::int, (random() * 40)::int)"
        " FROM generate_series(1, 3000)) AS _(n)"
    )
    texts, sent = (
        pa.array(list(column), type=pa.binary()) for column in zip(*connection.execute(query, binary=True), strict=True)
    )
    assert family_of(1700).decode_text(texts).equals(family_of(1700).decode_binary(sent))


def test_escape_format_bytea_is_read_like_hex(connection):
    """Every byte, as the server prints it in escape format."""
    connection.execute("SET bytea_output = escape")
    every_byte = bytes(range(256))
    (text,) = one_row(connection, "SELECT convert_to(format('%%s', %s::bytea), 'UTF8')", [every_byte])
    assert not text.startswith(b"\\x")
    assert family_of(17).decode_text(pa.array([text])).to_pylist() == [every_byte]


def test_text_in_another_style_of_dates_is_refused(connection):
    """The text 02/03/2024 may mean two different days. Text in another style must not reach a
    target.
    """
    connection.execute("SET datestyle = 'SQL, DMY'; SET intervalstyle = iso_8601")
    query = "SELECT format('%s', '2024-03-02'::date), format('%s', '2024-03-02 00:00+00'::timestamptz), format('%s', '1 day'::interval)"
    for type_oid, text in zip((1082, 1184, 1186), one_row(connection, query), strict=True):
        with pytest.raises(ProtocolError, match="invalid input syntax") as caught:
            family_of(type_oid).decode_text(pa.array([text.encode()]))
        assert caught.value.sqlstate == "22007"
        assert text not in caught.value.report()


@pytest.mark.parametrize(
    "name",
    [
        *(
            "boolean",
            "smallint",
            "integer",
            "bigint",
            "oid",
            "xid",
            "cid",
            "real",
            "double precision",
            "numeric",
            "bytea",
            "uuid",
        ),
        *("date", "time without time zone", "time with time zone", "interval"),
        *("timestamp without time zone", "timestamp with time zone"),
    ],
)
def test_invalid_text_is_refused_with_the_servers_message_and_sqlstate(connection, name):
    """Rule C5: the message is the server's without the value."""
    if name in {"xid", "cid"} and connection.info.server_version < 160000:
        pytest.skip("xidin takes anything before 16")
    bad = "a\\b"
    with pytest.raises(psycopg.Error) as theirs:
        connection.execute(f"SELECT %s::text::{name}", [bad])
    with pytest.raises(ProtocolError) as ours:
        family_of(oid_of(name)).decode_text(pa.array([bad.encode()]))
    assert ours.value.sqlstate == theirs.value.sqlstate
    assert theirs.value.diag.message_primary in {f'{ours.value.message}: "{bad}"', ours.value.message}


def test_the_names_of_built_in_types_are_those_of_the_server(connection):
    """type_name equals format_type for every built-in type that both have."""
    names = dict(
        connection.execute("SELECT oid::int8, format_type(oid, NULL) FROM pg_type WHERE oid < 10000").fetchall()
    )
    ours = {oid: type_name(oid) for oid in BUILT_IN_TYPES & names.keys()}
    assert ours == {oid: names[oid] for oid in ours}
    assert len(ours) > 130


def test_an_enum_and_a_domain_are_decoded_as_text(connection):
    """The OID of a user-defined type has no family of its own, so the value is decoded as text."""
    connection.execute("DROP TYPE IF EXISTS pg_temp.mood; CREATE TYPE pg_temp.mood AS ENUM ('sad', 'ok')")
    (oid,) = one_row(connection, "SELECT 'pg_temp.mood'::regtype::oid::int8")
    family = family_of(oid)
    assert family.decode_text(pa.array([b"ok", None])).to_pylist() == ["ok", None]
    assert family.name == f"type with OID {oid}"
