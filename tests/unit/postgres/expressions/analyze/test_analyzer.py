"""From the syntax tree of a filter to its typed tree: what the server says (rules B23-B29).

Acceptance and canonical text of a thousand filters are compared with servers in
``tests/conformance/test_row_filter_expressions.py``.
"""

from __future__ import annotations

import pytest

from subscriber.postgres.expressions.analyze import tree
from subscriber.postgres.expressions.analyze.analyzer import has_columns
from subscriber.postgres.expressions.check_filter import analyze_filter
from tests.films import BOOL, INT4, INT4S, INT8, NUMERIC, TABLE, TABLES, TEXT, analyzed, canonical, refusal


def test_every_conversion_is_a_node():
    found = analyze_filter("n > a", TABLE, TABLES)
    assert isinstance(found, tree.Call)
    assert found.function == "numeric_gt(numeric,numeric)"
    conversion = found.arguments[1]
    assert isinstance(conversion, tree.Call)
    assert (conversion.function, conversion.form) == ("numeric(int4)", "implicit")


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("1", tree.Const(INT4, 0, "1")),
        ("-2147483648", tree.Const(INT4, 0, "-2147483648")),
        ("2147483648", tree.Const(INT8, 0, "2147483648")),
        ("9223372036854775808", tree.Const(NUMERIC, 0, "9223372036854775808")),
        ("1.50", tree.Const(NUMERIC, 0, "1.50")),
        ("true", tree.Const(BOOL, 0, "t")),
        ("X'a5'", tree.Const(1560, 0, "10100101")),
        ("int4 '7'", tree.Const(INT4, 0, "7")),
        ("text 'x'", tree.Const(TEXT, 100, "x")),
        ("a", tree.Var(INT4, 0, "a")),
        ("v", tree.Var(1043, 100, "v", 9)),
    ],
)
def test_a_leaf_has_the_type_of_its_notation(text, node):
    assert analyzed(text) == node


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a BETWEEN 1 AND 2", "((a >= 1) AND (a <= 2))"),
        ("a NOT BETWEEN 1 AND 2", "((a < 1) OR (a > 2))"),
        ("a BETWEEN SYMMETRIC 1 AND 2", "(((a >= 1) AND (a <= 2)) OR ((a >= 2) AND (a <= 1)))"),
        ("a IN (1, 2)", "(a = ANY (ARRAY[1, 2]))"),
        ("a NOT IN (1, 2)", "(a <> ALL (ARRAY[1, 2]))"),
        ("a IN (1)", "(a = 1)"),
        ("a IN (1, 2, n::int)", "((a = ANY (ARRAY[1, 2])) OR (a = (n)::integer))"),
        ("(a, b) IN ((1, 'x'), (2, 'y'))", "(((a = 1) AND (b = 'x'::text)) OR ((a = 2) AND (b = 'y'::text)))"),
        ("a IS NOT DISTINCT FROM 1", "(NOT (a IS DISTINCT FROM 1))"),
        ("a IS DISTINCT FROM NULL", "(a IS NOT NULL)"),
        ("NULL IS NOT DISTINCT FROM a", "(a IS NULL)"),
    ],
)
def test_what_is_short_for_other_operators_is_written_out(text, expected):
    assert canonical(text) == expected


def test_a_star_in_a_row_is_every_column_so_the_types_of_users_are_in_it():
    assert refusal("ROW(films.*) IS NULL").detail == "User-defined types are not allowed."


def test_an_array_takes_its_type_from_a_cast_around_it():
    assert analyzed("ARRAY['1', '2']").type_oid == 1009
    found = analyzed("ARRAY['1', '2']::int[]")
    assert found == tree.ArrayExpr(INT4S, 0, (tree.Const(INT4, 0, "1"), tree.Const(INT4, 0, "2")))
    nested = analyzed("ARRAY[[1], [2]]")
    assert isinstance(nested, tree.ArrayExpr)
    assert (nested.type_oid, nested.nested) == (INT4S, True)


@pytest.mark.parametrize(
    ("text", "sqlstate", "message"),
    [
        ("a", "42804", "argument of PUBLICATION WHERE must be type boolean, not type integer"),
        ("a::nope = 1", "42704", 'type "nope" does not exist'),
        ("b COLLATE nope = 'x'", "42704", 'collation "nope" for encoding "UTF8" does not exist'),
        ("$1 = a", "42P02", "there is no parameter $1"),
        ("coalesce(a, b) = 1", "42804", "COALESCE types integer and text cannot be matched"),
        ("ARRAY[] = k", "42P18", "cannot determine type of empty array"),
        ('a COLLATE "C" = 1', "42804", "collations are not supported by type integer"),
        ("a AND true", "42804", "argument of AND must be type boolean, not type integer"),
        ("a IS TRUE", "42804", "argument of IS TRUE must be type boolean, not type integer"),
        ("CASE WHEN a THEN true END", "42804", "argument of CASE/WHEN must be type boolean, not type integer"),
        ("CASE WHEN p THEN 1 ELSE b END = 1", "42804", "CASE types text and integer cannot be matched"),
        ("a::date IS NULL", "42846", "cannot cast type integer to date"),
        ("n::numeric(a + 1) = 1", "42601", "type modifiers must be simple constants or identifiers"),
        ("grouping(a) = 1", "42803", "grouping operations are not allowed in WHERE"),
        ("greatest(a, b) = 1", "42804", "GREATEST types integer and text cannot be matched"),
    ],
)
def test_the_error_of_a_construct(text, sqlstate, message):
    """B27, B28."""
    error = refusal(text)
    assert (error.sqlstate, error.message) == (sqlstate, message)


def test_an_expression_has_columns_or_not():
    assert has_columns(analyzed("1 + length(b)"))
    assert not has_columns(analyzed("1 + 2"))
    assert has_columns(tree.Refused(27, 0, "SystemColumn"))
