"""Expressions that are written the same, and constants."""

from __future__ import annotations

import pytest

from subscriber.migrate.schema.schema_object import is_constant, plain


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("(a > 0)", '"a">0', True),
        ("((a != 1))", "`a` <> 1", True),
        ("a = 'x y'", "a = 'xy'", False),
        ("a = '\"'", "a = ''", False),
        ("(a) = (b)", "a) = (b", False),
        ("(a = ')')", "a = ')'", True),
        ("(a = '(') OR (b)", "a = '(') OR (b", False),
    ],
)
def test_blanks_quotes_of_names_and_outer_parentheses_make_no_difference(one, other, is_same):
    assert (plain(one) == plain(other)) is is_same


@pytest.mark.parametrize(
    "text",
    ["5", "-5", "((- 5))", "1.50", "'it''s'", "'x'::text", "'{}'::text[]", "'1'::numeric(10,2)", "'a'::s.\"My type\"", "true",
     "X'00'", "CAST('x' AS VARCHAR)", "('(')"],
)  # fmt: skip
def test_a_constant_may_be_cast_and_have_parentheses(text):
    assert is_constant(text)


@pytest.mark.parametrize(
    "text", ["now()", "1 + 2", "'a' || 'b'", "a", "current_timestamp", "ARRAY['a']", "('a')||('b')", ""]
)
def test_an_expression_is_no_constant(text):
    assert not is_constant(text)
