"""The catalogs at a position: changes make new catalogs and leave the old ones as they were."""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.base.errors import WalRecordError
from subscriber.postgres.logical_decoding.historic_catalog import CatalogChange, HistoricCatalog, RelationData
from subscriber.postgres.publication.definition import Publication, TableEntry
from tests.output_plugins import CATALOG, WIDER, T, U
from tests.publications import table

MOOD = "type\t16500\tpublic\tmood\te\tE\t0\t0\t16501\t0\t0\t-1\t0\t0"
MOODS = "type\t16501\tpublic\t_mood\tb\tA\t0\t16500\t0\t0\t0\t-1\t0\t0"
POSITIVE = "type\t16502\tother\tpositive\td\tN\t0\t0\t0\t0\t23\t-1\t0\t0"


def test_a_change_makes_new_catalogs_and_leaves_the_old_ones():
    """B12b."""
    after = CATALOG.apply(CatalogChange(relations=(WIDER,), dropped_relations=(U.oid,)))
    assert after.relation(T.oid) == WIDER
    assert set(after.relations) == {T.oid}
    assert set(after.tables.tables) == {("public", "t")}
    assert CATALOG.relation(T.oid) == T
    assert CATALOG.relation(U.oid) == U


def test_a_renamed_table_has_no_old_name():
    renamed = RelationData(replace(T.table, schema="s", name="renamed"))
    tables = CATALOG.apply(CatalogChange(relations=(renamed,))).tables
    assert set(tables.tables) == {("s", "renamed"), ("public", "u")}
    assert "s" in tables.schemas


def test_publications_and_partitions_follow_a_table_that_is_renamed_and_forget_one_that_is_dropped():
    """A24: such a publication has not changed, so nobody is told."""
    root = RelationData(table("public.r", {"a": "int4"}, oid=16390, partitioned=True))
    leaf = RelationData(table("public.l", {"a": "int4"}, oid=16391, partition_of=root.table))
    entries = tuple(TableEntry("public", name, where="a > 1") for name in ("t", "u", "r"))
    publication = Publication("p", tables=entries)
    before = CATALOG.apply(CatalogChange(relations=(root, leaf), publications=(publication,)))
    renamed = RelationData(replace(root.table, schema="s", name="root"))
    change = CatalogChange(relations=(renamed,), dropped_relations=(U.oid,))
    after = before.apply(change)
    assert [(entry.key, entry.where) for entry in after.publications["p"].tables] == [
        (("public", "t"), "a > 1"),
        (("s", "root"), "a > 1"),
    ]
    assert after.ancestors(after.relation(leaf.oid)) == (renamed,)
    assert not change.invalidation.publications
    assert leaf.oid not in change.invalidation.relations


def test_publications_come_and_go():
    one, two = Publication("p"), Publication("p", all_tables=True)
    catalog = HistoricCatalog().apply_all([CatalogChange(publications=(one,)), CatalogChange(publications=(two,))])
    assert catalog.publications == {"p": two}
    assert not catalog.apply(CatalogChange(dropped_publications=("p",))).publications


def test_the_temporary_heap_of_a_rewrite_is_a_relation_but_no_table():
    """E17."""
    heap = RelationData(table("public.pg_temp_16384", {"a": "int4"}, oid=16390), relrewrite=T.oid)
    catalog = CATALOG.apply(CatalogChange(relations=(heap,)))
    assert catalog.relation(16390).relrewrite == T.oid
    assert ("public", "pg_temp_16384") not in catalog.tables.tables


def test_an_unknown_relation_is_postgresqls_error():
    with pytest.raises(WalRecordError, match=r"^could not open relation with OID 1$"):
        CATALOG.relation(1)


@pytest.mark.parametrize(
    ("oid", "schema", "name", "base", "sql"),
    [
        (23, "pg_catalog", "int4", 23, "integer"),
        (1043, "pg_catalog", "varchar", 1043, "character varying"),
        (1007, "pg_catalog", "_int4", 1007, "integer[]"),
        (16500, "public", "mood", 16500, "mood"),
        (16501, "public", "_mood", 16501, "mood[]"),
        (16502, "other", "positive", 23, "other.positive"),
    ],
)
def test_a_type_is_described_as_in_the_catalogs(oid, schema, name, base, sql):
    """A13, E24."""
    found = CATALOG.apply(CatalogChange(types=(MOOD, MOODS, POSITIVE))).type_description(oid)
    assert (found.schema, found.name, found.base, found.sql) == (schema, name, base, sql)


def test_an_unknown_type_is_postgresqls_error():
    with pytest.raises(WalRecordError, match=r"^cache lookup failed for type 99999$"):
        CATALOG.type_description(99999)


@pytest.mark.parametrize(
    ("identity", "code", "names"),
    [("default", "d", {"a"}), ("nothing", "n", set()), ("full", "f", {"a", "b"}), ("index", "i", {"a"})],
)
def test_a_relation_knows_its_replica_identity(identity, code, names):
    """A8."""
    relation = RelationData(table("public.t", {"a": "int4", "b": "text"}, key=["a"], identity=identity))
    assert relation.replica_identity == code
    assert relation.identity_columns == names


@pytest.mark.parametrize(
    ("change", "logged"),
    [
        ({}, True),
        ({"persistence": "unlogged"}, False),
        ({"persistence": "temporary"}, False),
        ({"is_system": True}, False),
    ],
)
def test_only_permanent_user_tables_are_logged(change, logged):
    """B1."""
    assert RelationData(replace(T.table, **change)).is_logically_logged == logged


def test_a_partition_has_its_ancestors_the_root_last():
    root = table("public.root", {"a": "int4"}, oid=17000, partitioned=True)
    middle = table("public.middle", {"a": "int4"}, oid=17001, partitioned=True, partition_of=root)
    leaf = table("public.leaf", {"a": "int4"}, oid=17002, partition_of=middle)
    relations = [RelationData(one) for one in (root, middle, leaf)]
    catalog = HistoricCatalog().apply(CatalogChange(relations=tuple(relations)))
    assert catalog.ancestors(relations[2]) == (relations[1], relations[0])


def test_an_invalidation_names_what_has_changed():
    """A24."""
    change = CatalogChange((T,), (U.oid,), (Publication("p"),), schemas=True, invalidated=frozenset({1}))
    found = change.invalidation
    assert found.relations == {1, T.oid, U.oid}
    assert found.publications
    assert found.schemas
    assert not CatalogChange().invalidation.publications
