"""Filters as ``pg_get_expr`` prints them."""

from __future__ import annotations

import pytest

from subscriber.postgres.expressions.analyze.deparse import deparse
from tests.films import analyzed, canonical


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Constants: the type is shown where the text alone does not say it.
        ("a = 1", "(a = 1)"),
        ("a = -1", "(a = '-1'::integer)"),
        ("a = 2147483648", "(a = '2147483648'::bigint)"),
        ("n = 1.50", "(n = 1.50)"),
        ("n = 1e2", "(n = '100'::numeric)"),
        ("n = -1.5", "(n = '-1.5'::numeric)"),
        ("n = 'NaN'", "(n = 'NaN'::numeric)"),
        ("b = 'x''y\\'", "(b = 'x''y\\'::text)"),
        ("p = true", "(p = true)"),
        ("p = 'no'", "(p = false)"),
        ("d > '2024-02-29'", "(d > '2024-02-29'::date)"),
        ("a = NULL", "(a = NULL::integer)"),
        ("k = '{1, 2}'", "(k = '{1,2}'::integer[])"),
        # Casts; conversions that nobody has written are shown as casts where a value needs them.
        ("n > a", "(n > (a)::numeric)"),
        ("a::bigint = 1", "((a)::bigint = 1)"),
        ("v = 'x'", "((v)::text = 'x'::text)"),
        ("v::varchar(3) = 'x'", "(((v)::character varying(3))::text = 'x'::text)"),
        ("n::numeric(5,2) = 1", "((n)::numeric(5,2) = (1)::numeric)"),
        ("'x'::char(3) = b::char(3)", "('x'::character(3) = (b)::character(3))"),
        # Operators and functions.
        ("- a = 1", "((- a) = 1)"),
        ("a OPERATOR(pg_catalog.+) 1 = 2", "((a + 1) = 2)"),
        ("lower(b) LIKE 'x%'", "(lower(b) ~~ 'x%'::text)"),
        ("b NOT ILIKE c", "(b !~~* c)"),
        ("b SIMILAR TO 'x'", "(b ~ similar_to_escape('x'::text))"),
        ("a = ANY (k)", "(a = ANY (k))"),
        ("a <> ALL ('{1,2}')", "(a <> ALL ('{1,2}'::integer[]))"),
        ("a IS DISTINCT FROM 1", "(a IS DISTINCT FROM 1)"),
        ("nullif(a, 1) = 2", "(NULLIF(a, 1) = 2)"),
        ("coalesce(a, 1) = 2", "(COALESCE(a, 1) = 2)"),
        ("greatest(a, 1) = least(a, 2)", "(GREATEST(a, 1) = LEAST(a, 2))"),
        ("ROW(a, n) < ROW(1, 2)", "(ROW(a, n) < ROW(1, (2)::numeric))"),
        ("k = ARRAY[a, 1]", "(k = ARRAY[a, 1])"),
        ("k = ARRAY[]::int[]", "(k = ARRAY[]::integer[])"),
        ("ROW(a, b) IS NULL", "(ROW(a, b) IS NULL)"),
        # Logic.
        ("a = 1 AND p AND b = 'x'", "((a = 1) AND p AND (b = 'x'::text))"),
        ("NOT p", "(NOT p)"),
        ("p IS NOT UNKNOWN", "(p IS NOT UNKNOWN)"),
        ("p IS FALSE OR a IS NOT NULL", "((p IS FALSE) OR (a IS NOT NULL))"),
        # SQL syntax.
        ("extract(year from d) = 2024", "(EXTRACT(year FROM d) = (2024)::numeric)"),
        ("trim(b) = 'x'", "(TRIM(BOTH FROM b) = 'x'::text)"),
        ("trim(leading 'y' from b) = 'x'", "(TRIM(LEADING 'y'::text FROM b) = 'x'::text)"),
        ("substring(b from 1 for 2) = 'x'", "(SUBSTRING(b FROM 1 FOR 2) = 'x'::text)"),
        ("substring(b, 1) = 'x'", "(\"substring\"(b, 1) = 'x'::text)"),
        ("position('x' in b) = 1", "(POSITION(('x'::text) IN (b)) = 1)"),
        ("overlay(b placing 'x' from 1) = 'x'", "(OVERLAY(b PLACING 'x'::text FROM 1) = 'x'::text)"),
        (
            "(d + time '1:00', interval '1 day') OVERLAPS (d + time '2:00', interval '1 day')",
            (
                "(((d + '01:00:00'::time without time zone), '1 day'::interval) OVERLAPS "
                "((d + '02:00:00'::time without time zone), '1 day'::interval))"
            ),
        ),
        # Names and collations.
        ('"double" = 1', "(((a * 2))::bigint = 1)"),
        ("b COLLATE \"C\" < 'x'", "((b COLLATE \"C\") < 'x'::text)"),
        # CASE takes lines of its own.
        (
            "CASE a WHEN 1 THEN p ELSE false END",
            "\nCASE a\n    WHEN 1 THEN p\n    ELSE false\nEND",
        ),
        (
            "CASE WHEN p THEN 1 END = 2",
            "(\nCASE\n    WHEN p THEN 1\n    ELSE NULL::integer\nEND = 2)",
        ),
    ],
)
def test_a_filter_is_printed_as_the_server_prints_it(text, expected):
    assert canonical(text) == expected


def test_an_expression_of_any_type_is_printed(types):
    assert deparse(analyzed("a + 1"), types) == "(a + 1)"
    assert deparse(analyzed("lower(b)"), types) == "lower(b)"
