"""Collations: how they are derived, combined and refused (the manual's 23.2)."""

from __future__ import annotations

import pytest

from subscriber.postgres.expressions.analyze import tree
from subscriber.postgres.expressions.analyze.collate import Collations
from subscriber.postgres.expressions.check_filter import analyze_filter
from tests.films import TABLE, TABLES, TEXT, analyzed, refusal

DEFAULT, C, POSIX = 100, 950, 951


def compared(text: str) -> int:
    """The collation that a comparison uses."""
    found = analyze_filter(text, TABLE, TABLES)
    assert isinstance(found, tree.Call)
    return found.input_collation


@pytest.mark.parametrize(
    ("text", "collation"),
    [
        # Columns b and c have the default collation and "C".
        ("b < 'x'", DEFAULT),
        ("c < 'x'", C),
        ("'x' < 'y'", DEFAULT),
        ("b < c", C),
        ("c < b", C),
        ('b COLLATE "POSIX" < c', POSIX),
        ('c < b COLLATE "POSIX"', POSIX),
        ("lower(c) < 'x'", C),
        ('lower(b COLLATE "C") < c COLLATE "C"', C),
        ("c || b < 'x'", C),
        ("coalesce(c, b) < 'x'", C),
        ("CASE WHEN p THEN c ELSE 'y' END < 'x'", C),
        # The collation of a condition does not reach the result of CASE.
        ("CASE WHEN b < c THEN 'z' ELSE 'y' END < 'x'", DEFAULT),
        ("a < 1", 0),
        ("length(c) < 1", 0),
    ],
)
def test_a_comparison_uses_the_collation_of_its_operands(text, collation):
    assert compared(text) == collation


def test_different_implicit_collations_are_no_collation(types):
    """The error comes when the comparison is computed (42P22)."""
    left, right = tree.Var(TEXT, C, "c"), tree.Var(TEXT, POSIX, "q")
    called = tree.Call(16, 0, "text_lt(text,text)", (left, right), "<")
    found = Collations(types).assign(called)
    assert isinstance(found, tree.Call)
    assert found.input_collation == 0
    joined = tree.Call(TEXT, DEFAULT, "textcat(text,text)", (left, right), "||")
    assert Collations(types).assign(joined).collation == 0
    with_third = tree.Call(16, 0, "text_lt(text,text)", (joined, tree.CollateExpr(TEXT, C, right)), "<")
    settled = Collations(types).assign(with_third)
    assert isinstance(settled, tree.Call)
    assert settled.input_collation == C


def test_different_explicit_collations_are_an_error():
    error = refusal('b COLLATE "C" < c COLLATE "POSIX"')
    assert (error.sqlstate, error.message) == (
        "42P21",
        'collation mismatch between explicit collations "C" and "POSIX"',
    )


def test_the_columns_of_a_row_have_collations_of_their_own():
    found = analyze_filter('(b, c) < (c, b COLLATE "POSIX")', TABLE, TABLES)
    assert isinstance(found, tree.RowCompareExpr)
    assert found.input_collations == (C, POSIX)


def test_a_node_has_the_collation_of_its_value():
    assert analyzed("lower(c)").collation == C
    assert analyzed('c COLLATE "POSIX"').collation == POSIX
    assert analyzed("length(c)").collation == 0
    assert analyzed("greatest(b, c)").collation == C
