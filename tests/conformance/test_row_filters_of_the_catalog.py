"""Row filters made from the server's own catalogs, beside the server: no wrong answer, no exception
of Python's, nothing that it refuses.

What the server says of an expression is three things: whether a publication may have it, how
``pg_get_expr`` prints it, and what it is for each row, as ``SELECT`` computes it. What we refuse by
name (0A000) is none of its business. A failure shows the expressions and the seed, which ``SEED``
repeats; ``FILTER_SECONDS`` is how long the nested ones take in ``make long``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, Final

import psycopg
import pytest

from tests.catalog_filters import EDGES, Entry
from tests.conftest import fresh_database
from tests.filter_answers import OfCatalog
from tests.random_seed import random_seed
from tests.server_functions import zones_of

SAMPLE_SEED: Final = 14


@pytest.fixture
def seed() -> int:
    return random_seed()


def _both(server: Any, seed: int) -> Iterator[OfCatalog]:
    for database in fresh_database(server):
        with zones_of(server), psycopg.connect(database.conninfo, autocommit=True) as connection:
            yield OfCatalog(connection, Random(seed))


def _calls(both: OfCatalog, known: Sequence[Entry]) -> list[str]:
    return [text for entry in known for text in both.writer.calls(entry)]


def _assert_none(differences: list[str], seed: int) -> None:
    shown = "\n".join(differences[:30])
    assert not differences, f"SEED={seed}, {len(differences)} differ\n{shown}"


def test_a_sample_of_the_catalog_and_of_nested_filters_has_the_servers_answers(postgresql18):
    """B11, B23-B28; issue 14: every sixth operator, function and cast, and some hundred nested
    expressions.
    """
    for both in _both(postgresql18, SAMPLE_SEED):
        texts = _calls(both, both.entries[SAMPLE_SEED % 6 :: 6]) + [both.writer.nested() for _ in range(600)]
        _assert_none(list(both.differences(texts)), SAMPLE_SEED)
        assert both.ours.compared > 25_000


DIFFERED: Final = {
    "a smallint as oid is wrapped": (
        "{smallint}::oid = '4294967295'", "{smallint} = {oid}", "{smallint} < {oid}", "{oid} IN ({smallint}, {smallint})",
        "GREATEST({smallint}, {oid})", "{smallint}::oid::int8", "COALESCE({smallint}::oid, {oid})",
        "CASE WHEN {boolean} THEN {smallint}::oid ELSE {oid} END", "NULLIF({smallint}, {oid})",
    ),
    "an interval with fields or a precision keeps what they left": (
        "'30'::interval minute::interval = '30 minutes'", "CAST('1 day'::interval year to month AS interval) = '0'",
        "'1.56 sec'::interval(1)::interval = '1.56 s'", "ARRAY['1.56 sec'::interval(1)]::interval[]", "interval '1 day 02:03' hour",
        "ARRAY['1.56 sec', '2']::interval(1)[]", "GREATEST('1.56 sec'::interval(1), {interval})",
    ),
    "an oid is written as C's numbers are": (
        "'010'::oid", "'0x1F'::oid", "'08'::oid", "'0o17'::oid", "'0b11'::oid", "'1_000'::oid", "'-1'::oid", "'-2147483649'::oid",
        "'4294967296'::oid", "'4294967296x'::oid", "'99999999999999999999x'::oid", "' +7 '::oid", "''::oid", "'0x'::oid",
    ),
    "a time and a very large interval wrap": (
        "time '12:00' + interval '2562047788:00:54.775807' < '12:00'", "{time without time zone} - {interval}",
        "{interval} + {time with time zone}", "{timestamp without time zone} AT TIME ZONE {interval}",
        "{timestamp with time zone} AT TIME ZONE {interval}", "{time with time zone} AT TIME ZONE {interval}",
        "({time without time zone}, {interval}) OVERLAPS ({time without time zone}, {interval})",
    ),
    "the last timestamp is rounded to a moment before all dates that have no timestamp": (
        "date_eq_timestamp('294277-01-01', \"timestamp\"({timestamp without time zone}, length('')))",
        "date_ge_timestamp('294277-01-01', \"timestamp\"({timestamp without time zone}, length('')))",
        "timestamp_cmp_date(\"timestamp\"({timestamp without time zone}, length('')), '294277-01-01')",
    ),
    "a conversion of length that has no effect looks at nothing": (
        '"varchar"({character varying}, 20, {boolean})', '"varchar"({character varying}, -1, {boolean})',
        "varbit({bit varying}, 0, {boolean})", "varbit({bit varying}, -2147483648, {boolean})",
        '"timestamp"({timestamp without time zone}, -5)', '"timestamp"({timestamp without time zone}::timestamp(2), 7)',
        "timestamptz({timestamp with time zone}::timestamptz(0), 7)", '"timestamp"({timestamp without time zone}, 7)',
        '"timestamp"(timestamp \'2000-01-01\', -5)', '"interval"({interval}, 2147483646)', '"interval"({interval}, 7)',
        '"interval"(NULL::interval, 7)', '"interval"({interval}, 1000000)', '"numeric"({numeric}, 3)', '"time"({time without time zone}, 9)',
    ),
    "comparisons of constant rows are not computed beforehand": (
        "ROW(0,0) > ROW(2,0) AND 1/0 = {integer}", "(1,2) < (1,3) OR 1/0 = 1", "CASE WHEN (1,2) < (1,3) THEN true ELSE 1/0 = 1 END",
        "COALESCE((1,2) < (1,3), 1/0 = 1)", "(1,2) = (1,3) AND 1/0 = 1",
    ),
    "a pattern of constants is made beforehand": (
        "substring({text}, 'x', 'yy')", "substring(NULL::text, 'x', 'yy')", "substring({text}, 'a#\"b#\"c#\"d', '#')",
        "substring({text} similar 'a#\"b#\"c' escape '#')",
    ),
    "a path with a NULL finds nothing before the document is looked at": (
        """json '"\\u0000"' #> ARRAY[NULL]::text[]""", """json '"\\u0000"' #>> ARRAY['a', NULL]""",
        """json_extract_path(json '"\\ud800"', NULL)""", """json_extract_path_text(json '"\\ud800"', 'a', NULL)""", "{json} #> {texts}",
    ),
    "a difference of addresses is one of sixteen bytes": (
        "inet 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff' - inet '::1'", "inet '::' - inet 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'",
        "inet '::' - inet '8000::'", "{inet} - {inet}",
    ),
    "an SQL function is its body": (
        "(NULL::timestamp, interval '1 day' / {integer}) OVERLAPS ({timestamp without time zone}, {timestamp without time zone})",
        "(interval '1 day' / ({integer} - {integer})) + (date '5874897-12-31' + {integer})", "(1 / {integer}) + (date '5874897-12-31' + 1)",
        "(interval '1 day' / {integer}) + (timestamp 'infinity' - {timestamp without time zone} + timestamp '2000-01-01')",
        "date_part(NULLIF('year', {text}), date '5874897-12-31')", "(1 / {integer})::int8 + (inet '::' + ({integer} / 0))",
    ),
    "what is wrong with the numbers is found before what is wrong with the pattern": (
        "make_interval(0, 0, 0, 0, 0, 0, 1e308)", "regexp_count({text}, '[', 0)", "regexp_instr({text}, '[', 0)", "regexp_substr({text}, '[', 0)",
        "regexp_count({text}, '[', 1)", "regexp_replace({text}, '[', 'x', 0)",
    ),
    "patterns may be the elements of any constant array": tuple(
        f"{{{kind}}} {negation}{operator} {which} ({array})"
        for kind in ("text", "name", "character")
        for negation, operator in (("", "LIKE"), ("NOT ", "ILIKE"), ("", "~"), ("", "!~*"))
        for which, array in (
            ("ANY", "'{{a%,b%}}'"), ("ALL", "string_to_array('a%,b%', ',')"), ("ANY", "ARRAY['a%'] || 'b%'::text"),
            ("ALL", "'{{}}'"), ("ANY", "ARRAY[ARRAY['a%'], ARRAY['b']]"), ("ALL", "NULL::text[]"), ("ANY", "'{{NULL,a}}'"),
        )
    ),
    "a polymorphic type that nobody knows": (
        "range_contains_elem('empty', 97)", "elem_contained_by_range(97, 'empty')", "range_contains('empty', 'empty')", "anyarray_in('x')",
        "array_in('x', 'x', 'x')", "array_recv('x', 1, 1)", "anyarray_recv('x')", "enum_first(NULL)", "array_append(NULL, NULL)",
        "range_merge('empty')", "internal_in(NULL)", "lower('empty'::anyrange)",
    ),
    "a value of a gigabyte": ("bpchar('a', 2147483647, true)", "bpchar({character}, 2147483647, {boolean})"),
    "an interval is written as the server reads it": tuple(
        f"interval '{written}'"
        for written in (
            "1 day1", "15 days12:00", "-3 mons+90 days", "1w0", "1day2hours", "1 day_", ".", "-1- +3 -4:05:06", "P0001-02-03T04:05:066",
            "2024-03-31", "allba+lns", "1 week infinity", "5 mm", "1-", "1 ago", "P0x10Y", "PT1e400S", "1 2 3", "@ 1 day ago", "at 5",
        )
    ),
    "a range error comes before what stands behind": (
        "int2 '2147483647.5'", "int2 '32769.5'", "int4 '99999999999_'", "float8 '1e400x'", "float4 '1e39 x'", "float8 '1e-400x'", "float8 '1x'",
        "int4[] '{{1,2147483648,{{'", "int4[] '{{a}}}}'", "int4[] '[1:2]={{a}}'", "int4[] '{{22147483647\",1}}'", "int4[] '{{\"a\"b}}'", "int4[] '{{a{{1}}}}'", "float8[] '{{1e400x}}'", "int8 '0xFFFFFFFFFFFFFFFFFz'",
    ),
    "an array's bounds": tuple(
        f"int4[] '[{bounds}]={{{{1}}}}'"
        for bounds in (
            "9999999999:1", "2147483647:2147483647", "1:2147483647", "-2147483648:1", "-2147483648:-2147483648", "5:4", "134217728", "1:x", "x",
            "99999999999x", "2147483646:2147483646", "1", "+1:1",
        )
    ),
    "aggregates and window functions": (
        "stddev('x')", "count()", "json_agg(NULL)", "mode(1)", "rank(1)", "row_number()", "sum(1) OVER ()", "count(*)", "mode() WITHIN GROUP (ORDER BY 1)",
        "sum(1) WITHIN GROUP (ORDER BY 1)", "abs(*)", "abs(DISTINCT 1)", "row_number() OVER ()", "count(*) OVER ()",
    ),
    "VARIADIC where there is nothing variadic": (
        "int4(VARIADIC '1')", "abs(VARIADIC 1)", "float8(VARIADIC 'x')", "length(VARIADIC {text})", "concat_ws(VARIADIC {text})", "nosuch(VARIADIC 1)",
        "num_nonnulls(VARIADIC '63')", "num_nulls(VARIADIC NULL)", "concat(VARIADIC NULL)", "num_nulls({integer}, NULL)",
    ),
    "a zone is looked up before the interval is turned round": (
        "date_subtract({timestamp with time zone}, {interval}, 'nowhere')", "date_subtract({timestamp with time zone}, {interval}, 'UTC')",
        "date_subtract(timestamptz '2000-01-01', interval '-178956970 years -8 mons', 'nowhere')",
    ),
    "an element is not looked for in a range that has nothing or everything": (
        "{integer} <@ '(,)'::int4range", "{integer} <@ 'empty'::int4range", "'(,)'::numrange @> {numeric}", "(1 / {integer}) <@ int4range(NULL, NULL)",
        "(1 / {integer}) <@ int4range(5, 5)", "(1 / {integer}) <@ '[0,)'::int4range", "{int4range} @> (1 / {integer})", "NULL::int4 <@ '(,)'::int4range",
        "(1 / {integer}) <@ '{{(,)}}'::int4multirange", "{integer} <@ '{{}}'::int4multirange", "{integer} <@ NULL::int4range",
    ),
    "numbers of many digits": (
        "{integer} = " + "9" * 5000, "{numeric} = " + "9" * 5000, "{text}::varchar(" + "9" * 5000 + ") = 'a'", "{numeric}::numeric(" + "9" * 5000 + ")",
        "'" + "9" * 5000 + "'::int4", "'" + "9" * 5000 + "'::oid", "'0" + "7" * 5000 + "'::oid", "'" + "9" * 5000 + "'::float8",
        "'1e" + "9" * 5000 + "'::numeric", "interval '" + "9" * 200 + " days'", "'[" + "9" * 5000 + ":1]={{}}'::int4[]",
        "{jsonb} #> '{{" + "9" * 5000 + "}}'", "{text} ~ '(a)\\" + "9" * 5000 + "'", "int4[] '[1:" + "9" * 5000 + "]={{1}}'",
        "{time without time zone}::time(" + "9" * 5000 + ")", "B'1'::bit(" + "9" * 5000 + ")", "{integer} = 0x" + "f" * 5000,
        "'{{}}'::int4[" + "9" * 5000 + "]", "interval(" + "9" * 5000 + ") '1'", "{double precision}::float(" + "9" * 5000 + ")",
    ),
}  # fmt: skip
"""Filters that were once computed differently from the server, by cause."""


@pytest.fixture(scope="module")
def both(postgresql18) -> Iterator[OfCatalog]:
    yield from _both(postgresql18, SAMPLE_SEED)


@pytest.mark.parametrize("cause", DIFFERED)
def test_filters_that_once_differed_have_the_servers_answers(both, cause):
    """Issue 14, each with its family."""
    columns = {name: found[0] for name in EDGES if (found := both.sample.columns(name))}
    columns["texts"] = both.sample.columns("text[]")[0]
    texts = [text.format_map(columns) for text in DIFFERED[cause]]
    assert list(both.differences(texts)) == []
    assert both.ours.compared


@pytest.mark.long
@pytest.mark.slow
def test_every_operator_function_and_cast_of_the_catalog_has_the_servers_answers(postgresql18, seed):
    """B11, B23-B28; issue 14."""
    for both in _both(postgresql18, seed):
        _assert_none(list(both.differences(_calls(both, both.entries))), seed)
        assert both.ours.compared > 100_000


@pytest.mark.long
@pytest.mark.slow
def test_nested_operators_functions_and_casts_have_the_servers_answers(postgresql18, seed):
    """B11, B23-B28; issue 14: what one of them alone does not show."""
    end = time.monotonic() + float(os.environ.get("FILTER_SECONDS") or 120)
    for both in _both(postgresql18, seed):
        differences: list[str] = []
        while time.monotonic() < end:
            differences += both.differences([both.writer.nested() for _ in range(200)])
        _assert_none(differences, seed)
        assert both.ours.compared > 1000
