"""Which publication counts, as which table, with which filters and columns: get_rel_sync_entry
without a server.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest

from subscriber.base.errors import NotSupportedError, PublisherTablesOutdated
from subscriber.postgres.protocol.messages import Relation
from subscriber.postgres.publication.combine import (
    PublicationFilter,
    RelationPlan,
    plan_relation,
    plan_truncate,
    publication_filters,
    published_as,
    sent_columns,
)
from subscriber.postgres.publication.definition import OPERATIONS, Operation, Publication
from subscriber.postgres.schema.publisher_tables import PublisherTable
from tests.publications import as_sent, entry, table, tables

T = table("public.t", {"a": "int4", "b": "text", "c": "int4"}, key=["a"], oid=1)
ROOT = table("public.root", {"a": "int4", "b": "text"}, key=["a"], oid=10, partitioned=True)
MIDDLE = table("other.middle", {"a": "int4", "b": "text"}, key=["a"], oid=11, partitioned=True, partition_of=ROOT)
LEAF = table("public.leaf", {"b": "text", "a": "int4"}, key=["a"], oid=12, partition_of=MIDDLE)
LEAF2 = table("public.leaf2", {"a": "int4", "b": "text"}, key=["a"], oid=13, partition_of=MIDDLE)
LEAF3 = table("public.leaf3", {"a": "int4", "b": "text"}, key=["a"], oid=14, partition_of=ROOT)
ALL = tables(T, ROOT, MIDDLE, LEAF, LEAF2, LEAF3)


def publication(name: str, *members, publish: str = "insert, update, delete, truncate", **options) -> Publication:
    operations: set[Operation] = {one for one in OPERATIONS if one in publish}
    return Publication(name, tables=members, publish=frozenset(operations), **options)


def plan(one: PublisherTable, *publications: Publication, known=ALL, settled: bool = False) -> RelationPlan:
    return plan_relation(publications, known, as_sent(one), settled=settled)


def name_of(one: PublisherTable, *publications: Publication) -> str | None:
    """The name; the same whatever the publications' order is (rule B3)."""
    names = set()
    for order in itertools.permutations(publications):
        found = published_as(order, ALL, one)
        names.add(None if found is None else found.table.name)
    assert len(names) == 1
    return names.pop()


def texts(plan: RelationPlan, operation: Operation) -> list[str | None]:
    return [one.where for one in plan.filters(operation)]


# Who counts ---------------------------------------------------------------------------------------


def test_a_table_is_published_as_itself_by_name_schema_or_with_all():
    """Rule B2."""
    for one in (publication("p", entry(T)), publication("p", schemas=("public",)), publication("p", all_tables=True)):
        assert name_of(T, one) == "t"
    assert name_of(T, publication("p", entry(LEAF)), publication("q", schemas=("other",))) is None


@pytest.mark.parametrize(
    ("member", "options", "name"),
    [
        (ROOT, {}, "leaf"),
        (ROOT, {"via_root": True}, "root"),
        (MIDDLE, {"via_root": True}, "middle"),
        (LEAF, {"via_root": True}, "leaf"),
    ],
)
def test_a_leaf_is_published_through_an_ancestor_and_via_root_as_it(member, options, name):
    """Rule B2."""
    assert name_of(LEAF, publication("p", entry(member), **options)) == name


def test_via_root_the_top_most_member_is_it():
    """Rule B2: not the root of the tree, unless it is a member; by schema is a member as well."""
    assert name_of(LEAF, publication("p", entry(MIDDLE), entry(ROOT), via_root=True)) == "root"
    assert name_of(LEAF, publication("p", schemas=("other",), via_root=True)) == "middle"
    assert name_of(LEAF, publication("p", all_tables=True, via_root=True)) == "root"


def test_across_publications_the_highest_level_wins_in_any_order():
    """Rule B3."""
    low = publication("low", entry(LEAF, "b = 'x'"))
    middle = publication("middle", entry(MIDDLE), via_root=True)
    high = publication("high", entry(ROOT), via_root=True)
    assert name_of(LEAF, low, middle) == "middle"
    assert name_of(LEAF, low, middle, high) == "root"


def test_a_lower_publication_loses_its_filter_and_keeps_its_operations():
    """Rules B3, B10a: updates travel as the root, without any filter."""
    low = publication("low", entry(LEAF, "b = 'x'", ["a"]), publish="update")
    high = publication("high", entry(ROOT, "a > 1"), publish="insert", via_root=True)
    for order in ([low, high], [high, low]):
        found = plan(LEAF, *order)
        assert found.operations == {"insert", "update"}
        assert (texts(found, "insert"), texts(found, "update")) == (["a > 1"], [])
        assert found.publish_as is not None
        assert [column.name for column in found.publish_as.columns] == ["a", "b"]


def test_a_partitioned_table_itself_is_published_only_via_root():
    """Rule B4."""
    assert published_as([publication("p", entry(ROOT))], ALL, ROOT) is None
    assert published_as([publication("p", entry(ROOT), via_root=True)], ALL, ROOT) is not None


@pytest.mark.parametrize("via_root", [False, True])
def test_except_is_about_the_root(via_root):
    """Rule B6; another publication may still hold the table."""
    without = publication("p", all_tables=True, excepted=(ROOT.key,), via_root=via_root)
    assert name_of(LEAF, without) is None
    assert name_of(T, without) == "t"
    assert name_of(LEAF, without, publication("q", entry(LEAF))) == "leaf"


# Filters ------------------------------------------------------------------------------------------


def test_filters_of_one_operation_are_joined():
    """Rule B9."""
    found = plan(T, publication("p", entry(T, "a > 1")), publication("q", entry(T, "c > 2")))
    assert all(texts(found, operation) == ["a > 1", "c > 2"] for operation in ("insert", "update", "delete"))


@pytest.mark.parametrize(
    "unfiltered",
    [
        publication("q", entry(T), publish="insert"),
        publication("q", schemas=("public",), publish="insert"),
        publication("q", all_tables=True, publish="insert"),
    ],
)
def test_unfiltered_wins_for_the_operations_of_that_publication_only(unfiltered):
    """Rules B8, B9, B10."""
    for order in itertools.permutations([publication("p", entry(T, "a > 1")), unfiltered]):
        found = plan(T, *order)
        assert (texts(found, "insert"), texts(found, "update"), texts(found, "delete")) == ([], ["a > 1"], ["a > 1"])


def test_each_operation_has_the_filters_of_the_publications_that_publish_it():
    """Rule B10."""
    found = plan(
        T, publication("p", entry(T, "a > 1"), publish="insert"), publication("q", entry(T, "c > 2"), publish="update")
    )
    assert found.operations == {"insert", "update"}
    assert (texts(found, "insert"), texts(found, "update")) == (["a > 1"], ["c > 2"])


def test_a_filter_beside_its_schema_in_one_publication_does_not_count():
    """Rule B8."""
    assert texts(plan(T, publication("p", entry(T, "a > 1"), schemas=("public",))), "insert") == []


def test_a_leaf_that_is_published_through_its_parent_under_its_own_name_is_unfiltered():
    """Rule B8: the publication has no entry for the leaf."""
    found = published_as([publication("p", entry(ROOT))], ALL, LEAF)
    assert found is not None
    assert publication_filters(found)["insert"] == (PublicationFilter("p", None),)


def test_via_root_the_filter_is_the_ancestor_s():
    """Rule B12."""
    found = plan(LEAF, publication("p", entry(ROOT, "a > 1"), entry(LEAF, "a > 2"), via_root=True))
    assert found.table == ROOT
    assert texts(found, "insert") == ["a > 1"]


# Columns ------------------------------------------------------------------------------------------

G = table(
    "public.g",
    {"a": "int4", "b": "int4", "s": "int4", "v": "int4"},
    key=["a"],
    oid=20,
    generated={"s": "stored", "v": "virtual"},
)
WITH_G = tables(T, G)


def names(relation: Relation | None) -> list[str]:
    assert relation is not None
    return [column.name for column in relation.columns]


@pytest.mark.parametrize(
    ("columns", "option", "sent"),
    [
        (None, "none", ["a", "b"]),
        (None, "stored", ["a", "b", "s"]),
        (["s", "a"], "none", ["a", "s"]),
        (["a"], "stored", ["a"]),
    ],
)
def test_generated_columns_are_sent_if_listed_or_by_the_option_without_a_list(columns, option, sent):
    """Rules B40, B41, A9; columns keep the table's order."""
    found = plan(G, publication("p", entry(G, columns=columns), generated_columns=option), known=WITH_G)
    assert names(found.publish_as) == sent


def test_different_lists_are_refused_whatever_they_publish():
    """Rule B39."""
    for other in (entry(T), entry(T, columns=["a", "b"])):
        with pytest.raises(NotSupportedError) as caught:
            plan(
                T,
                publication("p", entry(T, columns=["a"]), publish="insert"),
                publication("q", other, publish="update"),
            )
        message = 'cannot use different column lists for table "public.t" in different publications'
        assert (caught.value.message, caught.value.sqlstate) == (message, "0A000")


def test_a_list_of_all_columns_is_no_list():
    """Rule B40; also beside a publication of all tables (rule B39)."""
    found = plan(T, publication("p", entry(T, columns=["c", "b", "a"])), publication("q", all_tables=True))
    assert names(found.publish_as) == ["a", "b", "c"]


@pytest.mark.parametrize(("attributes", "refused"), [(3, False), (4, True)])
def test_postgresql_15_takes_a_list_for_none_only_if_no_column_was_ever_dropped(attributes, refused):
    """Rule B40, before 16: RelationGetNumberOfAttributes is what it compares with; measured on
    15.18.
    """
    counted = replace(T, attributes=attributes)
    listed = publication("p", entry(T, columns=["a", "b", "c"]))
    found = published_as([listed, publication("q", all_tables=True)], tables(counted), counted)
    assert found is not None
    if refused:
        with pytest.raises(NotSupportedError, match="cannot use different column lists"):
            sent_columns(found)
    else:
        assert sent_columns(found).names == {"a", "b", "c"}


def test_lists_are_compared_only_where_rows_are_published():
    """As get_rel_sync_entry, which leaves columns alone for TRUNCATE."""
    found = plan(
        T, publication("p", entry(T, columns=["a"]), publish="truncate"), publication("q", entry(T), publish="truncate")
    )
    assert names(found.publish_as) == ["a", "b", "c"]


def test_different_options_for_generated_columns_are_refused_where_there_is_one():
    """Rule B41."""
    stored, none = publication("p", all_tables=True, generated_columns="stored"), publication("q", all_tables=True)
    with pytest.raises(NotSupportedError, match="different values of publish_generated_columns") as caught:
        plan(G, stored, none, known=WITH_G)
    assert 'for table "public.g" in different publications' in caught.value.message
    assert names(plan(T, stored, none, known=WITH_G).publish_as) == ["a", "b", "c"]


def test_a_publication_with_a_list_takes_no_part_in_the_comparison_of_options():
    """Rule B41: its list must be what the others send."""
    listed = publication("p", entry(G, columns=["a", "b", "s"]))
    found = published_as([listed, publication("q", all_tables=True, generated_columns="stored")], WITH_G, G)
    assert found is not None
    assert sent_columns(found).names == {"a", "b", "s"}


def test_a_generated_column_that_the_carrier_does_not_send_is_refused():
    """Rule B41, refuse_not_guess."""
    with pytest.raises(NotSupportedError, match='cannot publish generated column "s"') as caught:
        plan_relation([publication("p", entry(G, columns=["a", "s"]))], WITH_G, as_sent(G, without=["s", "v"]))
    assert "publish_generated_columns = stored" in str(caught.value.hint)


# The relation that is named -----------------------------------------------------------------------


def test_a_table_keeps_its_relation_and_its_columns_are_projected():
    """Rules A8, A9, B12a."""
    relation = as_sent(T)
    found = plan(T, publication("p", entry(T, columns=["c", "a"])))
    assert found.publish_as == Relation(1, "public", "t", "d", (relation.columns[0], relation.columns[2]))


@pytest.mark.parametrize(
    ("identity", "letter", "flags"), [("default", "d", [1, 0]), ("full", "f", [1, 1]), ("nothing", "n", [0, 0])]
)
def test_via_root_the_relation_is_the_ancestor_s(identity, letter, flags):
    """Rules A8, A10, B12: its OID, name, identity and column order, whatever the leaf has."""
    root = table("public.root", {"a": "int4", "b": "text"}, key=["a"], oid=10, partitioned=True, identity=identity)
    found = plan(LEAF, publication("p", entry(root), via_root=True), known=tables(root, MIDDLE, LEAF))
    relation = found.publish_as
    assert relation is not None
    assert (relation.relation_id, relation.qualified_name, relation.replica_identity) == (10, "public.root", letter)
    assert [(column.name, column.type_oid) for column in relation.columns] == [("a", 23), ("b", 25)]
    assert [column.flags for column in relation.columns] == flags


# What the tables do not know ----------------------------------------------------------------------

NEW = table("public.new", {"a": "int4"}, key=["a"], oid=99)


@pytest.mark.parametrize(
    "holding",
    [
        publication("p", all_tables=True),
        publication("p", schemas=("public",)),
        publication("p", entry(NEW)),
        publication("p", entry(ROOT), via_root=True),
    ],
)
def test_a_table_that_is_not_known_and_may_be_held_asks_for_the_tables(holding):
    with pytest.raises(PublisherTablesOutdated) as caught:
        plan(NEW, holding)
    assert caught.value.transient
    assert (caught.value.relation, caught.value.shape) == ("public.new", as_sent(NEW))


def test_a_table_that_is_not_known_and_cannot_be_held_is_not_published():
    assert plan(NEW, publication("p", entry(T))).publish_as is None


def test_a_table_that_was_never_known_and_is_gone_is_ignored():
    """Rule C4: no subscription has it."""
    assert plan(NEW, publication("p", all_tables=True), settled=True).publish_as is None


def test_a_table_that_may_have_been_a_partition_and_is_gone_is_refused():
    with pytest.raises(NotSupportedError, match="cannot tell how table"):
        plan(NEW, publication("p", all_tables=True, via_root=True), settled=True)


def test_another_table_of_the_same_name_is_not_the_one_that_is_known():
    again = table("public.t", {"a": "int4"}, key=["a"], oid=98)
    with pytest.raises(PublisherTablesOutdated):
        plan(again, publication("p", all_tables=True))


def test_a_table_that_was_renamed_since_is_known_by_its_oid():
    before = table("public.before", {"a": "int4", "b": "text", "c": "int4"}, key=["a"], oid=T.oid)
    found = plan(before, publication("p", entry(before, "a > 1")), settled=True)
    assert found.publish_as == as_sent(before)
    assert texts(found, "insert") == ["a > 1"]


def changed(columns: dict[str, str]) -> PublisherTable:
    return table("public.t", columns, key=["a"], oid=T.oid)


def test_a_column_more_asks_for_the_tables_and_is_sent_if_it_is_gone_by_then():
    wider = changed({"a": "int4", "b": "text", "c": "int4", "d": "text"})
    with pytest.raises(PublisherTablesOutdated):
        plan(wider, publication("p", entry(T)))
    assert names(plan(wider, publication("p", entry(T)), settled=True).publish_as) == ["a", "b", "c", "d"]
    assert names(plan(wider, publication("p", entry(T, columns=["a", "b"])), settled=True).publish_as) == ["a", "b"]


def test_a_column_less_asks_for_the_tables_and_is_newer_than_the_change_if_it_is_still_there():
    narrower = changed({"a": "int4", "b": "text"})
    with pytest.raises(PublisherTablesOutdated):
        plan(narrower, publication("p", entry(T)))
    assert names(plan(narrower, publication("p", entry(T)), settled=True).publish_as) == ["a", "b"]


def test_a_listed_column_that_was_renamed_is_refused():
    """A server's publication follows the column; without this, the column would not be sent."""
    renamed = changed({"a": "int4", "other": "text", "c": "int4"})
    listing = publication("p", entry(T, columns=["a", "b"]))
    with pytest.raises(NotSupportedError, match='column "b" of table') as caught:
        plan(renamed, listing, known=tables(renamed))
    assert (caught.value.relation, caught.value.column) == ("public.t", "b")


def test_a_column_less_that_is_not_published_does_not_matter():
    narrower = changed({"a": "int4", "b": "text"})
    assert names(plan(narrower, publication("p", entry(T, columns=["a"]))).publish_as) == ["a"]


# TRUNCATE -----------------------------------------------------------------------------------------


def truncated(named: Sequence[PublisherTable], *publications: Publication) -> list[str]:
    relations = [as_sent(one) for one in named]
    sent = plan_truncate(publications, ALL, relations, lambda one: plan_relation(publications, ALL, one))
    return [relation.name for relation in sent]


def test_truncate_names_the_members_that_publish_it():
    """Rules A26, B22."""
    t, leaf = publication("p", entry(T)), publication("q", entry(LEAF), publish="insert")
    assert truncated([LEAF, T], t, leaf) == ["t"]
    assert truncated([LEAF], t, leaf) == []


def test_leaves_are_truncated_by_name_without_via_root():
    """Rule B21: the ancestors are not sent."""
    assert truncated([LEAF3, LEAF, LEAF2], publication("p", entry(ROOT))) == ["leaf3", "leaf", "leaf2"]


def test_via_root_the_truncate_of_some_leaves_is_not_sent_and_that_of_all_is_the_root_s():
    """Rule B21; the carrier names the leaves of a partitioned table that is truncated, in its
    place.
    """
    root = publication("p", entry(ROOT), entry(T), via_root=True)
    assert truncated([LEAF], root) == []
    assert truncated([LEAF, LEAF2], root) == []
    assert truncated([LEAF3, LEAF, T, LEAF2], root) == ["root", "t"]


def test_the_table_in_the_middle_is_truncated_if_that_is_what_leaves_are_published_as():
    """Rule B21."""
    middle = publication("p", entry(MIDDLE), via_root=True)
    assert truncated([LEAF, LEAF2], middle) == ["middle"]
    assert truncated([LEAF3, LEAF, LEAF2], middle) == ["middle"]


def test_the_ancestor_s_own_publications_decide_whether_its_truncate_is_sent():
    """Rule B3: the operations of a leaf's own publications are the leaf's only."""
    root = publication("p", entry(ROOT), publish="insert", via_root=True)
    leaf = publication("q", entry(LEAF), publish="truncate")
    assert truncated([LEAF, LEAF2, LEAF3], root, leaf) == []
