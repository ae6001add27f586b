"""What replica identities must cover, asked before the publisher could ask."""

from __future__ import annotations

import re

import pytest

from subscriber.base.errors import NotSupportedError, PublisherNotReady
from subscriber.postgres.publication.coverage import check_coverage, uncovered
from subscriber.postgres.publication.definition import Operation, Publication
from subscriber.postgres.schema.publisher_tables import PublisherTable
from tests.publications import entry, table, tables

COLUMNS = {"a": "int4", "b": "text"}
KEYED = table("public.t", COLUMNS, key=["a"])
FULL = table("public.t", COLUMNS, identity="full")
NOTHING = table("public.t", COLUMNS, identity="nothing")
FILTER = "Column used in the publication WHERE expression is not part of the replica identity."
LIST = "Column list used by the publication does not cover the replica identity."
GENERATED = "Replica identity must not contain unpublished generated columns."


def filter_columns(where: str, one: PublisherTable) -> frozenset[str]:
    return frozenset(column.name for column in one.columns if re.search(rf"\b{column.name}\b", where))


def errors(*publications: Publication, known=(KEYED,), version: int = 180000) -> list[tuple[str, str | None]]:
    found = uncovered(publications, tables(*known, version=version), filter_columns)
    return [(error.message, error.detail) for error in found]


def both(detail: str) -> list[tuple[str, str]]:
    return [('cannot update table "t"', detail), ('cannot delete from table "t"', detail)]


def of(one: PublisherTable, where: str | None = None, columns=None, **options) -> Publication:
    return Publication("p", tables=(entry(one, where, columns),), **options)


@pytest.mark.parametrize(("where", "expected"), [("a > 1", []), ("b = 'x'", both(FILTER)), ("true", [])])
def test_a_filter_may_use_columns_of_the_identity_only(where, expected):
    """Rules B33, B35."""
    assert errors(of(KEYED, where)) == expected
    assert errors(of(FULL, where), known=(FULL,)) == []


@pytest.mark.parametrize("columns", [["a"], ["a", "b"]])
def test_a_column_list_covers_the_identity_and_never_a_full_one(columns):
    """Rules B33, B36."""
    assert errors(of(KEYED, columns=columns)) == []
    assert errors(of(KEYED, columns=["b"])) == both(LIST)
    assert errors(of(FULL, columns=columns), known=(FULL,)) == both(LIST)


def test_inserts_are_never_asked():
    """Rule B32."""
    assert errors(of(KEYED, "b = 'x'", ["b"], publish=frozenset({"insert", "truncate"}))) == []


def test_each_operation_is_asked_of_the_publications_that_publish_it():
    """Rule B32."""
    update = of(KEYED, "b = 'x'", publish=frozenset({"update"}))
    assert errors(update, of(KEYED, publish=frozenset({"delete"}))) == both(FILTER)[:1]


def test_the_filter_is_said_before_the_list_and_that_before_generated_columns():
    """Rule B33."""
    some = frozenset[Operation]({"update", "delete"})
    assert errors(of(KEYED, columns=["b"], publish=some), of(KEYED, "b = 'x'", publish=some)) == both(FILTER)


def test_an_identity_with_a_generated_column_that_is_not_sent_is_refused_from_18_on():
    """Rule B33; a list names what is sent."""
    one = table("public.t", {"a": "int4", "s": "int4"}, key=["s"], generated={"s": "stored"})
    assert errors(of(one), known=(one,)) == both(GENERATED)
    assert errors(of(one), known=(one,), version=170000) == []
    assert errors(of(one, generated_columns="stored"), known=(one,)) == []
    assert errors(of(one, columns=["s"]), known=(one,)) == []


@pytest.mark.parametrize(
    ("kind", "option", "refused"), [("stored", "none", True), ("stored", "stored", False), ("virtual", "stored", True)]
)
def test_a_full_identity_holds_all_generated_columns(kind, option, refused):
    """Rule B33."""
    one = table("public.t", {"a": "int4", "s": "int4"}, identity="full", generated={"s": kind})
    assert errors(of(one, generated_columns=option), known=(one,)) == (both(GENERATED) if refused else [])


def test_without_an_identity_updates_and_deletes_are_refused_by_the_publisher_itself():
    """Rule B34: so a subscription may be made."""
    publication = of(NOTHING)
    (update, delete) = uncovered([publication], tables(NOTHING), filter_columns)
    assert update.message == 'cannot update table "t" because it does not have a replica identity and publishes updates'
    assert (
        delete.message
        == 'cannot delete from table "t" because it does not have a replica identity and publishes deletes'
    )
    assert {update.sqlstate, delete.sqlstate} == {"55000"}
    check_coverage([publication], tables(NOTHING), filter_columns)


def test_what_a_publication_of_the_publisher_s_own_lets_it_refuse_is_not_refused_before():
    """Rule B32: over all publications, subscribed or not."""
    emulated, known = of(KEYED, "b = 'x'"), tables(KEYED)
    check_coverage([emulated], known, filter_columns, [of(KEYED), of(KEYED, "b > 'a'")])
    for harmless in (of(KEYED), of(KEYED, "a > 1"), of(KEYED, "b > 'a'", publish=frozenset({"insert"}))):
        with pytest.raises(PublisherNotReady):
            check_coverage([emulated], known, filter_columns, [harmless])
    with pytest.raises(PublisherNotReady, match="cannot delete from"):
        check_coverage([emulated], known, filter_columns, [of(KEYED, "b > 'a'", publish=frozenset({"update"}))])


def test_a_filter_of_the_publisher_s_own_that_cannot_be_read_here_refuses_nothing():
    def readable(where: str, one: PublisherTable) -> frozenset[str]:
        if "unknown" in where:
            raise NotSupportedError("function unknown(text) is not supported")
        return filter_columns(where, one)

    with pytest.raises(PublisherNotReady, match="cannot update"):
        check_coverage([of(KEYED, "b = 'x'")], tables(KEYED), readable, [of(KEYED, "unknown(b)")])


def test_via_root_the_root_s_filter_is_asked_of_the_leaf_s_identity():
    """Rule B35."""
    root = table("public.root", COLUMNS, key=["a"], oid=10, partitioned=True)
    leaf = table("public.leaf", {"b": "text", "a": "int4"}, key=["b"], identity="index", oid=11, partition_of=root)
    known = (root, leaf)
    assert errors(of(root, "b = 'x'", via_root=True), known=known) == []
    assert errors(of(root, "a > 1", via_root=True), known=known)[0] == ('cannot update table "leaf"', FILTER)
    assert errors(of(root, columns=["a"], via_root=True), known=known)[0] == ('cannot update table "leaf"', LIST)


def test_the_error_says_that_it_comes_early_and_what_to_do():
    with pytest.raises(PublisherNotReady) as caught:
        check_coverage([of(KEYED, "b = 'x'")], tables(KEYED), filter_columns)
    error = caught.value
    assert (error.sqlstate, error.relation) == ("42P10", "public.t")
    assert "before the first UPDATE" in str(error.hint)
    assert "ALTER TABLE public.t REPLICA IDENTITY" in str(error.hint)
