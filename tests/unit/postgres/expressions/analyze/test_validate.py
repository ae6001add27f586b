"""What a publication's filter may contain (rules B23-B27)."""

from __future__ import annotations

import pytest

from subscriber.postgres.expressions.analyze import tree
from subscriber.postgres.expressions.builtin_catalog import catalog_of
from subscriber.postgres.expressions.check_filter import validate
from tests.films import analyzed, refusal


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("ctid = '(0,1)'", "System columns are not allowed."),
        ("b === 'x'", "User-defined operators are not allowed."),
        ("mood = 'good'", "User-defined types are not allowed."),
        ("mood IS NULL", "User-defined types are not allowed."),
        ("films IS NOT NULL", "User-defined types are not allowed."),
        ("is_long(b)", "User-defined or built-in mutable functions are not allowed."),
        ("random() < 0.1", "User-defined or built-in mutable functions are not allowed."),
        ("concat(b, 'x') = 'y'", "User-defined or built-in mutable functions are not allowed."),
        ("b < 'm' COLLATE old_spelling", "User-defined collations are not allowed."),
    ],
)
def test_what_users_make_and_what_changes_is_refused(text, detail):
    """B23, B24, B25: class, message and detail are the server's."""
    error = refusal(text)
    assert (error.sqlstate, error.message, error.detail) == (
        "0A000",
        "invalid publication WHERE expression",
        detail,
    )


@pytest.mark.parametrize(
    "text",
    [
        "a IN (SELECT 1)",
        "EXISTS (SELECT 1)",
        "a::text = '1'",
        "b::int = 1",
        "tags::varchar(3)[] = '{x}'",
        "tags[1] = 'x'",
        "b = current_user",
        "current_date > '2024-01-01'",
        "make_interval(days => a) IS NULL",
        "JSON_OBJECT('a': 1) IS NULL",
        "b IS JSON",
    ],
)
def test_nodes_that_are_not_simple_are_refused(text):
    """B27."""
    error = refusal(text)
    assert error.message == "invalid publication WHERE expression"
    assert (error.detail or "").startswith("Only columns, constants, built-in operators")


@pytest.mark.parametrize(
    "text", ["a + 1", "b LIKE 'x%'", "(a, n) < (1, 2)", "CASE a WHEN 1 THEN p END", "b COLLATE \"C\" < 'x'"]
)
def test_an_expression_of_columns_and_immutable_functions_is_valid(text):
    validate(analyzed(text), catalog_of(180000))


def test_a_node_that_is_not_allowed_is_found_at_any_depth():
    inner = tree.Refused(16, 0, "SubLink")
    outer = tree.BoolExpr(16, 0, "or", (tree.Var(16, 0, "p"), tree.NullTest(16, 0, inner, True)))
    with pytest.raises(Exception, match="invalid publication WHERE expression"):
        validate(outer, catalog_of(180000))


def test_the_first_node_from_the_top_decides_the_detail():
    """An operator before its operands, as the server walks."""
    assert refusal("b === current_user").detail == "User-defined operators are not allowed."
