"""boolean: comparisons and casts, and the functions that count NULL."""

from __future__ import annotations

import pytest

from tests.filter_expressions import value


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("false < true", "t"),
        ("true <= false", "f"),
        ("true <> false", "t"),
        ("true > NULL::boolean", None),
        ("btboolcmp(true, false)", "1"),
        ("btboolcmp(false, true)", "-1"),
        ("btboolcmp(true, true)", "0"),
        ("true::integer", "1"),
        ("false::integer", "0"),
        ("true::text", "true"),
        ("false::text", "false"),
        ("NULL::boolean::text", None),
        ("num_nonnulls(1, NULL::int, 2)", "2"),
        ("num_nulls(1, NULL::int, 2)", "1"),
        ("num_nulls('a'::text, true, NULL::date, NULL::int)", "2"),
    ],
)
def test_booleans(expression, expected):
    assert value(expression) == expected
