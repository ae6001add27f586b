"""Every family against a real server: text and binary forms of one value decode to one Arrow value (C5).

The server's own output function gives the text and its send function the bytes, so neither side of
the comparison is ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from subscriber.errors import ProtocolError
from subscriber.types import FAMILIES, family_of, type_name
from subscriber.types.names import BUILT_IN_TYPES

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
"""The settings of a replication session, which the text form depends on."""

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
}  # fmt: skip
"""Input texts, by type name; the server turns each into the value whose two forms are compared."""


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
    name = "bpchar" if name == "character" else name
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
    """A family without them would be untested and nobody would know."""
    assert {type_name(oid) for family in FAMILIES for oid in family.oids} == set(EDGES)


@pytest.mark.parametrize("name", EDGES)
def test_text_and_binary_forms_decode_to_the_same_arrow_values(connection, name):
    """C5, A12."""
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
    # repr tells -0.0 from 0.0 and lets nan equal nan.
    assert list(map(repr, from_text.to_pylist())) == list(map(repr, from_binary.to_pylist()))
    if family.arrow_type == pa.string():
        assert from_text.to_pylist()[1:] == [text.decode() for text in texts]


@pytest.mark.parametrize(("name", "bits"), [("real", 32), ("double precision", 64)])
def test_floats_keep_every_bit(connection, name, bits):
    """Random bit patterns through the server's output function: text loses nothing, NaN apart."""
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
    """The calendar over its whole range, leap years and eras included."""
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
    """Digits, weight and scale in every combination."""
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
    """Every byte, through the server's own escape format."""
    connection.execute("SET bytea_output = escape")
    every_byte = bytes(range(256))
    (text,) = one_row(connection, "SELECT convert_to(format('%%s', %s::bytea), 'UTF8')", [every_byte])
    assert not text.startswith(b"\\x")
    assert family_of(17).decode_text(pa.array([text])).to_pylist() == [every_byte]


def test_other_session_styles_are_refused_not_passed_on(connection):
    """02/03/2024 is two different days: text of another style may not reach a target."""
    connection.execute("SET datestyle = 'SQL, DMY'; SET intervalstyle = iso_8601")
    query = "SELECT format('%s', '2024-03-02'::date), format('%s', '2024-03-02 00:00+00'::timestamptz), format('%s', '1 day'::interval)"
    for type_oid, text in zip((1082, 1184, 1186), one_row(connection, query), strict=True):
        with pytest.raises(ProtocolError, match="invalid input syntax") as caught:
            family_of(type_oid).decode_text(pa.array([text.encode()]))
        assert caught.value.sqlstate == "22007"
        assert text not in caught.value.report()


@pytest.mark.parametrize(
    "name", [name for name in EDGES if not any(word in name for word in ("char", "json", "text", "name", "xml", "ref"))]
)
def test_text_that_is_refused_is_refused_with_the_servers_message_and_sqlstate(connection, name):
    """C5, with the server's words up to the value, which ours leave out."""
    if name in {"xid", "cid"} and connection.info.server_version < 160000:
        pytest.skip("xidin takes anything before 16")
    bad = "a\\b"
    with pytest.raises(psycopg.Error) as theirs:
        connection.execute(f"SELECT %s::text::{name}", [bad])
    with pytest.raises(ProtocolError) as ours:
        family_of(oid_of(name)).decode_text(pa.array([bad.encode()]))
    assert ours.value.sqlstate == theirs.value.sqlstate
    assert theirs.value.diag.message_primary in {f'{ours.value.message}: "{bad}"', ours.value.message}


def test_built_in_names_are_the_servers(connection):
    """type_name is format_type for every type that the server has of ours."""
    names = dict(
        connection.execute("SELECT oid::int8, format_type(oid, NULL) FROM pg_type WHERE oid < 10000").fetchall()
    )
    ours = {oid: type_name(oid) for oid in BUILT_IN_TYPES & names.keys()}
    assert ours == {oid: names[oid] for oid in ours}
    assert len(ours) > 130


def test_an_enum_and_a_domain_are_their_text(connection):
    """An OID that no catalog shares falls to text by rule."""
    connection.execute("DROP TYPE IF EXISTS pg_temp.mood; CREATE TYPE pg_temp.mood AS ENUM ('sad', 'ok')")
    (oid,) = one_row(connection, "SELECT 'pg_temp.mood'::regtype::oid::int8")
    family = family_of(oid)
    assert family.decode_text(pa.array([b"ok", None])).to_pylist() == ["ok", None]
    assert family.name == f"type with OID {oid}"
