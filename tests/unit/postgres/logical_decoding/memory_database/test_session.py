"""DDL: what a session sees of its own, and what others see."""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.base.errors import UsageError
from subscriber.postgres.logical_decoding import wal_records as wal
from subscriber.postgres.logical_decoding.memory_database import MemoryDatabase
from subscriber.postgres.logical_decoding.memory_tables import Column
from subscriber.postgres.publication.definition import Publication, TableEntry


@pytest.fixture
def publisher() -> MemoryDatabase:
    made = MemoryDatabase()
    made.create_table("t", {"a": "integer", "b": "text"}, ["a"])
    made.session().insert("t", a=1, b="x")
    made.take()
    return made


def columns(catalog, name: str = "t") -> list[str]:
    return [column.name for column in catalog.tables.find("public", name).columns]


def test_ddl_is_seen_by_others_after_the_commit(publisher):
    """B12b."""
    session = publisher.session()
    session.begin()
    session.add_column("t", Column("c", "integer"))
    session.insert("t", a=2, c=3)
    assert columns(session.catalog) == ["a", "b", "c"]
    assert columns(publisher.session().catalog) == ["a", "b"]
    session.commit()
    assert publisher.select("t") == [{"a": "1", "b": "x", "c": None}, {"a": "2", "b": None, "c": "3"}]


def test_ddl_is_rolled_back_with_its_savepoint(publisher):
    session = publisher.session()
    session.begin()
    session.savepoint("s")
    session.drop_column("t", "b")
    session.rollback_to("s")
    assert columns(session.catalog) == ["a", "b"]
    session.rename_column("t", "b", "c")
    session.commit()
    assert columns(publisher.catalog) == ["a", "c"]
    assert publisher.select("t") == [{"a": "1", "c": "x"}]


def test_a_prepared_ddl_is_seen_after_commit_prepared(publisher):
    session = publisher.session()
    session.begin()
    session.add_column("t", Column("c", "integer"))
    session.prepare("g")
    assert columns(session.catalog) == ["a", "b"]
    session.commit_prepared("g")
    assert columns(session.catalog) == ["a", "b", "c"]


def test_a_renamed_key_column_is_still_the_key(publisher):
    session = publisher.session()
    session.rename_column("t", "a", "z")
    with pytest.raises(UsageError, match="duplicate key"):
        session.insert("t", z=1)
    session.drop_column("t", "z")
    session.insert("t", b="x")
    assert len(publisher.select("t")) == 2


def test_a_table_is_renamed_with_its_rows_and_partitions(publisher):
    publisher.create_table("p", {"a": "integer"}, partition_by="a")
    session = publisher.session()
    session.create_partition("p_default", "p")
    session.rename_table("p", "s.q")
    session.insert("s.q", a=1)
    assert publisher.select("s.q") == [{"a": "1"}]
    session.drop_table("s.q")
    assert set(publisher.catalog.tables.tables) == {("public", "t")}


def test_a_partition_may_be_partitioned(publisher):
    publisher.create_table("p", {"a": "integer", "b": "text"}, ["a"], partition_by="a")
    session = publisher.session()
    session.create_partition("p_one", "p", [1], partition_by="b")
    session.create_partition("p_one_x", "p_one", ["x"])
    session.insert("p", a=1, b="x")
    inserted = publisher.records[-2]
    assert isinstance(inserted, wal.InsertRecord)
    leaf = publisher.catalog.relation(inserted.relation_oid)
    assert [one.name for one in publisher.catalog.ancestors(leaf)] == ["p_one", "p"]
    assert leaf.identity_columns == {"a"}


def test_only_a_partitioned_table_has_partitions(publisher):
    with pytest.raises(UsageError, match=r'^"t" is not partitioned$'):
        publisher.session().create_partition("t_one", "t", [1])


@pytest.mark.parametrize(
    ("identity", "names"), [("full", {"a", "b"}), ("nothing", set()), ("index", {"b"}), ("default", {"a"})]
)
def test_the_replica_identity_is_altered(publisher, identity, names):
    session = publisher.session()
    session.replica_identity("t", "nothing")
    session.replica_identity("t", identity, ["b"] if identity == "index" else [])
    assert publisher.catalog.relation(16384).identity_columns == names


def test_the_replica_identity_that_a_table_has_already_changes_nothing(publisher):
    """The server does not describe the table again."""
    before = len(publisher.records)
    publisher.session().replica_identity("t", "default")
    assert len(publisher.records) == before


def test_a_rewrite_inserts_the_rows_into_a_temporary_heap(publisher):
    """E17."""
    publisher.session().rewrite_table("t")
    first, insert, last = (one for one in publisher.records if not isinstance(one, wal.BeginRecord | wal.CommitRecord))
    assert isinstance(first, wal.SchemaChangeRecord)
    (heap,) = first.change.relations
    assert (heap.name, heap.relrewrite) == ("pg_temp_16384", 16384)
    assert isinstance(insert, wal.InsertRecord)
    assert insert.relation_oid == heap.oid
    assert isinstance(last, wal.SchemaChangeRecord)
    assert last.change.dropped_relations == (heap.oid,)
    assert set(publisher.catalog.relations) == {16384}


def test_types_are_created_with_their_array_types(publisher):
    session = publisher.session()
    session.create_enum("mood")
    session.create_domain("s.small", "character varying(3)")
    session.create_table("u", {"m": "mood", "ms": "mood[]", "s": "s.small"})
    found = publisher.catalog.tables.find("public", "u")
    assert found is not None
    assert [column.type_name for column in found.columns] == ["mood", "mood[]", "s.small"]
    session.insert("u", m="happy", s="abc")
    assert publisher.select("u") == [{"m": "happy", "ms": None, "s": "abc"}]


def test_publications_name_the_tables_whose_description_must_be_sent_again(publisher):
    """A24."""
    session = publisher.session()
    session.create_table("u", {"a": "integer"})
    publisher.take()
    session.create_publication(Publication("p", tables=(TableEntry("public", "t"),)))
    session.create_publication(Publication("p", tables=(TableEntry("public", "u"),)))
    session.create_publication(Publication("q", all_tables=True))
    session.create_publication(Publication("r", schemas=("s",)))
    session.drop_publication("p")
    made = [record.change for record in publisher.records if isinstance(record, wal.SchemaChangeRecord)]
    assert [set(change.invalidation.relations) for change in made] == [
        {16384},
        {16384, 16385},
        {16384, 16385},
        set(),
        {16385},
    ]
    assert all(change.invalidation.publications for change in made)
    assert set(publisher.catalog.publications) == {"q", "r"}


def test_a_publication_that_does_not_exist_is_postgresqls_error(publisher):
    with pytest.raises(UsageError, match=r'^publication "p" does not exist$'):
        publisher.session().drop_publication("p")


def test_alter_publication_touches_the_tables_that_change(publisher):
    """A24: ADD TABLE does not touch the other tables, an option touches all."""
    publisher.create_table("u", {"a": "integer"}, ["a"])
    session = publisher.session()
    t, u = (TableEntry("public", name) for name in "tu")
    publisher.take()
    for publication in (
        Publication("p", tables=(t,)),
        Publication("p", tables=(t, u)),
        Publication("p", tables=(t, replace(u, where="a > 1"))),
        Publication("p", tables=(t, replace(u, where="a > 1")), publish=frozenset({"insert"})),
        Publication("p", tables=(t,), publish=frozenset({"insert"})),
    ):
        session.create_publication(publication)
    made = [one.change for one in publisher.take() if isinstance(one, wal.SchemaChangeRecord)]
    names = [sorted(publisher.catalog.relation(oid).name for oid in one.invalidation.relations) for one in made]
    assert names == [["t"], ["u"], ["u"], ["t", "u"], ["u"]]
