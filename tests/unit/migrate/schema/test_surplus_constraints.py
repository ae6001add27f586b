"""Constraints that only the target's table has are listed; those of the publisher are not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.migrate.schema.compare_constraints import surplus_constraints
from subscriber.postgres.schema.shape import IndexKey, IndexShape, UserType
from subscriber.targets.table_changes import FoundIndex, FoundObjects
from tests.table_shapes import column_shape
from tests.unit.migrate.compared_tables import COLUMNS, TABLE, indexed


@pytest.fixture
def surplus(missing):
    def listed(found=None, **more):
        both = missing.both(found or FoundObjects(), **more)
        return [(one.kind, one.name, one.by_hand) for one in surplus_constraints(both)]

    return listed


def unique(*names: str, **more) -> IndexShape:
    return IndexShape(name="of_publisher", keys=tuple(IndexKey(name) for name in names), unique=True, **more)


def test_not_null_is_listed_for_columns_that_are_nullable_at_the_publisher(surplus):
    a, b = TABLE.columns
    strict = replace(TABLE, columns=(replace(a, nullable=False), replace(b, nullable=False)))
    columns = (replace(COLUMNS[0], nullable=False), COLUMNS[1])
    assert surplus(table=strict, columns=columns) == [("surplus not null", "b", ())]


def test_the_not_null_of_a_domain_is_the_publisher_s(surplus):
    a, b = TABLE.columns
    strict = replace(TABLE, columns=(a, replace(b, nullable=False)))
    domain = UserType(oid=1, schema="public", name="d", kind="domain", base=25, nullable=False)
    objects = replace(indexed(), types={"b": (domain, False)})
    assert surplus(table=strict, objects=objects) == []
    objects = replace(indexed(), types={"b": (replace(domain, nullable=True), False)})
    assert surplus(table=strict, objects=objects) == [("surplus not null", "b", ())]


@pytest.mark.parametrize(
    ("publisher", "target"), [(["a"], ["a"]), (["a", "b"], ["b", "a"]), (["a"], ["a", "b"])], ids=str
)
def test_a_unique_key_that_follows_from_one_of_the_publisher_is_not_listed(surplus, publisher, target):
    found = FoundObjects(indexes=(FoundIndex("mine", tuple(target), unique=True),))
    assert surplus(found, objects=indexed(unique(*publisher))) == []


@pytest.mark.parametrize(
    "publisher",
    [
        [],
        [unique("a", "b")],
        [unique("b")],
        [unique("a", predicate="(b IS NULL)")],
        [IndexShape(name="n", keys=(IndexKey("a"),))],
    ],
    ids=["none", "wider", "other", "partial", "not unique"],
)
def test_a_unique_key_that_the_publisher_lacks_is_listed_with_its_removal(surplus, publisher):
    found = FoundObjects(indexes=(FoundIndex("mine", ("a",), unique=True), FoundIndex("slow", ("b",))))
    expected = [("surplus unique key", "mine", ("DROP INDEX mine",))]
    assert surplus(found, objects=indexed(*publisher)) == expected


def test_the_key_of_a_rowid_table_has_no_name_and_no_removal(surplus):
    found = FoundObjects(indexes=(FoundIndex("", ("a",), unique=True),))
    assert surplus(found) == [("surplus unique key", "primary key", ())]


def test_a_partial_unique_index_is_the_publisher_s_by_its_name_or_its_definition(surplus):
    publisher = unique("a", predicate="(b IS NULL)", ddl="btree (a) WHERE (b IS NULL)")
    same_name = FoundIndex("of_publisher", ("a",), unique=True, partial=True)
    same_definition = FoundIndex("x", ("a",), unique=True, partial=True, definition="btree (a) WHERE (b IS NULL)")
    other = FoundIndex("y", ("a",), unique=True, partial=True, definition="btree (a) WHERE (b IS NOT NULL)")
    found = FoundObjects(indexes=(same_name, same_definition, other))
    assert [name for _, name, _ in surplus(found, objects=indexed(publisher))] == ["y"]


def test_a_unique_key_of_texts_that_compare_inexactly_is_listed(missing):
    found = FoundObjects(indexes=(FoundIndex("mine", ("b",), unique=True),), inexact=frozenset({"b"}))
    (one,) = surplus_constraints(missing.both(found, objects=indexed(unique("b"))))
    assert (one.kind, one.name) == ("inexact unique key", "mine")
    assert 'texts in column "b" that differ at the publisher may be equal in the target' in one.reason
    found = replace(found, inexact=frozenset({"a"}))
    assert list(surplus_constraints(missing.both(found, objects=indexed(unique("b"))))) == []


@pytest.mark.parametrize("definition", ["(a > 0)", '"a">0'])
def test_a_check_with_the_publisher_s_expression_is_not_listed(surplus, definition):
    assert surplus(FoundObjects(checks=(("mine", definition),)), checks=("(a > 0)",)) == []


def test_a_check_that_the_publisher_lacks_is_listed(surplus):
    checks = FoundObjects(checks=(("mine", "a > 1"), ("", "b <> ''")))
    assert surplus(checks, checks=("(a > 0)",)) == [
        ("surplus check", "mine", ()),
        ("surplus check", "CHECK (b <> '')", ()),
    ]


def test_a_check_that_stands_for_one_that_cannot_be_translated_is_not_listed(surplus):
    shape = {"checks": ("(b ~ 'x')",), "definitions": {"(b ~ 'x')": ("named", "CHECK ((b ~ 'x'))")}}
    assert surplus(FoundObjects(checks=(("named", "b GLOB '*x*'"),)), **shape) == []


def test_the_check_of_an_enum_is_the_publisher_s(surplus):
    enum = UserType(oid=1, schema="public", name="mood", kind="enum", labels=("ok", "bad"))
    objects = replace(indexed(), types={"b": (enum, False)})
    written = FoundObjects(checks=(("x", "\"b\" IN ('ok', 'bad')"), ("y", "\"b\" IN ('ok')")))
    assert [name for _, name, _ in surplus(written, objects=objects)] == ["y"]


def test_a_check_that_every_json_document_passes_is_not_listed(surplus):
    columns = (COLUMNS[0], column_shape("b", 3802, "jsonb"))
    assert surplus(FoundObjects(checks=(("b", "json_valid(`b`)"),)), columns=columns) == []
    assert surplus(FoundObjects(checks=(("b", "json_valid(`b`)"),))) == [("surplus check", "b", ())]
