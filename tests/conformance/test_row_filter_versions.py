"""Row filters of a table of a few rows, beside servers of each version (rules B11, B23-B28): what a
publication may have, how ``pg_get_expr`` prints it, and its value or error for each row.

Each part has a table and expressions over it. None of the expressions is refused by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import psycopg
import pytest

from subscriber.postgres.expressions.functions import FUNCTIONS, SWAPPED
from tests.conftest import fresh_database
from tests.filter_answers import Both

pytestmark = pytest.mark.server


@dataclass(frozen=True, slots=True)
class Part:
    """Expressions over one table.

    Attributes:
        columns: the declarations of the columns, by name.
        rows: what ``VALUES`` contains.
        expressions: over these columns.
    """

    columns: dict[str, str]
    rows: str
    expressions: tuple[str, ...]

    def ddl(self) -> str:
        declared = ", ".join(f"{name} {kind}" for name, kind in self.columns.items())
        return (
            f"CREATE TABLE sample (i int GENERATED ALWAYS AS IDENTITY, {declared});"
            f" INSERT INTO sample ({', '.join(self.columns)}) {self.rows}"
        )


MODIFIERS: Final = (
    "-2147483648, -65536, -2, -1, 0, 1, 3, 4, 5, 6, 7, 8, 12, 100, 2052, 65535, 65536, 65543, 262144, 262147, 262151, 327685, 458751, 720895,"
    " 1000000, 2147418112, 2147418114, 2147418119, 2147483646, 2147483647"
)
"""Type modifiers of which most are invalid for most types."""

PARTS: Final = {
    "a conversion of length whose type modifier comes from the row": Part(
        {
            "v": "varchar", "b": "bit(8)", "vb": "varbit", "n": "numeric", "tm": "time", "tt": "timetz", "ts": "timestamp",
            "tz": "timestamptz", "iv": "interval", "m": "int", "e": "bool",
        },
        "SELECT 'abc  ', b'10100101', b'10100101', 1234.5678, time '10:00:00.987654', timetz '10:00:00.987654+02', timestamp '2000-01-01 00:00:00.987654',"
        " timestamptz '2000-01-01 00:00:00.987654+00', interval '-3 years -5 mons 4 days 03:04:05.987654', m, m % 2 = 0"
        f"  FROM unnest(ARRAY[{MODIFIERS}]) AS m UNION ALL SELECT 'x', NULL, NULL, NULL, NULL, NULL, 'infinity', '-infinity', NULL, 7, NULL",
        (
            "interval(iv, m)", "\"interval\"('1.567 s'::interval, m)", '"time"(tm, m)', "timetz(tt, m)", '"timestamp"(ts, m)', "timestamptz(tz, m)",
            '"numeric"(n, m)', '"varchar"(v, CASE WHEN m < 100000 THEN m END, e)', "bpchar(v, CASE WHEN m < 10000 THEN m END, e)",
            '"bit"(b, CASE WHEN m < 100000 THEN m END, e)', "varbit(vb, m, e)", '"bit"(m, CASE WHEN m < 10000 THEN m END)',
            '"interval"(iv, m + 0) IS NULL', "\"timestamp\"('infinity', m)",
        ),
    ),
    "an SQL function evaluates its arguments in the order of its body": Part(
        {"a": "int", "n": "numeric", "l": "pg_lsn", "t": "text"},
        "VALUES (0, 1.5, '0/10', 'x'), (1, 'NaN', '0/10', '1'), (2, -20, '0/10', 'y'), (NULL, NULL, NULL, NULL), (0, NULL, '0/0', NULL)",
        (
            "(1 / a)::numeric + (l - n)", "n + l", "(n / a) + pg_lsn(n)", "(n / a) + (l - 100::numeric)", "(l + n) + (n / a)",
            "(1 / a) + (date '5874897-12-31' + a)", "(n / a) + '0/1'::pg_lsn", "NULL::numeric + pg_lsn(n)", "1.5 + pg_lsn(n)",
            "(interval '1 day' / a) + make_time(a, 99, 0)", "(1 / a)::int8 + (inet '255.255.255.255' + (1 + a))",
            "make_time(a, 99, 0) + (date '5874897-12-31' + (a + 1))",
        ),
    ),
    "a constant in a notation that not every version reads": Part(
        {"a": "int", "n": "numeric", "o": "oid", "iv": "interval", "r": "int4range", "d": "date"},
        "VALUES (31, 1000, 17, '1 day', '[1,5)', '2000-01-01'::date), (NULL, 31, 15, '0', 'empty', 'infinity'), (-2147483648, 3, 8, NULL, NULL, NULL)",
        (
            "a = '0x1F'", "a = '-0x80000000'::int4", "a = ' 0b1_1111 '", "a = '1_000'", "a < '2147483649x'", "a = 0x1F", "a = 1_000", "a = 0o37",
            "n = '1_000'", "n = '0x1F'", "n = 1_0e0_2", "n = '1e3'", "n = '1e2147483647x'", "n = '0b1_1'", "n > 1000.0_0", "o = '017'", "o = '08'",
            "o = '0x11'", "o = '-1'", "o = '4294967296'", "iv < 'infinity'", "iv > '-infinity'::interval", "isfinite('infinity'::interval)",
            "iv = ANY ('{1 day,-infinity}')", "r = '[0x1,0x5)'", "r && '[1_0,)'", "a = ANY ('{0x1F,2}')", "a = ANY ('{1_0,2}'::int4[])",
            "a = ANY ('{{}}')", "a = ANY ('{{},{}}')", "a = ANY ('{ }')", "a = ANY ('{{1},{31}}')", "a = ANY ('[0:1]={31,2}')", "d = '+x'",
            "d < 'infinity'", "d = ANY ('{2000-01-01,x}')", "a = 0x", "a = 1__0", "a = 1_", "a = 017", "a = '017'", "a::int2 = '0x1F'::int2",
            "a::int8 = '-0x80000000'::int8", "n = '0x'", "n = '_1'", "n = '1_'",
        ),
    ),
    "a constant that is not spelt as it is printed": Part(
        {"n": "inet", "c": "cidr", "m": "macaddr", "m8": "macaddr8", "d": "float8", "r": "real"},
        "VALUES ('10.1.2.3'::inet, '10.1.0.0/16'::cidr, '08:00:2b:01:02:03'::macaddr, '08:00:2b:ff:fe:01:02:03'::macaddr8, 31.5, 0.25),"
        " ('::ffff:1.0.3.4', '224.0.0.0/4', NULL, NULL, 'NaN', 1), (NULL, '2001:db8::/32', '00:00:00:00:00:00', '00:00:00:00:00:00:00:01', 1, 1)",
        (
            "c = '10.1'", "c >>= '10.1.2'", "c = '224'", "c = '0x0a01'", "c = '10.1.2.3/16'", "c && '192.168'", "n << cidr '10'", "n = '10.1.2/24'",
            "n = '10.1.2.3.'", "n = '::ffff:1..3.4'", "n = '1.2.3'", "n = '1::2::3'", "c = '2001:db8::/32'", "c = '2001:db8:/32'", "n > '::'",
            "m = '08002b:010203'", "m = '08002b-010203'", "m = '0800.2b01.0203'", "m = '0800-2b01-0203'", "m = '08002b010203'", "m = '8:0:2b:1:2:3'",
            "m = '08:00:2b:01:02:100'", "m8 = '08002b:010203'", "m8 = '0800.2b01.0203'", "m8 = '08-00-2B-FF-FE-01-02-03'", "m8 = '08:00-2b:01:02:03'",
            "m8 = '0800'", "d = '0x1F.8'", "d = '-0x1p-2'", "d = '0x1p1024'", "d = '0x'", "r = '0x1p-2'", "r = '0x1.0000010000000001p0'", "d > '0x1p'",
            "n = ANY ('{10.1.2.3,1.2/16}')", "abbrev(n)",
        ),
    ),
    "functions of degrees": Part(
        {"d": "float8", "e": "float8"},
        "SELECT d, e FROM unnest(ARRAY[0, '-0', 30, -30, 45, 60, 90, -90, 120, 180, -180, 210, 270, 300, 359.99, 360, 361, 1e-300, 5e-324, 1e15, 12.5,"
        " 0.5, 1, -1, -0.5, 0.49999999999999994, 0.7071067811865476, 1.0000000000000002, 37.123456789, 'NaN', 'Infinity', '-Infinity', NULL]::float8[]) d,"
        " unnest(ARRAY[1, '-0', -2.5, 'Infinity', NULL]::float8[]) e",
        (
            "sind(d)", "cosd(d)", "tand(d)", "cotd(d)", "asind(d)", "acosd(d)", "atand(d)", "atan2d(d, e)", "sind(d * 7.3)", "cosd(d - 1000)", "tand(d / 3)", "acosd(d / 361)", "asind(-d / 1000)",
        ),
    ),
    "other documents": Part(
        {"j": "jsonb", "p": "text[]", "n": "jsonb", "b": "bool", "t": "text", "k": "text[]", "js": "json"},
        "SELECT j::jsonb, p::text[], n::jsonb, b, t, k::text[], j::json FROM"
        """ unnest(ARRAY['{"a": 1, "b": [1, 2, {"c": null}]}', '[0, [1], {"a": [3]}]', '{}', '[]', '5', 'null', '{"b": {}, "aa": [], "": "x\\u00e9\\n"}', NULL]) j,"""
        """ unnest(ARRAY['{}', '{a}', '{b,1}', '{b,-1,c}', '{b,9}', '{b,-9}', '{1,0}', '{2,a,-5}', '{x}', '{b,x}', '{NULL}', '{a,NULL}', '{{a,b}}', '{0}', '{-1}', '{b, 2147483648}', NULL]) p,"""
        """ unnest(ARRAY['{"new": [1.50]}', 'null', NULL]) n, unnest(ARRAY[true, false]) b,"""
        """ unnest(ARRAY['delete_key']) t, unnest(ARRAY['{a,1,b,NULL}']) k""",
        (
            "jsonb_set(j, p, n, b)", "jsonb_set(j, p, n)", "jsonb_insert(j, p, n, b)", "jsonb_insert(j, p, n)", "jsonb_set_lax(j, p, n, b, t)",
            "jsonb_set_lax(j, p, n)", "jsonb_set_lax(j, p, n, b, 'return_target')", "jsonb_set_lax(j, p, n, b, 'raise_exception')",
            "jsonb_set_lax(j, p, n, b, 'x')", "jsonb_set_lax(j, p, n, b, NULL)", "jsonb_set(j, '{a}', '1') -> 'a' = '1'", "jsonb_pretty(j)",
            "jsonb_pretty(jsonb_set(j, '{b}', n))", "json_strip_nulls(js)", "jsonb_strip_nulls(j)",
        ),
    ),
    "objects of arrays of texts": Part(
        {"k": "text[]", "v": "text[]", "js": "json"},
        "SELECT k::text[], v::text[], js::json FROM unnest(ARRAY['{}', '{a}', '{a,1}', '{b,1,a,NULL,b,3}', '{{a,1},{b,2}}', '{{a,1,c}}', '{{{a,1}}}',"
        """ '{NULL,1}', '{"\\"q\\\\","ü"}', '[0:1]={x,y}', NULL]) k, unnest(ARRAY['{}', '{x}', '{x,NULL}', '{{x,y}}', NULL]) v,"""
        """ unnest(ARRAY['{"a" : null, "a":1, "b":[ null , {"c" : null} ,1.50e3]}', ' [ null, "x\\u00e9\\/" ]', '"\\u0000"', ' null', '{ }']) js""",
        (
            "json_object(k)", "jsonb_object(k)", "json_object(k, v)", "jsonb_object(k, v)", "json_strip_nulls(js)", "json_object('{a,b}', v)",
            "json_object('{a,1}')", "jsonb_object('{a}') IS NULL",
        ),
    ),
    "hash functions and send functions": Part(
        {
            "t": "text", "nm": "name", "c": "char(4)", "b": "bytea", "i2": "int2", "i4": "int4", "i8": "int8", "o": "oid", "f4": "real", "f8": "float8",
            "d": "date", "tm": "time", "tt": "timetz", "ts": "timestamp", "iv": "interval", "u": "uuid", "n": "inet", "m": "macaddr", "m8": "macaddr8",
            "l": "pg_lsn", "e": "bool", "seed": "int8",
        },
        "VALUES ('', '', '', ''::bytea, 0::int2, 0, 0::int8, 0::oid, 0::real, 0::float8, '2000-01-01'::date, '00:00'::time, '00:00+00'::timetz,"
        " '2000-01-01'::timestamp, '0'::interval, '00000000-0000-0000-0000-000000000000'::uuid, '::'::inet, '00:00:00:00:00:00'::macaddr,"
        " '00:00:00:00:00:00:00:00'::macaddr8, '0/0'::pg_lsn, true, 0::int8),"
        " ('tenant-1', 'abc', 'ab', 'abcdefghijkl', -1, -1, -1, 4294967295, '-0', '-0', 'infinity', '24:00', '23:59:59.5-14', 'infinity', '1 mon -1 day',"
        " 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '10.1.2.3/8', '08:00:2b:01:02:03', '08:00:2b:01:02:03:04:05', 'FFFFFFFF/FFFFFFFE', false, -1),"
        " ('üñ😀 of more than twelve bytes', 'n', 'ü', 'abcdefghijklm', -32768, 2147483647, -9223372036854775808, 1, 'NaN', 'NaN', '4714-11-24 BC',"
        " '12:00', '12:00+01', '4714-11-24 00:00 BC', '-178000000 years', NULL, '2001:db8::1/64', NULL, NULL, '0/1', NULL, 9223372036854775807),"
        " (NULL, NULL, NULL, NULL, 7, 7, 4294967296, 7, 1.1, 1.1, NULL, NULL, NULL, NULL, '2147483647 days', NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        (
            "hashtext(t)", "hashtext(t) % 4 = 0", "abs(hashtext(t)) % 16", "hashname(nm)", "hashbpchar(c)", "hashint2(i2)", "hashint4(i4)",
            "hashint8(i8)", "hashoid(o)", "hashfloat4(f4)", "hashfloat8(f8)", "time_hash(tm)", "timetz_hash(tt)", "timestamp_hash(ts)", "interval_hash(iv)",
            "uuid_hash(u)", "hashinet(n)", "hashmacaddr(m)", "hashmacaddr8(m8)", "pg_lsn_hash(l)", "hashdate(d)", "hashbool(e)", "hashbytea(b)",
            "hashtextextended(t, seed)", "hashint2extended(i2, seed)", "hashint4extended(i4, seed)", "hashint8extended(i8, seed)",
            "hashoidextended(o, seed)", "hashfloat4extended(f4, seed)", "hashfloat8extended(f8, seed)", "hashnameextended(nm, seed)",
            "hashbpcharextended(c, seed)", "time_hash_extended(tm, seed)", "timetz_hash_extended(tt, seed)", "timestamp_hash_extended(ts, seed)",
            "interval_hash_extended(iv, seed)", "uuid_hash_extended(u, seed)", "hashinetextended(n, seed)", "hashmacaddrextended(m, seed)",
            "hashmacaddr8extended(m8, seed)", "pg_lsn_hash_extended(l, seed)", "hashdateextended(d, seed)", "hashboolextended(e, seed)",
            "hashbyteaextended(b, seed)", "hashtext('x')", "hashtext(NULL)",
            "boolsend(e)", "byteasend(b)", "int2send(i2)", "int4send(i4)", "int8send(i8)", "oidsend(o)", "float4send(f4)", "float8send(f8)", "date_send(d)",
            "time_send(tm)", "timetz_send(tt)", "timestamp_send(ts)", "interval_send(iv)", "get_byte(uuid_send(u), 15) % 4", "inet_send(n)",
            "macaddr_send(m)", "macaddr8_send(m8)", "pg_lsn_send(l)", "numeric_send(f8::numeric)", 'charsend(t::"char")', "'\\101'::text::\"char\"", "t::\"char\" = 'x'", "cidr_send(n)",
            "varbit_send(B'10110')", "bit_send(B'101100111')", "timestamptz_send('2000-01-01 00:00:00.5+00')", "cidr_send(network(n))", "hashint8(i4)",
        ),
    ),
    "names in quotes": Part(
        {"t": "text"},
        "SELECT word FROM pg_get_keywords() UNION ALL SELECT unnest(ARRAY['', 'a', 'A', 'a b', '1a', '_a1', 'a$', 'ü', '\"', 'a''b', 'select ', NULL])"
        " UNION ALL SELECT upper(word) FROM pg_get_keywords() WHERE word < 'c'",
        ("quote_ident(t)", "quote_literal(t)", "quote_nullable(t)", "quote_ident('system_user')", "quote_ident('a.b') || quote_ident(t)"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
def test_filters_over_a_few_rows_have_the_answers_of_every_version(postgresql, part):
    """Issue 30. What a version does not have is an error there and here."""
    given = PARTS[part]
    for database in fresh_database(postgresql):
        with psycopg.connect(database.conninfo, autocommit=True) as connection:
            both = Both(connection, given.ddl(), given.columns)
            assert list(both.differences(given.expressions)) == []
            assert both.ours.refused == 0
            assert both.ours.compared


def test_every_sql_function_that_swaps_its_arguments_is_known(postgresql):
    """The planner puts the body in place of the call."""
    swapping = postgresql.execute(
        "SELECT proname || '(' || array_to_string(ARRAY(SELECT typname FROM unnest(proargtypes) WITH ORDINALITY AS a(type, place)"
        " JOIN pg_type ON pg_type.oid = type ORDER BY place), ',') || ')'"
        " FROM pg_proc WHERE prosqlbody IS NOT NULL AND oid < 16384 AND pg_get_function_sqlbody(oid) ~ '[$]2.*[$]1'"
    )
    computed = {signature for (signature,) in swapping} & FUNCTIONS.keys()
    assert computed == SWAPPED.keys()
