"""LIKE, ILIKE and SIMILAR TO: the examples of the manual (9.7), and rules B24 and B26."""

from __future__ import annotations

import pyarrow as pa
import pytest

from subscriber.base.errors import NotSupportedError, RowFilterError
from subscriber.postgres.expressions.functions.patterns import is_like, similar_to_escape
from tests.filter_expressions import failure, implementation, value


def column(*texts: str | None) -> pa.StringArray:
    return pa.array(texts, pa.string())


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # The manual's examples.
        ("'abc' LIKE 'abc'", "t"),
        ("'abc' LIKE 'a%'", "t"),
        ("'abc' LIKE '_b_'", "t"),
        ("'abc' LIKE 'c'", "f"),
        ("'abc' SIMILAR TO 'abc'", "t"),
        ("'abc' SIMILAR TO 'a'", "f"),
        ("'abc' SIMILAR TO '%(b|d)%'", "t"),
        ("'abc' SIMILAR TO '(b|c)%'", "f"),
        (r"'-abc-' SIMILAR TO '%\mabc\M%'", "t"),
        (r"'xabcy' SIMILAR TO '%\mabc\M%'", "f"),
        # Operators.
        ("'abc' ~~ 'a%'", "t"),
        ("'abc' !~~ 'a%'", "f"),
        ("'abc' NOT LIKE 'x%'", "t"),
        ("'ABC' COLLATE \"C\" ILIKE 'a_c'", "t"),
        ("'ABC' COLLATE \"C\" NOT ILIKE 'a_c'", "f"),
        (r"'\x61ff'::bytea LIKE 'a_'::bytea", "t"),
        (r"'\x61ff'::bytea NOT LIKE 'a'::bytea", "t"),
        ("'abc' NOT SIMILAR TO 'a'", "t"),
        # Escape characters.
        (r"'a_c' LIKE 'a\_c'", "t"),
        (r"'abc' LIKE 'a\_c'", "f"),
        ("'a%' LIKE 'a#%' ESCAPE '#'", "t"),
        ("'ab' LIKE 'a#%' ESCAPE '#'", "f"),
        ("'a#' LIKE 'a##' ESCAPE '#'", "t"),
        (r"'a\b' LIKE 'a\%' ESCAPE ''", "t"),
        ("'a%' SIMILAR TO 'a#%' ESCAPE '#'", "t"),
        # Characters, not bytes; and newlines are characters.
        ("'é😀' LIKE '__'", "t"),
        ("'a\nb' LIKE 'a_b'", "t"),
        ("'' LIKE ''", "t"),
        ("'a.c' SIMILAR TO 'a.c'", "t"),
        ("'abc' SIMILAR TO 'a.c'", "f"),
        ("'abc' LIKE NULL", None),
        ("'abc' SIMILAR TO NULL", None),
        ("NULL::text NOT LIKE 'a'", None),
        ("'abc' LIKE 'a' ESCAPE NULL", None),
    ],
)
def test_patterns(expression, expected):
    assert value(expression) == expected


@pytest.mark.parametrize(
    ("expression", "sqlstate", "message"),
    [
        (r"'abc' LIKE 'ab\'", "22025", "LIKE pattern must not end with escape character"),
        ("'a' LIKE 'a' ESCAPE '##'", "22025", "invalid escape string"),
        ("'a' SIMILAR TO 'a' ESCAPE '##'", "22025", "invalid escape string"),
        (
            "substring('a' similar '#\"a#\"#\"' escape '#')",
            "2200C",
            "SQL regular expression may not contain more than two escape-double-quote separators",
        ),
    ],
)
def test_the_error_of_a_pattern(expression, sqlstate, message):
    assert failure(expression) == (sqlstate, message)


@pytest.mark.parametrize("pattern", ["a", "", "%", "a%", "%a", "%a%", "a_%", "%\\%", "_"])
def test_like_with_a_constant_pattern_is_over_columns_and_never_raises(pattern):
    """B26: newlines are characters like all others."""
    found = implementation("textlike(text,text)").for_constants({1: pattern})
    assert found.vectorised
    assert not found.raises
    texts = ["", "a", "ab", "ba", "a\nb", "\n", "%", "é", None]
    expected = [None if text is None else is_like(text, pattern) for text in texts]
    assert found.function(column(*texts), pa.scalar(pattern)).to_pylist() == expected


def test_a_pattern_that_ends_with_a_backslash_raises_only_where_matching_gets_there():
    """B26: 22025, as the server: the string that differs before is simply not like it."""
    found = implementation("textlike(text,text)").for_constants({1: "ab\\"})
    assert not found.vectorised
    assert found.raises
    assert found.function("xb", "ab\\") is False
    assert found.function("ab", "ab\\") is False
    with pytest.raises(RowFilterError) as caught:
        found.function("abc", "ab\\")
    assert (caught.value.sqlstate, caught.value.message) == ("22025", "LIKE pattern must not end with escape character")


def test_brackets_that_minor_releases_read_differently_are_refused():
    """refuse_not_guess: SIMILAR TO's brackets ended at the first ``]`` before August 2025."""
    similar = implementation("similar_to_escape(text)")
    assert similar.for_constants({0: "[[:alpha:]]%"}).function("[[:alpha:]]%") == "^(?:[[:alpha:]].*)$"
    with pytest.raises(NotSupportedError, match="SIMILAR TO with this pattern cannot be evaluated by the subscriber"):
        similar.for_constants({0: "[[:alpha:]_]"})
    with pytest.raises(NotSupportedError, match="SIMILAR TO with this pattern cannot be evaluated by the subscriber"):
        similar.for_constants({}).function("[[:alpha:]_]")
    assert similar_to_escape("[[:alpha:]_]", "\\") == "^(?:[[:alpha:]_])$"
