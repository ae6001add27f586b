"""Indexes that the target lacks or has with another definition."""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.postgres.schema.relation_names import parse_names
from subscriber.postgres.schema.shape import IndexKey, IndexShape
from subscriber.targets.table_changes import FoundIndex, FoundObjects, NewIndex
from tests.table_shapes import column_shape
from tests.unit.migrate.compared_tables import COLUMNS, indexed

INDEX = IndexShape(name="i", keys=(IndexKey("a"), IndexKey("b")))


@pytest.mark.parametrize(
    ("found", "is_there"),
    [
        (FoundIndex("i", ("a", "b")), True),
        (FoundIndex("other", ("a", "b")), True),
        (FoundIndex("other", ("a", "b"), unique=True), True),
        (FoundIndex("other", ("b", "a")), False),
        (FoundIndex("other", ("a", "b"), partial=True), False),
        (FoundIndex("other", ("a", "b"), method="hash"), False),
    ],
)
def test_an_index_is_there_by_its_name_or_its_keys(missing, found, is_there):
    assert bool(missing(FoundObjects(indexes=(found,)), objects=indexed(INDEX))) is not is_there


REPLACED = ("DROP INDEX i", "CREATE INDEX i ON t (a, b)")


@pytest.mark.parametrize(
    ("found", "present"),
    [
        (FoundIndex("i", ("b",)), "(b)"),
        (FoundIndex("i", ("a", "b"), definition="(a DESC, b)"), "(a DESC, b)"),
        (FoundIndex("i", ("a", "b"), partial=True, definition="(a, b) WHERE a > 0"), "(a, b) WHERE a > 0"),
    ],
)
def test_an_index_of_the_same_name_with_another_definition_is_left_to_the_user(missing, found, present):
    (one,) = missing(FoundObjects(indexes=(found,)), objects=indexed(INDEX))
    assert (one.kind, one.change, one.reason) == ("different index", None, f"the target has {present}")
    assert one.by_hand == REPLACED
    same = FoundIndex("else", ("a", "b"))
    assert missing(FoundObjects(indexes=(found, same)), objects=indexed(INDEX)) == []


@pytest.mark.parametrize("definition", ['("a",b)', "( a , b )"])
def test_an_index_is_the_same_in_any_way_to_write_it(missing, definition):
    found = FoundIndex("i", ("a", "b"), definition=definition)
    assert missing(FoundObjects(indexes=(found,)), objects=indexed(INDEX)) == []


def test_an_index_with_a_condition_is_there_by_its_definition(missing):
    partial = replace(INDEX, predicate="(a > 0)")
    found = FoundIndex("other", ("a", "b"), partial=True, definition="(a, b) WHERE (a > 0)")
    assert missing(FoundObjects(indexes=(found,)), objects=indexed(partial)) == []
    (one,) = missing(FoundObjects(indexes=(replace(found, definition="(a, b) WHERE a > 1"),)), objects=indexed(partial))
    assert one.kind == "index"


@pytest.mark.parametrize(
    "index",
    [
        replace(INDEX, method="gin"),
        replace(INDEX, keys=(IndexKey("a", ordinary=False), IndexKey("b"))),
    ],
)
def test_an_index_that_the_target_cannot_have_is_there_if_the_user_has_built_one_of_its_name(missing, index):
    other = FoundIndex("other", ("b",), definition="(b)")
    (one,) = missing(FoundObjects(indexes=(other,)), objects=indexed(replace(index, predicate="(a > 0)")))
    assert isinstance(one.change, NewIndex)  # the target says why it cannot be built
    found = FoundIndex("i", ("b",), definition="(b)")
    assert missing(FoundObjects(indexes=(found, other)), objects=indexed(index)) == []


def test_an_index_that_cannot_be_translated_is_there_if_the_user_has_built_one_of_its_name(missing):
    other = replace(INDEX, keys=(IndexKey(None, "md5(b)"),))
    assert [one.change for one in missing(objects=indexed(other))] == [None]
    assert missing(FoundObjects(indexes=(FoundIndex("i", (None,)),)), objects=indexed(other)) == []


def test_a_primary_key_is_there_in_any_order_of_its_columns(missing):
    key = replace(INDEX, unique=True, constraint="primary key", ddl="PRIMARY KEY (a, b)")
    found = FoundIndex("i", ("b", "a"), unique=True, definition="PRIMARY KEY (b, a)", constraint=True)
    assert missing(FoundObjects(indexes=(found,)), objects=indexed(key)) == []
    (one,) = missing(FoundObjects(indexes=(replace(found, keys=("b",)),)), objects=indexed(key))
    assert one.kind == "different index"


def test_a_unique_index_needs_a_unique_one_in_any_order_of_its_columns(missing):
    unique = replace(INDEX, unique=True)
    assert missing(FoundObjects(indexes=(FoundIndex("x", ("b", "a"), unique=True),)), objects=indexed(unique)) == []
    (one,) = missing(FoundObjects(indexes=(FoundIndex("x", ("a", "b")),)), objects=indexed(unique))
    assert one.kind == "unique index"


def test_an_index_of_a_schema_has_it_in_its_name_where_the_target_has_no_schemas(missing):
    (one,) = missing(names=parse_names("public.* => sales.*"), objects=indexed(INDEX))
    assert isinstance(one.change, NewIndex)
    assert one.change.name == "sales.i"


def test_an_index_of_a_column_that_is_not_replicated_is_left_out(missing):
    columns = (*COLUMNS, column_shape("c", 23, "integer"))
    found = missing(columns=columns, objects=indexed(replace(INDEX, keys=(IndexKey("c"),))))
    (one,) = (one for one in found if one.kind == "index")
    assert (one.change, one.reason) == (None, 'column "c" is not replicated')


def test_a_loose_expression_is_enough_for_an_index_that_is_not_unique(missing):
    lower = replace(INDEX, keys=(IndexKey(None, "lower(b)"),))
    (one,) = missing(objects=indexed(lower))
    assert isinstance(one.change, NewIndex)
    (strict,) = missing(objects=indexed(replace(lower, unique=True)))
    assert strict.reason == "function lower is not known to mean the same in SQLite"
