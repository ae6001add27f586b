"""From the text of a filter to its tree and back to text (rules B27, B33, B35)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.base.errors import SQLSyntaxError
from subscriber.postgres.expressions.check_filter import (
    analyze_filter,
    check_filter,
    columns_of,
    filter_text,
    kept_text,
)
from tests.films import BYTEWISE, COLUMNS, NUMERIC, TABLE, TABLES, canonical, refusal


def test_a_syntax_error_names_the_place():
    with pytest.raises(SQLSyntaxError) as caught:
        analyze_filter("a = 1 b", TABLE, TABLES)
    assert (caught.value.message, caught.value.position) == ('syntax error at or near "b"', 7)


def test_a_filter_is_kept_as_the_server_prints_it_unless_that_hides_a_conversion():
    """The text of an expanded column does not say what its type makes of the value."""
    rounded = replace(COLUMNS[6], type_oid=NUMERIC, type_modifier=(10 << 16 | 1) + 4, expression="(n * 2)")
    table = replace(TABLE, columns=(*COLUMNS[:6], rounded))
    assert kept_text("a>1", table, TABLES) == "(a > 1)"
    assert kept_text("double > 1", table, TABLES) == "double > 1"
    assert canonical("double > 1", TABLES) == "(((a * 2))::bigint > 1)"


def test_columns_of_a_filter_are_all_that_it_names():
    """B35: a constant filter has none."""
    assert columns_of(check_filter("CASE WHEN a > 1 THEN n = 1 ELSE b = 'x' END", TABLE, TABLES)) == {"a", "n", "b"}
    assert columns_of(check_filter("1 < 2", TABLE, TABLES)) == frozenset()


def test_parentheses_without_end_are_refused():
    error = refusal("(" * 3000 + "a = 1" + ")" * 3000)
    assert error.sqlstate == "54001"


@pytest.mark.parametrize("text", ["(a > 1)", "a > 1", "((a) > (1))"])
def test_parentheses_around_the_text_are_optional(text):
    assert canonical(text) == "(a > 1)"


def test_a_filter_that_is_printed_is_read_as_itself():
    for text in ("a > 1 AND b <> 'x'", "a IN (1, 2)", "CASE WHEN p THEN a ELSE 2 END > 1", "NOT (tags @> '{x}')"):
        found = check_filter(text, TABLE, BYTEWISE)
        assert check_filter(filter_text(found, BYTEWISE), TABLE, BYTEWISE) == found


def test_what_the_server_accepts_may_be_refused_here():
    """analyze_filter is the server's answer; check_filter adds what the subscriber computes."""
    assert filter_text(analyze_filter("place = place", TABLE, TABLES), TABLES) == "(place = place)"
    assert refusal("place = place").sqlstate == "0A000"
