"""PostgreSQL's keywords; tests/conformance/test_subscription_grammar.py compares the lists with
``pg_get_keywords()``.
"""

import pytest

from subscriber.postgres.sql.keywords import (
    COLUMN_NAMES,
    NOT_COLUMN_ID,
    NOT_TYPE_OR_FUNCTION,
    RESERVED,
    TYPE_OR_FUNCTION_NAMES,
    column_names,
)
from subscriber.postgres.sql.quoting import quote_identifier


def test_a_keyword_has_one_category():
    assert not RESERVED & TYPE_OR_FUNCTION_NAMES
    assert not RESERVED & COLUMN_NAMES
    assert not TYPE_OR_FUNCTION_NAMES & COLUMN_NAMES


def test_a_name_excludes_the_categories_that_gram_y_excludes():
    assert {"select", "left"} <= NOT_COLUMN_ID
    assert not {"bigint", "publication"} & NOT_COLUMN_ID
    assert {"select", "bigint"} <= NOT_TYPE_OR_FUNCTION
    assert not {"left", "publication"} & NOT_TYPE_OR_FUNCTION


@pytest.mark.parametrize(
    ("major", "known", "unknown"),
    [
        (15, {"bigint", "setof"}, {"json_array", "json", "merge_action"}),
        (16, {"bigint", "json_array", "json_objectagg"}, {"json", "json_table"}),
        (17, {"bigint", "json_array", "json", "json_table", "merge_action"}, set()),
        (18, COLUMN_NAMES, set()),
    ],
)
def test_older_versions_have_fewer_words_of_sql_json(major, known, unknown):
    assert known <= column_names(major)
    assert not unknown & column_names(major)


@pytest.mark.parametrize(
    ("name", "quoted"),
    [
        ("films", "films"),
        ("_a1", "_a1"),
        ("Films", '"Films"'),
        ("1a", '"1a"'),
        ("a b", '"a b"'),
        ('a"b', '"a""b"'),
        ("é", '"é"'),
        ("select", '"select"'),
        ("substring", '"substring"'),
        ("left", '"left"'),
        ("double", "double"),
        ("", '""'),
        ("a$", '"a$"'),
    ],
)
def test_a_name_is_quoted_where_it_must_be(name, quoted):
    assert quote_identifier(name) == quoted


def test_a_word_that_a_version_does_not_reserve_needs_no_quotes():
    assert [quote_identifier("system_user", major) for major in (15, 16)] == ["system_user", '"system_user"']
    assert [quote_identifier("json_array", major) for major in (15, 16)] == ["json_array", '"json_array"']
    assert [quote_identifier("json_value", major) for major in (16, 17)] == ["json_value", '"json_value"']
