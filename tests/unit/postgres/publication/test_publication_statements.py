"""Commands about publications as data: names in messages, and the places of errors in filters."""

from __future__ import annotations

import pytest

from subscriber.base.errors import SQLSyntaxError
from subscriber.postgres.publication.publication_statements import Filter, RelationName
from subscriber.postgres.sql.lexer import syntax_error


@pytest.mark.parametrize(
    ("name", "written"),
    [
        (RelationName("t"), "t"),
        (RelationName("t", "s"), "s.t"),
        (RelationName("t", "s", "d"), "d.s.t"),
        (RelationName("My table", "s", only=True), "s.My table"),
    ],
)
def test_a_name_is_told_with_the_parts_that_were_written(name, written):
    assert name.as_written == written


def test_an_error_in_a_filter_is_told_with_its_place_in_the_command():
    sql = "CREATE PUBLICATION p\nFOR TABLE t WHERE (a >> 1)"
    position = sql.index("a >> 1")
    error = syntax_error("a >> 1", 2, "operator does not exist", "42883")
    error.hint = "Add casts."
    moved = Filter("a >> 1", position, sql).in_command(error)
    assert (moved.message, moved.sqlstate, moved.hint) == ("operator does not exist", "42883", "Add casts.")
    assert moved.position == sql.index(">>") + 1  # PostgreSQL counts from 1
    assert moved.detail == f"At character {sql.index('>>') + 1} (line 2)."


def test_an_error_without_a_place_is_told_as_it_is():
    error = SQLSyntaxError("WHERE is not allowed")
    assert Filter("a", 7, "command").in_command(error) is error


def test_two_filters_are_the_same_wherever_they_were_written():
    assert Filter("a > 1", 5, "one command") == Filter("a > 1", 9, "another command")
    assert Filter("a > 1") != Filter("a > 2")
