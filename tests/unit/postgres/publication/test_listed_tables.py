"""Which tables are listed, as pg_get_publication_tables lists them."""

from __future__ import annotations

import pytest

from subscriber.base.errors import NotSupportedError
from subscriber.postgres.publication.definition import Publication, TableEntry
from subscriber.postgres.publication.listed_tables import listed_tables
from subscriber.postgres.schema.publisher_tables import PublisherColumn, PublisherTable, PublisherTables
from tests.publications import entry

A, B = PublisherColumn("a", 1, 23), PublisherColumn("b", 2, 25)
TWICE = PublisherColumn("twice", 3, 23, generated="stored")
VIRTUAL = PublisherColumn("v", 4, 23, generated="virtual")
T = PublisherTable(1, "public", "t", "table", (A, B, TWICE, VIRTUAL))
ROOT = PublisherTable(2, "public", "root", "partitioned table", (A, B))
MIDDLE = PublisherTable(3, "public", "middle", "partitioned table", (A, B), parents=(ROOT.key,), is_partition=True)
LEAF = PublisherTable(4, "parts", "leaf", "table", (B, A), parents=(MIDDLE.key,), is_partition=True)
OTHER = PublisherTable(5, "parts", "other", "table", (A, B), parents=(ROOT.key,), is_partition=True)
UNLOGGED = PublisherTable(6, "public", "u", "table", (A,), persistence="unlogged")
VIEW = PublisherTable(7, "public", "v", "view", (A,))
TABLES = PublisherTables(180000, {one.key: one for one in (T, ROOT, MIDDLE, LEAF, OTHER, UNLOGGED, VIEW)}, frozenset())


def names(*publications: Publication) -> list[str]:
    return [one.qualified_name for one in listed_tables(publications, TABLES)]


@pytest.mark.parametrize(
    ("publication", "expected"),
    [
        (Publication("p", all_tables=True), ["parts.leaf", "parts.other", "public.t"]),
        (Publication("p", all_tables=True, via_root=True), ["public.root", "public.t"]),
        (Publication("p", tables=(entry(ROOT),)), ["parts.leaf", "parts.other"]),
        (Publication("p", tables=(entry(ROOT), entry(LEAF)), via_root=True), ["public.root"]),
        (Publication("p", tables=(entry(MIDDLE), entry(OTHER)), via_root=True), ["parts.other", "public.middle"]),
        (Publication("p", schemas=("public",)), ["parts.leaf", "parts.other", "public.t"]),
        (Publication("p", schemas=("parts",), via_root=True), ["parts.leaf", "parts.other"]),
        (Publication("p", all_tables=True, excepted=(ROOT.key,)), ["public.t"]),
        (Publication("p", tables=(TableEntry("public", "gone"),)), []),
    ],
)
def test_partitions_are_listed_as_what_they_are_published_as(publication, expected):
    """B1, B2, B6, D9"""
    assert names(publication) == expected


def test_a_partition_is_not_listed_beside_its_root_of_another_publication():
    """D9: 16 and later."""
    assert names(Publication("p", tables=(entry(LEAF),)), Publication("q", tables=(entry(ROOT),), via_root=True)) == [
        "public.root"
    ]


def test_rows_are_copied_that_pass_any_filter():
    """D8: whatever the publications publish, and all of them where one has no filter."""
    one = Publication("p", tables=(entry(T, where="a > 1"),), publish=frozenset({"delete"}))
    two = Publication("q", tables=(entry(T, where="a < 0"),))
    assert [table.filters for table in listed_tables([one, two], TABLES)] == [("a > 1", "a < 0")]
    for third in (Publication("r", tables=(entry(T),)), Publication("r", schemas=("public",))):
        found = {table.name: table.filters for table in listed_tables([one, two, third], TABLES)}
        assert found["t"] == ()


@pytest.mark.parametrize(
    ("publication", "columns"),
    [
        (Publication("p", tables=(entry(T),)), ("a", "b")),
        (Publication("p", tables=(entry(T),), generated_columns="stored"), ("a", "b", "twice")),
        (Publication("p", tables=(entry(T, columns=("twice", "a")),)), ("a", "twice")),
        (Publication("p", tables=(entry(T, columns=("b",)),), generated_columns="stored"), ("b",)),
    ],
)
def test_a_list_names_the_columns_else_the_option_does(publication, columns):
    """B40, B41"""
    assert [table.columns for table in listed_tables([publication], TABLES)] == [columns]


def test_publications_must_agree_on_the_columns():
    """B39"""
    lists = [Publication(name, tables=(entry(T, columns=columns),)) for name, columns in (("p", ("a",)), ("q", None))]
    message = 'cannot use different column lists for table "public.t" in different publications'
    with pytest.raises(NotSupportedError, match=message) as caught:
        listed_tables(lists, TABLES)
    assert (caught.value.sqlstate, caught.value.relation) == ("0A000", "public.t")
