"""Columns in error messages."""

from __future__ import annotations

from subscriber.apply.relations.relation_texts import joined, named, quoted, side_by_side
from subscriber.targets import TargetColumn, TargetTable
from tests.frames import relation

R = relation("public.t", {"a": "int4", "b": "numeric[]"})


def test_columns_are_named_in_the_singular_or_the_plural():
    assert named(R.columns[:1]) == 'column: "a"'
    assert named(R.columns) == 'columns: "a", "b"'


def test_names_are_quoted():
    assert quoted(["a", "B c"]) == '"a", "B c"'


def test_only_the_sentences_that_are_there_are_joined():
    assert joined("One.", None, "Two.") == "One. Two."
    assert joined(None) == ""


def test_both_shapes_are_shown_with_their_types():
    table = TargetTable("main", "t", (TargetColumn("a", "INT", "INT", True), TargetColumn("x", "", "", True)), None)
    assert side_by_side(R, table) == "The publisher has (a integer, b numeric[]), the target (a INT, x)."
