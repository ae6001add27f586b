"""How pgoutput publishes relations, and when it describes them."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from subscriber.base.errors import NotSupportedError, PublisherError, WalRecordError
from subscriber.postgres.logical_decoding import (
    CatalogChange,
    Column,
    HistoricCatalog,
    Invalidation,
    MemoryDatabase,
    RelationData,
)
from subscriber.postgres.logical_decoding.plugins.pgoutput_relations import RelationSyncCache, load_publications
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.publication.definition import Operation, Publication, TableEntry
from subscriber.postgres.schema.publisher_tables import PublisherTables
from tests.publications import table

T = RelationData(table("public.t", {"a": "int4", "b": "text", "c": "int4"}, key=["a"]))
U = RelationData(table("public.u", {"a": "int4"}, key=["a"], oid=16385))
ROOT = table("public.r", {"a": "int4", "b": "text"}, key=["a"], oid=16390, partitioned=True)
LEAF = table("public.l", {"b": "text", "a": "int4"}, key=["a"], oid=16391, partition_of=ROOT)


def catalog(*publications: Publication, version: int = 180000) -> HistoricCatalog:
    empty = HistoricCatalog(PublisherTables(version, {}, frozenset({950})))
    return empty.apply(
        CatalogChange(relations=(T, U, RelationData(ROOT), RelationData(LEAF)), publications=publications)
    )


def entry(name: str, where: str | None = None, *columns: str) -> TableEntry:
    return TableEntry("public", name, columns or None, where)


def cache(*names: str) -> RelationSyncCache:
    return RelationSyncCache(names or ("p",))


def sync_entry(relation: RelationData, *publications: Publication, version: int = 180000):
    known = catalog(*publications, version=version)
    return cache(*(one.name for one in publications)).entry(known.relation(relation.oid), known)


def columns(described) -> list[list[str]]:
    return [[one.name for one in message.columns] for message in described if isinstance(message, m.Relation)]


def test_a_table_in_no_publication_has_no_operations():
    assert sync_entry(T, Publication("p", tables=(entry("u"),))).operations == frozenset()


def test_operations_of_all_publications_count():
    """B3."""
    found = sync_entry(
        T,
        Publication("p", tables=(entry("t"),), publish=frozenset({"insert"})),
        Publication("q", all_tables=True, publish=frozenset({"delete"})),
    )
    assert found.operations == {"insert", "delete"}


def test_a_column_list_selects_columns_by_their_numbers():
    """A9, B40."""
    found = sync_entry(T, Publication("p", tables=(entry("t", None, "c", "a"),)))
    assert found.columns == {1, 3}
    assert columns(found.describe(catalog(), None)) == [["a", "c"]]


def test_publications_must_agree_on_columns():
    """B39."""
    with pytest.raises(NotSupportedError, match=r'different column lists for table "public.t"') as caught:
        sync_entry(T, Publication("p", tables=(entry("t", None, "a"),)), Publication("q", tables=(entry("t"),)))
    assert caught.value.sqlstate == "0A000"


def test_columns_do_not_matter_if_only_truncate_is_published():
    """B39, as in get_rel_sync_entry."""
    truncate: frozenset[Operation] = frozenset({"truncate"})
    found = sync_entry(
        T,
        Publication("p", tables=(entry("t", None, "a"),), publish=truncate),
        Publication("q", tables=(entry("t"),), publish=truncate),
    )
    assert found.columns is None
    assert columns(found.describe(catalog(), None)) == [["a", "b", "c"]]


def test_a_partition_is_described_after_its_ancestor_with_the_ancestors_column_numbers():
    """A23; PostgreSQL takes the numbers of the ancestor's columns for the leaf's."""
    found = sync_entry(RelationData(LEAF), Publication("p", tables=(entry("r", None, "a"),), via_root=True))
    assert found.target.name == "r"
    assert found.places == (1, 0)
    described = list(found.describe(catalog(), 7))
    assert [(one.name, one.xid) for one in described if isinstance(one, m.Relation)] == [("r", 7), ("l", 7)]
    assert columns(described) == [["a"], ["b"]]


@pytest.mark.parametrize(("version", "leaf"), [(180000, ["b", "a"]), (160000, ["b", "a"]), (150000, ["b", "a"])])
def test_a_list_of_all_columns_describes_all_columns_of_the_leaf(version, leaf):
    """B40."""
    publication = Publication("p", tables=(entry("r", None, "a", "b"),), via_root=True)
    found = sync_entry(RelationData(LEAF), publication, version=version)
    assert columns(found.describe(catalog(), None)) == [["a", "b"], leaf]
    assert (found.columns is None) == (version < 180000)


def test_postgresql_15_counts_dropped_columns_when_it_looks_for_a_list_of_all():
    """B40."""
    dropped = RelationData(T.table, dropped=(4,))
    publication = Publication("p", tables=(entry("t", None, "a", "b", "c"),))
    for version, listed in ((150000, True), (160000, False)):
        known = catalog(publication, version=version).apply(CatalogChange(relations=(dropped,)))
        assert (cache().entry(dropped, known).columns is not None) is listed


def test_a_partition_without_a_column_of_its_root_cannot_be_converted():
    leaf = RelationData(table("public.l", {"a": "int4"}, key=["a"], oid=16391, partition_of=ROOT))
    known = catalog(Publication("p", all_tables=True, via_root=True)).apply(CatalogChange(relations=(leaf,)))
    with pytest.raises(WalRecordError, match="could not convert row type") as caught:
        cache().entry(leaf, known)
    assert caught.value.sqlstate == "42804"


def test_filters_are_combined_only_if_all_publications_have_one():
    """B8, B9."""
    p = Publication("p", tables=(entry("t", "a > 1"),))
    assert set(sync_entry(T, p).filters) == {"insert", "update", "delete"}
    q = Publication("q", tables=(entry("t"),), publish=frozenset({"insert"}))
    assert set(sync_entry(T, p, q).filters) == {"update", "delete"}
    r = Publication("r", schemas=("public",))
    assert not sync_entry(T, p, q, r).filters


def test_a_user_defined_type_is_described_with_the_name_of_its_base_type():
    """A13."""
    publisher = MemoryDatabase()
    session = publisher.session()
    session.create_domain("inner_domain", "numeric(10,2)")
    session.create_domain("outer_domain", "inner_domain")
    session.create_enum("mood")
    session.create_table("t", {"a": "outer_domain", "b": "mood", "c": "mood[]", "d": "mood"})
    publisher.create_publication(Publication("p", tables=(entry("t", None, "a", "b", "c"),)))
    known = publisher.catalog
    relation = known.relation(known.tables.tables["public", "t"].oid)
    types = [one for one in cache().entry(relation, known).describe(known, 5) if isinstance(one, m.Type)]
    assert [(one.namespace, one.name, one.xid) for one in types] == [
        ("pg_catalog", "numeric", 5),
        ("public", "mood", 5),
        ("public", "_mood", 5),
    ]
    assert [one.type_oid for one in types] == [column.type_oid for column in relation.columns[:3]]


@pytest.mark.parametrize(
    ("identity", "flags"), [("default", [1, 0]), ("nothing", [0, 0]), ("full", [1, 1]), ("index", [0, 1])]
)
def test_the_description_has_the_replica_identity(identity, flags):
    """A8."""
    publisher = MemoryDatabase()
    publisher.create_table("t", {"a": "integer", "b": "text"}, ["a"])
    publisher.session().replica_identity("t", identity, ["b"])
    publisher.create_publication(Publication("p", all_tables=True))
    known = publisher.catalog
    relation = known.relation(known.tables.tables["public", "t"].oid)
    (described,) = cache().entry(relation, known).describe(known, None)
    assert isinstance(described, m.Relation)
    assert described.replica_identity == identity[0]
    assert [column.flags for column in described.columns] == flags


GENERATED = (Column("a", "integer"), Column("s", "integer", "stored"), Column("v", "integer", "virtual", "(a)"))


@pytest.mark.parametrize(
    ("publication", "names"),
    [
        (Publication("p", all_tables=True), ["a"]),
        (Publication("p", all_tables=True, generated_columns="stored"), ["a", "s"]),
        (Publication("p", tables=(entry("t", None, "a", "s"),)), ["a", "s"]),
        (Publication("p", tables=(entry("t", None, "a"),), generated_columns="stored"), ["a"]),
    ],
)
def test_stored_generated_columns_are_sent_if_listed_or_asked_for(publication, names):
    """B41."""
    publisher = MemoryDatabase()
    publisher.create_table("t", GENERATED, ["a"])
    publisher.create_publication(publication)
    known = publisher.catalog
    found = cache().entry(known.relation(known.tables.tables["public", "t"].oid), known)
    assert columns(found.describe(known, None)) == [names]


def test_an_entry_is_kept_until_its_relation_is_invalidated():
    """A24."""
    known = catalog(Publication("p", all_tables=True))
    made = cache()
    first = made.entry(T, known)
    made.invalidate(Invalidation(frozenset({U.oid})))
    assert made.entry(T, known) is first
    made.invalidate(Invalidation(frozenset({T.oid})))
    assert made.entry(T, known) is not first


@pytest.mark.parametrize(("version", "kept"), [(180000, True), (170000, False)])
def test_a_change_of_a_publication_removes_the_other_entries_before_postgresql_18(version, kept):
    """A24."""
    known = catalog(Publication("p", all_tables=True), version=version)
    made = cache()
    first = made.entry(T, known)
    made.invalidate(Invalidation(publications=True))
    assert (made.entry(T, known) is first) is kept


def test_the_entry_of_a_leaf_stays_when_its_ancestor_gets_another_name_and_identity():
    """A24, A10: the message has what the ancestor is now."""
    before = catalog(Publication("p", tables=(entry("r"),), via_root=True))
    found = cache()
    first = found.entry(before.relation(LEAF.oid), before)
    change = CatalogChange(relations=(RelationData(replace(ROOT, name="root", identity="full")),))
    found.invalidate(change.invalidation)
    after = before.apply(change)
    again = found.entry(after.relation(LEAF.oid), after)
    assert again is first
    assert (again.target.name, again.target.replica_identity) == ("root", "f")


def test_a_table_with_another_name_is_still_published():
    """A24: a publication follows it, and no change of a publication tells so."""
    before = catalog(Publication("p", tables=(entry("t"),)))
    found = cache()
    found.entry(before.relation(U.oid), before)
    after = before.apply(CatalogChange(relations=(RelationData(replace(T.table, name="other")),)))
    assert found.entry(after.relation(T.oid), after).operations


def test_the_rename_of_a_schema_removes_all_entries():
    """A24."""
    known = catalog(Publication("p", all_tables=True))
    made = cache()
    first = made.entry(T, known)
    made.invalidate(Invalidation(schemas=True))
    assert made.entry(T, known) is not first


@pytest.mark.parametrize("committed", [True, False])
def test_only_a_stream_that_commits_leaves_its_descriptions_to_the_session(committed):
    """A24."""
    known = catalog(Publication("p", all_tables=True))
    made = cache()
    found = made.entry(T, known)
    found.streamed_txns |= {700, 701}
    made.stream_ended(700, committed=committed)
    assert found.schema_sent is committed
    assert found.streamed_txns == {701}


def test_a_publication_that_does_not_exist_is_skipped_with_a_warning(caplog):
    """A32."""
    with caplog.at_level(logging.WARNING):
        found = load_publications(("nix", "p"), catalog(Publication("p")))
    assert [one.name for one in found] == ["p"]
    assert 'skipped loading publication "nix"' in caplog.text


def test_a_publication_that_does_not_exist_is_an_error_before_postgresql_18():
    """A32."""
    with pytest.raises(PublisherError, match='publication "nix" does not exist') as caught:
        load_publications(("nix",), catalog(version=170000))
    assert caught.value.sqlstate == "42704"
