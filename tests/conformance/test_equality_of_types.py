"""subscriber.postgres.types.family agrees with the servers' equality operators (rules C14, C17)."""

from __future__ import annotations

import itertools

import psycopg
import pytest

from subscriber.postgres.types.oids import BUILT_IN_TYPES, type_name
from subscriber.postgres.types.registry import equality_of

NUMBERS = ["0", "-0", "0.00", "1", "1.0", "1.00", "10", "100", "1.05", "1.5", "-1.50", "NaN"]
SPELLINGS = {
    "numeric": [*NUMBERS, "123456789012345678901234567890.10", "123456789012345678901234567890.1"],
    "interval": [
        "1 mon", "30 days", "29 days 24:00:00", "720:00:00", "1 year", "12 mons", "360 days", "0", "-1 mon", "-30 days",
        "1 mon -1 day", "29 days", "-00:00:00.5", "-1 day 23:59:59.5", "1 mon -1 day +24:00:00", "1 year 2 mons 3 days 04:05:06.789",
    ],
    "character(6)": ["", " ", "a", "a  ", " a", "b"],
    "jsonb": ["1", "1.0", '"1"', '"1.0"', '{"a": 1.0}', '{"a": 1}', '{"a": "1.0"}', "[1.50, 2]", "[1.5, 2.0]", r'"\"1.0"', '{"1.0": 1}',
              '{"1": 1}', "-0", "0", "1e3", "1000"],
    "numrange": ["[1,2)", "[1.0,2.00)", "(1,2)", "[1,)", "(,2.0)", "(,2)", "empty"],
    "nummultirange": ["{[1,2),[3.0,4)}", "{[1.0,2),[3,4.00)}", "{}", "{[1,2)}"],
    "numeric[]": ["{1.0,2}", "{1,2.0}", "{1,NULL}", "{1.0,NULL}", "{{1,2}}", "{{1.0,2}}", "[0:1]={1,2}", "[0:1]={1.0,2}", "{}", "{NaN,1}"],
    "double precision[]": ["{0,1}", "{-0,1}", "{NaN}", "{0.1}", "{Infinity}"],
    "real[]": ["{0,1}", "{-0,1}", "{1e30}"],
    "interval[]": ['{"1 mon",NULL}', '{"30 days",NULL}', '{"1 mon","1 day"}'],
    "character(3)[]": ['{"a "}', "{a}", '{" a"}', '{"\\"a"}', '{"NULL"}', "{NULL}", '{"a,b"}', "{a,b}"],
    "jsonb[]": ['{"{\\"a\\": 1.0}"}', '{"{\\"a\\": 1}"}', '{"\\"1.0\\""}', '{"\\"1\\""}'],
    "numrange[]": ['{"[1,2)"}', '{"[1.0,2.0)"}', '{"(1,2)"}'],
    "text[]": ["{1,2}", '{"1","2"}', "{1.0,2}", '{"a "}', "{a}"],
    "time with time zone": ["01:00+00", "02:00+01", "01:00:00.0+00"],
    "inet": ["10.0.0.1", "10.0.0.1/32", "10.0.0.1/24", "::1", "::1/128"],
    "money": ["1", "1.00", "2"],
    "bit varying": ["01", "010", "1"],
    "tsquery": ["a & b", "b & a", "a&b"],
    "timestamp with time zone": ["2026-01-01 00:00+00", "2026-01-01 01:00+01", "infinity"],
}  # fmt: skip


@pytest.mark.parametrize("name", SPELLINGS)
def test_values_have_one_canonical_form_if_and_only_if_they_are_equal(postgresql18, name):
    """C14: for texts that the type's output function writes"""
    oid = {type_name(oid): oid for oid in BUILT_IN_TYPES}[name.replace("(6)", "").replace("(3)", "")]
    canonical = equality_of(oid).canonical or str
    with psycopg.connect(postgresql18.conninfo(), autocommit=True) as connection, connection.cursor() as cursor:
        # What the output function writes, of a character(n) with its blanks.
        cursor.execute(
            f"SELECT format('%%s', x) FROM unnest(%s::text[]) WITH ORDINALITY AS t (u, n), CAST(u AS {name}) AS x",
            ([*SPELLINGS[name]],),
        )
        texts = [row[0] for row in cursor]
        for one, other in itertools.combinations_with_replacement(texts, 2):
            cursor.execute(f"SELECT %s::{name} = %s::{name}", (one, other))
            assert [(canonical(one) == canonical(other),)] == cursor.fetchall(), (one, other)


@pytest.mark.parametrize("oid", [1700, 1042], ids=type_name)
def test_every_spelling_lies_in_the_range_that_is_looked_in(oid):
    equality = equality_of(oid)
    assert equality.canonical is not None
    assert equality.spellings is not None
    texts = [*NUMBERS[2:], "1.500", "15", "-1.5000"] if oid == 1700 else ["", " ", "a", "a   ", "ab", "a!", "a b"]
    for one, other in itertools.product(texts, repeat=2):
        first, end = equality.spellings(equality.canonical(one))
        if equality.canonical(one) == equality.canonical(other):
            assert first <= other < end


def test_the_types_without_equality_are_those_that_the_server_cannot_compare(postgresql):
    """C17: for all types that a column can have, and for their arrays"""
    without, with_equality = set(), set()
    with psycopg.connect(postgresql.conninfo(), autocommit=True, prepare_threshold=None) as connection:
        for oid in BUILT_IN_TYPES:
            try:
                connection.execute(f"CREATE TEMPORARY TABLE one (a {type_name(oid)})")
            except psycopg.Error:
                continue  # a pseudo-type, or a type of another version
            try:
                connection.execute("SELECT DISTINCT a FROM one")
                with_equality.add(oid)
            except psycopg.errors.UndefinedFunction:
                without.add(oid)
            connection.execute("DROP TABLE one")
    assert {oid for oid in without | with_equality if not equality_of(oid).exists} == without
    assert without
